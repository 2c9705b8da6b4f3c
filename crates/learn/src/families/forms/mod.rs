//! How models are stored and predict: forms that families share.

pub(crate) mod kernel;
pub(crate) mod laplace;
pub(crate) mod linear;
pub(crate) mod neighbours;
pub(crate) mod several;
