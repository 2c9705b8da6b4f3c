//! A model as it was read: validated and plain. Everything that predicts is derived from this.

use std::collections::BTreeMap;

/// A validated model. Invariants, established by the readers and relied on by [`crate::compile()`]:
/// every node's children exist and have a larger depth (no cycles, every node but the root has one parent), every
/// split's feature is below `num_features`, every tree's output is below `num_outputs`, `base_margin` has
/// `num_outputs` elements, vector leaves have `num_outputs` values.
#[derive(Debug, Clone, PartialEq)]
pub struct Ensemble {
    pub num_features: u32,
    /// Margins per row: 1 for regression and binary classification, the number of classes or targets otherwise.
    pub num_outputs: u32,
    /// The intercept in margin space, float32 exactly as XGBoost computes it, one per output.
    pub base_margin: Vec<f32>,
    /// In the order in which XGBoost adds them up: float32 addition is not associative.
    pub trees: Vec<Tree>,
    /// Present for gblinear, whose `trees` are empty.
    pub linear: Option<Linear>,
    pub transform: Transform,
    /// As in the file, such as `reg:squarederror`.
    pub objective: String,
    /// Empty, or one per feature.
    pub feature_names: Vec<String>,
    /// Empty, or one per feature: `float`, `int`, `i`, `q`, `c` as XGBoost writes them.
    pub feature_types: Vec<String>,
    /// Free text attributes of the booster; `best_iteration` has been applied to `trees` by the reader.
    pub attributes: BTreeMap<String, String>,
}

/// Root is node 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    pub nodes: Vec<Node>,
    /// One for each node, or empty: how much of the training (the sum of second derivatives, XGBoost's `sum_hessian`) went
    /// through it. Predictions do without, so that the reader keeps them only for [`crate::Explainer`].
    pub covers: Vec<f32>,
    /// One for each node, or empty: what its split gained (XGBoost's `loss_changes`), kept with the covers.
    pub gains: Vec<f32>,
    /// Which output a scalar leaf is added to. Vector leaves add to all.
    pub output: u32,
    /// Dart's weight of the tree; `None` where the booster has no weights (not the same as 1.0: the arithmetic differs).
    pub weight: Option<f32>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// `x < threshold` goes left; a missing value (NaN) goes left if `default_left`.
    Numeric {
        feature: u32,
        threshold: f32,
        default_left: bool,
        left: u32,
        right: u32,
    },
    /// A value in `categories` (sorted, distinct) goes right, any other category left (unseen, negative, huge: as
    /// XGBoost's `common::Decision`); missing by `default_left`.
    Categorical {
        feature: u32,
        categories: Vec<u32>,
        default_left: bool,
        left: u32,
        right: u32,
    },
    Leaf(f32),
    /// One value an output (multi_strategy = multi_output_tree).
    VectorLeaf(Vec<f32>),
}

/// gblinear: `margin[o] = base + bias[o] + sum over features of x * weight[feature * num_outputs + o]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    pub weights: Vec<f32>,
    pub bias: Vec<f32>,
}

/// From margin to prediction, as the objective's `PredTransform`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    Identity,
    /// 1 / (1 + exp(-m)) in float32, as XGBoost computes it.
    Sigmoid,
    Exp,
    /// exp(m) in double precision, rounded to float32 (survival:aft).
    ExpDouble,
    /// Probabilities over the outputs.
    Softmax,
    /// multi:softmax: the index of the largest margin, one value a row.
    Argmax,
    /// binary:hinge: 1 where the margin is above 0, else 0.
    Hinge,
    /// reg:quantileerror since XGBoost 3.4: the margins of a row in ascending order, so that quantiles do not cross.
    Sorted,
    /// reg:expectileerror: the first margin, then each the one before and softplus of its own margin on top.
    Expectiles,
}
