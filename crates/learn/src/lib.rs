//! Training engines and what surrounds them, over plain matrices; nothing here knows of PostgreSQL, and nothing does
//! I/O except for loading the training library itself.
//!
//! * [`rows`]: how rows reach an engine, a chunk at a time, and how a source stops a training.
//! * [`xgboost`]: the XGBoost engine: the library by `dlopen`, its hyperparameters, and the training itself.

#![warn(missing_docs)]

mod error;
mod nearest;
pub mod rows;
mod signals;
pub mod xgboost;

pub use error::Error;
