//! Reads LightGBM's models in its text format, of versions 3 and 4.
//!
//! What LightGBM compares in float64, less or equal, is compared here in float32, less: the same for every float32, see
//! [`threshold_of`]. Where a feature has no missing values, LightGBM takes one for zero, which is a direction known
//! beforehand.

use std::collections::HashMap;

use crate::double::{Link, MOST_FEATURES, Node, Noted, TreeArrays, ZERO_IS_MISSING, threshold_of};
use crate::error::{Error, Result};
use crate::json;
use crate::value::At;

/// A model of LightGBM's.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// How many features a row has.
    pub width: usize,
    /// One for each feature.
    pub feature_names: Vec<String>,
    /// For a feature of pandas' categories those, by their codes; `None` for others. One for each feature, or none at all.
    pub categories: Vec<Option<Vec<String>>>,
    /// As in the file: `binary sigmoid:1`. Empty where it is the caller's own.
    pub objective: String,
    /// The trees, those of a round one after another, an output each.
    pub arrays: TreeArrays,
    /// What the sums are divided by: 1, or the rounds of a random forest.
    pub divisor: f64,
    /// What becomes of the sums.
    pub link: Link,
    /// What scores are multiplied by before the logistic function.
    pub scale: f64,
}

/// The most bytes of a model.
const LONGEST: usize = 1 << 31;

/// Whether these bytes begin as a model does.
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(b"tree\n") || bytes.starts_with(b"tree\r\n")
}

/// Reads a model.
///
/// # Errors
/// [`Error::Format`] for something else, [`Error::Invalid`] for a model that is damaged, and [`Error::Unsupported`] for
/// trees whose leaves are linear functions.
pub fn read(bytes: &[u8]) -> Result<Model> {
    if !is_one(bytes) || bytes.len() > LONGEST {
        return Err(Error::Format("a LightGBM model begins with a line \"tree\"".into()));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Error::Format("the model is not UTF-8".into()))?;
    // What was cut off on its way would be another model.
    let (text, rest) = text.split_once("\nend of trees").ok_or_else(|| Error::Invalid {
        path: "end of trees".into(),
        what: "missing: the model is not whole".into(),
    })?;
    if rest.contains("\nparameters:") && !rest.contains("\nend of parameters") {
        return Err(Error::Invalid {
            path: "end of parameters".into(),
            what: "missing: the model is not whole".into(),
        });
    }
    let mut sections = text.split("\nTree=");
    let header = Section::new("header", sections.next().unwrap_or(""));
    let outputs = header.count("num_tree_per_iteration")?.max(1);
    let width = header.count("max_feature_idx")?.saturating_add(1);
    if outputs > 1 << 16 || width > MOST_FEATURES as usize {
        return Err(header.wrong("max_feature_idx", "is too large"));
    }
    let feature_names: Vec<String> = header.words("feature_names").map(str::to_owned).collect();
    if feature_names.len() != width {
        return Err(header.wrong("feature_names", "does not have a name a feature"));
    }
    let objective = header.maybe("objective").unwrap_or("").trim().to_owned();
    let (link, scale) = link(&header, &objective, outputs)?;
    let mut arrays = TreeArrays::new(outputs, 1);
    for (index, text) in sections.enumerate() {
        let section = Section::new(&format!("tree {index}"), text);
        Tree::read(&section, width)?.push(&section, &mut arrays)?;
    }
    let trees = arrays.trees().len();
    if header.maybe("tree_sizes").is_some_and(|sizes| sizes.split_whitespace().count() != trees) {
        return Err(header.wrong("tree_sizes", "does not have a size a tree"));
    }
    if !trees.is_multiple_of(outputs) {
        return Err(header.wrong("num_tree_per_iteration", "does not divide the number of trees"));
    }
    let divisor = if header.maybe("average_output").is_some() { (trees / outputs).max(1) as f64 } else { 1.0 };
    let categories = categories(rest, width)?;
    Ok(Model { width, feature_names, categories, objective, arrays, divisor, link, scale })
}

/// What the Python package writes behind the trees: which features are categories, and pandas' names of those.
fn categories(rest: &str, width: usize) -> Result<Vec<Option<Vec<String>>>> {
    let line = |start: &str| rest.lines().find_map(|line| line.trim().strip_prefix(start));
    let wrong = |what: &str| Error::Invalid { path: "pandas_categorical".into(), what: what.into() };
    let names = match line("pandas_categorical:") {
        None | Some("null" | "[]") => return Ok(Vec::new()),
        Some(names) => json::parse(names.as_bytes())?,
    };
    let root = At::root(&names);
    let listed = line("[categorical_feature:").unwrap_or("").trim_end_matches(']');
    let features: Vec<usize> = listed.split(',').filter_map(|feature| feature.trim().parse().ok()).collect();
    let lists = root.items()?;
    if features.len() != lists.len() || features.iter().any(|feature| *feature >= width) {
        return Err(wrong("does not have a list for each feature of categories"));
    }
    let mut categories = vec![None; width];
    for (index, (feature, value)) in features.into_iter().zip(lists).enumerate() {
        let list = At { value, path: root.path.index(index) };
        // A number that is a category's name is not its code, by which trees split: it is a text, as SQL prints it.
        let names = list.names().map_err(|_| Error::Unsupported {
            path: format!("pandas_categorical[{index}]"),
            what: "a list of categories that are neither texts, numbers nor booleans".into(),
        })?;
        categories[feature] = Some(names);
    }
    Ok(categories)
}

/// What an objective makes of the scores.
fn link(header: &Section<'_>, objective: &str, outputs: usize) -> Result<(Link, f64)> {
    let mut words = objective.split_whitespace();
    let name = words.next().unwrap_or("");
    let words: Vec<&str> = words.collect();
    let scale = words.iter().find_map(|word| word.strip_prefix("sigmoid:")).unwrap_or("1");
    let scale = scale.parse::<f64>().map_err(|_| header.wrong("objective", "has a sigmoid that is no number"))?;
    let link = match name {
        "binary" => Link::Logistic,
        "multiclass" | "softmax" => Link::Softmax,
        "multiclassova" | "multiclass_ova" | "ova" | "ovr" => Link::OneVersusRest,
        "poisson" | "gamma" | "tweedie" => Link::Exp,
        "cross_entropy" | "xentropy" => Link::LogisticValue,
        "cross_entropy_lambda" | "xentlambda" => Link::Softplus,
        "regression" if words.contains(&"sqrt") => Link::Square,
        _ => Link::Identity,
    };
    if link == Link::Logistic && outputs != 1 {
        return Err(header.wrong("objective", "is for two classes, and there are trees for more"));
    }
    let is_logistic = matches!(link, Link::Logistic | Link::OneVersusRest);
    Ok((link, if is_logistic { scale } else { 1.0 }))
}

/// Lines `key=value`.
struct Section<'a> {
    name: String,
    lines: HashMap<&'a str, &'a str>,
}

impl<'a> Section<'a> {
    fn new(name: &str, text: &'a str) -> Section<'a> {
        let lines = text.lines().map(|line| line.split_once('=').unwrap_or((line, "")));
        Section { name: name.to_owned(), lines: lines.map(|(key, value)| (key.trim(), value)).collect() }
    }

    fn wrong(&self, key: &str, what: &str) -> Error {
        Error::Invalid { path: format!("{}.{key}", self.name), what: what.into() }
    }

    fn maybe(&self, key: &str) -> Option<&'a str> {
        self.lines.get(key).copied()
    }

    fn words(&self, key: &str) -> impl Iterator<Item = &'a str> {
        self.maybe(key).unwrap_or("").split_whitespace()
    }

    fn count(&self, key: &str) -> Result<usize> {
        let value = self.maybe(key).ok_or_else(|| self.wrong(key, "is missing"))?;
        let count = value.trim().parse::<u32>();
        count.map(|count| count as usize).map_err(|_| self.wrong(key, "is not a count"))
    }

    /// A list of `count` values.
    fn values<T: std::str::FromStr>(&self, key: &str, count: usize) -> Result<Vec<T>> {
        let values: std::result::Result<Vec<T>, T::Err> = self.words(key).map(str::parse).collect();
        let values = values.map_err(|_| self.wrong(key, "has something that is no number"))?;
        match values.len() == count {
            true => Ok(values),
            false => Err(self.wrong(key, &format!("has {} values, not {count}", values.len()))),
        }
    }
}

/// A tree as the file has it: nodes that split, and leaves, which children name by -1, -2, ...
struct Tree {
    features: Vec<u32>,
    thresholds: Vec<f64>,
    decisions: Vec<u8>,
    left: Vec<i32>,
    right: Vec<i32>,
    values: Vec<f64>,
    counts: Vec<f32>,
    leaf_counts: Vec<f32>,
    gains: Vec<f32>,
    boundaries: Vec<u32>,
    sets: Vec<u32>,
}

const CATEGORICAL: u8 = 1;
const DEFAULT_LEFT: u8 = 2;

impl Tree {
    fn read(section: &Section<'_>, width: usize) -> Result<Tree> {
        if section.words("is_linear").any(|word| word != "0") {
            return Err(Error::Unsupported {
                path: section.name.clone(),
                what: "linear_tree, which has linear functions in its leaves".into(),
            });
        }
        let leaves = section.count("num_leaves")?;
        let splits = leaves.checked_sub(1).ok_or_else(|| section.wrong("num_leaves", "is zero"))?;
        let values: Vec<f64> = section.values("leaf_value", leaves)?;
        if values.iter().any(|value| !value.is_finite()) {
            return Err(section.wrong("leaf_value", "is not finite"));
        }
        let sets = section.count("num_cat").unwrap_or(0);
        let (boundaries, words) = match sets {
            0 => (Vec::new(), Vec::new()),
            _ => {
                let boundaries: Vec<u32> = section.values("cat_boundaries", sets + 1)?;
                let words = boundaries.last().copied().unwrap_or(0) as usize;
                (boundaries, section.values("cat_threshold", words)?)
            }
        };
        if boundaries.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(section.wrong("cat_boundaries", "does not ascend"));
        }
        // Counts and gains are for explanations only, and older files lack them.
        let tree = Tree {
            features: section.values("split_feature", splits)?,
            thresholds: section.values("threshold", splits)?,
            decisions: section.values("decision_type", splits)?,
            left: section.values("left_child", splits)?,
            right: section.values("right_child", splits)?,
            values,
            counts: section.values("internal_count", splits).unwrap_or_default(),
            leaf_counts: section.values("leaf_count", leaves).unwrap_or_default(),
            gains: section.values("split_gain", splits).unwrap_or_default(),
            boundaries,
            sets: words,
        };
        match tree.features.iter().all(|feature| (*feature as usize) < width) {
            true => Ok(tree),
            false => Err(section.wrong("split_feature", "names a feature that there is not")),
        }
    }

    /// Adds it, every child after its parent.
    fn push(&self, section: &Section<'_>, arrays: &mut TreeArrays) -> Result<()> {
        let total = 2 * self.values.len() - 1;
        let mut nodes = vec![Node::leaf(0)];
        let mut covers = vec![0.0];
        let mut gains = vec![0.0];
        let mut categories = Vec::new();
        let mut open = vec![(0, if self.features.is_empty() { -1 } else { 0 })];
        while let Some((at, child)) = open.pop() {
            if child < 0 {
                let leaf = !child as usize;
                if leaf >= self.values.len() {
                    return Err(section.wrong("left_child", "names a leaf that there is not"));
                }
                nodes[at] = Node::leaf(leaf as u32);
                covers[at] = self.leaf_counts.get(leaf).copied().unwrap_or(0.0);
                continue;
            }
            let split = child as usize;
            // A node that is met twice would make more nodes than there are.
            if split >= self.features.len() || nodes.len() + 2 > total {
                return Err(section.wrong("left_child", "names a node that there is not, or one twice"));
            }
            let first = nodes.len();
            nodes[at] = self.node(section, split, first as u32, &mut categories)?;
            covers[at] = self.counts.get(split).copied().unwrap_or(0.0);
            gains[at] = self.gains.get(split).copied().unwrap_or(0.0);
            nodes.extend([Node::leaf(0), Node::leaf(0)]);
            covers.extend([0.0, 0.0]);
            gains.extend([0.0, 0.0]);
            open.push((first + 1, self.right[split]));
            open.push((first, self.left[split]));
        }
        // A stump has neither, and needs none.
        let covers = if self.counts.is_empty() && nodes.len() > 1 { &[][..] } else { &covers };
        let gains = if self.gains.is_empty() && nodes.len() > 1 { &[][..] } else { &gains };
        let pushed = arrays.push(&nodes, &categories, Noted { covers, gains }, &self.values);
        pushed.map_err(|_| section.wrong("num_leaves", "is more than there is memory for"))
    }

    fn node(&self, section: &Section<'_>, split: usize, first: u32, categories: &mut Vec<u32>) -> Result<Node> {
        let (feature, threshold, decision) = (self.features[split], self.thresholds[split], self.decisions[split]);
        if decision & CATEGORICAL != 0 {
            let set = threshold as usize;
            let bounds = match (self.boundaries.get(set), self.boundaries.get(set + 1)) {
                (Some(from), Some(to)) if threshold >= 0.0 => *from as usize..*to as usize,
                _ => return Err(section.wrong("threshold", "names a set of categories that there is not")),
            };
            let at = categories.len() as u32;
            categories.push(bounds.len() as u32);
            categories.extend_from_slice(&self.sets[bounds]);
            return Ok(Node::categorical(feature, at, false, first, first + 1));
        }
        if threshold.is_nan() {
            return Err(section.wrong("threshold", "is not a number"));
        }
        let default_left = decision & DEFAULT_LEFT != 0;
        let limit = threshold_of(threshold.clamp(-1e300, 1e300));
        let (flags, missing_left) = match (decision >> 2) & 3 {
            0 => (0, 0.0 <= threshold),
            1 => (ZERO_IS_MISSING, default_left),
            _ => (0, default_left),
        };
        let mut node = Node::numeric(feature, limit, missing_left, first, first + 1);
        node.feature |= flags;
        Ok(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=1\n\
        objective=binary sigmoid:2\nfeature_names=a b\nfeature_infos=none none\ntree_sizes=1\n\nTree=0\nnum_leaves=3\n\
        num_cat=1\nsplit_feature=0 1\nthreshold=1.5 0\ndecision_type=10 1\nleft_child=1 -2\nright_child=-1 -3\n\
        leaf_value=1 2 3\ncat_boundaries=0 1\ncat_threshold=5\nis_linear=0\nshrinkage=1\n\n\nend of trees\n";

    #[test]
    fn a_model_is_read() {
        let model = read(MODEL.as_bytes()).unwrap();
        assert_eq!((model.width, model.link, model.scale, model.divisor), (2, Link::Logistic, 2.0, 1.0));
        let trees = model.arrays.trees();
        trees.check(2).unwrap();
        for (row, expected) in [
            ([1.5, 0.0], 2.0),
            ([1.6, 0.0], 1.0),
            ([f32::NAN, 2.0], 2.0),
            ([1.0, 1.0], 3.0),
            ([1.0, f32::NAN], 3.0),
            ([1.0, 40.0], 3.0),
        ] {
            let mut sum = [0.0];
            trees.sums(&row, &mut sum);
            assert_eq!(sum[0], expected, "{row:?}");
        }
    }

    #[test]
    fn what_is_damaged_is_refused() {
        for (from, to) in [
            ("tree\n", "trees\n"),
            ("num_leaves=3", "num_leaves=0"),
            ("num_leaves=3", "num_leaves=4"),
            ("split_feature=0 1", "split_feature=0 2"),
            ("split_feature=0 1", "split_feature=0"),
            ("left_child=1 -2", "left_child=0 -2"),
            ("left_child=1 -2", "left_child=1 1"),
            ("left_child=1 -2", "left_child=1 -4"),
            ("left_child=1 -2", "left_child=2 -2"),
            ("threshold=1.5 0", "threshold=1.5 1"),
            ("threshold=1.5 0", "threshold=nan 0"),
            ("cat_threshold=5", "cat_threshold=5 6"),
            ("cat_boundaries=0 1", "cat_boundaries=0"),
            ("leaf_value=1 2 3", "leaf_value=1 2 inf"),
            ("max_feature_idx=1", "max_feature_idx=4294967295"),
            ("num_tree_per_iteration=1", "num_tree_per_iteration=2"),
            ("is_linear=0", "is_linear=1"),
            ("tree_sizes=1", "tree_sizes=1 1"),
        ] {
            let damaged = MODEL.replace(from, to);
            assert_ne!(damaged, MODEL);
            assert!(read(damaged.as_bytes()).is_err(), "{to}");
        }
        for end in 0..MODEL.len() - 1 {
            assert!(read(&MODEL.as_bytes()[..end]).is_err(), "{end}");
        }
    }
}
