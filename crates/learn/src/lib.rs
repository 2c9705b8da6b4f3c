//! Training engines and what surrounds them, over plain matrices; nothing here knows of PostgreSQL, and nothing does
//! I/O except for loading the training library itself.
//!
//! * [`rows`]: how rows reach an engine, a chunk at a time, and how a source stops a training.
//! * [`spool`]: rows as few bytes, for a temporary file between two passes.
//! * [`split`]: which rows are trained on, and which are tested on.
//! * [`side`]: on which side of the split a row is, as a property of the row.
//! * [`search`]: which hyperparameters to try.
//! * [`nearest`]: the names that a mistyped one may have meant.
//! * [`preprocess`]: what is done to columns before an algorithm sees them.
//! * [`label`]: classes as numbers.
//! * [`metrics`]: how good predictions are, as scikit-learn defines it.
//! * [`curve`]: how good a model was after each round of its training.
//! * [`family`] and [`families`]: all algorithms that are trained here, behind one interface; a file each in `families/`.
//! * [`grouped`]: a model for each group of rows.
//! * [`foreign`]: models that other libraries have saved.
//! * [`lightgbm`]: the LightGBM engine: the library by `dlopen`.
//! * [`xgboost`]: the XGBoost engine: the library by `dlopen`, its hyperparameters, and the training itself.

#![warn(missing_docs)]

pub mod auto;
mod count;
pub mod curve;
mod error;
pub mod families;
pub mod family;
pub mod foreign;
pub mod forms;
pub mod grouped;
pub mod label;
pub mod lightgbm;
pub mod metrics;
pub mod moment;
pub mod nearest;
mod numerics;
mod onnx;
pub mod preprocess;
pub mod random;
pub mod remembered;
pub mod rows;
pub mod search;
pub mod side;
pub mod signals;
pub mod split;
pub mod spool;
pub mod xgboost;

pub use count::{all, count, there_are};
pub use error::Error;
