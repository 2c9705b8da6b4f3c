//! The families themselves, one file each. See [`crate::family`] for what they have in common.

mod algebra;
mod coordinate;
pub(crate) mod elastic_net;
pub(crate) mod forms;
mod kernel;
pub(crate) mod knn;
pub(crate) mod least_squares;
pub(crate) mod logistic;
mod minimise;
#[cfg(test)]
mod oracle;
mod platt;
pub(crate) mod ridge;
mod scaled;
mod smo;
pub(crate) mod svm;
#[cfg(test)]
pub(crate) mod testing;
mod tiles;
mod usual;
