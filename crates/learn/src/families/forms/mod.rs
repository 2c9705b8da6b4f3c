//! How models are stored and predict: forms that families share.

pub(crate) mod centroids;
pub(crate) mod kernel;
pub(crate) mod laplace;
pub(crate) mod linear;
pub(crate) mod mixture;
pub(crate) mod neighbours;
pub(crate) mod program;
pub(crate) mod projection;
pub(crate) mod several;
pub(crate) mod trees;
pub(crate) mod witnesses;
