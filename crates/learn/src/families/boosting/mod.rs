//! Boosted trees by the rules of other libraries: LightGBM itself, and what CatBoost does.

pub(crate) mod aliases;
pub(crate) mod catboost;
pub(crate) mod lightgbm;
