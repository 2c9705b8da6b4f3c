//! Hyperparameters of forecasts.

use std::str::FromStr;

use forecast::grid::{Fill, Gather};
use forecast::{Method, arima, ets, mstl, theta};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::nearest;

/// Steps of a season: a year of minutes.
const LONGEST_SEASON: u64 = 525_600;

/// Coefficients of each kind of an ARIMA model.
const MOST_COEFFICIENTS: u64 = 10;

/// What hyperparameters say.
pub struct Settings {
    pub method: Method,
    /// Lengths of the seasons in steps, the shortest first; those that are usual at the frequency where it is `None`.
    pub seasons: Option<Vec<usize>>,
    pub gather: Gather,
    pub fill: Fill,
}

/// One that algorithms take, as `pgml.hyperparameters` lists it.
pub struct Parameter {
    pub name: &'static str,
    pub default: &'static str,
    pub allowed: &'static str,
    pub about: &'static str,
    algorithm: Option<&'static str>,
}

impl Parameter {
    const fn new(name: &'static str, of: Option<&'static str>, texts: [&'static str; 3]) -> Parameter {
        let [default, allowed, about] = texts;
        Parameter { name, default, allowed, about, algorithm: of }
    }
}

const SEASON: [&str; 3] =
    ["by the frequency", "a whole number from 1, or an array of them", "Steps of a season, or of several; 1 for none."];
const AGGREGATE: [&str; 3] = ["mean", "mean, sum", "What becomes of several rows of one step."];
const MISSING: [&str; 3] = ["interpolate", "interpolate, previous, zero", "What stands for a step without a value."];
const FORM: [&str; 3] = [
    "ZZZ",
    "error, trend and season, each N, A, M or Z",
    "Form of the smoothing: none, additive, multiplicative, or Z for the best of them.",
];
const DAMPED: [&str; 3] = ["chosen", "true, false", "Whether the trend flattens."];
const THETA: [&str; 3] =
    ["the best", "STM, OTM, DSTM, DOTM", "Standard or optimised Theta method, dynamic where it begins with D."];
const ORDER: [&str; 3] = [
    "chosen",
    "[p, d, q]",
    "Numbers of autoregressive coefficients, differences (at most 2) and moving averages, at most 10 each.",
];
const SEASONAL_ORDER: [&str; 3] = ["chosen", "[P, D, Q]", "The same of the season."];
const CONSTANT: [&str; 3] = ["chosen", "true, false", "Whether there is a mean, or a drift of differences."];

const PARAMETERS: &[Parameter] = &[
    Parameter::new("season", None, SEASON),
    Parameter::new("aggregate", None, AGGREGATE),
    Parameter::new("missing", None, MISSING),
    Parameter::new("model", Some("ets"), FORM),
    Parameter::new("damped", Some("ets"), DAMPED),
    Parameter::new("model", Some("theta"), THETA),
    Parameter::new("order", Some("arima"), ORDER),
    Parameter::new("seasonal_order", Some("arima"), SEASONAL_ORDER),
    Parameter::new("constant", Some("arima"), CONSTANT),
];

/// What an algorithm takes.
pub fn parameters(algorithm: &str) -> impl Iterator<Item = &'static Parameter> {
    PARAMETERS.iter().filter(move |parameter| parameter.algorithm.is_none_or(|of| of == algorithm))
}

impl Settings {
    /// Reads what an algorithm takes.
    pub fn read(algorithm: &str, hyperparams: &Map<String, Value>) -> Result<Settings> {
        let method = match algorithm {
            "arima" => Method::Arima(arima::Options::default()),
            "theta" => Method::Theta(theta::Options::default()),
            "mstl" => Method::Mstl(mstl::Options::default()),
            "seasonal_naive" => Method::SeasonalNaive,
            _ => Method::Ets(ets::Options::default()),
        };
        let mut settings = Settings { method, seasons: None, gather: Gather::Mean, fill: Fill::Linear };
        for (name, value) in hyperparams {
            settings.set(algorithm, name, value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, algorithm: &str, name: &str, value: &Value) -> Result<()> {
        match (name, &mut self.method) {
            ("season", _) => self.seasons = Some(seasons(value)?),
            ("aggregate", _) => self.gather = one_of(name, value, &[("mean", Gather::Mean), ("sum", Gather::Sum)])?,
            ("missing", _) => {
                let known = [("interpolate", Fill::Linear), ("previous", Fill::Previous), ("zero", Fill::Zero)];
                self.fill = one_of(name, value, &known)?;
            }
            // They seed the split of other tasks; nothing is left to chance here.
            ("seed" | "random_state", _) => {}
            ("model", Method::Ets(options)) => {
                let form = ets::Form::from_str(value.as_str().unwrap_or_default());
                options.model = Some(form.map_err(|_| {
                    wrong(name, value).hint("Give error, trend and season, each N, A, M or Z for any: 'AAN', 'ZZZ'.")
                })?);
            }
            ("damped", Method::Ets(options)) => options.damped = Some(flag(name, value)?),
            ("model", Method::Theta(options)) => {
                let known = [
                    ("STM", theta::Kind::Standard),
                    ("OTM", theta::Kind::Optimised),
                    ("DSTM", theta::Kind::Dynamic),
                    ("DOTM", theta::Kind::DynamicOptimised),
                ];
                options.model = Some(one_of(name, value, &known)?);
            }
            ("order", Method::Arima(options)) => options.order = Some(order(name, value)?),
            ("seasonal_order", Method::Arima(options)) => options.seasonal = Some(order(name, value)?),
            ("constant", Method::Arima(options)) => options.constant = Some(flag(name, value)?),
            _ => {
                let known: Vec<String> = parameters(algorithm).map(|known| known.name.to_owned()).collect();
                return Err(Error::invalid(format!("algorithm \"{algorithm}\" has no hyperparameter \"{name}\""))
                    .hint(nearest::hint(name, &known)));
            }
        }
        Ok(())
    }
}

fn wrong(name: &str, value: &Value) -> Error {
    Error::invalid(format!("hyperparameter \"{name}\" cannot be {value}"))
}

fn one_of<T: Copy>(name: &str, value: &Value, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(known, _)| value.as_str() == Some(*known));
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        wrong(name, value).hint(format!("Use one of {}.", names.join(", ")))
    })
}

fn flag(name: &str, value: &Value) -> Result<bool> {
    value.as_bool().ok_or_else(|| wrong(name, value).hint("Use true or false."))
}

/// Three small numbers.
fn order(name: &str, value: &Value) -> Result<(usize, usize, usize)> {
    let number = |value: &Value| value.as_u64().filter(|number| *number <= MOST_COEFFICIENTS);
    let numbers: Option<Vec<u64>> = value.as_array().and_then(|values| values.iter().map(number).collect());
    match numbers.as_deref() {
        Some([p, d @ 0..=2, q]) => Ok((*p as usize, *d as usize, *q as usize)),
        _ => Err(wrong(name, value).hint(format!(
            "Give the numbers of autoregressive coefficients, differences (at most 2) and moving average, as [1, 1, 1]; at most \
             {MOST_COEFFICIENTS} each."
        ))),
    }
}

/// A length, or an array of them.
fn seasons(value: &Value) -> Result<Vec<usize>> {
    let refused = || {
        wrong("season", value)
            .hint("Give the steps of a season, as 12 for months of a year, or an array of them; 1 for none.")
    };
    let values = match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    let length = |value: &Value| value.as_u64().filter(|length| (1..=LONGEST_SEASON).contains(length));
    let mut seasons: Vec<usize> = values
        .iter()
        .map(|value| length(value).map(|length| length as usize).ok_or_else(refused))
        .collect::<Result<_>>()?;
    seasons.sort_unstable();
    seasons.dedup();
    seasons.retain(|length| *length > 1);
    Ok(seasons)
}
