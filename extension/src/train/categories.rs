//! Values that are told apart, not measured: of a text column, or of the label of a classification.

use std::collections::HashMap;
use std::hash::Hash;

use serde_json::{Value, json};

/// Codes in the order of first appearance. The order that is stored, and that a model is trained with, is the sorted
/// one, which is known only at the end: [`Categories::sort`].
#[derive(Debug)]
pub struct Categories<K> {
    codes: HashMap<K, u32>,
    /// By code: the value, its text, and how many rows have it.
    values: Vec<Category<K>>,
    last: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Category<K> {
    pub key: K,
    pub text: String,
    pub members: u64,
    /// That of its appearance; past all others where it has not appeared.
    pub code: u32,
}

/// Categories in their final order.
#[derive(Debug, Clone)]
pub struct Sorted<K> {
    pub values: Vec<Category<K>>,
    /// By code of appearance: the final index, as a feature or label.
    pub remap: Vec<f32>,
    /// Categories of rows that are not trained on.
    left_out: Vec<Category<K>>,
}

impl<K: Hash + Eq + Clone> Categories<K> {
    pub fn new() -> Categories<K> {
        Categories { codes: HashMap::new(), values: Vec::new(), last: 0 }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The category of that code.
    pub fn get(&self, code: usize) -> Option<&Category<K>> {
        self.values.get(code)
    }

    /// The code of a value and one member more; `text` is called for a new value only. Runs of equal values, which are
    /// common in tables, cost one comparison.
    pub fn add<Q, E>(
        &mut self,
        value: &Q,
        key: impl FnOnce(&Q) -> K,
        text: impl FnOnce() -> Result<String, E>,
    ) -> Result<u32, E>
    where
        Q: Hash + Eq + ?Sized,
        K: std::borrow::Borrow<Q>,
    {
        let code = match self.values.get(self.last as usize) {
            Some(last) if last.key.borrow() == value => self.last,
            _ => match self.codes.get(value) {
                Some(code) => *code,
                None => {
                    let code = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
                    let key = key(value);
                    self.values.push(Category { key: key.clone(), text: text()?, members: 0, code });
                    self.codes.insert(key, code);
                    code
                }
            },
        };
        self.last = code;
        if let Some(category) = self.values.get_mut(code as usize) {
            category.members += 1;
        }
        Ok(code)
    }

    /// Forgets the category that came last, which has had one row.
    pub fn forget_last(&mut self) {
        if let Some(last) = self.values.pop() {
            self.codes.remove(&last.key);
            self.last = 0;
        }
    }

    /// In the order of `compare`.
    pub fn sort(self, compare: impl Fn(&Category<K>, &Category<K>) -> std::cmp::Ordering) -> Sorted<K> {
        let mut order: Vec<(usize, Category<K>)> = self.values.into_iter().enumerate().collect();
        order.sort_by(|(_, a), (_, b)| compare(a, b));
        let mut remap = vec![0.0; order.len()];
        for (index, (code, _)) in order.iter().enumerate() {
            if let Some(target) = remap.get_mut(*code) {
                *target = index as f32;
            }
        }
        Sorted { values: order.into_iter().map(|(_, category)| category).collect(), remap, left_out: Vec::new() }
    }
}

impl Sorted<String> {
    /// How many codes of appearance there are.
    pub fn all(&self) -> usize {
        self.remap.len()
    }

    /// Has the categories that are `present`, by their codes of appearance: the others are missing values, NaN, until they
    /// are present.
    pub fn keep(&mut self, present: &[bool]) {
        self.values.append(&mut self.left_out);
        self.values.sort_by(|a, b| a.key.cmp(&b.key));
        let (kept, left_out) = std::mem::take(&mut self.values)
            .into_iter()
            .partition(|category| present.get(category.code as usize).copied().unwrap_or(false));
        (self.values, self.left_out) = (kept, left_out);
        self.number();
    }

    /// Has these categories and no others, be there rows of them or not.
    pub fn become_of(&mut self, names: &[String]) {
        self.values.append(&mut self.left_out);
        let (kept, left_out) =
            std::mem::take(&mut self.values).into_iter().partition(|category| names.contains(&category.text));
        (self.values, self.left_out) = (kept, left_out);
        self.number();
        names.iter().for_each(|name| self.has(name));
    }

    /// Has this category, be there rows of it or not.
    pub fn has(&mut self, name: &String) {
        if self.values.iter().any(|category| category.text == *name) {
            return;
        }
        let at = self.left_out.iter().position(|category| category.text == *name);
        let new = || Category { key: name.clone(), text: name.clone(), members: 0, code: u32::MAX };
        let category = at.map_or_else(new, |at| self.left_out.swap_remove(at));
        let place = self.values.partition_point(|other| other.key < category.key);
        self.values.insert(place, category);
        self.number();
    }

    /// Of buckets, has those that no row is in be missing values; they keep their places.
    pub fn hide(&mut self, counts: &[u64]) {
        for (code, (index, count)) in self.remap.iter_mut().zip(counts).enumerate() {
            *index = if *count > 0 { code as f32 } else { f32::NAN };
        }
    }

    /// The buckets that are hidden.
    pub fn hidden(&self) -> Vec<u32> {
        (0u32..).zip(&self.remap).filter(|(_, index)| index.is_nan()).map(|(code, _)| code).collect()
    }

    fn number(&mut self) {
        self.remap.fill(f32::NAN);
        for (index, category) in self.values.iter().enumerate() {
            if let Some(target) = self.remap.get_mut(category.code as usize) {
                *target = index as f32;
            }
        }
    }
}

/// What the bucket of that number is called.
pub fn bucket_name(bucket: usize) -> String {
    format!("hash {bucket}")
}

/// The buckets of a hashed column, which have so many rows each, as categories.
pub fn buckets(members: Vec<u64>) -> Sorted<String> {
    let values: Vec<Category<String>> = members
        .into_iter()
        .enumerate()
        .map(|(bucket, members)| {
            let name = bucket_name(bucket);
            Category { key: name.clone(), text: name, members, code: bucket as u32 }
        })
        .collect();
    Sorted { remap: (0..values.len()).map(|bucket| bucket as f32).collect(), values, left_out: Vec::new() }
}

/// `{"value": {"value": index, "members": rows}}` in the order of the indexes.
pub fn to_json<K>(sorted: &Sorted<K>) -> Value {
    let categories = sorted.values.iter().enumerate();
    Value::Object(
        categories
            .map(|(index, category)| (category.text.clone(), json!({"value": index, "members": category.members})))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_appearance_map_to_sorted_indexes() {
        let mut categories: Categories<String> = Categories::new();
        let mut add = |value: &str| categories.add::<str, ()>(value, str::to_owned, || Ok(value.to_owned())).unwrap();
        let codes: Vec<u32> = ["pear", "fig", "fig", "apple", "pear"].into_iter().map(&mut add).collect();
        assert_eq!(codes, [0, 1, 1, 2, 0]);
        let sorted = categories.sort(|a, b| a.key.cmp(&b.key));
        assert_eq!(sorted.remap, [2.0, 1.0, 0.0]);
        let members: Vec<(&str, u64)> = sorted.values.iter().map(|c| (c.text.as_str(), c.members)).collect();
        assert_eq!(members, [("apple", 1), ("fig", 2), ("pear", 2)]);
        let mut sorted = sorted;
        // By their appearance: pear, fig, apple.
        sorted.keep(&[true, false, true]);
        assert!(sorted.remap[1].is_nan());
        assert_eq!((sorted.remap[0], sorted.remap[2]), (1.0, 0.0));
        assert_eq!(sorted.values.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(), ["apple", "pear"]);
        sorted.keep(&[true, true, true]);
        assert_eq!(sorted.remap, [2.0, 1.0, 0.0]);
        sorted.has(&"date".to_owned());
        assert_eq!(sorted.remap, [3.0, 2.0, 0.0]);
    }

    #[test]
    fn listed_categories_are_known_without_a_row() {
        let mut categories: Categories<String> = Categories::new();
        for value in ["low", "high", "odd"] {
            categories.add::<str, ()>(value, str::to_owned, || Ok(value.to_owned())).unwrap();
        }
        let mut sorted = categories.sort(|a, b| a.key.cmp(&b.key));
        sorted.become_of(&["low", "middle", "high"].map(str::to_owned));
        let members: Vec<(&str, u64)> = sorted.values.iter().map(|c| (c.text.as_str(), c.members)).collect();
        assert_eq!(members, [("high", 1), ("low", 1), ("middle", 0)]);
        assert_eq!(sorted.remap[..2], [1.0, 0.0]);
        assert!(sorted.remap[2].is_nan());
    }
}
