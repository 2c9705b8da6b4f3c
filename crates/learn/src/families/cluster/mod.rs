//! Clusterings, as in `sklearn.cluster`.

pub(crate) mod affinity_propagation;
pub(crate) mod agglomeration;
pub(crate) mod birch;
pub(crate) mod co_clustering;
pub(crate) mod common;
pub(crate) mod density;
pub(crate) mod k_means;
pub(crate) mod mean_shift;
pub(crate) mod mini_batch;
pub(crate) mod optics;
pub(crate) mod spectral;
#[cfg(test)]
pub(crate) mod tests;
