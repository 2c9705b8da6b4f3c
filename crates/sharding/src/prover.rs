//! The walk that proves what a statement needs to be of one shard ([`Proof`]).
//!
//! The walk knows the forms in which SQL restricts rows, and takes everything else for something that may read anything:
//! a node that is not listed here leaves the statement unproved. Conditions count as PostgreSQL applies them: those of
//! WHERE and of inner joins for all tables of their level; those of an outer join for the side that it fills with NULLs,
//! never for the other. Columns other than keys prove nothing, since their types may compare in other ways.

use std::sync::Arc;

use classify::Catalog;
use classify::builtin;
use pg_query::protobuf::{
    AConst, AExpr, AExprKind, BoolExprType, CreateTableAsStmt, FuncCall, InsertStmt, JoinExpr, JoinType, RangeFunction,
    RangeVar, ReturningClause, SelectStmt, SetOperation, SubLink, TypeName, WithClause, a_const,
};
use pg_query::{Node, NodeEnum};

use crate::map::{Entry, KeyType, Map, Table};
use crate::proof::{Need, Proof, Reason};
use crate::value::Source;

/// How many views are followed of which each reads the next.
const VIEWS: usize = 16;

/// Functions of pgml that read nothing but the models: the same on each server whose models are the hub's.
const OF_MODELS: [&str; 13] = [
    "predict",
    "predict_agg",
    "predict_batch",
    "predict_interval",
    "predict_joint",
    "predict_label",
    "predict_proba",
    "predict_shadow",
    "explain",
    "explain_batch",
    "decompose",
    "model_for",
    "shadow_of",
];

/// What the statements of a text need to be of one shard together. `catalog` is that of the hub.
pub fn prove(sql: &str, map: &Map, catalog: &Catalog) -> Proof {
    let mut prover = Prover::new(map, catalog);
    match pg_query::parse(sql, 0) {
        Ok(parsed) => {
            for raw in &parsed.protobuf.stmts {
                prover.statement(raw.stmt.as_deref());
            }
        }
        // An error of syntax is the server's to tell. That a tree is too deep is none.
        Err(pg_query::Error::Parse(why))
            if !["stack depth", "memory exhausted"].iter().any(|deep| why.contains(deep)) =>
        {
            prover.unproved(Reason::Unparsable);
        }
        Err(_) => return Proof::unread(sql.as_bytes(), map),
    }
    let proof = prover.proof();
    match &proof.needs {
        // Where there is no hub, what was not followed matters if it may read or write sharded tables.
        Err(Reason::Unfamiliar | Reason::Unparsable) if map.without_hub && !map.is_named_in(sql.as_bytes()) => {
            Proof::of_no_table()
        }
        _ => proof,
    }
}

/// A relation of a level of a query.
#[derive(Clone)]
struct Item {
    /// The name that columns are qualified by.
    name: String,
    /// The sharded table, if it is one, and if its columns have their own names.
    table: Option<Arc<Table>>,
    /// The values of its key.
    values: Option<Vec<Source>>,
    /// Whether its schema was named, so that columns may be qualified by that too.
    plain: bool,
    /// The columns of an `unnest`, with the elements that each has.
    unnested: Vec<(String, Option<Source>)>,
}

/// An equality of two keys of a level, by their places: what is known of the first holds for the second.
type Edge = (usize, usize);

/// Whose rows a condition restricts.
#[derive(Clone, Copy)]
enum Side {
    /// All of its level.
    All,
    /// Those of items from this place to before that.
    Within(usize, usize),
}

impl Side {
    fn has(self, place: usize) -> bool {
        match self {
            Self::All => true,
            Self::Within(from, to) => (from..to).contains(&place),
        }
    }
}

/// A column that a USING merges.
struct Merged {
    name: String,
    /// The relations of its join: from this place to before that.
    within: (usize, usize),
    /// The keys that are NULL or equal to it; if there is one only, it is that.
    keys: Vec<usize>,
}

/// The relations of one FROM, and the equalities between their keys.
#[derive(Default)]
struct Level {
    items: Vec<Item>,
    edges: Vec<Edge>,
    merged: Vec<Merged>,
}

/// A condition of a level.
#[derive(Clone, Copy)]
struct Condition<'n> {
    node: &'n Node,
    side: Side,
    /// The relations that it can name, of this level: from this place to before that.
    within: (usize, usize),
}

/// What is walked when the conditions of a level are known.
enum Later<'n> {
    /// A subquery of FROM.
    Query(&'n NodeEnum),
    /// The functions of FROM.
    Functions(&'n [Node]),
}

/// What the walk over a FROM collects: conditions; and queries and functions with the number of relations before them
/// that they may name, none if they may name none.
#[derive(Default)]
struct Collected<'n> {
    conditions: Vec<Condition<'n>>,
    later: Vec<(Option<usize>, Later<'n>)>,
}

struct Prover<'a> {
    map: &'a Map,
    catalog: &'a Catalog,
    needs: Vec<Need>,
    reason: Option<Reason>,
    /// Why the hub alone knows what the statement names.
    unknown: Option<Reason>,
    is_free: bool,
    sharded: bool,
    writes: bool,
    levels: Vec<Level>,
    /// The names of common table expressions in scope.
    ctes: Vec<String>,
    /// The numbers of the parameters, each as often as it is used.
    uses: Vec<usize>,
    /// Those that are compared with a key, with its type, and whether they have a cast.
    compared: Vec<(usize, KeyType, bool)>,
}

impl<'a> Prover<'a> {
    fn new(map: &'a Map, catalog: &'a Catalog) -> Self {
        Self {
            map,
            catalog,
            needs: Vec::new(),
            reason: None,
            unknown: None,
            is_free: true,
            sharded: false,
            writes: false,
            levels: Vec::new(),
            ctes: Vec::new(),
            uses: Vec::new(),
            compared: Vec::new(),
        }
    }

    fn unproved(&mut self, reason: Reason) {
        self.is_free &= matches!(reason, Reason::NotOnShards(_) | Reason::NoKey(..));
        if matches!(reason, Reason::NotOnShards(_) | Reason::Function(_)) {
            self.unknown.get_or_insert_with(|| reason.clone());
        }
        self.reason.get_or_insert(reason);
    }

    fn proof(mut self) -> Proof {
        // The type of a parameter that the client has not declared is that of its first use.
        let certain = |number: usize, this: (KeyType, bool)| {
            let used = self.uses.iter().filter(|&&use_of| use_of == number).count();
            let mut compared = self.compared.iter().filter(|(of, ..)| *of == number).map(|&(_, key, cast)| (key, cast));
            compared.clone().count() == used && compared.all(|other| other == this)
        };
        for need in &mut self.needs {
            let key = need.table.key_type;
            for value in &mut need.values {
                if let Source::Parameter { number, cast, certain: is_certain } = value.scalar_mut() {
                    *is_certain = certain(*number, (key, cast.is_some()));
                }
            }
        }
        // What was not followed may name a sharded table.
        let matters = |reason: &Reason| self.sharded || matches!(reason, Reason::Unfamiliar | Reason::Unparsable);
        let (needs, hub) = match self.reason {
            Some(reason) if matters(&reason) => (Err(reason), None),
            reason => (Ok(self.needs), reason),
        };
        Proof { needs, writes: self.writes, hub, unknown: self.unknown, is_free: self.is_free }
    }

    /// A statement that stands by itself.
    fn statement(&mut self, node: Option<&Node>) {
        let Some(node) = node.and_then(|node| node.node.as_ref()) else { return };
        self.is_free &= matches!(node, NodeEnum::SelectStmt(_) | NodeEnum::DeallocateStmt(_));
        match node {
            NodeEnum::SelectStmt(_)
            | NodeEnum::InsertStmt(_)
            | NodeEnum::UpdateStmt(_)
            | NodeEnum::DeleteStmt(_)
            | NodeEnum::MergeStmt(_) => self.query(node),
            NodeEnum::ExplainStmt(explain) => self.statement(explain.query.as_deref()),
            NodeEnum::DeclareCursorStmt(declare) => self.statement(declare.query.as_deref()),
            NodeEnum::CopyStmt(copy) => {
                self.statement(copy.query.as_deref());
                if let Some(relation) = &copy.relation {
                    self.copy(relation, copy.is_from);
                }
            }
            // Their tables are none whose rows are read.
            NodeEnum::TransactionStmt(_)
            | NodeEnum::VariableSetStmt(_)
            | NodeEnum::VariableShowStmt(_)
            | NodeEnum::DiscardStmt(_)
            | NodeEnum::DeallocateStmt(_)
            | NodeEnum::FetchStmt(_)
            | NodeEnum::ConstraintsSetStmt(_)
            | NodeEnum::ClosePortalStmt(_) => (),
            NodeEnum::CreateTableAsStmt(create) if self.map.without_hub && !self.makes(create) => {
                self.statement(create.query.as_deref());
            }
            // They read sharded tables on the hub, and leave something there.
            NodeEnum::CreateTableAsStmt(create) if !self.makes(create) => {
                self.unproved(Reason::Kind);
            }
            NodeEnum::ViewStmt(view)
                if !self.map.without_hub && view.view.as_ref().is_some_and(|made| self.entry(made).is_none()) =>
            {
                self.unproved(Reason::Kind);
            }
            _ => self.definition(node),
        }
    }

    /// Whether a table that is made of a query's rows is one that the map knows.
    fn makes(&self, create: &CreateTableAsStmt) -> bool {
        let made = create.into.as_ref().and_then(|into| into.rel.as_ref());
        made.is_none_or(|made| self.entry(made).is_some())
    }

    /// COPY of a table.
    fn copy(&mut self, relation: &RangeVar, is_from: bool) {
        let name = || relation.relname.clone();
        let reason = match self.table(relation) {
            Some(Entry::Sharded(_)) if is_from => Reason::CopyFrom(name()),
            Some(Entry::Sharded(table)) => Reason::NoKey(name(), table.key.to_string()),
            Some(Entry::Reading) => Reason::Reading(name()),
            _ => return,
        };
        self.sharded = true;
        self.writes |= is_from;
        self.unproved(reason);
    }

    /// A statement of another kind: whether it names a sharded table.
    fn definition(&mut self, node: &NodeEnum) {
        let tree = pg_query::protobuf::ParseResult {
            version: 0,
            stmts: vec![pg_query::protobuf::RawStmt {
                stmt: Some(Box::new(Node { node: Some(node.clone()) })),
                stmt_location: 0,
                stmt_len: 0,
            }],
        };
        let drops = match node {
            NodeEnum::DropStmt(drop) => drop.objects.iter().filter_map(last_name).collect(),
            _ => Vec::new(),
        };
        let named = tree.nodes().into_iter().find_map(|(node, ..)| match node {
            pg_query::NodeRef::RangeVar(relation) => self.table(relation).is_some().then(|| relation.relname.clone()),
            _ => None,
        });
        let dropped = drops.into_iter().find(|name| self.map.tables(None, name).next().is_some());
        if let Some(name) = named.or(dropped.map(str::to_owned)) {
            self.sharded = true;
            self.writes = true;
            self.unproved(Reason::Definition(name));
        }
        self.unproved(Reason::Kind);
    }

    /// The entry of a relation, if it is not a common table expression.
    fn table(&self, relation: &RangeVar) -> Option<&'a Entry> {
        if self.is_cte(relation) { None } else { self.entry(relation) }
    }

    fn is_cte(&self, relation: &RangeVar) -> bool {
        relation.schemaname.is_empty() && self.ctes.contains(&relation.relname)
    }

    /// The entry of a relation that is no common table expression, as what is written to never is.
    fn entry(&self, relation: &RangeVar) -> Option<&'a Entry> {
        self.map.tables(schema_of(relation), &relation.relname).next()
    }

    /// Whether a relation is a view that reads sharded tables, perhaps through other views.
    fn is_view_of_sharded(&self, schema: Option<&str>, name: &str, depth: usize) -> bool {
        let texts = self.catalog.relations(schema, name).filter_map(|entry| entry.definition.as_deref());
        texts.filter_map(|text| pg_query::parse(text, 0).ok()).any(|parsed| {
            parsed.protobuf.nodes().into_iter().any(|(node, ..)| match node {
                pg_query::NodeRef::RangeVar(relation) => {
                    let (schema, name) = (schema_of(relation), relation.relname.as_str());
                    let is_sharded = |entry: &Entry| matches!(entry, Entry::Sharded(_));
                    self.map.tables(schema, name).any(is_sharded)
                        || depth > 0 && self.is_view_of_sharded(schema, name, depth - 1)
                }
                _ => false,
            })
        })
    }

    /// A query or a change of rows, at any depth.
    fn query(&mut self, node: &NodeEnum) {
        let outer = self.ctes.len();
        match node {
            NodeEnum::SelectStmt(select) => drop(self.select(select)),
            NodeEnum::InsertStmt(insert) => self.insert(insert),
            NodeEnum::UpdateStmt(update) => {
                self.with(update.with_clause.as_ref());
                let Some(target) = &update.relation else { return self.unproved(Reason::Unfamiliar) };
                if let Some(Entry::Sharded(table)) = self.entry(target)
                    && update.target_list.iter().any(|item| assigns(item, &table.key))
                {
                    self.unproved(Reason::KeyChanges(target.relname.clone(), table.key.to_string()));
                }
                self.change(target);
                let parts = [&update.target_list, returning(update.returning_clause.as_ref())];
                self.level(Some(target), &update.from_clause, update.where_clause.as_deref(), &parts);
            }
            NodeEnum::DeleteStmt(delete) => {
                self.with(delete.with_clause.as_ref());
                let Some(target) = &delete.relation else { return self.unproved(Reason::Unfamiliar) };
                self.change(target);
                let parts = [returning(delete.returning_clause.as_ref())];
                self.level(Some(target), &delete.using_clause, delete.where_clause.as_deref(), &parts);
            }
            NodeEnum::MergeStmt(merge) => {
                if let Some(target) = &merge.relation {
                    self.change(target);
                }
                self.unproved(Reason::Unfamiliar);
            }
            _ => self.unproved(Reason::Unfamiliar),
        }
        self.ctes.truncate(outer);
    }

    /// A table whose rows are changed.
    fn change(&mut self, target: &RangeVar) {
        let schema = schema_of(target);
        if self.catalog.relations(schema, &target.relname).count() > 1 {
            self.unproved(Reason::Ambiguous(target.relname.clone()));
        }
        match self.entry(target) {
            Some(Entry::Sharded(_)) => (self.sharded, self.writes) = (true, true),
            Some(Entry::Reference) => self.unproved(Reason::Reference(target.relname.clone())),
            Some(Entry::Reading) => {
                (self.sharded, self.writes) = (true, true);
                self.unproved(Reason::Reading(target.relname.clone()));
            }
            None if self.map.without_hub => (),
            None => {
                if self.is_view_of_sharded(schema, &target.relname, VIEWS) {
                    (self.sharded, self.writes) = (true, true);
                }
                self.unproved(Reason::NotOnShards(target.relname.clone()));
            }
        }
    }

    fn with(&mut self, with: Option<&WithClause>) {
        let Some(with) = with else { return };
        let ctes = || {
            with.ctes.iter().filter_map(|node| match &node.node {
                Some(NodeEnum::CommonTableExpr(cte)) => Some(cte),
                _ => None,
            })
        };
        if with.recursive {
            self.ctes.extend(ctes().map(|cte| cte.ctename.clone()));
        }
        for cte in ctes() {
            match cte.ctequery.as_deref().and_then(|node| node.node.as_ref()) {
                Some(query) => self.query(query),
                None => self.unproved(Reason::Unfamiliar),
            }
            if cte.cycle_clause.is_some() || cte.search_clause.is_some() {
                self.unproved(Reason::Unfamiliar);
            }
            if !with.recursive {
                self.ctes.push(cte.ctename.clone());
            }
        }
    }

    /// A query; gives its relations.
    fn select(&mut self, select: &SelectStmt) -> Level {
        let outer = self.ctes.len();
        self.with(select.with_clause.as_ref());
        self.is_free &= select.locking_clause.is_empty();
        if select.into_clause.is_some() {
            self.unproved(Reason::Unfamiliar);
        }
        if select.op() != SetOperation::SetopNone {
            for side in [&select.larg, &select.rarg].into_iter().flatten() {
                self.select(side);
            }
        }
        let limits: Vec<Node> =
            [&select.limit_offset, &select.limit_count].into_iter().flatten().map(|node| (**node).clone()).collect();
        let having: Vec<Node> = select.having_clause.iter().map(|node| (**node).clone()).collect();
        let parts: [&[Node]; 8] = [
            &select.target_list,
            &select.distinct_clause,
            &select.group_clause,
            &having,
            &select.window_clause,
            &select.values_lists,
            &select.sort_clause,
            &limits,
        ];
        let level = self.level(None, &select.from_clause, select.where_clause.as_deref(), &parts);
        self.ctes.truncate(outer);
        level
    }

    /// The values of a column of a query's rows, by its place, if they can become keys of this type; and whether
    /// they are of a condition.
    fn output(&self, select: &SelectStmt, level: &Level, place: usize, key: KeyType) -> Option<(Vec<Source>, bool)> {
        let is_grouped = |node: &Node| matches!(node.node, Some(NodeEnum::GroupingSet(_)));
        // Where a row may be filled with NULLs, its key may be NULL.
        if select.op() != SetOperation::SetopNone
            || select.group_clause.iter().any(is_grouped)
            || !select.from_clause.iter().all(is_inner)
        {
            return None;
        }
        let targets = select.target_list.iter().map(|node| match &node.node {
            Some(NodeEnum::ResTarget(target)) => target.val.as_deref(),
            _ => None,
        });
        let targets = targets.collect::<Option<Vec<_>>>()?;
        if targets.iter().take(place + 1).any(|node| is_star(node)) {
            let ([_], [item]) = (targets.as_slice(), level.items.as_slice()) else { return None };
            return match &item.table {
                Some(table) => Some((level.values(0, key).filter(|_| table.place == place)?, true)),
                None => Some((vec![item.unnested.get(place)?.1.clone()?], false)),
            };
        }
        let node = targets.get(place)?;
        if let Some(value) = source_of(node) {
            return Some((vec![value], false));
        }
        match &node.node {
            Some(NodeEnum::FuncCall(call)) if is_unnest(call) => match call.args.as_slice() {
                [array] => Some((vec![array_of(array)?], false)),
                _ => None,
            },
            Some(NodeEnum::ColumnRef(column)) => match self.keys(level, node, (0, level.items.len())) {
                Keys::Here(keys) => match keys.as_slice() {
                    &[place] => Some((level.values(place, key)?, true)),
                    _ => None,
                },
                _ => Some((vec![level.elements(&names_of(&column.fields))?], false)),
            },
            _ => None,
        }
    }

    fn insert(&mut self, insert: &InsertStmt) {
        self.with(insert.with_clause.as_ref());
        let Some(target) = &insert.relation else { return self.unproved(Reason::Unfamiliar) };
        self.change(target);
        let source = match insert.select_stmt.as_deref().map(|node| node.node.as_ref()) {
            Some(Some(NodeEnum::SelectStmt(select))) => Some(select),
            _ => None,
        };
        let level = source.map(|select| self.select(select));
        if source.is_none() && insert.select_stmt.is_some() {
            self.unproved(Reason::Unfamiliar);
        }
        if let Some(Entry::Sharded(table)) = self.entry(target) {
            let no_value = || Reason::NoValue(target.relname.clone(), table.key.to_string());
            let place = if insert.cols.is_empty() {
                Some(table.place)
            } else {
                insert.cols.iter().position(|column| assigns(column, &table.key))
            };
            let values = place.zip(source.zip(level.as_ref())).and_then(|(place, (rows, level))| {
                let of_row = |row: &Node| match &row.node {
                    Some(NodeEnum::List(list)) => source_of(list.items.get(place)?),
                    _ => None,
                };
                match rows.values_lists.is_empty() {
                    true => self.output(rows, level, place, table.key_type),
                    false => rows.values_lists.iter().map(of_row).collect::<Option<_>>().map(|values| (values, false)),
                }
            });
            match values.filter(|(values, _)| !values.is_empty()) {
                Some((values, is_compared)) => {
                    // Those of a condition have been compared there.
                    if !is_compared {
                        self.compare(table.key_type, &values);
                    }
                    self.needs.push(Need { table: table.clone(), values, stored: true });
                }
                None => self.unproved(no_value()),
            }
            let changes = insert.on_conflict_clause.as_ref().map(|conflict| &conflict.target_list);
            if changes.is_some_and(|changes| changes.iter().any(|item| assigns(item, &table.key))) {
                self.unproved(Reason::KeyChanges(target.relname.clone(), table.key.to_string()));
            }
        }
        let mut parts = vec![returning(insert.returning_clause.as_ref())];
        let mut filters = Vec::new();
        if let Some(conflict) = &insert.on_conflict_clause {
            parts.push(&conflict.target_list);
            filters.extend(conflict.where_clause.as_deref().cloned());
            if let Some(infer) = &conflict.infer {
                parts.push(&infer.index_elems);
                filters.extend(infer.where_clause.as_deref().cloned());
            }
        }
        parts.push(&filters);
        // They name the new row and the old one, of the table that is written.
        self.levels.push(Level::default());
        parts.into_iter().for_each(|part| self.nodes(part));
        self.levels.pop();
    }

    fn need(&mut self, table: &Arc<Table>, values: Vec<Source>) {
        self.needs.push(Need { table: table.clone(), values, stored: false });
    }

    /// Notes values that are compared with a key of this type.
    fn compare(&mut self, key: KeyType, values: &[Source]) {
        for value in values {
            if let Source::Parameter { number, cast, .. } = value.scalar() {
                self.compared.push((*number, key, cast.is_some()));
            }
        }
    }

    /// The relations of one FROM with the conditions on them, and the other parts of their query.
    fn level(&mut self, target: Option<&RangeVar>, from: &[Node], filter: Option<&Node>, parts: &[&[Node]]) -> Level {
        let (mut level, mut collected) = (Level::default(), Collected::default());
        if let Some(target) = target {
            self.relation(&mut level, target, true);
        }
        for item in from {
            self.from(&mut level, &mut collected, item);
        }
        let Collected { mut conditions, later } = collected;
        let all = (0, level.items.len());
        conditions.extend(filter.map(|node| Condition { node, side: Side::All, within: all }));
        for condition in &conditions {
            self.learn(&mut level, condition.node, *condition);
        }
        while level.edges.clone().into_iter().any(|edge| level.pass(edge)) {}
        for item in &level.items {
            let Some(table) = &item.table else { continue };
            match &item.values {
                Some(values) => self.need(&table.clone(), values.clone()),
                None => self.unproved(Reason::NoKey(table.name.to_string(), table.key.to_string())),
            }
        }
        for (before, part) in later {
            let seen = before.and_then(|before| level.items.get(..before));
            if let Some(seen) = seen {
                self.levels.push(Level { items: seen.to_vec(), ..Level::default() });
            }
            match part {
                Later::Query(query) => self.query(query),
                Later::Functions(functions) => self.nodes(functions),
            }
            if seen.is_some() {
                self.levels.pop();
            }
        }
        self.levels.push(level);
        for condition in conditions {
            self.node(condition.node);
        }
        for part in parts {
            self.nodes(part);
        }
        self.levels.pop().unwrap_or_default()
    }

    fn relation(&mut self, level: &mut Level, relation: &RangeVar, is_target: bool) {
        let alias = relation.alias.as_ref();
        let name = alias.map_or(&relation.relname, |alias| &alias.aliasname).clone();
        let mut item = Item { name, table: None, values: None, plain: alias.is_none(), unnested: Vec::new() };
        if is_target || !self.is_cte(relation) {
            let meant = self.catalog.relations(schema_of(relation), &relation.relname).count();
            match self.entry(relation) {
                Some(entry) => {
                    if meant > 1 || relation.relpersistence == "t" {
                        self.unproved(Reason::Ambiguous(relation.relname.clone()));
                    }
                    if matches!(entry, Entry::Reading) {
                        self.sharded = true;
                        self.unproved(Reason::Reading(relation.relname.clone()));
                    }
                    if let Entry::Sharded(table) = entry {
                        self.sharded = true;
                        item.table = Some(table.clone());
                        if alias.is_some_and(|alias| !alias.colnames.is_empty()) {
                            self.unproved(Reason::Unfamiliar);
                        }
                    }
                }
                None if self.map.without_hub => (),
                None => self.unproved(Reason::NotOnShards(relation.relname.clone())),
            }
        }
        level.items.push(item);
    }

    /// An item of FROM: its relations, and the conditions of its joins with the side that each restricts.
    fn from<'n>(&mut self, level: &mut Level, collected: &mut Collected<'n>, item: &'n Node) {
        let before = level.items.len();
        match &item.node {
            Some(NodeEnum::RangeVar(relation)) => self.relation(level, relation, false),
            Some(NodeEnum::JoinExpr(join)) => self.join(level, collected, join),
            Some(NodeEnum::RangeSubselect(sub)) => {
                match sub.subquery.as_deref().and_then(|node| node.node.as_ref()) {
                    Some(query) => collected.later.push((sub.lateral.then_some(before), Later::Query(query))),
                    None => self.unproved(Reason::Unfamiliar),
                }
                let name = sub.alias.as_ref().map(|alias| alias.aliasname.clone()).unwrap_or_default();
                level.items.push(Item { name, table: None, values: None, plain: false, unnested: Vec::new() });
            }
            Some(NodeEnum::RangeFunction(range)) => {
                for function in &range.functions {
                    match &function.node {
                        // Functions may name what stands before them also without LATERAL.
                        Some(NodeEnum::List(list)) => {
                            collected.later.push((Some(before), Later::Functions(&list.items)));
                        }
                        _ => self.unproved(Reason::Unfamiliar),
                    }
                }
                let name = range.alias.as_ref().map(|alias| alias.aliasname.clone()).unwrap_or_default();
                let unnested = unnested(range);
                level.items.push(Item { name, table: None, values: None, plain: false, unnested });
            }
            _ => self.unproved(Reason::Unfamiliar),
        }
    }

    fn join<'n>(&mut self, level: &mut Level, collected: &mut Collected<'n>, join: &'n JoinExpr) {
        let start = level.items.len();
        if let Some(left) = &join.larg {
            self.from(level, collected, left);
        }
        let middle = level.items.len();
        if let Some(right) = &join.rarg {
            self.from(level, collected, right);
        }
        let end = level.items.len();
        // An alias of the join hides the names within.
        if join.is_natural || join.alias.is_some() || join.join_using_alias.is_some() {
            self.unproved(Reason::Unfamiliar);
        }
        let side = match join.jointype() {
            // A join within the side of an outer join that is filled with NULLs restricts that side alone; what it says of
            // its own relations holds for them, and it names no others.
            JoinType::JoinInner => Side::Within(start, end),
            JoinType::JoinLeft => Side::Within(middle, end),
            JoinType::JoinRight => Side::Within(start, middle),
            JoinType::JoinFull => Side::Within(end, end),
            _ => return self.unproved(Reason::Unfamiliar),
        };
        for column in &join.using_clause {
            let Some(NodeEnum::String(column)) = &column.node else { continue };
            let left = level.column(&column.sval, (start, middle));
            let right = level.column(&column.sval, (middle, end));
            level.equal(&left, &right, side);
            // Its type is the one that both have in common: if that is not the key's, values may compare in other ways.
            let keys = match join.jointype() {
                _ if left.is_empty() || right.is_empty() || !level.are_alike(&[&*left, &*right].concat()) => Vec::new(),
                JoinType::JoinRight => right,
                JoinType::JoinFull => [left, right].concat(),
                _ => left,
            };
            level.merged.push(Merged { name: column.sval.clone(), within: (start, end), keys });
        }
        if let Some(node) = &join.quals {
            collected.conditions.push(Condition { node, side, within: (start, end) });
        }
    }

    fn nodes(&mut self, nodes: &[Node]) {
        nodes.iter().for_each(|node| self.node(node));
    }

    fn maybe(&mut self, node: Option<&Node>) {
        if let Some(node) = node {
            self.node(node);
        }
    }

    /// An expression: its subqueries and its functions.
    fn node(&mut self, node: &Node) {
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

    fn window(&mut self, window: &pg_query::protobuf::WindowDef) {
        self.nodes(&window.partition_clause);
        self.nodes(&window.order_clause);
        self.maybe(window.start_offset.as_deref());
        self.maybe(window.end_offset.as_deref());
    }

    fn sublink(&mut self, link: &SubLink) {
        self.maybe(link.testexpr.as_deref());
        match link.subselect.as_deref().and_then(|node| node.node.as_ref()) {
            Some(query) => self.query(query),
            None => self.unproved(Reason::Unfamiliar),
        }
    }

    /// A function: one of PostgreSQL's own that has the same result on each server, an immutable one, or one of the models.
    fn call(&mut self, call: &FuncCall) {
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
    fn learn(&mut self, level: &mut Level, part: &Node, of: Condition<'_>) {
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
    fn any(&mut self, level: &mut Level, parts: &[Node], of: Condition<'_>) {
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

    fn equality(&mut self, level: &mut Level, equality: &AExpr, of: Condition<'_>) {
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
    fn equal(&mut self, level: &mut Level, left: &Node, right: &Node, of: Condition<'_>) {
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
    fn one_of(&mut self, level: &mut Level, left: &Node, items: &[&Node], of: Condition<'_>) {
        if let Keys::Here(here) = self.keys(level, left, of.within) {
            self.values(level, &here, of.side, items);
        }
    }

    /// Restricts keys to values, if these are literals and parameters.
    fn values(&mut self, level: &mut Level, keys: &[usize], side: Side, values: &[&Node]) {
        let Some(values) = values.iter().map(|value| source_of(value)).collect::<Option<Vec<_>>>() else { return };
        self.restrict(level, keys, side, values);
    }

    fn restrict(&mut self, level: &mut Level, keys: &[usize], side: Side, values: Vec<Source>) {
        let key_type = keys.first().and_then(|&key| level.key_type(key));
        if let Some(key) = key_type.filter(|_| !values.is_empty()) {
            self.compare(key, &values);
            level.restrict(keys, side, Some(key), &values);
        }
    }

    /// The keys that a column means, in a condition that can name these relations of its level.
    fn keys(&self, level: &Level, node: &Node, within: (usize, usize)) -> Keys {
        let Some(NodeEnum::ColumnRef(column)) = &node.node else { return Keys::None };
        let fields = names_of(&column.fields);
        let (qualifier, name) = match fields.as_slice() {
            [name] => (None, *name),
            [.., qualifier, name] => (Some((*qualifier, fields.len() == 2)), *name),
            [] => return Keys::None,
        };
        let is_key = |item: &Item| item.table.as_ref().is_some_and(|table| *table.key == *name);
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
                    let key = item.table.as_ref().map(|table| table.key_type);
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
enum Keys {
    /// Keys of the same level, by their places.
    Here(Vec<usize>),
    /// A key of a query around this one, which has these values.
    Outer(KeyType, Vec<Source>),
    None,
}

impl Level {
    fn key_type(&self, place: usize) -> Option<KeyType> {
        self.items.get(place)?.table.as_ref().map(|table| table.key_type)
    }

    /// The values of the key at a place, if it is of this type.
    fn values(&self, place: usize, key: KeyType) -> Option<Vec<Source>> {
        self.items.get(place)?.values.clone().filter(|_| self.key_type(place) == Some(key))
    }

    /// The elements of a column that an `unnest` makes.
    fn elements(&self, fields: &[&str]) -> Option<Source> {
        let (qualifier, name) = match fields {
            [name] if self.items.len() == 1 => (None, name),
            [qualifier, name] => (Some(qualifier), name),
            _ => return None,
        };
        let mut items = self.items.iter().filter(|item| qualifier.is_none_or(|known| known == &item.name));
        let item = items.next().filter(|_| items.next().is_none())?;
        item.unnested.iter().find(|(known, _)| known == name)?.1.clone()
    }

    /// Whether keys are all of one type.
    fn are_alike(&self, keys: &[usize]) -> bool {
        keys.windows(2).all(|pair| matches!(pair, [one, other] if self.key_type(*one) == self.key_type(*other)))
    }

    /// The keys that a column without a qualifier means among the relations of these places: if several, each is NULL or
    /// equal to it.
    fn column(&self, name: &str, (from, to): (usize, usize)) -> Vec<usize> {
        let is_within = |merged: &&Merged| merged.name == name && from <= merged.within.0 && merged.within.1 <= to;
        if let Some(merged) = self.merged.iter().rev().find(is_within) {
            return merged.keys.clone();
        }
        let is_key = |item: &Item| item.table.as_ref().is_some_and(|table| *table.key == *name);
        let keys = self.items.iter().enumerate().skip(from).take(to.saturating_sub(from));
        let keys: Vec<usize> = keys.filter(|(_, item)| is_key(item)).map(|(place, _)| place).collect();
        // The server refuses a name of several.
        if keys.len() == 1 { keys } else { Vec::new() }
    }

    /// Two columns are equal in the rows that a condition lets through.
    fn equal(&mut self, one: &[usize], other: &[usize], side: Side) {
        for (from, to) in [(one, other), (other, one)] {
            let &[from] = from else { continue };
            for &to in to {
                if side.has(to) && self.are_alike(&[from, to]) {
                    self.edges.push((from, to));
                }
            }
        }
    }

    /// Restricts keys of a type to values.
    fn restrict(&mut self, keys: &[usize], side: Side, key_type: Option<KeyType>, values: &[Source]) {
        for &place in keys {
            let Some(item) = self.items.get_mut(place) else { continue };
            let fits = key_type.is_some() && item.table.as_ref().map(|table| table.key_type) == key_type;
            let fewer = item.values.as_ref().is_none_or(|known| known.len() > values.len());
            if fits && fewer && side.has(place) {
                item.values = Some(values.to_vec());
            }
        }
    }

    /// Hands the values of one key to an equal one that has none; whether it did.
    fn pass(&mut self, (from, to): Edge) -> bool {
        let values = self.items.get(from).and_then(|item| item.values.clone());
        match (values, self.items.get_mut(to)) {
            (Some(values), Some(item)) if item.values.is_none() => {
                item.values = Some(values);
                true
            }
            _ => false,
        }
    }
}

/// The value of an expression that is a literal or a parameter.
fn source_of(node: &Node) -> Option<Source> {
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
fn array_of(node: &Node) -> Option<Source> {
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

fn is_unnest(call: &FuncCall) -> bool {
    matches!(names_of(&call.funcname).as_slice(), ["unnest"] | ["pg_catalog", "unnest"])
}

/// Whether an expression is all columns of a query, or of a relation.
fn is_star(node: &Node) -> bool {
    let Some(NodeEnum::ColumnRef(column)) = &node.node else { return false };
    matches!(column.fields.last().and_then(|field| field.node.as_ref()), Some(NodeEnum::AStar(_)))
}

/// Whether an item of FROM has no outer join.
fn is_inner(item: &Node) -> bool {
    match &item.node {
        Some(NodeEnum::JoinExpr(join)) => {
            let sides = [&join.larg, &join.rarg];
            join.jointype() == JoinType::JoinInner && sides.into_iter().flatten().all(|side| is_inner(side))
        }
        _ => true,
    }
}

/// The columns of an `unnest` of arrays in FROM.
fn unnested(range: &RangeFunction) -> Vec<(String, Option<Source>)> {
    let function = match range.functions.as_slice() {
        [Node { node: Some(NodeEnum::List(list)) }] => list.items.first().and_then(|node| node.node.as_ref()),
        _ => None,
    };
    let Some(NodeEnum::FuncCall(call)) = function else { return Vec::new() };
    if !is_unnest(call) {
        return Vec::new();
    }
    let names = range.alias.as_ref().map(|alias| names_of(&alias.colnames)).unwrap_or_default();
    let name = |place: usize| names.get(place).map(|&name| name.to_owned()).unwrap_or_default();
    call.args.iter().enumerate().map(|(place, array)| (name(place), array_of(array))).collect()
}

fn literal(constant: &AConst) -> Option<Source> {
    match constant.val.as_ref().filter(|_| !constant.isnull)? {
        a_const::Val::Ival(value) => Some(Source::Integer(i64::from(value.ival))),
        // Beyond 32 bits; with a point it is numeric.
        a_const::Val::Fval(value) => value.fval.parse().ok().map(Source::Integer),
        a_const::Val::Sval(value) => Some(Source::Untyped(value.sval.clone())),
        _ => None,
    }
}

/// The type of a cast, if keys are compared with it as with their own.
fn type_of(name: &TypeName) -> Option<KeyType> {
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

/// The schema of a relation, if it is named.
fn schema_of(relation: &RangeVar) -> Option<&str> {
    (!relation.schemaname.is_empty()).then_some(relation.schemaname.as_str())
}

/// The strings of a list of names; a node that is none ends up as an empty one, which nothing is called.
fn names_of(nodes: &[Node]) -> Vec<&str> {
    nodes
        .iter()
        .map(|node| match &node.node {
            Some(NodeEnum::String(name)) => name.sval.as_str(),
            _ => "",
        })
        .collect()
}

/// Whether an item of a SET or of a list of columns is this column.
fn assigns(item: &Node, column: &str) -> bool {
    matches!(&item.node, Some(NodeEnum::ResTarget(target)) if target.name == column)
}

fn returning(clause: Option<&ReturningClause>) -> &[Node] {
    clause.map_or(&[], |clause| &clause.exprs)
}

/// The last part of a name that stands as a list.
fn last_name(node: &Node) -> Option<&str> {
    match &node.node {
        Some(NodeEnum::List(list)) => names_of(&list.items).last().copied(),
        _ => None,
    }
}
