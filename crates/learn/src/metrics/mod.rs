//! How good predictions are: scikit-learn's definitions, one row at a time, in float64.
//!
//! [`Regression`] and [`Classification`] take a row after another and keep sums; only ROC AUC and average
//! precision, which are about the order of all scores, keep the scores, and [`Clustering`] keeps a sample of rows, as it is about the distances between
//! them. The tests compare them with scikit-learn's own answers.

mod auc;
mod classification;
mod clustering;
pub mod conformal;
pub mod curves;
mod decomposition;
pub mod drift;
mod outliers;
mod regression;
mod sum;

pub use classification::{Classification, MOST_SCORES, OfClass, class_of};
pub use clustering::Clustering;
pub use decomposition::Decomposition;
pub use outliers::Outliers;
pub use regression::Regression;

/// A metric by its name in SQL; `None` where it is not defined for the rows.
pub type Named = (&'static str, Option<f64>);
