//! Expressions: what they read and call, and what conditions say of keys.

use classify::builtin;
use pg_query::protobuf::{AConst, AExpr, AExprKind, BoolExprType, FuncCall, SubLink, TypeName, a_const};
use pg_query::{Node, NodeEnum};

use super::{Condition, Item, Level, OF_MODELS, Prover, Side, names_of};
use crate::map::KeyType;
use crate::proof::Reason;
use crate::value::Source;

impl Prover<'_> {
    pub(super) fn nodes(&mut self, nodes: &[Node]) {
        nodes.iter().for_each(|node| self.node(node));
    }

    pub(super) fn maybe(&mut self, node: Option<&Node>) {
        if let Some(node) = node {
            self.node(node);
        }
    }

    /// An expression: its subqueries and its functions.
    pub(super) fn node(&mut self, node: &Node) {
        let Some(node) = &node.node else { return };
        match node {
            NodeEnum::AConst(_)
            | NodeEnum::AStar(_)
            | NodeEnum::ColumnRef(_)
            | NodeEnum::SetToDefault(_)
            | NodeEnum::String(_)
            | NodeEnum::Integer(_) => (),
            NodeEnum::ParamRef(parameter) => self.uses.extend(usize::try_from(parameter.number)),
            NodeEnum::SqlvalueFunction(_) => self.is_free = false,
            NodeEnum::AIndirection(indirection) => {
                self.maybe(indirection.arg.as_deref());
                self.nodes(&indirection.indirection);
            }
            NodeEnum::AIndices(indices) => {
                self.maybe(indices.lidx.as_deref());
                self.maybe(indices.uidx.as_deref());
            }
            NodeEnum::MultiAssignRef(assign) => self.maybe(assign.source.as_deref()),
            NodeEnum::ResTarget(target) => {
                self.nodes(&target.indirection);
                self.maybe(target.val.as_deref());
            }
            NodeEnum::AExpr(expression) => {
                self.maybe(expression.lexpr.as_deref());
                self.maybe(expression.rexpr.as_deref());
            }
            NodeEnum::BoolExpr(expression) => self.nodes(&expression.args),
            NodeEnum::List(list) => self.nodes(&list.items),
            NodeEnum::TypeCast(cast) => self.maybe(cast.arg.as_deref()),
            NodeEnum::CollateClause(collate) => self.maybe(collate.arg.as_deref()),
            NodeEnum::FuncCall(call) => self.call(call),
            NodeEnum::NamedArgExpr(argument) => self.maybe(argument.arg.as_deref()),
            NodeEnum::AArrayExpr(array) => self.nodes(&array.elements),
            NodeEnum::RowExpr(row) => self.nodes(&row.args),
            NodeEnum::CoalesceExpr(coalesce) => self.nodes(&coalesce.args),
            NodeEnum::MinMaxExpr(expression) => self.nodes(&expression.args),
            NodeEnum::NullTest(test) => self.maybe(test.arg.as_deref()),
            NodeEnum::BooleanTest(test) => self.maybe(test.arg.as_deref()),
            NodeEnum::CaseExpr(case) => {
                self.maybe(case.arg.as_deref());
                self.nodes(&case.args);
                self.maybe(case.defresult.as_deref());
            }
            NodeEnum::CaseWhen(when) => {
                self.maybe(when.expr.as_deref());
                self.maybe(when.result.as_deref());
            }
            NodeEnum::SubLink(link) => self.sublink(link),
            NodeEnum::SortBy(sort) => self.maybe(sort.node.as_deref()),
            NodeEnum::GroupingSet(set) => self.nodes(&set.content),
            NodeEnum::GroupingFunc(function) => self.nodes(&function.args),
            NodeEnum::IndexElem(element) => self.maybe(element.expr.as_deref()),
            NodeEnum::WindowDef(window) => self.window(window),
            _ => self.unproved(Reason::Unfamiliar),
        }
    }

    pub(super) fn window(&mut self, window: &pg_query::protobuf::WindowDef) {
        self.nodes(&window.partition_clause);
        self.nodes(&window.order_clause);
        self.maybe(window.start_offset.as_deref());
        self.maybe(window.end_offset.as_deref());
    }

    pub(super) fn sublink(&mut self, link: &SubLink) {
        self.maybe(link.testexpr.as_deref());
        match link.subselect.as_deref().and_then(|node| node.node.as_ref()) {
            Some(query) => drop(self.query(query)),
            None => self.unproved(Reason::Unfamiliar),
        }
    }

    /// A function: one of PostgreSQL's own that has the same result on each server, an immutable one, or one of the models.
    pub(super) fn call(&mut self, call: &FuncCall) {
        let parts = names_of(&call.funcname);
        let (schema, name) = match parts.as_slice() {
            [name] => (None, *name),
            [.., schema, name] => (Some(*schema), *name),
            [] => return self.unproved(Reason::Unfamiliar),
        };
        let same = self.catalog.function(schema, name).is_some_and(|function| {
            let volatile = function.volatility == classify::catalog::Volatility::Volatile;
            if schema == Some("pgml") && OF_MODELS.contains(&name) {
                // Those that name a model by its id are immutable, but a shard may have none, or one of its own.
                return self.map.models && !volatile;
            }
            let stable = function.system && builtin::act(name).is_none();
            function.volatility == classify::catalog::Volatility::Immutable
                || stable && !classify::server_state::function(name) && (!volatile || builtin::reads(name))
        });
        let immutable =
            |function: &classify::catalog::Function| function.volatility == classify::catalog::Volatility::Immutable;
        self.is_free &= self.catalog.function(schema, name).is_some_and(|function| immutable(&function));
        // Without a hub nothing runs elsewhere.
        if !same && !self.map.without_hub {
            self.unproved(Reason::Function(parts.join(".")));
        }
        self.nodes(&call.args);
        self.nodes(&call.agg_order);
        self.maybe(call.agg_filter.as_deref());
        if let Some(window) = &call.over {
            self.window(window);
        }
    }

    /// Takes what a part of a condition says of keys: the parts of its AND that are `key = value`, `key = key` or
    /// `key IN (values)`, and what all parts of an OR say.
    pub(super) fn learn(&mut self, level: &mut Level, part: &Node, of: Condition<'_>) {
        match &part.node {
            Some(NodeEnum::BoolExpr(all)) if all.boolop() == BoolExprType::AndExpr => {
                for part in &all.args {
                    self.learn(level, part, of);
                }
            }
            Some(NodeEnum::BoolExpr(any)) if any.boolop() == BoolExprType::OrExpr => self.any(level, &any.args, of),
            Some(NodeEnum::AExpr(equality)) => self.equality(level, equality, of),
            _ => (),
        }
    }

    /// Restricts keys to the values of all parts of an OR, if each part restricts them.
    pub(super) fn any(&mut self, level: &mut Level, parts: &[Node], of: Condition<'_>) {
        let known: Vec<_> = level.items.iter().map(|item| item.values.clone()).collect();
        let edges = level.edges.len();
        let mut together: Option<Vec<Option<Vec<Source>>>> = None;
        for part in parts {
            level.items.iter_mut().for_each(|item| item.values = None);
            self.learn(level, part, of);
            level.edges.truncate(edges);
            let these = level.items.iter_mut().map(|item| item.values.take());
            together = Some(match together {
                None => these.collect(),
                Some(those) => {
                    those.into_iter().zip(these).map(|(those, these)| Some([those?, these?].concat())).collect()
                }
            });
        }
        let together = together.unwrap_or_default();
        for (item, known) in level.items.iter_mut().zip(known) {
            item.values = known;
        }
        for (place, values) in together.into_iter().enumerate() {
            let key_type = level.key_type(place);
            if let Some(values) = values {
                level.restrict(&[place], of.side, key_type, &values);
            }
        }
    }

    pub(super) fn equality(&mut self, level: &mut Level, equality: &AExpr, of: Condition<'_>) {
        let name = names_of(&equality.name);
        if !matches!(name.as_slice(), ["="] | ["pg_catalog", "="]) {
            return;
        }
        let (Some(left), Some(right)) = (equality.lexpr.as_deref(), equality.rexpr.as_deref()) else { return };
        let listed = || match &right.node {
            Some(NodeEnum::List(list)) => Some(&list.items),
            Some(NodeEnum::AArrayExpr(array)) => Some(&array.elements),
            _ => None,
        };
        match equality.kind() {
            AExprKind::AexprOp => match (&left.node, &right.node) {
                (Some(NodeEnum::RowExpr(one)), Some(NodeEnum::RowExpr(other)))
                    if one.args.len() == other.args.len() =>
                {
                    for (one, other) in one.args.iter().zip(&other.args) {
                        self.equal(level, one, other, of);
                    }
                }
                _ => self.equal(level, left, right, of),
            },
            AExprKind::AexprIn | AExprKind::AexprOpAny => {
                let Some(items) = listed() else {
                    if let (Some(array), Keys::Here(here)) = (array_of(right), self.keys(level, left, of.within)) {
                        self.restrict(level, &here, of.side, vec![array]);
                    }
                    return;
                };
                let Some(NodeEnum::RowExpr(row)) = &left.node else {
                    return self.one_of(level, left, &items.iter().collect::<Vec<_>>(), of);
                };
                for (place, column) in row.args.iter().enumerate() {
                    let of_row = |item: &'_ Node| match &item.node {
                        Some(NodeEnum::RowExpr(other)) if other.args.len() == row.args.len() => {
                            other.args.get(place).cloned()
                        }
                        _ => None,
                    };
                    if let Some(values) = items.iter().map(of_row).collect::<Option<Vec<_>>>() {
                        self.one_of(level, column, &values.iter().collect::<Vec<_>>(), of);
                    }
                }
            }
            _ => (),
        }
    }

    /// Two expressions are equal.
    pub(super) fn equal(&mut self, level: &mut Level, left: &Node, right: &Node, of: Condition<'_>) {
        match (self.keys(level, left, of.within), self.keys(level, right, of.within)) {
            (Keys::Here(one), Keys::Here(other)) => level.equal(&one, &other, of.side),
            (Keys::Here(here), Keys::Outer(key, values)) | (Keys::Outer(key, values), Keys::Here(here)) => {
                level.restrict(&here, of.side, Some(key), &values);
            }
            (Keys::Here(here), Keys::None) => self.values(level, &here, of.side, &[right]),
            (Keys::None, Keys::Here(here)) => self.values(level, &here, of.side, &[left]),
            _ => (),
        }
    }

    /// An expression is one of these.
    pub(super) fn one_of(&mut self, level: &mut Level, left: &Node, items: &[&Node], of: Condition<'_>) {
        if let Keys::Here(here) = self.keys(level, left, of.within) {
            self.values(level, &here, of.side, items);
        }
    }

    /// Restricts keys to values, if these are literals and parameters.
    pub(super) fn values(&mut self, level: &mut Level, keys: &[usize], side: Side, values: &[&Node]) {
        let Some(values) = values.iter().map(|value| source_of(value)).collect::<Option<Vec<_>>>() else { return };
        self.restrict(level, keys, side, values);
    }

    pub(super) fn restrict(&mut self, level: &mut Level, keys: &[usize], side: Side, values: Vec<Source>) {
        let key_type = keys.first().and_then(|&key| level.key_type(key));
        if let Some(key) = key_type.filter(|_| !values.is_empty()) {
            self.compare(key, &values);
            level.restrict(keys, side, Some(key), &values);
        }
    }

    /// The keys that a column means, in a condition that can name these relations of its level.
    pub(super) fn keys(&self, level: &Level, node: &Node, within: (usize, usize)) -> Keys {
        let Some(NodeEnum::ColumnRef(column)) = &node.node else { return Keys::None };
        let fields = names_of(&column.fields);
        let (qualifier, name) = match fields.as_slice() {
            [name] => (None, *name),
            [.., qualifier, name] => (Some((*qualifier, fields.len() == 2)), *name),
            [] => return Keys::None,
        };
        let is_key = |item: &Item| item.key.as_ref().is_some_and(|key| key.name == name);
        let Some((qualifier, short)) = qualifier else {
            return match level.column(name, within) {
                keys if keys.is_empty() => Keys::None,
                keys => Keys::Here(keys),
            };
        };
        let named = |item: &Item| item.name == qualifier && (short || item.plain);
        let seen = level.items.iter().enumerate().skip(within.0).take(within.1.saturating_sub(within.0));
        let mut here = seen.filter(|(_, item)| named(item));
        match (here.next(), here.next()) {
            (Some((place, item)), None) if is_key(item) => return Keys::Here(vec![place]),
            (None, _) => (),
            _ => return Keys::None,
        }
        for outer in self.levels.iter().rev() {
            let mut items = outer.items.iter().filter(|item| named(item));
            match (items.next(), items.next()) {
                (Some(item), None) if is_key(item) => {
                    let key = item.key.as_ref().map(|key| key.key_type);
                    return match key.zip(item.values.clone()) {
                        Some((key, values)) => Keys::Outer(key, values),
                        None => Keys::None,
                    };
                }
                (None, _) => (),
                _ => return Keys::None,
            }
        }
        Keys::None
    }
}

/// The keys that a column of a condition is.
pub(super) enum Keys {
    /// Keys of the same level, by their places.
    Here(Vec<usize>),
    /// A key of a query around this one, which has these values.
    Outer(KeyType, Vec<Source>),
    None,
}

/// The value of an expression that is a literal or a parameter.
pub(super) fn source_of(node: &Node) -> Option<Source> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) => literal(constant),
        NodeEnum::ParamRef(parameter) => {
            Some(Source::Parameter { number: usize::try_from(parameter.number).ok()?, cast: None, certain: false })
        }
        NodeEnum::AExpr(minus)
            if minus.kind() == AExprKind::AexprOp
                && minus.lexpr.is_none()
                && names_of(&minus.name).as_slice() == ["-"] =>
        {
            match source_of(minus.rexpr.as_deref()?)? {
                Source::Integer(value) => value.checked_neg().map(Source::Integer),
                _ => None,
            }
        }
        NodeEnum::TypeCast(cast) => {
            let given = type_of(cast.type_name.as_ref()?)?;
            match source_of(cast.arg.as_deref()?)? {
                Source::Integer(value) if given == KeyType::Integer => Some(Source::Integer(value)),
                Source::Untyped(text) => Some(Source::Typed(given, text)),
                Source::Parameter { number, cast: None, certain } => {
                    Some(Source::Parameter { number, cast: Some(given), certain })
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The elements of an expression that is an array: a literal, a parameter, or one of these with a cast.
pub(super) fn array_of(node: &Node) -> Option<Source> {
    let array = match node.node.as_ref()? {
        NodeEnum::TypeCast(cast) => {
            let name = cast.type_name.as_ref().filter(|name| !name.array_bounds.is_empty())?;
            let given = type_of(&TypeName { array_bounds: Vec::new(), ..name.clone() })?;
            let inner = cast.arg.as_deref()?;
            match source_of(inner).or_else(|| array_of(inner))? {
                Source::Untyped(text) => Source::Typed(given, text),
                Source::Parameter { number, cast: None, certain } => {
                    Source::Parameter { number, cast: Some(given), certain }
                }
                Source::Elements(array) if array.cast() == Some(given) => *array,
                _ => return None,
            }
        }
        _ => match source_of(node)? {
            array @ (Source::Untyped(_) | Source::Parameter { cast: None, .. }) => array,
            _ => return None,
        },
    };
    Some(Source::Elements(Box::new(array)))
}

pub(super) fn literal(constant: &AConst) -> Option<Source> {
    match constant.val.as_ref().filter(|_| !constant.isnull)? {
        a_const::Val::Ival(value) => Some(Source::Integer(i64::from(value.ival))),
        // Beyond 32 bits; with a point it is numeric.
        a_const::Val::Fval(value) => value.fval.parse().ok().map(Source::Integer),
        a_const::Val::Sval(value) => Some(Source::Untyped(value.sval.clone())),
        _ => None,
    }
}

/// The type of a cast, if keys are compared with it as with their own.
pub(super) fn type_of(name: &TypeName) -> Option<KeyType> {
    if !name.typmods.is_empty() || !name.array_bounds.is_empty() || name.setof || name.pct_type {
        return None;
    }
    Some(match names_of(&name.names).as_slice() {
        ["int2" | "int4" | "int8"] | ["pg_catalog", "int2" | "int4" | "int8"] => KeyType::Integer,
        ["text" | "varchar"] | ["pg_catalog", "text" | "varchar"] => KeyType::Text,
        ["uuid"] | ["pg_catalog", "uuid"] => KeyType::Uuid,
        ["date"] | ["pg_catalog", "date"] => KeyType::Date,
        ["timestamp"] | ["pg_catalog", "timestamp"] => KeyType::Timestamp,
        ["timestamptz"] | ["pg_catalog", "timestamptz"] => KeyType::TimestampTz,
        _ => return None,
    })
}

pub(super) fn is_unnest(call: &FuncCall) -> bool {
    matches!(names_of(&call.funcname).as_slice(), ["unnest"] | ["pg_catalog", "unnest"])
}
