//! The theta method of Assimakopoulos and Nikolopoulos (2000) by the models of Fiorucci et al. (2016), "Models for
//! optimising the theta method and their relationship to state space models", chosen and fitted as in statsforecast.

use serde::{Deserialize, Serialize};

use crate::nelder_mead::{self, Limits};
use crate::{Error, Fit, Result, Series, Steps, Stop, decompose, scale};

/// Series of fewer values have no model but their last value.
const ENOUGH: usize = 4;

/// Errors of the first steps, which the start of the states rules, are not minimised.
const BURN_IN: usize = 3;

/// One of the four models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The standard model, whose theta is 2: simple exponential smoothing and half of the slope of a line.
    #[serde(rename = "STM")]
    Standard,
    /// The optimised model, whose theta is estimated.
    #[serde(rename = "OTM")]
    Optimised,
    /// The dynamic standard model, whose line is fitted anew at each step.
    #[serde(rename = "DSTM")]
    Dynamic,
    /// The dynamic optimised model.
    #[serde(rename = "DOTM")]
    DynamicOptimised,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Standard, Kind::Optimised, Kind::Dynamic, Kind::DynamicOptimised];

    fn is_dynamic(self) -> bool {
        matches!(self, Kind::Dynamic | Kind::DynamicOptimised)
    }

    fn is_optimised(self) -> bool {
        matches!(self, Kind::Optimised | Kind::DynamicOptimised)
    }

    fn letters(self) -> &'static str {
        match self {
            Kind::Standard => "STM",
            Kind::Optimised => "OTM",
            Kind::Dynamic => "DSTM",
            Kind::DynamicOptimised => "DOTM",
        }
    }
}

/// How a season is taken out of a series before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decomposition {
    /// By factors, if the series is positive and its factors are not near 0; else additive.
    #[default]
    Multiplicative,
    Additive,
}

/// What may be asked of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The model; the one of the least squared errors if none.
    pub model: Option<Kind>,
    pub decomposition: Decomposition,
}

/// See [`crate::Model`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    kind: Kind,
    alpha: f64,
    theta: f64,
    /// Values learnt from.
    count: usize,
    states: States,
    decomposition: Decomposition,
    /// Of the steps that follow, the next one first; empty if the series has none.
    seasonal: Vec<f64>,
    /// Standard deviation of the errors before the season is put back.
    sigma: f64,
    scale: f64,
}

/// What is known after a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct States {
    /// By simple exponential smoothing.
    level: f64,
    mean: f64,
    /// The line by the steps, counted from 1.
    intercept: f64,
    slope: f64,
}

/// What is searched.
#[derive(Clone, Copy)]
struct Parameters {
    level: f64,
    alpha: f64,
    theta: f64,
}

/// Learns the model, after its season is taken out if the series has a significant one.
pub fn fit(series: &Series, options: &Options, stop: Stop) -> Result<Fit> {
    let Some((&first, count)) = series.values.first().map(|first| (first, series.values.len())) else {
        return Err(Error::Short { method: "the theta method", found: 0, needed: 1 });
    };
    let scale = scale::of(series.values);
    let mut values = scale::divide(series.values, scale);
    let (decomposition, seasonal) = season(&values, series.season(), options.decomposition);
    for (step, value) in values.iter_mut().enumerate() {
        *value = seasoned(*value, decomposition, &seasonal, step, true);
    }
    let constant = series.values.iter().all(|&value| value == first);
    let (mut model, mut fitted) =
        if constant || count < ENOUGH { last(&values) } else { best(&values, options.model, stop)? };
    for (step, value) in fitted.iter_mut().enumerate() {
        *value = seasoned(*value, decomposition, &seasonal, step, false);
    }
    scale::multiply(&mut fitted, scale);
    let begin = count % seasonal.len().max(1);
    model.seasonal = [&seasonal[begin..], &seasonal[..begin]].concat();
    Ok(Fit { model: crate::Model::Theta(Model { decomposition, scale, ..model }), fitted })
}

/// Puts the season into a value, or takes it out.
fn seasoned(value: f64, decomposition: Decomposition, seasonal: &[f64], step: usize, out: bool) -> f64 {
    match (seasonal.get(step % seasonal.len().max(1)), decomposition, out) {
        (None, ..) => value,
        (Some(season), Decomposition::Additive, true) => value - season,
        (Some(season), Decomposition::Additive, false) => value + season,
        (Some(season), Decomposition::Multiplicative, true) => value / season,
        (Some(season), Decomposition::Multiplicative, false) => value * season,
    }
}

/// The season, beginning with that of the first value; empty unless the autocorrelation a season apart is significant
/// at 10 % given those at shorter distances (Fiorucci et al., 2016, section 3.3).
fn season(values: &[f64], season: usize, asked: Decomposition) -> (Decomposition, Vec<f64>) {
    const QUANTILE: f64 = 1.644_853_626_951_472_2;
    if season < 4 || values.len() < 2 * season {
        return (asked, Vec::new());
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let product = |(later, earlier): (&f64, &f64)| (later - mean) * (earlier - mean);
    let apart = |lag: usize| values[lag..].iter().zip(values).map(product).sum::<f64>();
    let variance = apart(0);
    let shorter: f64 = (1..season).map(|lag| (apart(lag) / variance).powi(2)).sum();
    let limit = QUANTILE * ((1.0 + 2.0 * shorter) / values.len() as f64).sqrt();
    // Of a constant series neither is a number.
    let significant = (apart(season) / variance).abs() > limit;
    if !significant {
        return (asked, Vec::new());
    }
    if asked == Decomposition::Multiplicative && values.iter().all(|&value| value > 0.0) {
        let seasonal = decompose::classical(values, season, true);
        if seasonal.iter().all(|&factor| factor >= 0.01) {
            return (asked, seasonal);
        }
    }
    (Decomposition::Additive, decompose::classical(values, season, false))
}

/// The last value for ever.
fn last(values: &[f64]) -> (Model, Vec<f64>) {
    let mut fitted = vec![f64::NAN; values.len()];
    fitted[1..].copy_from_slice(&values[..values.len() - 1]);
    let squares: f64 = values[1..].iter().zip(values).map(|(later, earlier)| (later - earlier).powi(2)).sum();
    let level = values[values.len() - 1];
    let model = Model {
        kind: Kind::Standard,
        alpha: 1.0,
        theta: 2.0,
        count: values.len(),
        states: States { level, mean: level, intercept: 0.0, slope: 0.0 },
        decomposition: Decomposition::Additive,
        seasonal: Vec::new(),
        sigma: (squares / (values.len() - 1).max(1) as f64).sqrt(),
        scale: 1.0,
    };
    (model, fitted)
}

fn best(values: &[f64], asked: Option<Kind>, stop: Stop) -> Result<(Model, Vec<f64>)> {
    let mut chosen = None;
    let mut least = f64::INFINITY;
    for kind in asked.map_or(Kind::ALL.to_vec(), |kind| vec![kind]) {
        if stop() {
            return Err(Error::Stopped);
        }
        let (squares, parameters) = search(values, kind, stop)?;
        if chosen.is_none() || squares < least {
            (least, chosen) = (squares, Some((kind, parameters)));
        }
    }
    let (kind, parameters) =
        chosen.unwrap_or((Kind::Standard, Parameters { level: values[0], alpha: 0.5, theta: 2.0 }));
    let mut fitted = Vec::with_capacity(values.len());
    let states = run(values, kind, parameters, |forecast, _| fitted.push(forecast));
    let errors: Vec<f64> = values.iter().zip(&fitted).map(|(value, forecast)| value - forecast).collect();
    if kind.is_dynamic() {
        // Its line begins at the first value.
        fitted[0] = f64::NAN;
    }
    let Parameters { alpha, theta, .. } = parameters;
    let model = Model {
        kind,
        alpha,
        theta,
        count: values.len(),
        states,
        decomposition: Decomposition::Additive,
        seasonal: Vec::new(),
        sigma: deviation(if errors.len() < BURN_IN + 2 { &errors } else { &errors[BURN_IN..] }),
        scale: 1.0,
    };
    Ok((model, fitted))
}

fn deviation(errors: &[f64]) -> f64 {
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>() / (errors.len() - 1) as f64).sqrt()
}

/// The parameters of the least squared errors, and those by the size of the series.
fn search(values: &[f64], kind: Kind, stop: Stop) -> Result<(f64, Parameters)> {
    const BOUNDS: [(f64, f64); 3] = [(-1e10, 1e10), (0.1, 0.99), (1.0, 1e10)];
    let count = if kind.is_optimised() { 3 } else { 2 };
    let mut point = [values[0] / 2.0, 0.5, 2.0];
    let read =
        |point: &[f64]| Parameters { level: point[0], alpha: point[1], theta: point.get(2).copied().unwrap_or(2.0) };
    let size = (values.iter().map(|value| value.abs()).sum::<f64>() / values.len() as f64).max(1e-10);
    let squares = |point: &[f64]| {
        let (mut sum, mut step) = (0.0, 0);
        run(values, kind, read(point), |forecast, value| {
            if step >= BURN_IN {
                sum += (value - forecast) * (value - forecast);
            }
            step += 1;
        });
        sum / size
    };
    // What is minimised has the unit of the values.
    let limits = Limits { tolerance: 1e-4 * size.min(1.0), iterations: 1000 };
    let least = nelder_mead::minimise(squares, &mut point[..count], &BOUNDS[..count], &limits, stop)?;
    Ok((least, read(&point)))
}

/// Runs through `values`, and calls `each` with the forecast and the value of every step.
fn run(values: &[f64], kind: Kind, parameters: Parameters, mut each: impl FnMut(f64, f64)) -> States {
    let Parameters { level, alpha, theta } = parameters;
    let first = values[0];
    let (mut states, forecast) = if kind.is_dynamic() {
        (States { level, mean: first, intercept: first, slope: 0.0 }, first)
    } else {
        let (intercept, slope) = line(values);
        let states = States { level, mean: first, intercept, slope };
        (states, level + (1.0 - 1.0 / theta) * (intercept + slope))
    };
    each(forecast, first);
    states.level = alpha * first + (1.0 - alpha) * level;
    let mut faded = 1.0;
    for (step, &value) in values.iter().enumerate().skip(1) {
        faded *= 1.0 - alpha;
        each(ahead(&states, alpha, theta, faded), value);
        follow(&mut states, kind, alpha, step as f64, value);
    }
    states
}

/// The line of least squares by the steps, counted from 1.
fn line(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let weighted: f64 = values.iter().enumerate().map(|(step, value)| (step + 1) as f64 * value).sum::<f64>() / count;
    let slope = 6.0 * (2.0 * weighted - (count + 1.0) * mean) / (count * count - 1.0);
    (mean - (count + 1.0) * slope / 2.0, slope)
}

/// The forecast of the step before which there were as many as powers of 1 - alpha are multiplied in `faded`.
fn ahead(states: &States, alpha: f64, theta: f64, faded: f64) -> f64 {
    let line = states.intercept * faded + states.slope * (1.0 - faded * (1.0 - alpha)) / alpha;
    states.level + (1.0 - 1.0 / theta) * line
}

/// Takes in the value of a step before which there were `step`.
fn follow(states: &mut States, kind: Kind, alpha: f64, step: f64, value: f64) {
    states.level = alpha * value + (1.0 - alpha) * states.level;
    if kind.is_dynamic() {
        let difference = value - states.mean;
        states.mean += difference / (step + 1.0);
        states.slope = ((step - 1.0) * states.slope + 6.0 * difference / (step + 1.0)) / (step + 2.0);
        states.intercept = states.mean - states.slope * (step + 2.0) / 2.0;
    }
}

impl Model {
    /// Forecasts `horizon` steps.
    pub fn forecast(&self, horizon: usize) -> Steps {
        let mut steps = Steps { mean: Vec::with_capacity(horizon), sigma: Vec::with_capacity(horizon) };
        let mut states = self.states;
        let mut errors = Errors::default();
        for ahead_of in 0..horizon {
            let step = (self.count + ahead_of) as f64;
            let faded = (1.0 - self.alpha).powf(step);
            let forecast = ahead(&states, self.alpha, self.theta, faded);
            follow(&mut states, self.kind, self.alpha, step, forecast);
            let deviation = self.sigma * errors.step(self, step, faded);
            let season = |value, part: Decomposition| {
                if part == self.decomposition { seasoned(value, part, &self.seasonal, ahead_of, false) } else { value }
            };
            steps.mean.push(seasoned(forecast, self.decomposition, &self.seasonal, ahead_of, false));
            steps.sigma.push(season(deviation, Decomposition::Multiplicative));
        }
        scale::multiply(&mut steps.mean, self.scale);
        scale::multiply(&mut steps.sigma, self.scale);
        steps
    }

    /// `DOTM`, with its season: `DOTM[12]`.
    pub fn name(&self) -> String {
        let season = if self.seasonal.is_empty() { String::new() } else { format!("[{}]", self.seasonal.len()) };
        format!("{}{season}", self.kind.letters())
    }
}

/// Covariances of the errors of level, mean and slope by the variance of the errors of the steps: the states are linear
/// in them, so that they follow from those a step before.
#[derive(Default)]
struct Errors {
    covariance: [[f64; 3]; 3],
}

impl Errors {
    /// The standard deviation of the error of the next step, which is then taken in.
    fn step(&mut self, model: &Model, step: f64, faded: f64) -> f64 {
        let response = |states: [f64; 3]| {
            let [level, mean, slope] = states;
            let intercept = if model.kind.is_dynamic() { mean - slope * (step + 1.0) / 2.0 } else { 0.0 };
            let states = States { level, mean, intercept, slope };
            (states, ahead(&states, model.alpha, model.theta, faded))
        };
        // Columns of the transition of the states, and the weights of them in the forecast.
        let units = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let moved = |states: [f64; 3], error: f64| {
            let (mut states, forecast) = response(states);
            follow(&mut states, model.kind, model.alpha, step, forecast + error);
            ([states.level, states.mean, states.slope], forecast)
        };
        let columns = units.map(|unit| moved(unit, 0.0));
        let (correction, _) = moved([0.0; 3], 1.0);
        let before = self.covariance;
        let between = |left: &dyn Fn(usize) -> f64, right: &dyn Fn(usize) -> f64| -> f64 {
            (0..9).map(|entry| left(entry / 3) * before[entry / 3][entry % 3] * right(entry % 3)).sum()
        };
        for (row, entries) in self.covariance.iter_mut().enumerate() {
            for (column, entry) in entries.iter_mut().enumerate() {
                *entry = between(&|state| columns[state].0[row], &|state| columns[state].0[column])
                    + correction[row] * correction[column];
            }
        }
        (1.0 + between(&|state| columns[state].1, &|state| columns[state].1)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_forecasts_have_the_deviation_of_linear_responses() {
        for kind in Kind::ALL {
            let states = States { level: 50.0, mean: 40.0, intercept: 20.0, slope: 1.0 };
            let (decomposition, seasonal) = (Decomposition::Additive, Vec::new());
            let (alpha, theta, count, sigma, scale) = (0.3, 1.8, 39, 2.0, 1.0);
            let model = Model { kind, alpha, theta, count, states, decomposition, seasonal, sigma, scale };
            // What the path without errors differs by from the one with an error of 1 at one of its steps.
            let path = |disturbed: Option<usize>| -> Vec<f64> {
                let mut states = states;
                let values = (0..12).map(|step| {
                    let forecast = ahead(&states, alpha, theta, (1.0 - alpha).powf((count + step) as f64));
                    let value = if disturbed == Some(step) { forecast + 1.0 } else { forecast };
                    follow(&mut states, kind, alpha, (count + step) as f64, value);
                    value
                });
                values.collect()
            };
            let plain = path(None);
            let responses: Vec<Vec<f64>> = (0..12).map(|step| path(Some(step))).collect();
            for (step, deviation) in model.forecast(12).sigma.iter().enumerate() {
                let variance: f64 = responses.iter().map(|response| (response[step] - plain[step]).powi(2)).sum();
                assert!((deviation - sigma * variance.sqrt()).abs() < 1e-9, "{kind:?} {step}: {deviation}");
            }
        }
    }
}
