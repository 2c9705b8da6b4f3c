//! Ensembles of trees, as in `sklearn.ensemble`.

pub(crate) mod ada_boost;
pub(crate) mod bagging;
#[cfg(test)]
pub(crate) mod explained;
pub(crate) mod gradient_boosting_trees;
pub(crate) mod hist_gradient_boosting;
pub(crate) mod random_forest;
pub(crate) mod trees;
