//! The walk that proves what a statement needs to be of one shard ([`Proof`]).
//!
//! The walk knows the forms in which SQL restricts rows, and takes everything else for something that may read anything:
//! a node that is not listed here leaves the statement unproved. Conditions count as PostgreSQL applies them: those of
//! WHERE and of inner joins for all tables of their level; those of an outer join for the side that it fills with NULLs,
//! never for the other. Columns other than keys prove nothing, since their types may compare in other ways.

mod expressions;
mod from;
mod insert;

use std::sync::Arc;

use classify::Catalog;
use pg_query::protobuf::{
    CreateTableAsStmt, DeleteStmt, RangeVar, ReturningClause, SelectStmt, SetOperation, TransactionStmt,
    TransactionStmtKind, UpdateStmt, WithClause,
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
#[derive(Clone, Default)]
struct Item {
    /// The name that columns are qualified by.
    name: String,
    /// The sharded table, if it is one, and if its columns have their own names.
    table: Option<Arc<Table>>,
    /// The column that is its key; of a query, the one that is a key which has values.
    key: Option<Key>,
    /// The values of its key.
    values: Option<Vec<Source>>,
    /// Whether its schema was named, so that columns may be qualified by that too.
    plain: bool,
    /// The columns of an `unnest`, with the elements that each has.
    unnested: Vec<(String, Option<Source>)>,
}

/// A column that is a key.
#[derive(Clone)]
struct Key {
    name: String,
    key_type: KeyType,
    /// Its place among the columns, if that is known.
    place: Option<usize>,
}

/// A column of a query that is never NULL and always one of these values.
type Restricted = (Key, Vec<Source>);

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
    /// A subquery of FROM that is LATERAL.
    Query(&'n NodeEnum),
    /// The functions of FROM.
    Functions(&'n [Node]),
}

/// What the walk over a FROM collects: conditions; and queries and functions with the number of relations before them,
/// which they may name.
#[derive(Default)]
struct Collected<'n> {
    conditions: Vec<Condition<'n>>,
    later: Vec<(usize, Later<'n>)>,
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
    /// The common table expressions in scope, with the key that each has.
    ctes: Vec<(String, Option<Restricted>)>,
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

    fn unfamiliar(&mut self) -> Option<Restricted> {
        self.unproved(Reason::Unfamiliar);
        None
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
            | NodeEnum::MergeStmt(_) => drop(self.query(node)),
            NodeEnum::ExplainStmt(explain) => self.statement(explain.query.as_deref()),
            NodeEnum::DeclareCursorStmt(declare) => self.statement(declare.query.as_deref()),
            NodeEnum::CopyStmt(copy) => {
                self.statement(copy.query.as_deref());
                if let Some(relation) = &copy.relation {
                    self.copy(relation, copy.is_from);
                }
            }
            // A prepared transaction is on the server where it was prepared, and would be looked for on the hub.
            NodeEnum::TransactionStmt(transaction) if is_two_phase(transaction) && !self.map.without_hub => {
                self.unproved(Reason::Kind);
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
        self.cte(relation).is_some()
    }

    /// The key, if it has one, of the common table expression that a relation is.
    fn cte(&self, relation: &RangeVar) -> Option<&Option<Restricted>> {
        let is_meant = |(name, _): &&(String, Option<Restricted>)| *name == relation.relname;
        let found = self.ctes.iter().rfind(is_meant).filter(|_| relation.schemaname.is_empty())?;
        Some(&found.1)
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

    /// A query or a change of rows, at any depth; gives the column of its rows that is a key with values.
    fn query(&mut self, node: &NodeEnum) -> Option<Restricted> {
        let outer = self.ctes.len();
        let key = match node {
            NodeEnum::SelectStmt(select) => {
                let level = self.select(select);
                let is_grouped = |node: &Node| matches!(node.node, Some(NodeEnum::GroupingSet(_)));
                let is_plain = select.op() == SetOperation::SetopNone && !select.group_clause.iter().any(is_grouped);
                is_plain.then(|| self.restricted(&level, &select.target_list, &select.from_clause)).flatten()
            }
            NodeEnum::InsertStmt(insert) => self.insert(insert),
            NodeEnum::UpdateStmt(update) => self.update(update),
            NodeEnum::DeleteStmt(delete) => self.delete(delete),
            NodeEnum::MergeStmt(merge) => {
                if let Some(target) = &merge.relation {
                    self.change(target);
                }
                self.unfamiliar()
            }
            _ => self.unfamiliar(),
        };
        self.ctes.truncate(outer);
        key
    }

    fn update(&mut self, update: &UpdateStmt) -> Option<Restricted> {
        self.with(update.with_clause.as_ref());
        let Some(target) = &update.relation else { return self.unfamiliar() };
        if let Some(Entry::Sharded(table)) = self.entry(target)
            && update.target_list.iter().any(|item| assigns(item, &table.key))
        {
            self.unproved(Reason::KeyChanges(target.relname.clone(), table.key.to_string()));
        }
        self.change(target);
        let parts = [&update.target_list, returning(update.returning_clause.as_ref())];
        let level = self.level(Some(target), &update.from_clause, update.where_clause.as_deref(), &parts);
        self.restricted(&level, returning(update.returning_clause.as_ref()), &update.from_clause)
    }

    fn delete(&mut self, delete: &DeleteStmt) -> Option<Restricted> {
        self.with(delete.with_clause.as_ref());
        let Some(target) = &delete.relation else { return self.unfamiliar() };
        self.change(target);
        let parts = [returning(delete.returning_clause.as_ref())];
        let level = self.level(Some(target), &delete.using_clause, delete.where_clause.as_deref(), &parts);
        self.restricted(&level, returning(delete.returning_clause.as_ref()), &delete.using_clause)
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
            self.ctes.extend(ctes().map(|cte| (cte.ctename.clone(), None)));
        }
        for cte in ctes() {
            let key = match cte.ctequery.as_deref().and_then(|node| node.node.as_ref()) {
                Some(query) => self.query(query),
                None => self.unfamiliar(),
            };
            if cte.cycle_clause.is_some() || cte.search_clause.is_some() {
                self.unproved(Reason::Unfamiliar);
            }
            if !with.recursive {
                self.ctes.push((cte.ctename.clone(), renamed(key, &cte.aliascolnames)));
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
}

impl Level {
    fn key_type(&self, place: usize) -> Option<KeyType> {
        self.items.get(place)?.key.as_ref().map(|key| key.key_type)
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
        let is_key = |item: &Item| item.key.as_ref().is_some_and(|key| key.name == name);
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
            let fits = key_type.is_some() && item.key.as_ref().map(|key| key.key_type) == key_type;
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

fn is_two_phase(transaction: &TransactionStmt) -> bool {
    use TransactionStmtKind::{TransStmtCommitPrepared, TransStmtPrepare, TransStmtRollbackPrepared};
    matches!(transaction.kind(), TransStmtPrepare | TransStmtCommitPrepared | TransStmtRollbackPrepared)
}

/// The key of a relation whose columns have these names instead of their own, the first ones if there are fewer.
fn renamed(key: Option<Restricted>, names: &[Node]) -> Option<Restricted> {
    let (mut key, values) = key?;
    if !names.is_empty()
        && let Some(&name) = names_of(names).get(key.place?)
    {
        name.clone_into(&mut key.name);
    }
    Some((key, values))
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
