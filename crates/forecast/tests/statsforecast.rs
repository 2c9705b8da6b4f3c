//! Models against those of statsforecast, whose numbers generate.py has written to cases.json.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use forecast::theta::{self, Decomposition, Kind};
use forecast::{Fit, Method, Model, Series, ets, fit, mstl};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    season: usize,
    values: Vec<f64>,
    ets: Ets,
    theta: Theta,
    mstl: Option<Decomposed>,
}

#[derive(Deserialize)]
struct Ets {
    chosen: Option<String>,
    forms: Vec<Form>,
}

#[derive(Deserialize)]
struct Theta {
    chosen: Option<Kind>,
    models: Vec<Lines>,
}

#[derive(Deserialize)]
struct Lines {
    kind: Kind,
    asked: Decomposition,
    used: Decomposition,
    /// Beginning with that of the first value.
    seasonal: Vec<f64>,
    alpha: f64,
    theta: f64,
    states: [f64; 4],
    squares: f64,
    mean: Vec<f64>,
}

#[derive(Deserialize)]
struct Decomposed {
    seasons: Vec<usize>,
    last: Vec<Vec<f64>>,
    trend: String,
}

#[derive(Deserialize)]
struct Form {
    form: String,
    damped: bool,
    likelihood: f64,
    parameters: [f64; 4],
    states: Vec<f64>,
    sigma: f64,
    mean: Vec<f64>,
    sigmas: Option<Vec<f64>>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("cases.json")).unwrap()
}

impl Case {
    fn fit(&self, method: &Method) -> Fit {
        fit(method, &Series { values: &self.values, seasons: &[self.season], regressors: &[] }, &|| false).unwrap()
    }
}

fn close(ours: &[f64], theirs: &[f64], tolerance: f64, of: &str) {
    assert!(ours.len() >= theirs.len());
    for (step, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!((ours - theirs).abs() <= tolerance * theirs.abs().max(1e-3), "{of}, step {step}: {ours} {theirs}");
    }
}

impl Form {
    /// The model that has the parameters which statsforecast has found.
    fn model(&self) -> Model {
        let letters: Vec<String> = self.form.chars().map(String::from).collect();
        let [alpha, beta, gamma, phi] = self.parameters;
        let mut states = self.states.iter().copied();
        let level = states.next().unwrap();
        let slope = if letters[1] == "N" { 0.0 } else { states.next().unwrap() };
        let phi = if letters[1] == "N" || self.damped { phi } else { 1.0 };
        let seasonal: Vec<f64> = states.rev().collect();
        serde_json::from_value(serde_json::json!({"ets": {
            "error": letters[0], "trend": letters[1], "season": letters[2], "alpha": alpha, "beta": beta,
            "gamma": gamma, "phi": phi, "level": level, "slope": slope, "seasonal": seasonal, "sigma": self.sigma,
            "scale": 1.0,
        }}))
        .unwrap()
    }

    /// Minus twice the logarithm of the likelihood of what is fitted, but for a constant.
    fn likelihood(&self, values: &[f64], fitted: &[f64]) -> f64 {
        let pairs = || values.iter().zip(fitted);
        let count = values.len() as f64;
        if self.form.starts_with('A') {
            return count * pairs().map(|(value, fitted)| (value - fitted).powi(2)).sum::<f64>().ln();
        }
        count * pairs().map(|(value, fitted)| (value / fitted - 1.0).powi(2)).sum::<f64>().ln()
            + 2.0 * fitted.iter().map(|fitted| fitted.abs().ln()).sum::<f64>()
    }
}

#[test]
fn exponential_smoothing_with_the_same_parameters_forecasts_the_same() {
    for case in cases() {
        for form in &case.ets.forms {
            let of = format!("{} {}", case.name, form.model().name());
            let steps = form.model().forecast(form.mean.len(), &[]).unwrap();
            close(&steps.mean, &form.mean, 1e-6, &of);
            close(&steps.sigma, form.sigmas.as_deref().unwrap_or_default(), 1e-6, &of);
            if form.sigmas.is_none() && !form.form.contains("MM") {
                let first = if form.form.starts_with('M') { form.sigma * form.mean[0] } else { form.sigma };
                close(&steps.sigma, &[first], 1e-6, &of);
            }
        }
    }
}

#[test]
fn exponential_smoothing_is_no_less_likely() {
    for case in cases() {
        for form in &case.ets.forms {
            let options = ets::Options { model: Some(form.form.parse().unwrap()), damped: Some(form.damped) };
            let fit = case.fit(&Method::Ets(options));
            let likelihood = form.likelihood(&case.values, &fit.fitted);
            let of = format!("{} {}", case.name, fit.model.name());
            assert!(likelihood < form.likelihood + 1e-4, "{of}: {likelihood} {}", form.likelihood);
        }
    }
}

#[test]
fn the_same_form_of_exponential_smoothing_is_chosen() {
    for case in cases().into_iter().filter(|case| case.ets.chosen.is_some()) {
        let name = case.fit(&Method::Ets(ets::Options::default())).model.name();
        assert_eq!(Some(name), case.ets.chosen, "{}", case.name);
    }
}

impl Lines {
    /// The model that has the parameters which statsforecast has found.
    fn model(&self, count: usize) -> Model {
        let mut seasonal = self.seasonal.clone();
        let begin = count % seasonal.len().max(1);
        seasonal.rotate_left(begin);
        let [level, mean, intercept, slope] = self.states;
        serde_json::from_value(serde_json::json!({"theta": {
            "kind": self.kind, "alpha": self.alpha, "theta": self.theta, "count": count,
            "states": {"level": level, "mean": mean, "intercept": intercept, "slope": slope},
            "decomposition": self.used, "seasonal": seasonal, "sigma": 1.0, "scale": 1.0,
        }}))
        .unwrap()
    }

    fn without_season(&self, values: &[f64]) -> Vec<f64> {
        let season = |step: usize| self.seasonal.get(step % self.seasonal.len().max(1));
        let apart = |(step, value): (usize, &f64)| match (season(step), self.used) {
            (None, _) => *value,
            (Some(season), Decomposition::Additive) => value - season,
            (Some(season), Decomposition::Multiplicative) => value / season,
        };
        values.iter().enumerate().map(apart).collect()
    }
}

#[test]
fn the_theta_method_with_the_same_parameters_forecasts_the_same() {
    for case in cases() {
        for lines in &case.theta.models {
            let mean = lines.model(case.values.len()).forecast(lines.mean.len(), &[]).unwrap().mean;
            close(&mean, &lines.mean, 1e-6, &format!("{} {:?}", case.name, lines.kind));
        }
    }
}

#[test]
fn the_theta_method_has_no_greater_errors_and_forecasts_the_same() {
    for case in cases() {
        for lines in &case.theta.models {
            let options = theta::Options { model: Some(lines.kind), decomposition: lines.asked };
            let fit = case.fit(&Method::Theta(options));
            let (values, fitted) = (lines.without_season(&case.values), lines.without_season(&fit.fitted));
            let errors = values.iter().zip(&fitted).skip(3).map(|(value, fitted)| (value - fitted).powi(2));
            let squares =
                errors.sum::<f64>() * values.len() as f64 / values.iter().map(|value| value.abs()).sum::<f64>();
            let of = format!("{} {:?} {:?}", case.name, lines.kind, lines.asked);
            assert!(squares <= lines.squares * (1.0 + 1e-6), "{of}: {squares} {}", lines.squares);
            let mean = fit.model.forecast(lines.mean.len(), &[]).unwrap().mean;
            close(&mean, &lines.mean, 1e-6, &of);
        }
    }
}

#[test]
fn the_same_model_of_the_theta_method_is_chosen() {
    for case in cases() {
        let Some(chosen) = case.theta.chosen else { continue };
        let model = case.fit(&Method::Theta(theta::Options::default())).model;
        assert_eq!(serde_json::to_value(model).unwrap()["theta"]["kind"], serde_json::json!(chosen), "{}", case.name);
    }
}

#[test]
fn the_decomposition_has_the_same_seasons_and_trend() {
    for case in cases() {
        let Some(theirs) = &case.mstl else { continue };
        let series = Series { values: &case.values, seasons: &theirs.seasons, regressors: &[] };
        let model = fit(&Method::Mstl(mstl::Options::default()), &series, &|| false).unwrap().model;
        assert!(model.name().ends_with(&theirs.trend), "{}: {} {}", case.name, model.name(), theirs.trend);
        let stored = serde_json::to_value(model).unwrap();
        let ours: Vec<Vec<f64>> = serde_json::from_value(stored["mstl"]["seasons"].clone()).unwrap();
        assert_eq!(ours.len(), theirs.last.len());
        ours.iter().zip(&theirs.last).for_each(|(ours, theirs)| close(ours, theirs, 1e-6, &case.name));
    }
}
