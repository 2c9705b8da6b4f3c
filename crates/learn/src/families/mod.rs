//! The families themselves, one file each. See [`crate::family`] for what they have in common.

mod absorb;
pub(crate) mod ada_boost;
pub(crate) mod affinity_propagation;
pub(crate) mod agglomeration;
mod algebra;
mod aliases;
mod apart;
#[cfg(test)]
mod attack;
pub(crate) mod bagging;
pub(crate) mod bayesian;
pub(crate) mod birch;
pub(crate) mod catboost;
mod cholesky;
pub(crate) mod co_clustering;
pub(crate) mod consensus;
mod coordinate;
pub(crate) mod density;
pub(crate) mod distance;
pub(crate) mod elastic_net;
#[cfg(test)]
mod explained;
mod factor;
pub(crate) mod forms;
pub(crate) mod gaussian_mixture;
pub(crate) mod gaussian_process;
pub(crate) mod gradient_boosting_trees;
mod groups;
#[cfg(test)]
mod groups_tests;
pub(crate) mod hist_gradient_boosting;
pub(crate) mod huber;
pub(crate) mod k_means;
mod kd_tree;
pub(crate) mod kernel;
pub(crate) mod kernel_ridge;
pub(crate) mod knn;
pub(crate) mod least_angle;
pub(crate) mod least_squares;
pub(crate) mod lightgbm;
#[cfg(test)]
mod linear_attack;
pub(crate) mod linear_svm;
pub(crate) mod logistic;
pub(crate) mod matching_pursuit;
pub(crate) mod mean_shift;
pub(crate) mod mini_batch;
mod minimise;
pub(crate) mod naive_bayes;
pub(crate) mod optics;
#[cfg(test)]
mod oracle;
mod platt;
pub(crate) mod principal;
pub(crate) mod quantile;
pub(crate) mod random_forest;
pub(crate) mod ridge;
mod scaled;
mod simplex;
mod smo;
pub(crate) mod spectral;
mod spectrum;
#[cfg(test)]
mod speed;
pub(crate) mod stochastic;
pub(crate) mod svm;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod theil_sen;
pub(crate) mod tiles;
mod trees;
mod triangle;
mod usual;
