//! INSERT: the keys of the new rows.

use pg_query::protobuf::{InsertStmt, SelectStmt, SetOperation};
use pg_query::{Node, NodeEnum};

use super::expressions::{Keys, array_of, is_unnest, source_of};
use super::from::is_inner;
use super::{Item, Key, Level, Prover, Restricted, assigns, names_of, returning};
use crate::map::{Entry, KeyType};
use crate::proof::{Need, Reason};
use crate::value::Source;

impl Prover<'_> {
    /// The values of a column of a query's rows, by its place, if they can become keys of this type; and whether
    /// they are of a condition.
    pub(super) fn output(
        &self,
        select: &SelectStmt,
        level: &Level,
        place: usize,
        key: KeyType,
    ) -> Option<(Vec<Source>, bool)> {
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
            return match &item.key {
                Some(column) => Some((level.values(0, key).filter(|_| column.place == Some(place))?, true)),
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

    /// The first column of a query's rows that is a key which has values, if a row cannot have NULL there. Where a column
    /// that is not seen here has the same name, the server refuses to have it named.
    pub(super) fn restricted(&self, level: &Level, targets: &[Node], from: &[Node]) -> Option<Restricted> {
        if !from.iter().all(is_inner) {
            return None;
        }
        let all = (0, level.items.len());
        let mut has_star = false;
        targets.iter().enumerate().find_map(|(place, target)| {
            let Some(NodeEnum::ResTarget(target)) = &target.node else { return None };
            let node = target.val.as_deref()?;
            let Some(NodeEnum::ColumnRef(column)) = &node.node else { return None };
            let fields = names_of(&column.fields);
            if is_star(node) {
                has_star = true;
                return level.of_star(&fields, place);
            }
            let Keys::Here(keys) = self.keys(level, node, all) else { return None };
            let &[key] = keys.as_slice() else { return None };
            let name = if target.name.is_empty() { fields.last()? } else { target.name.as_str() };
            level.restricted(key, name, (!has_star).then_some(place))
        })
    }

    pub(super) fn insert(&mut self, insert: &InsertStmt) -> Option<Restricted> {
        self.with(insert.with_clause.as_ref());
        let Some(target) = &insert.relation else { return self.unfamiliar() };
        self.change(target);
        let mut inserted = Level::default();
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
                    inserted.items.push(Item::of(target, table, values.clone()));
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
        self.restricted(&inserted, returning(insert.returning_clause.as_ref()), &[])
    }
}

impl Level {
    /// The key at a place, under the name and at the place that it has in the rows of the query; none without values.
    fn restricted(&self, key: usize, name: &str, place: Option<usize>) -> Option<Restricted> {
        let key_type = self.key_type(key)?;
        Some((Key { name: name.to_owned(), key_type, place }, self.values(key, key_type)?))
    }

    /// A key with values among all columns of the level, or of one of its relations, which stand from this place on.
    fn of_star(&self, fields: &[&str], place: usize) -> Option<Restricted> {
        let mut items = self.items.iter().enumerate();
        items.find_map(|(at, item)| {
            let key = item.key.as_ref()?;
            let is_meant = match fields {
                [_] => self.column(&key.name, (0, self.items.len())) == [at],
                [name, _] => *name == item.name && self.items.iter().filter(|other| other.name == *name).count() == 1,
                _ => false,
            };
            let place = (place == 0 && (fields.len() == 2 || self.items.len() == 1)).then_some(key.place).flatten();
            is_meant.then(|| self.restricted(at, &key.name, place)).flatten()
        })
    }
}

/// Whether an expression is all columns of a query, or of a relation.
pub(super) fn is_star(node: &Node) -> bool {
    let Some(NodeEnum::ColumnRef(column)) = &node.node else { return false };
    matches!(column.fields.last().and_then(|field| field.node.as_ref()), Some(NodeEnum::AStar(_)))
}
