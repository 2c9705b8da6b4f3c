//! The families themselves, in the folders of scikit-learn's modules, and the list of them. See [`crate::family`] for what they have in
//! common.
//!
//! To add a family, write a `Family` constant in a file of its own and name it in [`FAMILIES`]. Nothing else knows of families by
//! name: the extension offers what the list has, and so do error messages and the documentation.

mod anomaly;
#[cfg(test)]
mod attack;
mod boosting;
mod cluster;
mod common;
mod ensemble;
mod gaussian_mixture;
mod gaussian_process;
mod kernel_ridge;
mod knn;
pub(crate) mod linear;
mod naive_bayes;
#[cfg(test)]
mod oracle;
pub(crate) mod principal;
mod svm;
#[cfg(test)]
pub(crate) mod testing;

use crate::Error;
use crate::family::{Control, Family, Given, Model, Problem, Task};
use crate::forms::several;
use crate::nearest::nearest;

/// All families. The order is that of error messages and of the documentation.
pub const FAMILIES: &[&Family] = &[
    &linear::least_squares::LINEAR,
    &linear::ridge::RIDGE,
    &linear::elastic_net::LASSO,
    &linear::elastic_net::ELASTIC_NET,
    &linear::least_angle::LEAST_ANGLE,
    &linear::least_angle::LASSO,
    &linear::matching_pursuit::PURSUIT,
    &linear::bayesian::RIDGE,
    &linear::bayesian::RELEVANCE,
    &linear::stochastic::REGRESSOR,
    &linear::stochastic::PASSIVE_AGGRESSIVE_REGRESSOR,
    &linear::consensus::RANSAC,
    &linear::theil_sen::THEIL_SEN,
    &linear::huber::HUBER,
    &linear::quantile::QUANTILE,
    &svm::linear_svm::REGRESSOR,
    &linear::logistic::LINEAR,
    &linear::ridge::CLASSIFIER,
    &svm::linear_svm::CLASSIFIER,
    &linear::stochastic::CLASSIFIER,
    &linear::stochastic::PERCEPTRON,
    &linear::stochastic::PASSIVE_AGGRESSIVE_CLASSIFIER,
    &naive_bayes::NAIVE_BAYES,
    &knn::REGRESSION,
    &knn::CLASSIFICATION,
    &svm::libsvm::REGRESSION,
    &svm::libsvm::CLASSIFICATION,
    &svm::libsvm::NU_REGRESSION,
    &svm::libsvm::NU_CLASSIFICATION,
    &kernel_ridge::REGRESSION,
    &gaussian_process::REGRESSION,
    &gaussian_process::CLASSIFICATION,
    &cluster::k_means::KMEANS,
    &cluster::mini_batch::MINI_BATCH_KMEANS,
    &cluster::affinity_propagation::AFFINITY_PROPAGATION,
    &cluster::birch::BIRCH,
    &cluster::density::DBSCAN,
    &cluster::agglomeration::FEATURE_AGGLOMERATION,
    &cluster::mean_shift::MEAN_SHIFT,
    &cluster::optics::OPTICS,
    &cluster::spectral::SPECTRAL,
    &cluster::co_clustering::SPECTRAL_BI,
    &cluster::co_clustering::SPECTRAL_CO,
    &gaussian_mixture::GAUSSIAN_MIXTURE,
    &principal::PCA,
    &principal::TRUNCATED_SVD,
    &anomaly::isolation_forest::ISOLATION_FOREST,
    &anomaly::local_outlier_factor::LOCAL_OUTLIER_FACTOR,
    &svm::libsvm::ONE_CLASS,
    &anomaly::robust_covariance::ROBUST_COVARIANCE,
    &anomaly::tails::ECOD,
    &anomaly::histograms::HBOS,
    &ensemble::random_forest::CLASSIFIER,
    &ensemble::random_forest::REGRESSOR,
    &ensemble::random_forest::EXTRA_CLASSIFIER,
    &ensemble::random_forest::EXTRA_REGRESSOR,
    &ensemble::bagging::CLASSIFIER,
    &ensemble::bagging::REGRESSOR,
    &ensemble::ada_boost::CLASSIFIER,
    &ensemble::ada_boost::REGRESSOR,
    &ensemble::gradient_boosting_trees::CLASSIFIER,
    &ensemble::gradient_boosting_trees::REGRESSOR,
    &ensemble::hist_gradient_boosting::CLASSIFIER,
    &ensemble::hist_gradient_boosting::REGRESSOR,
    &boosting::lightgbm::CLASSIFIER,
    &boosting::lightgbm::REGRESSOR,
    &boosting::catboost::CLASSIFIER,
    &boosting::catboost::REGRESSOR,
];

/// Trains a model of a family. Of several targets each gets a model of its own where the family cannot do otherwise.
///
/// # Errors
/// As `family.fit`.
pub fn fit(family: &Family, problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    if problem.weights.is_some() && !family.takes_weights {
        return Err(Error::Task(format!("algorithm \"{}\" takes no weights of rows", family.name)));
    }
    if problem.targets <= 1 || family.joint {
        return (family.fit)(problem, given, control);
    }
    let mut parts = Vec::with_capacity(problem.targets);
    for target in 0..problem.targets {
        let labels: Vec<f32> = problem.labels.iter().skip(target).step_by(problem.targets).copied().collect();
        parts.push((family.fit)(&Problem { targets: 1, labels: &labels, ..*problem }, given, control)?);
    }
    Ok(several::model(parts))
}

/// The family of an algorithm for a task.
///
/// # Errors
/// [`Error::Task`] where there is none, with the algorithms most like it, or the tasks that it is for.
pub fn family(name: &str, task: Task) -> Result<&'static Family, Error> {
    if let Some(family) = FAMILIES.iter().find(|family| family.name == name && family.task == task) {
        return Ok(family);
    }
    let tasks: Vec<&str> =
        FAMILIES.iter().filter(|family| family.name == name).map(|family| family.task.name()).collect();
    if !tasks.is_empty() {
        return Err(Error::Task(format!(
            "algorithm \"{name}\" is for {}, not for {}",
            tasks.join(" and "),
            task.name()
        )));
    }
    let known = FAMILIES.iter().filter(|family| family.task == task).map(|family| family.name);
    let close: Vec<String> = nearest(name, known).into_iter().map(|name| format!("\"{name}\"")).collect();
    let meant = if close.is_empty() { String::new() } else { format!(" (did you mean {}?)", close.join(" or ")) };
    Err(Error::Task(format!("there is no algorithm \"{name}\" for {}{meant}", task.name())))
}
