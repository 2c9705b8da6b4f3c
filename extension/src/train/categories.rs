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
}

/// Categories in their final order.
#[derive(Debug, Clone)]
pub struct Sorted<K> {
    pub values: Vec<Category<K>>,
    /// By code of appearance: the final index, as a feature or label.
    pub remap: Vec<f32>,
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
                    self.values.push(Category { key: key.clone(), text: text()?, members: 0 });
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
        Sorted { values: order.into_iter().map(|(_, category)| category).collect(), remap }
    }
}

impl<K> Sorted<K> {
    /// Leaves out the categories that are not `present`, by their index: they are missing values from now on, NaN.
    pub fn keep(&mut self, present: &[bool]) {
        let mut next = 0.0;
        let numbers: Vec<Option<f32>> = present
            .iter()
            .map(|present| {
                present.then(|| {
                    next += 1.0;
                    next - 1.0
                })
            })
            .collect();
        for index in self.remap.iter_mut().filter(|index| !index.is_nan()) {
            *index = numbers.get(*index as usize).copied().flatten().unwrap_or(f32::NAN);
        }
        let mut kept = present.iter();
        self.values.retain(|_| kept.next().copied().unwrap_or(false));
    }
}

impl Sorted<String> {
    /// Has these categories and no others, be there rows of them or not.
    pub fn become_of(&mut self, names: &[String]) {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        let place = |text: &String| names.binary_search(text).ok();
        let places: Vec<f32> =
            self.values.iter().map(|category| place(&category.text).map_or(f32::NAN, |place| place as f32)).collect();
        for index in self.remap.iter_mut().filter(|index| !index.is_nan()) {
            *index = places.get(*index as usize).copied().unwrap_or(f32::NAN);
        }
        let members = |name: &String| self.values.iter().find(|category| category.text == *name);
        let members: Vec<u64> = names.iter().map(|name| members(name).map_or(0, |category| category.members)).collect();
        let category = |(name, members): (String, u64)| Category { key: name.clone(), text: name, members };
        self.values = names.into_iter().zip(members).map(category).collect();
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
            Category { key: name.clone(), text: name, members }
        })
        .collect();
    Sorted { remap: (0..values.len()).map(|bucket| bucket as f32).collect(), values }
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
        sorted.keep(&[true, false, true]);
        assert!(sorted.remap[1].is_nan());
        assert_eq!((sorted.remap[0], sorted.remap[2]), (1.0, 0.0));
        assert_eq!(sorted.values.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(), ["apple", "pear"]);
        sorted.keep(&[true, false]);
        assert!(sorted.remap[0].is_nan() && sorted.remap[1].is_nan());
        assert_eq!(sorted.remap[2], 0.0);
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
