//! Seasonal autoregressive integrated moving averages with regressors (Box and Jenkins, 1976): models in which a series,
//! after differences and regression, depends linearly on its past values and errors.
//!
//! - [`polynomial`]: polynomials of the backshift operator, stationarity, differences.
//! - [`kalman`]: the exact likelihood and the errors of a process; conditional errors.
//! - [`regression`]: the differenced series, its constant and regressors.
//! - [`estimate`]: the most likely parameters of given orders.
//! - [`search`]: the choice of orders; [`unit_root`]: that of differences.
//! - [`forecast`](mod@forecast): means and deviations of future steps.
//!
//! The likelihood is that of the differenced series, which is the exact one under a diffuse prior for the first values.
//! Parameters are searched where the autoregression is stationary and the moving average invertible, which excludes no
//! likelihood: a moving average has the same one with the inverse of any of its roots.

mod estimate;
mod forecast;
mod kalman;
mod polynomial;
mod regression;
mod search;
mod unit_root;

use serde::{Deserialize, Serialize};

use crate::{Error, Fit, Result, Series, Stop};
use estimate::{Candidate, Estimate, FINAL};
use regression::Design;

/// No model reaches further back: its likelihood would take too long.
const LONGEST_LAG: usize = 2000;

/// What may be asked of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The numbers of autoregressive coefficients, of differences and of coefficients of the moving average; chosen if
    /// they are not given.
    pub order: Option<(usize, usize, usize)>,
    /// The same at lags of the shortest season; (0, 0, 0) if only `order` is given.
    pub seasonal: Option<(usize, usize, usize)>,
    /// Whether there is a mean, or after one difference a drift. By default it is chosen with the orders, and if these are
    /// given there is a mean unless there are differences.
    pub constant: Option<bool>,
}

/// The orders of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Orders {
    plain: (usize, usize, usize),
    seasonal: (usize, usize, usize),
    season: usize,
    constant: bool,
}

/// See [`crate::Model`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    orders: Orders,
    ar: Vec<f64>,
    ma: Vec<f64>,
    seasonal_ar: Vec<f64>,
    seasonal_ma: Vec<f64>,
    /// The mean, or after a difference the drift, a step.
    constant: f64,
    regression: Vec<f64>,
    /// Standard deviation of the errors.
    sigma: f64,
    /// The number of values learnt.
    length: usize,
    /// What is known of the next differences; see [`kalman`].
    state: Vec<f64>,
    /// The last values without constant and regression, from which differences are summed up.
    tail: Vec<f64>,
    /// None if there are no errors.
    log_likelihood: Option<f64>,
    /// None if there are no errors, or too few values.
    aicc: Option<f64>,
}

/// Learns a model of the orders given, or else of those chosen.
pub fn fit(series: &Series, options: &Options, stop: Stop) -> Result<Fit> {
    check(series)?;
    let Some(plain) = options.order else {
        if let Some(seasonal) = options.seasonal {
            // Refused like given ones before their companions are searched.
            given(series, (0, 0, 0), seasonal, None)?;
        }
        return search::fit(series, options, stop);
    };
    let orders = given(series, plain, options.seasonal.unwrap_or_default(), options.constant)?;
    let design = Design::new(series, &orders);
    let mut candidate = Candidate::new(orders, false, &design);
    let estimate = candidate.estimate(None, FINAL, stop)?;
    Ok(finish(series, &mut candidate, &estimate))
}

fn check(series: &Series) -> Result<()> {
    let length = series.values.len();
    if length == 0 {
        return Err(Error::Short { method: "ARIMA", found: 0, needed: 1 });
    }
    if series.regressors.iter().any(|column| column.len() != length) {
        return Err(Error::Invalid(format!("each regressor must have {length} numbers, one a value")));
    }
    if series.values.iter().chain(series.regressors.iter().flatten()).any(|value| !value.is_finite()) {
        return Err(Error::Invalid("values and regressors must be finite".into()));
    }
    Ok(())
}

fn given(
    series: &Series,
    plain: (usize, usize, usize),
    seasonal: (usize, usize, usize),
    constant: Option<bool>,
) -> Result<Orders> {
    let season = series.season();
    if season == 1 && seasonal != (0, 0, 0) {
        return Err(Error::Invalid("seasonal orders need a season of 2 steps at least".into()));
    }
    let differences = plain.1.saturating_add(seasonal.1);
    let constant = constant.unwrap_or(differences == 0);
    if constant && differences > 1 {
        return Err(Error::Invalid("a model with two differences or more has no constant".into()));
    }
    let orders = Orders { plain, seasonal, season, constant };
    if orders.reach() > LONGEST_LAG || seasonal.1.saturating_mul(season).saturating_add(plain.1) > LONGEST_LAG {
        return Err(Error::Invalid(format!("the orders reach further back than {LONGEST_LAG} steps")));
    }
    let needed = orders.needed(series.regressors.len());
    if series.values.len() < needed {
        return Err(Error::Short { method: "ARIMA of these orders", found: series.values.len(), needed });
    }
    Ok(orders)
}

impl Orders {
    /// The number of coefficients without those of regression.
    fn count(&self) -> usize {
        self.plain.0 + self.plain.2 + self.seasonal.0 + self.seasonal.2
    }

    /// The longest lag of a differenced value or an error.
    fn reach(&self) -> usize {
        let reach = |plain: usize, seasonal: usize| seasonal.saturating_mul(self.season).saturating_add(plain);
        reach(self.plain.0, self.seasonal.0).max(reach(self.plain.2, self.seasonal.2))
    }

    /// By how much differences shorten a series.
    fn lost(&self) -> usize {
        self.plain.1 + self.seasonal.1 * self.season
    }

    /// Of values: one more than there are coefficients, and than the longest lag.
    fn needed(&self, regressors: usize) -> usize {
        let coefficients = self.count() + usize::from(self.constant) + regressors;
        self.lost() + coefficients.max(self.reach()) + 1
    }

    /// What the constant adds to each value of the differenced series.
    fn constant_slope(&self) -> f64 {
        if self.seasonal.1 > 0 { self.season as f64 } else { 1.0 }
    }
}

fn finish(series: &Series, candidate: &mut Candidate, estimate: &Estimate) -> Fit {
    let orders = candidate.orders;
    let finished = candidate.finish();
    let lost = orders.lost();
    let length = series.values.len();
    let mut regression = finished.regression;
    let constant = if orders.constant { regression.remove(0) } else { 0.0 };
    let blocks = std::mem::take(&mut candidate.blocks);
    let mut model = Model {
        orders,
        ar: blocks.ar,
        ma: blocks.ma,
        seasonal_ar: blocks.seasonal_ar,
        seasonal_ma: blocks.seasonal_ma,
        constant,
        regression,
        sigma: finished.sigma,
        length,
        state: finished.state,
        tail: Vec::new(),
        log_likelihood: estimate.log_likelihood,
        aicc: Some(estimate.aicc).filter(|aicc| aicc.is_finite()),
    };
    model.tail = (length - lost..length)
        .map(|step| {
            let regressors = model.regression.iter().zip(series.regressors);
            let explained: f64 = regressors.map(|(coefficient, column)| coefficient * column[step]).sum();
            series.values[step] - model.constant_at(step) - explained
        })
        .collect();
    let mut fitted = vec![f64::NAN; lost];
    fitted.extend(series.values[lost..].iter().zip(&finished.errors).map(|(value, error)| value - error));
    Fit { model: crate::Model::Arima(model), fitted }
}

impl Model {
    /// What the constant has added to a value: the mean, or the drift up to it.
    fn constant_at(&self, step: usize) -> f64 {
        if self.orders.lost() == 0 { self.constant } else { self.constant * (step + 1) as f64 }
    }

    /// Of the parameters, given the series; none if it has no errors.
    pub fn log_likelihood(&self) -> Option<f64> {
        self.log_likelihood
    }

    /// Akaike's criterion, corrected for the number of values; none if there are too few of them, or no errors.
    pub fn aicc(&self) -> Option<f64> {
        self.aicc
    }

    /// `ARIMA(p,d,q)(P,D,Q)[season]`, and whether there is a mean, a drift or a regression.
    pub fn name(&self) -> String {
        let ((p, d, q), (seasonal_p, seasonal_d, seasonal_q)) = (self.orders.plain, self.orders.seasonal);
        let mut name = format!("ARIMA({p},{d},{q})");
        if (seasonal_p, seasonal_d, seasonal_q) != (0, 0, 0) {
            name += &format!("({seasonal_p},{seasonal_d},{seasonal_q})[{}]", self.orders.season);
        }
        if self.orders.constant {
            name += if self.orders.lost() == 0 { " with mean" } else { " with drift" };
        }
        if self.regression.is_empty() { name } else { format!("regression with {name} errors") }
    }
}
