//! Linear models, as in `sklearn.linear_model`.

pub(crate) mod absorb;
pub(crate) mod bayesian;
pub(crate) mod consensus;
pub(crate) mod coordinate;
pub(crate) mod elastic_net;
pub(crate) mod huber;
pub(crate) mod least_angle;
pub(crate) mod least_squares;
#[cfg(test)]
pub(crate) mod linear_attack;
pub(crate) mod logistic;
pub(crate) mod losses;
pub(crate) mod matching_pursuit;
pub(crate) mod quantile;
pub(crate) mod ridge;
pub(crate) mod stochastic;
pub(crate) mod theil_sen;
