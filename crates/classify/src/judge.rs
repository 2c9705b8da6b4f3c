//! Walks the tree of a query by a list of what is allowed: a node that is not on it makes the statement a write.
//!
//! What runs in a query is a function, and functions are reached by name (calls, operators, casts, input and output of
//! types), through relations (views, row security), and by attribute notation: `t.f` is `f(t)` where `t` has no column
//! `f`. Each of these asks the [`Catalog`]. Operators that syntax implies (`=` of IN, of CASE and of USING, `<` of ORDER
//! BY) are asked for by name, or are members of an operator class, where one volatile function poisons the catalog.

use pg_query::protobuf::{
    AConst, AExpr, AExprKind, CaseExpr, DeleteStmt, FuncCall, InsertStmt, JsonBehavior, JsonFuncExpr, JsonOutput,
    JsonTableColumn, JsonTablePathSpec, JsonValueExpr, MergeStmt, OnConflictClause, RangeFunction, RangeTableFunc,
    RangeTableSample, RangeVar, ReturningClause, SelectStmt, SetOperation, SubLink, TypeName, UpdateStmt, WindowDef,
    WithClause, a_const,
};
use pg_query::{Node, NodeEnum};

use crate::builtin::{self, Act};
use crate::catalog::{Access, Catalog, Entry, Volatility};
use crate::configure::{Argument, Configured, arguments};
use crate::pinning::Reasons;
use crate::server_state;
use crate::statement::named;
use crate::verdict::Reason;

/// More definitions (views, policies, domains) than this are not read for one statement.
const MAX_DEFINITIONS: usize = 64;

/// What a walk found.
#[derive(Debug)]
pub struct Judge<'a> {
    catalog: &'a Catalog,
    /// Why it is not a read.
    pub write: Option<Reason>,
    /// Why it is not pipelined, though it is a read.
    pub alone: Option<Reason>,
    /// Why it may pin the session, by what it calls.
    pub pins: Reasons,
    /// It calls what may end a reason to pin.
    pub unpins: bool,
    /// The calls of `set_config` for the session whose parameter or value is not known.
    pub configures: Vec<Configured>,
    /// It calls what dirties the session.
    pub dirties: bool,
    /// It calls what may change parameters that PostgreSQL reads statements by.
    pub unsettles: bool,
    /// It runs what is not known and may do anything to the session.
    pub opaque: bool,
    /// It calls what leaves in its session what nothing undoes.
    pub lasting: bool,
    /// It names what the catalog does not know.
    pub stale: bool,
    /// Names of the common table expressions in scope.
    scope: Vec<String>,
    /// Definitions read so far.
    read: Vec<*const Entry>,
}

impl<'a> Judge<'a> {
    pub fn new(catalog: &'a Catalog) -> Self {
        let mut judge = Self {
            catalog,
            write: None,
            alone: None,
            pins: Reasons::NONE,
            unpins: false,
            configures: Vec::new(),
            dirties: false,
            unsettles: false,
            opaque: catalog.is_poisoned(),
            lasting: false,
            stale: false,
            scope: Vec::new(),
            read: Vec::new(),
        };
        if !catalog.is_loaded() {
            judge.writes(Reason::CatalogNotLoaded);
        } else if catalog.is_poisoned() {
            judge.writes(Reason::VolatileFunction("of an operator class".to_owned()));
        }
        judge
    }

    /// Notes why it is not a read; the first reason stands.
    pub fn writes(&mut self, reason: Reason) {
        self.write.get_or_insert(reason);
    }

    fn alone(&mut self, reason: Reason) {
        self.alone.get_or_insert(reason);
    }

    /// Notes what may do anything, to its session too.
    fn anything(&mut self, reason: Reason) {
        self.opaque = true;
        self.writes(reason);
    }

    /// A name is not in the catalog.
    fn unknown(&mut self, reason: Reason) {
        self.stale |= self.catalog.is_loaded();
        self.anything(reason);
    }

    /// A query that stands where a statement may: anything but SELECT (and VALUES and TABLE) writes.
    pub fn query(&mut self, node: Option<&Node>) {
        let outer = self.scope.len();
        match node.and_then(|node| node.node.as_ref()) {
            Some(NodeEnum::SelectStmt(select)) => self.select(select),
            Some(NodeEnum::InsertStmt(insert)) => self.insert(insert),
            Some(NodeEnum::UpdateStmt(update)) => self.update(update),
            Some(NodeEnum::DeleteStmt(delete)) => self.delete(delete),
            Some(NodeEnum::MergeStmt(merge)) => self.merge(merge),
            Some(_) => self.anything(Reason::Write),
            None => self.anything(Reason::Unfamiliar),
        }
        self.scope.truncate(outer);
    }

    fn insert(&mut self, insert: &InsertStmt) {
        self.change(insert.relation.as_ref(), insert.with_clause.as_ref());
        self.nodes(&insert.cols);
        // None is DEFAULT VALUES.
        if insert.select_stmt.is_some() {
            self.query(insert.select_stmt.as_deref());
        }
        if let Some(conflict) = &insert.on_conflict_clause {
            self.on_conflict(conflict);
        }
        self.returning(insert.returning_clause.as_ref());
    }

    fn on_conflict(&mut self, conflict: &OnConflictClause) {
        if let Some(infer) = &conflict.infer {
            for element in &infer.index_elems {
                match &element.node {
                    Some(NodeEnum::IndexElem(element)) => self.node(element.expr.as_deref()),
                    _ => self.anything(Reason::Unfamiliar),
                }
            }
            self.node(infer.where_clause.as_deref());
        }
        self.nodes(&conflict.target_list);
        self.node(conflict.where_clause.as_deref());
    }

    fn update(&mut self, update: &UpdateStmt) {
        self.change(update.relation.as_ref(), update.with_clause.as_ref());
        self.nodes(&update.target_list);
        for item in &update.from_clause {
            self.from(item);
        }
        self.node(update.where_clause.as_deref());
        self.returning(update.returning_clause.as_ref());
    }

    fn delete(&mut self, delete: &DeleteStmt) {
        self.change(delete.relation.as_ref(), delete.with_clause.as_ref());
        for item in &delete.using_clause {
            self.from(item);
        }
        self.node(delete.where_clause.as_deref());
        self.returning(delete.returning_clause.as_ref());
    }

    fn merge(&mut self, merge: &MergeStmt) {
        self.change(merge.relation.as_ref(), merge.with_clause.as_ref());
        if let Some(source) = &merge.source_relation {
            self.from(source);
        }
        self.node(merge.join_condition.as_deref());
        for clause in &merge.merge_when_clauses {
            match &clause.node {
                Some(NodeEnum::MergeWhenClause(when)) => {
                    self.node(when.condition.as_deref());
                    self.nodes(&when.target_list);
                    self.nodes(&when.values);
                }
                _ => self.anything(Reason::Unfamiliar),
            }
        }
        self.returning(merge.returning_clause.as_ref());
    }

    /// What INSERT, UPDATE, DELETE and MERGE begin with.
    fn change(&mut self, target: Option<&RangeVar>, with: Option<&WithClause>) {
        self.writes(Reason::Write);
        if let Some(with) = with {
            self.with(with);
        }
        match target {
            Some(target) => self.target(target),
            None => self.anything(Reason::Unfamiliar),
        }
    }

    /// The condition of a COPY.
    pub fn condition(&mut self, condition: Option<&Node>) {
        self.node(condition);
    }

    fn returning(&mut self, returning: Option<&ReturningClause>) {
        if let Some(returning) = returning {
            self.nodes(&returning.exprs);
        }
    }

    /// A relation that is written to.
    pub fn target(&mut self, relation: &RangeVar) {
        self.writes(Reason::Write);
        let (schema, name) = (schema_of(relation), relation.relname.as_str());
        let catalog = self.catalog;
        let mut known = false;
        for entry in catalog.relations(schema, name) {
            known = true;
            self.opaque |= entry.fires || entry.access == Access::Unsafe;
            self.definition(entry, name);
        }
        if !known {
            self.unknown(Reason::UnknownRelation(name.to_owned()));
        }
    }

    pub fn select(&mut self, select: &SelectStmt) {
        let outer = self.scope.len();
        if let Some(with) = &select.with_clause {
            self.with(with);
        }
        if let Some(into) = &select.into_clause {
            self.writes(Reason::Write);
            self.pins |= Reasons::TEMPORARY.when(into.rel.as_ref().is_some_and(is_temporary));
        }
        if !select.locking_clause.is_empty() {
            self.writes(Reason::LockingClause);
        }
        if select.op() != SetOperation::SetopNone {
            for side in [&select.larg, &select.rarg].into_iter().flatten() {
                self.select(side);
            }
            self.implied("=");
        }
        self.nodes(&select.distinct_clause);
        self.nodes(&select.target_list);
        for item in &select.from_clause {
            self.from(item);
        }
        self.node(select.where_clause.as_deref());
        self.nodes(&select.group_clause);
        self.node(select.having_clause.as_deref());
        self.nodes(&select.window_clause);
        self.nodes(&select.values_lists);
        self.nodes(&select.sort_clause);
        self.node(select.limit_offset.as_deref());
        self.node(select.limit_count.as_deref());
        self.scope.truncate(outer);
    }

    fn with(&mut self, with: &WithClause) {
        let ctes = || {
            with.ctes.iter().filter_map(|node| match &node.node {
                Some(NodeEnum::CommonTableExpr(cte)) => Some(cte),
                _ => None,
            })
        };
        if ctes().count() != with.ctes.len() {
            self.anything(Reason::Unfamiliar);
        }
        if with.recursive {
            self.scope.extend(ctes().map(|cte| cte.ctename.clone()));
        }
        for cte in ctes() {
            self.query(cte.ctequery.as_deref());
            if let Some(cycle) = &cte.cycle_clause {
                self.node(cycle.cycle_mark_value.as_deref());
                self.node(cycle.cycle_mark_default.as_deref());
                self.implied("<>");
            }
            if !with.recursive {
                self.scope.push(cte.ctename.clone());
            }
        }
    }

    fn from(&mut self, item: &Node) {
        match &item.node {
            Some(NodeEnum::RangeVar(relation)) => self.relation(relation),
            Some(NodeEnum::JoinExpr(join)) => {
                for side in [&join.larg, &join.rarg].into_iter().flatten() {
                    self.from(side);
                }
                self.node(join.quals.as_deref());
                if join.is_natural || !join.using_clause.is_empty() {
                    self.implied("=");
                }
            }
            Some(NodeEnum::RangeSubselect(sub)) => self.query(sub.subquery.as_deref()),
            Some(NodeEnum::RangeFunction(range)) => self.functions(range),
            Some(NodeEnum::RangeTableFunc(table)) => self.xml_table(table),
            Some(NodeEnum::RangeTableSample(sample)) => self.sample(sample),
            Some(NodeEnum::JsonTable(table)) => {
                self.since(170_000);
                self.json_value(table.context_item.as_deref());
                self.json_path(table.pathspec.as_deref());
                self.nodes(&table.passing);
                for column in &table.columns {
                    self.json_column(column);
                }
                self.json_behavior(table.on_error.as_deref());
            }
            _ => self.anything(Reason::Unfamiliar),
        }
    }

    fn functions(&mut self, range: &RangeFunction) {
        for function in &range.functions {
            // Each is a list of the call and its column definitions.
            match &function.node {
                Some(NodeEnum::List(list)) => {
                    for (place, item) in list.items.iter().enumerate() {
                        if place == 0 || item.node.is_some() {
                            self.node(Some(item));
                        }
                    }
                }
                _ => self.anything(Reason::Unfamiliar),
            }
        }
        self.nodes(&range.coldeflist);
    }

    /// `XMLTABLE(...)`
    fn xml_table(&mut self, table: &RangeTableFunc) {
        self.node(table.docexpr.as_deref());
        self.node(table.rowexpr.as_deref());
        self.nodes(&table.namespaces);
        for column in &table.columns {
            match &column.node {
                Some(NodeEnum::RangeTableFuncCol(column)) => {
                    if let Some(name) = &column.type_name {
                        self.type_name(name);
                    }
                    self.node(column.colexpr.as_deref());
                    self.node(column.coldefexpr.as_deref());
                }
                _ => self.anything(Reason::Unfamiliar),
            }
        }
    }

    /// `TABLESAMPLE method (...)`
    fn sample(&mut self, sample: &RangeTableSample) {
        if let Some(relation) = &sample.relation {
            self.from(relation);
        }
        let method = names(&sample.method);
        if !matches!(method.as_slice(), ["bernoulli" | "system"] | ["pg_catalog", "bernoulli" | "system"]) {
            self.anything(Reason::UnknownFunction(method.join(".")));
        }
        self.nodes(&sample.args);
        self.node(sample.repeatable.as_deref());
    }

    pub fn relation(&mut self, relation: &RangeVar) {
        let name = relation.relname.as_str();
        let schema = schema_of(relation);
        if schema.is_none() && self.scope.iter().any(|known| known == name) {
            return;
        }
        let catalog = self.catalog;
        let mut known = false;
        for entry in catalog.relations(schema, name) {
            known = true;
            match entry.access {
                Access::Plain => (),
                Access::System if server_state::view(name) => self.writes(Reason::ServerState(name.to_owned())),
                Access::Sequence => self.writes(Reason::ServerState(name.to_owned())),
                Access::System => self.alone(Reason::SystemView(name.to_owned())),
                Access::Unlogged => self.writes(Reason::UnloggedTable(name.to_owned())),
                Access::Foreign => self.writes(Reason::ForeignTable(name.to_owned())),
                Access::Unsafe => self.anything(Reason::View(name.to_owned())),
            }
            self.definition(entry, name);
        }
        if !known {
            self.unknown(Reason::UnknownRelation(name.to_owned()));
        }
    }

    /// Judges the text that stands for a view, a policy or a domain.
    fn definition(&mut self, entry: &'a Entry, name: &str) {
        let Some(text) = &entry.definition else { return };
        let entry: *const Entry = entry;
        // One that is being read, or was, adds nothing. (Names may seem to go in circles, since those without a schema
        // stand for all.)
        if self.read.contains(&entry) {
            return;
        }
        if self.read.len() >= MAX_DEFINITIONS {
            return self.anything(Reason::TooDeep);
        }
        self.read.push(entry);
        let scope = std::mem::take(&mut self.scope);
        match crate::parse(text) {
            Ok(tree) => {
                for statement in &tree {
                    self.query(Some(&statement.node));
                }
            }
            Err(_) => self.anything(Reason::View(name.to_owned())),
        }
        self.scope = scope;
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            self.node(Some(node));
        }
    }

    /// An expression, or what may stand among expressions. None is one that was left out.
    fn node(&mut self, node: Option<&Node>) {
        // An empty node is a null in a list, as in DISTINCT without ON.
        let Some(node) = node.and_then(|node| node.node.as_ref()) else { return };
        match node {
            NodeEnum::AConst(AConst { .. })
            | NodeEnum::ParamRef(_)
            | NodeEnum::AStar(_)
            | NodeEnum::SqlvalueFunction(_)
            | NodeEnum::CurrentOfExpr(_)
            | NodeEnum::SetToDefault(_) => (),
            // No nodes of expressions: names in lists.
            NodeEnum::String(_) | NodeEnum::Integer(_) => (),
            NodeEnum::ColumnRef(column) => self.attributes(column.fields.get(1..).unwrap_or_default()),
            NodeEnum::AIndirection(indirection) => {
                self.node(indirection.arg.as_deref());
                self.attributes(&indirection.indirection);
            }
            NodeEnum::AIndices(indices) => {
                self.node(indices.lidx.as_deref());
                self.node(indices.uidx.as_deref());
            }
            NodeEnum::MultiAssignRef(assign) => self.node(assign.source.as_deref()),
            NodeEnum::ResTarget(target) => {
                self.nodes(&target.indirection);
                self.node(target.val.as_deref());
            }
            NodeEnum::AExpr(expression) => self.expression(expression),
            NodeEnum::BoolExpr(expression) => self.nodes(&expression.args),
            NodeEnum::List(list) => self.nodes(&list.items),
            NodeEnum::TypeCast(cast) => {
                self.node(cast.arg.as_deref());
                self.type_given(cast.type_name.as_ref());
            }
            NodeEnum::CollateClause(collate) => self.node(collate.arg.as_deref()),
            NodeEnum::FuncCall(call) => self.call(call),
            NodeEnum::NamedArgExpr(argument) => self.node(argument.arg.as_deref()),
            NodeEnum::AArrayExpr(array) => self.nodes(&array.elements),
            NodeEnum::RowExpr(row) => self.nodes(&row.args),
            NodeEnum::CoalesceExpr(coalesce) => self.nodes(&coalesce.args),
            NodeEnum::MinMaxExpr(expression) => {
                self.implied("<");
                self.nodes(&expression.args);
            }
            NodeEnum::NullTest(test) => self.node(test.arg.as_deref()),
            NodeEnum::BooleanTest(test) => self.node(test.arg.as_deref()),
            NodeEnum::CaseExpr(case) => self.case(case),
            NodeEnum::CaseWhen(when) => {
                self.node(when.expr.as_deref());
                self.node(when.result.as_deref());
            }
            NodeEnum::SubLink(link) => self.sublink(link),
            _ => self.part(node),
        }
    }

    /// An operator with its operands.
    fn expression(&mut self, expression: &AExpr) {
        match expression.kind() {
            AExprKind::AexprOp
            | AExprKind::AexprOpAny
            | AExprKind::AexprOpAll
            | AExprKind::AexprIn
            | AExprKind::AexprLike
            | AExprKind::AexprIlike
            | AExprKind::AexprDistinct
            | AExprKind::AexprNotDistinct
            | AExprKind::AexprNullif
            | AExprKind::AexprSimilar => self.operator(&expression.name),
            AExprKind::AexprBetween
            | AExprKind::AexprNotBetween
            | AExprKind::AexprBetweenSym
            | AExprKind::AexprNotBetweenSym => {
                for name in ["<", "<=", ">", ">="] {
                    self.implied(name);
                }
            }
            AExprKind::Undefined => self.anything(Reason::Unfamiliar),
        }
        self.node(expression.lexpr.as_deref());
        self.node(expression.rexpr.as_deref());
    }

    fn call(&mut self, call: &FuncCall) {
        self.function(call);
        self.nodes(&call.args);
        self.nodes(&call.agg_order);
        self.node(call.agg_filter.as_deref());
        self.window(call.over.as_deref());
        if call.agg_distinct {
            self.implied("=");
        }
    }

    fn case(&mut self, case: &CaseExpr) {
        if case.arg.is_some() {
            self.implied("=");
        }
        self.node(case.arg.as_deref());
        self.nodes(&case.args);
        self.node(case.defresult.as_deref());
    }

    fn sublink(&mut self, link: &SubLink) {
        self.node(link.testexpr.as_deref());
        if !link.oper_name.is_empty() {
            self.operator(&link.oper_name);
        } else if link.testexpr.is_some() {
            self.implied("=");
        }
        self.query(link.subselect.as_deref());
    }

    /// A part of a clause or of an expression of XML or JSON.
    fn part(&mut self, node: &NodeEnum) {
        match node {
            NodeEnum::SortBy(sort) => {
                self.node(sort.node.as_deref());
                if !sort.use_op.is_empty() {
                    self.operator(&sort.use_op);
                }
            }
            NodeEnum::WindowDef(window) => self.window(Some(window)),
            NodeEnum::GroupingSet(set) => self.nodes(&set.content),
            NodeEnum::GroupingFunc(function) => self.nodes(&function.args),
            NodeEnum::ColumnDef(column) => self.type_given(column.type_name.as_ref()),
            NodeEnum::XmlExpr(xml) => {
                self.nodes(&xml.named_args);
                self.nodes(&xml.args);
            }
            NodeEnum::XmlSerialize(xml) => {
                self.node(xml.expr.as_deref());
                if let Some(name) = &xml.type_name {
                    self.type_name(name);
                }
            }
            _ => self.json(node),
        }
    }

    /// Functions of the standard on JSON; before 16, and 17, what looks like them is a call of a user's own.
    fn json(&mut self, node: &NodeEnum) {
        match node {
            NodeEnum::JsonIsPredicate(predicate) => {
                self.since(160_000);
                self.node(predicate.expr.as_deref());
            }
            NodeEnum::JsonObjectConstructor(object) => {
                self.since(160_000);
                self.nodes(&object.exprs);
                self.json_output(object.output.as_ref());
            }
            NodeEnum::JsonArrayConstructor(array) => {
                self.since(160_000);
                self.nodes(&array.exprs);
                self.json_output(array.output.as_ref());
            }
            NodeEnum::JsonArrayQueryConstructor(array) => {
                self.since(160_000);
                self.query(array.query.as_deref());
                self.json_output(array.output.as_ref());
            }
            NodeEnum::JsonKeyValue(pair) => {
                self.node(pair.key.as_deref());
                self.json_value(pair.value.as_deref());
            }
            NodeEnum::JsonValueExpr(value) => self.json_value(Some(value)),
            NodeEnum::JsonObjectAgg(object) => {
                self.since(160_000);
                if let Some(pair) = &object.arg {
                    self.node(pair.key.as_deref());
                    self.json_value(pair.value.as_deref());
                }
                self.json_aggregate(object.constructor.as_deref());
            }
            NodeEnum::JsonArrayAgg(array) => {
                self.since(160_000);
                self.json_value(array.arg.as_deref());
                self.json_aggregate(array.constructor.as_deref());
            }
            NodeEnum::JsonParseExpr(parse) => {
                self.since(170_000);
                self.json_value(parse.expr.as_deref());
                self.json_output(parse.output.as_ref());
            }
            NodeEnum::JsonScalarExpr(scalar) => {
                self.since(170_000);
                self.node(scalar.expr.as_deref());
                self.json_output(scalar.output.as_ref());
            }
            NodeEnum::JsonSerializeExpr(serialize) => {
                self.since(170_000);
                self.json_value(serialize.expr.as_deref());
                self.json_output(serialize.output.as_ref());
            }
            NodeEnum::JsonFuncExpr(function) => self.json_function(function),
            NodeEnum::JsonArgument(argument) => self.json_value(argument.val.as_deref()),
            _ => self.anything(Reason::Unfamiliar),
        }
    }

    /// `JSON_QUERY`, `JSON_VALUE` or `JSON_EXISTS`
    fn json_function(&mut self, function: &JsonFuncExpr) {
        self.since(170_000);
        self.json_value(function.context_item.as_deref());
        self.node(function.pathspec.as_deref());
        self.nodes(&function.passing);
        self.json_output(function.output.as_ref());
        self.json_behavior(function.on_empty.as_deref());
        self.json_behavior(function.on_error.as_deref());
    }

    fn json_value(&mut self, value: Option<&JsonValueExpr>) {
        if let Some(value) = value {
            self.node(value.raw_expr.as_deref());
            self.node(value.formatted_expr.as_deref());
        }
    }

    fn json_path(&mut self, path: Option<&JsonTablePathSpec>) {
        if let Some(path) = path {
            self.node(path.string.as_deref());
        }
    }

    fn json_output(&mut self, output: Option<&JsonOutput>) {
        if let Some(name) = output.and_then(|output| output.type_name.as_ref()) {
            self.type_name(name);
        }
    }

    fn json_behavior(&mut self, behavior: Option<&JsonBehavior>) {
        if let Some(behavior) = behavior {
            self.node(behavior.expr.as_deref());
        }
    }

    fn json_aggregate(&mut self, aggregate: Option<&pg_query::protobuf::JsonAggConstructor>) {
        if let Some(aggregate) = aggregate {
            self.json_output(aggregate.output.as_ref());
            self.node(aggregate.agg_filter.as_deref());
            self.nodes(&aggregate.agg_order);
            self.window(aggregate.over.as_deref());
        }
    }

    fn json_column(&mut self, column: &Node) {
        match &column.node {
            Some(NodeEnum::JsonTableColumn(column)) => {
                let JsonTableColumn { type_name, pathspec, columns, on_empty, on_error, .. } = column.as_ref();
                if let Some(name) = type_name {
                    self.type_name(name);
                }
                self.json_path(pathspec.as_deref());
                for column in columns {
                    self.json_column(column);
                }
                self.json_behavior(on_empty.as_deref());
                self.json_behavior(on_error.as_deref());
            }
            _ => self.anything(Reason::Unfamiliar),
        }
    }

    fn window(&mut self, window: Option<&WindowDef>) {
        if let Some(window) = window {
            self.nodes(&window.partition_clause);
            self.nodes(&window.order_clause);
            self.node(window.start_offset.as_deref());
            self.node(window.end_offset.as_deref());
        }
    }

    /// Syntax that a server knows since a version; before, the same text may mean something else.
    fn since(&mut self, version: u32) {
        if self.catalog.version() < version {
            self.anything(Reason::NewerSyntax);
        }
    }

    /// Fields behind a dot: columns, unless they are functions.
    fn attributes(&mut self, fields: &[Node]) {
        for field in fields {
            match &field.node {
                Some(NodeEnum::String(name)) => {
                    if let Some(function) = self.catalog.function(None, &name.sval)
                        && function.attribute
                        && (function.volatility == Volatility::Volatile || builtin::act(&name.sval).is_some())
                    {
                        self.anything(Reason::AttributeFunction(name.sval.clone()));
                    }
                }
                _ => self.node(Some(field)),
            }
        }
    }

    fn function(&mut self, call: &FuncCall) {
        let parts = names(&call.funcname);
        let (schema, name) = match parts.as_slice() {
            [name] => (None, *name),
            [schema, name] | [_, schema, name] => (Some(*schema), *name),
            _ => return self.anything(Reason::Unfamiliar),
        };
        let known = self.catalog.function(schema, name);
        self.opaque |= known.is_some_and(|function| function.opaque);
        self.lasting |= builtin::lasts(name);
        match builtin::act(name) {
            Some(Act::Locks) => {
                // It may not have got the lock.
                self.pins |= Reasons::LOCK;
                self.unpins = true;
                return self.writes(Reason::SessionState);
            }
            Some(Act::Pins) => {
                self.pins |= Reasons::LASTING;
                return self.writes(Reason::SessionState);
            }
            Some(Act::Releases) => {
                self.unpins = true;
                return self.writes(Reason::SessionState);
            }
            Some(Act::Configures) => {
                self.configure(call);
                return self.writes(Reason::SessionState);
            }
            Some(Act::Dirties) => {
                self.dirties = true;
                self.unsettles = true;
                return self.writes(Reason::SessionState);
            }
            Some(Act::Tells) if call.args.first().is_none_or(names_of_server) => {
                return self.writes(Reason::ServerState(parts.join(".")));
            }
            Some(Act::Runs) => return self.anything(Reason::VolatileFunction(parts.join("."))),
            Some(Act::Writes) => return self.writes(Reason::VolatileFunction(parts.join("."))),
            Some(Act::Tells) | None => (),
        }
        if schema.is_none_or(|schema| schema == "pg_catalog") && known.is_some() && server_state::function(name) {
            return self.writes(Reason::ServerState(parts.join(".")));
        }
        match known {
            Some(function) if function.volatility < Volatility::Volatile => (),
            Some(function) if function.system && builtin::reads(name) => {
                self.alone(Reason::VolatileFunction(parts.join(".")));
            }
            Some(_) => self.writes(Reason::VolatileFunction(parts.join("."))),
            None => self.unknown(Reason::UnknownFunction(parts.join("."))),
        }
    }

    /// A call of `set_config`.
    fn configure(&mut self, call: &FuncCall) {
        self.unsettles |= !call.args.first().is_some_and(names_custom);
        let [name, _, local] = arguments(call).unwrap_or([const { Argument::Other }; 3]);
        if local.as_boolean() == Some(true) {
            return;
        }
        self.dirties = true;
        match &name {
            // The server would not tell it.
            Argument::Text(name) if ["seed", "session_authorization"].contains(&&*named(name)) => {
                self.pins |= Reasons::LASTING;
                self.lasting |= named(name) == "seed";
            }
            // They are of the transaction, whatever the words.
            Argument::Text(name) if named(name).starts_with("transaction_") => (),
            // The shape has not kept it.
            Argument::Text(name) if name == "s" => self.pins |= Reasons::SETTING,
            Argument::Text(_) | Argument::Parameter(_) => self.configures.push(Configured { name, local }),
            Argument::Null => (),
            Argument::Other => self.pins |= Reasons::SETTING,
        }
    }

    fn operator(&mut self, name: &[Node]) {
        match names(name).last() {
            Some(name) => self.implied(name),
            None => self.anything(Reason::Unfamiliar),
        }
    }

    /// An operator by its name, in whatever schema.
    fn implied(&mut self, name: &str) {
        match self.catalog.operator(name) {
            Some(volatility) if volatility < Volatility::Volatile => (),
            Some(_) => self.anything(Reason::VolatileFunction(name.to_owned())),
            // The grammar's other name for it.
            None if name == "!=" => self.implied("<>"),
            None => self.unknown(Reason::UnknownOperator(name.to_owned())),
        }
    }

    /// The type of a cast or column, which the grammar always gives.
    fn type_given(&mut self, name: Option<&TypeName>) {
        match name {
            Some(name) => self.type_name(name),
            None => self.anything(Reason::Unfamiliar),
        }
    }

    fn type_name(&mut self, type_name: &TypeName) {
        self.nodes(&type_name.typmods);
        let parts = names(&type_name.names);
        let (schema, name) = match parts.as_slice() {
            [name] => (None, *name),
            [schema, name] | [_, schema, name] => (Some(*schema), *name),
            _ => return self.anything(Reason::Unfamiliar),
        };
        if type_name.pct_type || type_name.setof {
            return self.anything(Reason::Unfamiliar);
        }
        let catalog = self.catalog;
        let mut known = false;
        // The row type of a table has its name; a view's rows are not read by naming their type.
        for entry in catalog.types(schema, name).chain(catalog.relations(schema, name)) {
            known = true;
            if entry.access == Access::Unsafe {
                self.anything(Reason::VolatileFunction(parts.join(".")));
            }
            self.definition(entry, name);
        }
        if !known {
            self.unknown(Reason::UnknownType(parts.join(".")));
        }
    }
}

fn schema_of(relation: &RangeVar) -> Option<&str> {
    (!relation.schemaname.is_empty()).then_some(relation.schemaname.as_str())
}

/// Whether a parameter named by this argument may have another value on each server. A literal is
/// what it is only where [`crate::shape`] keeps it; elsewhere it stands as `'s'`, which no parameter is called.
fn names_of_server(argument: &Node) -> bool {
    match &argument.node {
        // As views and policies have it: `'name'::text`.
        Some(NodeEnum::TypeCast(cast)) if cast.type_name.as_ref().is_some_and(is_text) => {
            cast.arg.as_deref().is_none_or(names_of_server)
        }
        Some(NodeEnum::AConst(constant)) => match &constant.val {
            Some(a_const::Val::Sval(name)) => name.sval == "s" || server_state::parameter(&name.sval),
            _ => true,
        },
        _ => true,
    }
}

/// Whether the argument names a parameter that is a user's own: one with a dot.
fn names_custom(argument: &Node) -> bool {
    match &argument.node {
        Some(NodeEnum::TypeCast(cast)) if cast.type_name.as_ref().is_some_and(is_text) => {
            cast.arg.as_deref().is_some_and(names_custom)
        }
        Some(NodeEnum::AConst(constant)) => {
            matches!(&constant.val, Some(a_const::Val::Sval(name)) if name.sval.contains('.'))
        }
        _ => false,
    }
}

pub fn is_text(name: &TypeName) -> bool {
    let kept = name.typmods.is_empty() && name.array_bounds.is_empty();
    kept && matches!(names(&name.names).as_slice(), ["text" | "varchar"] | ["pg_catalog", "text" | "varchar"])
}

/// Whether a relation is created as a temporary one.
pub fn is_temporary(relation: &RangeVar) -> bool {
    relation.relpersistence == "t" || relation.schemaname.starts_with("pg_temp")
}

/// The strings of a list of names; a node that is none ends up as an empty one, which nothing is called.
pub fn names(nodes: &[Node]) -> Vec<&str> {
    nodes
        .iter()
        .map(|node| match &node.node {
            Some(NodeEnum::String(name)) => name.sval.as_str(),
            _ => "",
        })
        .collect()
}
