//! Tree ensembles: read a model file, compile it to a position-independent image, predict from that image.
//!
//! The crate does no I/O and knows nothing of PostgreSQL. The way of a model through it:
//! bytes of a model file -> [`xgboost::read`] -> [`Ensemble`] (validated, plain) -> [`compile()`] -> an image of bytes
//! that can be written to a file and mapped -> [`Forest`] -> predictions. `Ensemble::margin` is the plain kernel: slow,
//! obvious, and the oracle of every fast one. [`Explainer`] is made of an ensemble too, and says what each feature contributed.
//!
//! Other libraries' trees, and those that are grown by the families of `crates/learn`, are summed in float64: [`double`]
//! has their plain kernel, and [`lightgbm`] and [`catboost`] read models for it.

pub mod catboost;
mod checksum;
pub mod compile;
pub mod double;
pub mod ensemble;
pub mod error;
pub mod explain;
pub mod forest;
mod image;
pub mod importance;
mod json;
mod kernel;
pub mod lightgbm;
mod oracle;
mod ubj;
mod value;
pub mod xgboost;

/// What the fuzz targets call of what is private here.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::image::seal;
}

pub use checksum::checksum;
pub use compile::{Form, compile, compile_as};
pub use ensemble::Ensemble;
pub use error::Error;
pub use explain::Explainer;
pub use forest::{Forest, ImageBytes, PredictError};
pub use image::{IMAGE_VERSION, ImageError};
pub use kernel::Kernel;
