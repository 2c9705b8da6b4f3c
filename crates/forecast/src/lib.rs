//! Forecasts of one regular time series: its models, their choice, and the errors by which forecasts are judged.
//!
//! A series is equally spaced and without gaps; what makes it so is its caller's. [`fit`] learns a model by a
//! [`Method`]; [`Model::forecast`] continues the series with means and standard deviations of its errors.

pub mod arima;
mod decompose;
pub mod ets;
pub mod grid;
pub mod metrics;
pub mod mstl;
pub mod naive;
mod nelder_mead;
pub mod normal;
mod optimise;
mod scale;
pub mod theta;

use serde::{Deserialize, Serialize};

/// A series to learn from.
#[derive(Clone, Copy)]
pub struct Series<'a> {
    /// Finite numbers in the order of time.
    pub values: &'a [f64],
    /// Lengths of its seasons in steps, the shortest first; empty or 1 for none.
    pub seasons: &'a [usize],
    /// Columns of numbers that are known for each step, of future steps too; each as long as `values`.
    pub regressors: &'a [Vec<f64>],
}

impl Series<'_> {
    /// The shortest season, 1 if there is none.
    pub fn season(&self) -> usize {
        self.seasons.first().copied().unwrap_or(1).max(1)
    }
}

/// How a series is learnt.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    SeasonalNaive,
    /// Exponential smoothing, whose form is chosen by AICc unless it is given.
    Ets(ets::Options),
    Theta(theta::Options),
    Mstl(mstl::Options),
    /// Orders are chosen by AICc unless they are given.
    Arima(arima::Options),
}

/// What is learnt of one series: all that its forecasts need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "most of a model is behind its vectors")]
pub enum Model {
    SeasonalNaive(naive::Model),
    Ets(ets::Model),
    Theta(theta::Model),
    Mstl(mstl::Model),
    Arima(arima::Model),
}

/// A model and what it says of the steps that it has learnt from.
#[derive(Clone, Debug)]
pub struct Fit {
    pub model: Model,
    /// Its forecast of each step by those before; NaN where there is none.
    pub fitted: Vec<f64>,
}

/// Forecasts of the steps behind a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    pub mean: Vec<f64>,
    /// Standard deviation of the error of each step, as the model has it.
    pub sigma: Vec<f64>,
}

/// Why a series cannot be learnt or continued.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum Error {
    #[error("a series of {found} values is too short for {method}, which needs {needed}")]
    Short { method: &'static str, found: usize, needed: usize },
    #[error("{0}")]
    Invalid(String),
    /// Whoever asked for it said so.
    #[error("stopped")]
    Stopped,
}

pub type Result<T> = std::result::Result<T, Error>;

/// Asked often while a series is learnt: whether to give up.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Learns a series.
pub fn fit(method: &Method, series: &Series, stop: Stop) -> Result<Fit> {
    match method {
        Method::SeasonalNaive => naive::fit(series),
        Method::Ets(options) => ets::fit(series, options, stop),
        Method::Theta(options) => theta::fit(series, options, stop),
        Method::Mstl(options) => mstl::fit(series, options, stop),
        Method::Arima(options) => arima::fit(series, options, stop),
    }
}

impl Model {
    /// Forecasts `horizon` steps. `regressors` has the columns that the series had, each `horizon` long.
    pub fn forecast(&self, horizon: usize, regressors: &[Vec<f64>]) -> Result<Steps> {
        match self {
            Model::SeasonalNaive(model) => Ok(model.forecast(horizon)),
            Model::Ets(model) => Ok(model.forecast(horizon)),
            Model::Theta(model) => Ok(model.forecast(horizon)),
            Model::Mstl(model) => Ok(model.forecast(horizon)),
            Model::Arima(model) => model.forecast(horizon, regressors),
        }
    }

    /// What was chosen, in the notation of its kind: `ETS(M,Ad,M)`, `ARIMA(2,1,1)(0,1,1)[12]`.
    pub fn name(&self) -> String {
        match self {
            Model::SeasonalNaive(_) => "seasonal naive".into(),
            Model::Ets(model) => model.name(),
            Model::Theta(model) => model.name(),
            Model::Mstl(model) => model.name(),
            Model::Arima(model) => model.name(),
        }
    }
}
