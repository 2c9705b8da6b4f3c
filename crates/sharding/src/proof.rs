//! What a statement needs to be of one shard: the tables in it that are sharded, and where the values of their keys stand.
//!
//! The walk knows the forms in which SQL restricts rows, and takes everything else for something that may read anything:
//! a node that is not listed here leaves the statement unproved. Conditions count as PostgreSQL applies them: those of
//! WHERE and of inner joins for all tables of their level; those of an outer join for the side that it fills with NULLs,
//! never for the other. Columns other than keys prove nothing, since their types may compare in other ways.

use std::fmt;
use std::sync::Arc;

use classify::Catalog;
use classify::builtin;
use pg_query::protobuf::{
    AConst, AExpr, AExprKind, BoolExprType, FuncCall, InsertStmt, JoinExpr, JoinType, RangeVar, ReturningClause,
    SelectStmt, SetOperation, SubLink, TypeName, WithClause, a_const,
};
use pg_query::{Node, NodeEnum};

use crate::map::{Entry, KeyType, Map, Table};
use crate::value::{Parameters, Source};

/// Why a statement is not proved to be of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nothing restricts this table to a value of its key (the table, the key).
    NoKey(String, String),
    /// A row of an INSERT has no value for the key that is known beforehand.
    NoValue(String, String),
    /// The key would change.
    KeyChanges(String, String),
    /// This relation is not on the shards.
    NotOnShards(String),
    /// This name means several relations.
    Ambiguous(String),
    /// This function may answer differently on a shard.
    Function(String),
    /// A reference table is written, which the hub does.
    Reference(String),
    /// The statement is none that rows are read or changed by.
    Definition(String),
    /// COPY FROM spreads its rows over the shards.
    CopyFrom(String),
    /// A form of SQL that is not followed.
    Unfamiliar,
    /// The text could not be parsed.
    Unparsable,
    /// The values of the keys are of several shards.
    Several,
    /// The value of a key is NULL, of another type, or written in a way that depends on the session.
    Value,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey(table, key) => {
                write!(f, "no condition restricts table \"{table}\" to a value of its key \"{key}\"")
            }
            Self::NoValue(table, key) => {
                write!(f, "a row for table \"{table}\" has no constant or parameter as its key \"{key}\"")
            }
            Self::KeyChanges(table, key) => write!(f, "the key \"{key}\" of table \"{table}\" would change"),
            Self::NotOnShards(name) => write!(f, "relation \"{name}\" is not on the shards"),
            Self::Ambiguous(name) => write!(f, "several relations are called \"{name}\""),
            Self::Function(name) => write!(f, "function {name} may have another result on a shard"),
            Self::Reference(name) => write!(f, "table \"{name}\" is a reference table, which is written on the hub"),
            Self::Definition(name) => {
                write!(f, "the definition of sharded table \"{name}\" is the same on all servers")
            }
            Self::CopyFrom(name) => write!(f, "COPY spreads its rows of table \"{name}\" over the shards"),
            Self::Unfamiliar => f.write_str("the statement has a form that is not followed"),
            Self::Unparsable => f.write_str("the statement could not be parsed"),
            Self::Several => f.write_str("the values of its keys belong to several shards"),
            Self::Value => f.write_str(
                "the value of a key is NULL, of a type that the key is not compared with, or depends on the session",
            ),
        }
    }
}

impl Reason {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoKey(..) => "add a condition that gives the key a value",
            Self::NoValue(..) => "give the key of each row as a literal or a parameter",
            Self::KeyChanges(..) => "delete the row and insert it with its new key",
            Self::Definition(_) => "run it by howdah_shards.run_on_shards on the hub",
            Self::CopyFrom(_) => "run COPY on the hub, or insert rows in statements of one shard each",
            _ => "write rows of one shard at a time",
        }
    }
}

/// A sharded table of a statement, and the values to one of which its key is restricted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The table.
    pub table: Arc<Table>,
    /// The values; never empty.
    pub values: Vec<Source>,
}

/// What is known of the shard of a statement before its values are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The tables whose keys decide, empty if no sharded table is named; or why it is not proved to be of one shard.
    pub needs: Result<Vec<Need>, Reason>,
    /// Whether it changes rows of a sharded table, or their definition.
    pub writes: bool,
    /// If no sharded table is named: why it can run on the hub alone, not on a shard that a transaction is on.
    pub hub: Option<Reason>,
}

impl Proof {
    /// That of a statement of which nothing is known.
    pub fn unproved(reason: Reason) -> Self {
        Self { needs: Err(reason), writes: false, hub: None }
    }

    /// The shard of one execution, by its number in the map; none if no sharded table is in it, so that the hub runs it.
    ///
    /// # Errors
    /// Why it is not proved to be of one shard.
    pub fn shard(&self, parameters: &impl Parameters) -> Result<Option<usize>, Reason> {
        let needs = self.needs.as_ref().map_err(Reason::clone)?;
        let mut shard = None;
        for need in needs {
            for value in &need.values {
                let this = value.shard(&need.table, parameters).ok_or(Reason::Value)?;
                if shard.is_some_and(|shard| shard != this) {
                    return Err(Reason::Several);
                }
                shard = Some(this);
            }
        }
        Ok(shard)
    }
}

/// What the statements of a text need to be of one shard together. `catalog` is that of the hub.
pub fn prove(sql: &str, map: &Map, catalog: &Catalog) -> Proof {
    let mut prover = Prover::new(map, catalog);
    match pg_query::parse(sql, 0) {
        Ok(parsed) => {
            for raw in &parsed.protobuf.stmts {
                prover.statement(raw.stmt.as_deref());
            }
        }
        Err(_) => prover.unproved(Reason::Unparsable),
    }
    prover.proof()
}

/// A relation of a level of a query.
struct Item {
    /// The name that columns are qualified by.
    name: String,
    /// The sharded table, if it is one, and if its columns have their own names.
    table: Option<Arc<Table>>,
    /// The values of its key.
    values: Option<Vec<Source>>,
    /// Whether its schema was named, so that columns may be qualified by that too.
    plain: bool,
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

/// The relations of one FROM, and the equalities between their keys.
#[derive(Default)]
struct Level {
    items: Vec<Item>,
    edges: Vec<Edge>,
}

struct Prover<'a> {
    map: &'a Map,
    catalog: &'a Catalog,
    needs: Vec<Need>,
    reason: Option<Reason>,
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
            sharded: false,
            writes: false,
            levels: Vec::new(),
            ctes: Vec::new(),
            uses: Vec::new(),
            compared: Vec::new(),
        }
    }

    fn unproved(&mut self, reason: Reason) {
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
                if let Source::Parameter { number, cast, certain: is_certain } = value {
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
        Proof { needs, writes: self.writes, hub }
    }

    /// A statement that stands by itself.
    fn statement(&mut self, node: Option<&Node>) {
        let Some(node) = node.and_then(|node| node.node.as_ref()) else { return };
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
                if let Some(relation) = &copy.relation
                    && let Some(Entry::Sharded(table)) = self.table(relation)
                {
                    self.sharded = true;
                    self.writes |= copy.is_from;
                    self.unproved(if copy.is_from {
                        Reason::CopyFrom(relation.relname.clone())
                    } else {
                        Reason::NoKey(relation.relname.clone(), table.key.to_string())
                    });
                }
            }
            // Their tables are none whose rows are read.
            NodeEnum::TransactionStmt(_)
            | NodeEnum::VariableSetStmt(_)
            | NodeEnum::VariableShowStmt(_)
            | NodeEnum::DiscardStmt(_)
            | NodeEnum::DeallocateStmt(_)
            | NodeEnum::FetchStmt(_)
            | NodeEnum::ClosePortalStmt(_) => (),
            _ => self.definition(node),
        }
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
    }

    /// The entry of a relation, if it is not a common table expression.
    fn table(&self, relation: &RangeVar) -> Option<&'a Entry> {
        let schema = (!relation.schemaname.is_empty()).then_some(relation.schemaname.as_str());
        if schema.is_none() && self.ctes.contains(&relation.relname) {
            return None;
        }
        self.map.tables(schema, &relation.relname).next()
    }

    /// A query or a change of rows, at any depth.
    fn query(&mut self, node: &NodeEnum) {
        let outer = self.ctes.len();
        match node {
            NodeEnum::SelectStmt(select) => self.select(select),
            NodeEnum::InsertStmt(insert) => self.insert(insert),
            NodeEnum::UpdateStmt(update) => {
                self.with(update.with_clause.as_ref());
                let Some(target) = &update.relation else { return self.unproved(Reason::Unfamiliar) };
                if let Some(Entry::Sharded(table)) = self.table(target)
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
        let schema = (!target.schemaname.is_empty()).then_some(target.schemaname.as_str());
        if self.catalog.relations(schema, &target.relname).count() > 1 {
            self.unproved(Reason::Ambiguous(target.relname.clone()));
        }
        match self.table(target) {
            Some(Entry::Sharded(_)) => (self.sharded, self.writes) = (true, true),
            Some(Entry::Reference) => self.unproved(Reason::Reference(target.relname.clone())),
            None => self.unproved(Reason::NotOnShards(target.relname.clone())),
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

    fn select(&mut self, select: &SelectStmt) {
        let outer = self.ctes.len();
        self.with(select.with_clause.as_ref());
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
        self.level(None, &select.from_clause, select.where_clause.as_deref(), &parts);
        self.ctes.truncate(outer);
    }

    fn insert(&mut self, insert: &InsertStmt) {
        self.with(insert.with_clause.as_ref());
        let Some(target) = &insert.relation else { return self.unproved(Reason::Unfamiliar) };
        self.change(target);
        let source = match insert.select_stmt.as_deref().map(|node| node.node.as_ref()) {
            Some(Some(NodeEnum::SelectStmt(select))) => Some(select),
            _ => None,
        };
        if let Some(Entry::Sharded(table)) = self.table(target) {
            let no_value = || Reason::NoValue(target.relname.clone(), table.key.to_string());
            let place = if insert.cols.is_empty() {
                Some(table.place)
            } else {
                insert.cols.iter().position(|column| assigns(column, &table.key))
            };
            let rows = source.filter(|select| !select.values_lists.is_empty());
            let values = place.zip(rows).and_then(|(place, rows)| {
                let of_row = |row: &Node| match &row.node {
                    Some(NodeEnum::List(list)) => source_of(list.items.get(place)?),
                    _ => None,
                };
                rows.values_lists.iter().map(of_row).collect::<Option<Vec<_>>>()
            });
            match values.filter(|values| !values.is_empty()) {
                Some(values) => {
                    self.compare(table.key_type, &values);
                    self.need(table, values);
                }
                // The key of rows that a query gives is not followed.
                None => self.unproved(no_value()),
            }
            let changes = insert.on_conflict_clause.as_ref().map(|conflict| &conflict.target_list);
            if changes.is_some_and(|changes| changes.iter().any(|item| assigns(item, &table.key))) {
                self.unproved(Reason::KeyChanges(target.relname.clone(), table.key.to_string()));
            }
        }
        if let Some(select) = source {
            self.select(select);
        } else if insert.select_stmt.is_some() {
            self.unproved(Reason::Unfamiliar);
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
        self.needs.push(Need { table: table.clone(), values });
    }

    /// Notes values that are compared with a key of this type.
    fn compare(&mut self, key: KeyType, values: &[Source]) {
        for value in values {
            if let Source::Parameter { number, cast, .. } = value {
                self.compared.push((*number, key, cast.is_some()));
            }
        }
    }

    /// The relations of one FROM with the conditions on them, and the other parts of their query.
    fn level(&mut self, target: Option<&RangeVar>, from: &[Node], filter: Option<&Node>, parts: &[&[Node]]) {
        let mut level = Level::default();
        let mut conditions = Vec::new();
        if let Some(target) = target {
            self.relation(&mut level, target);
        }
        for item in from {
            self.from(&mut level, &mut conditions, item);
        }
        conditions.extend(filter.map(|filter| (filter, Side::All)));
        for &(condition, side) in &conditions {
            self.learn(&mut level, condition, side);
        }
        while level.edges.clone().into_iter().any(|edge| level.pass(edge)) {}
        for item in &level.items {
            let Some(table) = &item.table else { continue };
            match &item.values {
                Some(values) => self.need(&table.clone(), values.clone()),
                None => self.unproved(Reason::NoKey(table.name.to_string(), table.key.to_string())),
            }
        }
        self.levels.push(level);
        for (condition, _) in conditions {
            self.node(condition);
        }
        for part in parts {
            self.nodes(part);
        }
        self.levels.pop();
    }

    fn relation(&mut self, level: &mut Level, relation: &RangeVar) {
        let alias = relation.alias.as_ref();
        let name = alias.map_or(&relation.relname, |alias| &alias.aliasname).clone();
        let schema = (!relation.schemaname.is_empty()).then_some(relation.schemaname.as_str());
        let is_cte = schema.is_none() && self.ctes.contains(&relation.relname);
        let mut item = Item { name, table: None, values: None, plain: alias.is_none() };
        if !is_cte {
            let meant = self.catalog.relations(schema, &relation.relname).count();
            match self.table(relation) {
                Some(entry) => {
                    if meant > 1 || relation.relpersistence == "t" {
                        self.unproved(Reason::Ambiguous(relation.relname.clone()));
                    }
                    if let Entry::Sharded(table) = entry {
                        self.sharded = true;
                        item.table = Some(table.clone());
                        if alias.is_some_and(|alias| !alias.colnames.is_empty()) {
                            self.unproved(Reason::Unfamiliar);
                        }
                    }
                }
                None => self.unproved(Reason::NotOnShards(relation.relname.clone())),
            }
        }
        level.items.push(item);
    }

    /// An item of FROM: its relations, and the conditions of its joins with the side that each restricts.
    fn from<'n>(&mut self, level: &mut Level, conditions: &mut Vec<(&'n Node, Side)>, item: &'n Node) {
        match &item.node {
            Some(NodeEnum::RangeVar(relation)) => self.relation(level, relation),
            Some(NodeEnum::JoinExpr(join)) => self.join(level, conditions, join),
            Some(NodeEnum::RangeSubselect(sub)) => {
                match sub.subquery.as_deref().and_then(|node| node.node.as_ref()) {
                    // It may be LATERAL, but names of this level prove nothing in it.
                    Some(query) => self.query(query),
                    None => self.unproved(Reason::Unfamiliar),
                }
                let name = sub.alias.as_ref().map(|alias| alias.aliasname.clone()).unwrap_or_default();
                level.items.push(Item { name, table: None, values: None, plain: false });
            }
            Some(NodeEnum::RangeFunction(range)) => {
                for function in &range.functions {
                    match &function.node {
                        Some(NodeEnum::List(list)) => self.nodes(&list.items),
                        _ => self.unproved(Reason::Unfamiliar),
                    }
                }
                let name = range.alias.as_ref().map(|alias| alias.aliasname.clone()).unwrap_or_default();
                level.items.push(Item { name, table: None, values: None, plain: false });
            }
            _ => self.unproved(Reason::Unfamiliar),
        }
    }

    fn join<'n>(&mut self, level: &mut Level, conditions: &mut Vec<(&'n Node, Side)>, join: &'n JoinExpr) {
        let start = level.items.len();
        if let Some(left) = &join.larg {
            self.from(level, conditions, left);
        }
        let middle = level.items.len();
        if let Some(right) = &join.rarg {
            self.from(level, conditions, right);
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
            let has = |place: &usize| {
                let table = level.items.get(*place).and_then(|item| item.table.as_ref());
                table.is_some_and(|table| *table.key == *column.sval)
            };
            let left: Vec<usize> = (start..middle).filter(has).collect();
            let right: Vec<usize> = (middle..end).filter(has).collect();
            for &one in &left {
                for &other in &right {
                    level.equal(one, other, side);
                }
            }
        }
        if let Some(condition) = &join.quals {
            conditions.push((condition, side));
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
            NodeEnum::SqlvalueFunction(_) => (),
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

    /// A function: one of PostgreSQL's own that has the same result on each server, or an immutable one.
    fn call(&mut self, call: &FuncCall) {
        let parts = names_of(&call.funcname);
        let (schema, name) = match parts.as_slice() {
            [name] => (None, *name),
            [.., schema, name] => (Some(*schema), *name),
            [] => return self.unproved(Reason::Unfamiliar),
        };
        let same = self.catalog.function(schema, name).is_some_and(|function| {
            let volatile = function.volatility == classify::catalog::Volatility::Volatile;
            let stable = function.system && builtin::act(name).is_none();
            function.volatility == classify::catalog::Volatility::Immutable
                || stable && !classify::server_state::function(name) && (!volatile || builtin::reads(name))
        });
        if !same {
            self.unproved(Reason::Function(parts.join(".")));
        }
        self.nodes(&call.args);
        self.nodes(&call.agg_order);
        self.maybe(call.agg_filter.as_deref());
        if let Some(window) = &call.over {
            self.window(window);
        }
    }

    /// Takes what a condition says of keys: the parts of its AND that are `key = value`, `key = key` or `key IN (values)`.
    fn learn(&mut self, level: &mut Level, condition: &Node, side: Side) {
        match &condition.node {
            Some(NodeEnum::BoolExpr(all)) if all.boolop() == BoolExprType::AndExpr => {
                for part in &all.args {
                    self.learn(level, part, side);
                }
            }
            Some(NodeEnum::AExpr(equality)) => self.equality(level, equality, side),
            _ => (),
        }
    }

    fn equality(&mut self, level: &mut Level, equality: &AExpr, side: Side) {
        let name = names_of(&equality.name);
        if !matches!(name.as_slice(), ["="] | ["pg_catalog", "="]) {
            return;
        }
        let (Some(left), Some(right)) = (equality.lexpr.as_deref(), equality.rexpr.as_deref()) else { return };
        match equality.kind() {
            AExprKind::AexprOp => {
                let (one, other) = (self.keys(level, left), self.keys(level, right));
                match (one, other) {
                    (Keys::Here(one), Keys::Here(other)) => {
                        if let (Some(&one), Some(&other)) = (one.first(), other.first()) {
                            level.equal(one, other, side);
                        }
                    }
                    (Keys::Here(here), Keys::Outer(key, values)) | (Keys::Outer(key, values), Keys::Here(here)) => {
                        level.restrict(&here, side, Some(key), &values);
                    }
                    (Keys::Here(here), Keys::None) => self.values(level, &here, side, &[right]),
                    (Keys::None, Keys::Here(here)) => self.values(level, &here, side, &[left]),
                    _ => (),
                }
            }
            AExprKind::AexprIn | AExprKind::AexprOpAny => {
                let items: Vec<&Node> = match &right.node {
                    Some(NodeEnum::List(list)) => list.items.iter().collect(),
                    Some(NodeEnum::AArrayExpr(array)) => array.elements.iter().collect(),
                    _ => return,
                };
                if let Keys::Here(here) = self.keys(level, left) {
                    self.values(level, &here, side, &items);
                }
            }
            _ => (),
        }
    }

    /// Restricts keys to values, if these are literals and parameters.
    fn values(&mut self, level: &mut Level, keys: &[usize], side: Side, values: &[&Node]) {
        let Some(values) = values.iter().map(|value| source_of(value)).collect::<Option<Vec<_>>>() else { return };
        let table = keys.first().and_then(|&key| level.items.get(key)).and_then(|item| item.table.as_ref());
        if let Some(key) = table.map(|table| table.key_type).filter(|_| !values.is_empty()) {
            self.compare(key, &values);
            level.restrict(keys, side, Some(key), &values);
        }
    }

    /// The keys that a column means.
    fn keys(&self, level: &Level, node: &Node) -> Keys {
        let Some(NodeEnum::ColumnRef(column)) = &node.node else { return Keys::None };
        let fields = names_of(&column.fields);
        let (qualifier, name) = match fields.as_slice() {
            [name] => (None, *name),
            [.., qualifier, name] => (Some((*qualifier, fields.len() == 2)), *name),
            [] => return Keys::None,
        };
        let is_key = |item: &Item| item.table.as_ref().is_some_and(|table| *table.key == *name);
        let Some((qualifier, short)) = qualifier else {
            // Several are the columns of one USING, or the server refuses the name.
            let here = level.items.iter().enumerate().filter(|(_, item)| is_key(item));
            return Keys::Here(here.map(|(place, _)| place).collect());
        };
        let named = |item: &Item| item.name == qualifier && (short || item.plain);
        let mut here = level.items.iter().enumerate().filter(|(_, item)| named(item));
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
    /// Two keys are equal in the rows that a condition lets through.
    fn equal(&mut self, one: usize, other: usize, side: Side) {
        let key = |place: usize| self.items.get(place).and_then(|item| item.table.as_ref()).map(|table| table.key_type);
        if key(one) != key(other) {
            return;
        }
        if side.has(other) {
            self.edges.push((one, other));
        }
        if side.has(one) {
            self.edges.push((other, one));
        }
    }

    /// Restricts keys of a type to values.
    fn restrict(&mut self, keys: &[usize], side: Side, key_type: Option<KeyType>, values: &[Source]) {
        for &place in keys {
            let Some(item) = self.items.get_mut(place) else { continue };
            let fits = item.table.as_ref().map(|table| table.key_type) == key_type;
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
