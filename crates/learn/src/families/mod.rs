//! The families themselves, one file each. See [`crate::family`] for what they have in common.

mod algebra;
#[cfg(test)]
mod attack;
mod cholesky;
mod coordinate;
pub(crate) mod elastic_net;
pub(crate) mod forms;
pub(crate) mod gaussian_process;
mod kernel;
pub(crate) mod kernel_ridge;
pub(crate) mod knn;
pub(crate) mod least_squares;
pub(crate) mod logistic;
mod minimise;
#[cfg(test)]
mod oracle;
mod platt;
pub(crate) mod ridge;
mod scaled;
mod simplex;
mod smo;
#[cfg(test)]
mod speed;
pub(crate) mod svm;
#[cfg(test)]
pub(crate) mod testing;
mod tiles;
mod usual;
