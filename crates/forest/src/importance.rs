//! The importance of a model's features, from the splits of its trees.

use crate::double::{Noted, Trees};
use crate::ensemble::{Ensemble, Node};

/// The splits by one feature.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Splits {
    /// How many there are.
    pub count: u64,
    /// What they gained together, where the model says so of each split.
    pub gain: Option<f64>,
    /// The training rows, or the sum of their second derivatives, that went through them, where the model says so.
    pub cover: Option<f64>,
}

impl Splits {
    fn add(&mut self, gain: Option<f32>, cover: Option<f32>) {
        let sum = |sum: Option<f64>, value: Option<f32>| Some(sum? + f64::from(value?));
        let before = if self.count == 0 { (Some(0.0), Some(0.0)) } else { (self.gain, self.cover) };
        self.count += 1;
        self.gain = sum(before.0, gain);
        self.cover = sum(before.1, cover);
    }

    /// Those of two features together.
    #[must_use]
    pub fn and(self, other: Splits) -> Splits {
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        match (self.count, other.count) {
            (0, _) => other,
            (_, 0) => self,
            (count, more) => {
                Splits { count: count + more, gain: sum(self.gain, other.gain), cover: sum(self.cover, other.cover) }
            }
        }
    }
}

/// One for each feature; `None` if the model is not of trees. The gains and covers are there if the model was read with them.
pub fn of_ensemble(ensemble: &Ensemble) -> Option<Vec<Splits>> {
    if ensemble.linear.is_some() {
        return None;
    }
    let mut splits = vec![Splits::default(); ensemble.num_features as usize];
    for tree in &ensemble.trees {
        for (index, node) in tree.nodes.iter().enumerate() {
            let (Node::Numeric { feature, .. } | Node::Categorical { feature, .. }) = node else { continue };
            if let Some(splits) = splits.get_mut(*feature as usize) {
                splits.add(tree.gains.get(index).copied(), tree.covers.get(index).copied());
            }
        }
    }
    Some(splits)
}

/// The same of trees that are summed in double precision and were checked, for rows of `width` features.
pub fn of_trees(trees: &Trees<'_>, noted: Noted<'_>, width: usize) -> Vec<Splits> {
    let mut splits = vec![Splits::default(); width];
    for (index, node) in trees.nodes.iter().enumerate().filter(|(_, node)| !node.is_leaf()) {
        if let Some(splits) = splits.get_mut(node.column() as usize) {
            splits.add(noted.gains.get(index).copied(), noted.covers.get(index).copied());
        }
    }
    splits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_known_only_where_all_its_terms_are() {
        let mut splits = Splits::default();
        splits.add(Some(1.5), Some(3.0));
        splits.add(Some(0.5), None);
        assert_eq!(splits, Splits { count: 2, gain: Some(2.0), cover: None });
        let other = Splits { count: 1, gain: Some(1.0), cover: Some(1.0) };
        assert_eq!(splits.and(other), Splits { count: 3, gain: Some(3.0), cover: None });
        assert_eq!(Splits::default().and(other), other);
    }
}
