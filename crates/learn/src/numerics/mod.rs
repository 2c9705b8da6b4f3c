//! Algebra, distances, kernels and searches of minima that several families compute with. Nothing here knows of a family.

pub(crate) mod algebra;
pub(crate) mod cholesky;
pub(crate) mod distance;
pub(crate) mod factor;
pub(crate) mod helper_thread;
pub(crate) mod kd_tree;
pub(crate) mod kernel;
pub(crate) mod minimise;
pub(crate) mod pace;
pub(crate) mod platt;
pub(crate) mod simplex;
pub(crate) mod spectrum;
pub(crate) mod tiles;
pub(crate) mod triangle;
