//! Classes as numbers: every distinct label gets its place in the order of all of them.

use std::collections::HashSet;
use std::hash::Hash;

use crate::Error;

/// Collects the distinct labels of a column.
#[derive(Clone, Debug)]
pub struct Collector<T> {
    seen: HashSet<T>,
    most: usize,
}

impl<T: Ord + Hash + Clone> Collector<T> {
    /// `most` is the number of classes above which a label is taken for something else, an identifier perhaps.
    pub fn new(most: usize) -> Collector<T> {
        Collector { seen: HashSet::new(), most }
    }

    /// Takes note of a label.
    ///
    /// # Errors
    /// [`Error::Classes`] if that makes too many.
    pub fn see<Q>(&mut self, label: &Q) -> Result<(), Error>
    where
        T: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = T> + ?Sized,
    {
        if !self.seen.contains(label) {
            if self.seen.len() >= self.most {
                return Err(Error::Classes(self.most));
            }
            self.seen.insert(label.to_owned());
        }
        Ok(())
    }

    /// The classes, in their order.
    pub fn finish(self) -> Classes<T> {
        let mut labels: Vec<T> = self.seen.into_iter().collect();
        labels.sort_unstable();
        Classes { labels }
    }
}

/// Distinct labels in ascending order, each with its position as its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes<T> {
    labels: Vec<T>,
}

impl<T: Ord> Classes<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The labels, in ascending order.
    pub fn labels(&self) -> &[T] {
        &self.labels
    }

    /// The number of a label.
    pub fn encode<Q: Ord + ?Sized>(&self, label: &Q) -> Option<u32>
    where
        T: std::borrow::Borrow<Q>,
    {
        let position = self.labels.binary_search_by(|known| known.borrow().cmp(label)).ok()?;
        u32::try_from(position).ok()
    }

    /// The label of a number.
    pub fn decode(&self, number: u32) -> Option<&T> {
        self.labels.get(number as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_get_their_place_in_the_order() {
        let mut collector: Collector<String> = Collector::new(10);
        for label in ["red", "blue", "red", "green"] {
            collector.see(label).unwrap();
        }
        let classes = collector.finish();
        assert_eq!(classes.labels(), ["blue", "green", "red"]);
        assert_eq!(classes.encode("red"), Some(2));
        assert_eq!(classes.encode("pink"), None);
        assert_eq!(classes.decode(0).map(String::as_str), Some("blue"));
        assert_eq!(classes.decode(3), None);
    }

    #[test]
    fn too_many_labels_are_refused() {
        let mut collector: Collector<i64> = Collector::new(2);
        collector.see(&-5).unwrap();
        collector.see(&7).unwrap();
        collector.see(&7).unwrap();
        assert!(matches!(collector.see(&8), Err(Error::Classes(2))));
    }
}
