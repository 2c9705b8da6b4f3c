//! FROM: the relations of a query level, and the conditions of their joins.

use pg_query::protobuf::{Alias, JoinExpr, JoinType, RangeFunction, RangeVar};
use pg_query::{Node, NodeEnum};

use super::expressions::{array_of, is_unnest};
use super::{
    Collected, Condition, Item, Key, Later, Level, Merged, Prover, Restricted, Side, names_of, renamed, schema_of,
};
use crate::map::{Entry, Table};
use crate::proof::Reason;
use crate::value::Source;

impl Prover<'_> {
    /// The relations of one FROM with the conditions on them, and the other parts of their query.
    pub(super) fn level(
        &mut self,
        target: Option<&RangeVar>,
        from: &[Node],
        filter: Option<&Node>,
        parts: &[&[Node]],
    ) -> Level {
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
            let seen = level.items.get(..before).unwrap_or_default();
            self.levels.push(Level { items: seen.to_vec(), ..Level::default() });
            match part {
                Later::Query(query) => drop(self.query(query)),
                Later::Functions(functions) => self.nodes(functions),
            }
            self.levels.pop();
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

    pub(super) fn relation(&mut self, level: &mut Level, relation: &RangeVar, is_target: bool) {
        let alias = relation.alias.as_ref();
        let name = alias.map_or(&relation.relname, |alias| &alias.aliasname).clone();
        let mut item = Item { name, plain: alias.is_none(), ..Item::default() };
        if let Some(key) = self.cte(relation).filter(|_| !is_target) {
            item.set_key(key.clone(), alias);
        } else {
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
                        item.key = Some(Key::of(table));
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
    pub(super) fn from<'n>(&mut self, level: &mut Level, collected: &mut Collected<'n>, item: &'n Node) {
        let before = level.items.len();
        match &item.node {
            Some(NodeEnum::RangeVar(relation)) => self.relation(level, relation, false),
            Some(NodeEnum::JoinExpr(join)) => self.join(level, collected, join),
            Some(NodeEnum::RangeSubselect(sub)) => {
                let key = match sub.subquery.as_deref().and_then(|node| node.node.as_ref()) {
                    Some(query) if sub.lateral => {
                        collected.later.push((before, Later::Query(query)));
                        None
                    }
                    Some(query) => self.query(query),
                    None => self.unfamiliar(),
                };
                let name = sub.alias.as_ref().map(|alias| alias.aliasname.clone()).unwrap_or_default();
                let mut item = Item { name, ..Item::default() };
                item.set_key(key, sub.alias.as_ref());
                level.items.push(item);
            }
            Some(NodeEnum::RangeFunction(range)) => {
                for function in &range.functions {
                    match &function.node {
                        // Functions may name what stands before them also without LATERAL.
                        Some(NodeEnum::List(list)) => {
                            collected.later.push((before, Later::Functions(&list.items)));
                        }
                        _ => self.unproved(Reason::Unfamiliar),
                    }
                }
                let name = range.alias.as_ref().map(|alias| alias.aliasname.clone()).unwrap_or_default();
                let unnested = unnested(range);
                level.items.push(Item { name, unnested, ..Item::default() });
            }
            _ => self.unproved(Reason::Unfamiliar),
        }
    }

    pub(super) fn join<'n>(&mut self, level: &mut Level, collected: &mut Collected<'n>, join: &'n JoinExpr) {
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
}

impl Key {
    fn of(table: &Table) -> Self {
        Self { name: table.key.to_string(), key_type: table.key_type, place: Some(table.place) }
    }
}

impl Item {
    /// The rows of a table that an INSERT has stored with these values as their keys.
    pub(super) fn of(target: &RangeVar, table: &Table, values: Vec<Source>) -> Self {
        let name = target.alias.as_ref().map_or(&target.relname, |alias| &alias.aliasname).clone();
        Self { name, key: Some(Key::of(table)), values: Some(values), plain: target.alias.is_none(), ..Self::default() }
    }

    /// Has a column of a query be its key.
    fn set_key(&mut self, key: Option<Restricted>, alias: Option<&Alias>) {
        let names = alias.map_or(&[][..], |alias| &alias.colnames);
        (self.key, self.values) = renamed(key, names).unzip();
    }
}

/// Whether an item of FROM has no outer join.
pub(super) fn is_inner(item: &Node) -> bool {
    match &item.node {
        Some(NodeEnum::JoinExpr(join)) => {
            let sides = [&join.larg, &join.rarg];
            join.jointype() == JoinType::JoinInner && sides.into_iter().flatten().all(|side| is_inner(side))
        }
        _ => true,
    }
}

/// The columns of an `unnest` of arrays in FROM.
pub(super) fn unnested(range: &RangeFunction) -> Vec<(String, Option<Source>)> {
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
