//! Forecasts by ARIMA against those of statsforecast; tests/arima/generate.py makes the cases.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use forecast::{Error, Fit, Method, Model, Series, arima, fit};
use serde::Deserialize;

#[derive(Deserialize)]
struct Cases {
    given: Vec<Given>,
    chosen: Vec<Chosen>,
}

#[derive(Deserialize)]
struct Chosen {
    season: usize,
    values: Vec<f64>,
    order: (usize, usize, usize),
    seasonal: (usize, usize, usize),
    constant: bool,
    aicc: f64,
}

#[derive(Deserialize)]
struct Given {
    name: String,
    values: Vec<f64>,
    season: usize,
    order: (usize, usize, usize),
    seasonal: (usize, usize, usize),
    constant: bool,
    regressors: Vec<Vec<f64>>,
    future: Vec<Vec<f64>>,
    log_likelihood: f64,
    mean: Vec<f64>,
    sigma: Vec<f64>,
}

fn cases() -> Cases {
    serde_json::from_str(include_str!("arima/cases.json")).unwrap()
}

fn learn(series: &Series, options: arima::Options) -> Result<Fit, Error> {
    fit(&Method::Arima(options), series, &|| false)
}

fn model(fit: &Fit) -> &arima::Model {
    match &fit.model {
        Model::Arima(model) => model,
        other => panic!("{other:?}"),
    }
}

/// The largest difference, by the largest number.
fn distance(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs() / largest).fold(0.0, f64::max)
}

#[test]
fn forecasts_of_given_orders_are_those_of_the_oracle() {
    for case in cases().given {
        let series = Series { values: &case.values, seasons: &[case.season], regressors: &case.regressors };
        let (order, seasonal, constant) = (Some(case.order), Some(case.seasonal), Some(case.constant));
        let fit = learn(&series, arima::Options { order, seasonal, constant }).unwrap();
        let steps = fit.model.forecast(case.mean.len(), &case.future).unwrap();
        let (mean, sigma) = (distance(&steps.mean, &case.mean), distance(&steps.sigma, &case.sigma));
        assert!(mean < 1e-6 && sigma < 5e-5, "{}: {mean} {sigma}", case.name);
        // The oracle takes the first values for draws of a variance of a million, not of an unbounded one, of which the
        // level of a series with little noise shows in its likelihood.
        let tolerance = if case.order.1 + case.seasonal.1 > 0 { 5e-3 } else { 1e-6 };
        let likelihood = model(&fit).log_likelihood().unwrap();
        assert!(likelihood > case.log_likelihood - tolerance, "{}: {likelihood}", case.name);
    }
}

#[test]
fn a_stored_model_forecasts_the_same() {
    for case in cases().given {
        let series = Series { values: &case.values, seasons: &[case.season], regressors: &case.regressors };
        let (order, seasonal, constant) = (Some(case.order), Some(case.seasonal), Some(case.constant));
        let fit = learn(&series, arima::Options { order, seasonal, constant }).unwrap();
        let stored = serde_json::to_string(&fit.model).unwrap();
        let read: Model = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, fit.model);
        assert_eq!(read.forecast(14, &case.future), fit.model.forecast(14, &case.future));
    }
}

/// Where they differ, this finds a model that is likelier than the oracle's, or refuses one whose likeliest parameters,
/// which the oracle has not reached, are near a unit root. Of airline passengers the choice is that which Hyndman and
/// Khandakar publish.
#[test]
fn chosen_orders_are_mostly_those_of_the_oracle() {
    let mut worse = Vec::new();
    let mut same = 0;
    let cases = cases().chosen;
    for case in &cases {
        let series = Series { values: &case.values, seasons: &[case.season], regressors: &[] };
        let fit = learn(&series, arima::Options::default()).unwrap();
        let (order, seasonal, constant) = (Some(case.order), Some(case.seasonal), Some(case.constant));
        let given = learn(&series, arima::Options { order, seasonal, constant }).unwrap();
        same += usize::from(fit.model.name() == given.model.name());
        worse.push(model(&fit).aicc().unwrap() - case.aicc);
        if case.values[..3] == [112.0, 118.0, 132.0] {
            assert_eq!(fit.model.name(), "ARIMA(2,1,1)(0,1,0)[12]");
        }
    }
    worse.sort_by(f64::total_cmp);
    assert!(same * 3 >= cases.len() * 2, "{same} of {}", cases.len());
    assert!(worse[worse.len() / 2] < 1e-6 && worse[worse.len() - 1] < 7.0, "{worse:?}");
}

/// Learns and forecasts; what comes must be numbers.
fn survive(series: &Series, options: arima::Options, future: &[Vec<f64>]) -> Option<(String, Vec<f64>, Vec<f64>)> {
    match learn(series, options) {
        Ok(fit) => {
            assert_eq!(fit.fitted.len(), series.values.len());
            let name = fit.model.name();
            match fit.model.forecast(5, future) {
                Ok(steps) => {
                    assert!(steps.mean.iter().chain(&steps.sigma).all(|value| value.is_finite()), "{name}");
                    assert!(steps.sigma.iter().all(|value| *value >= 0.0));
                    let stored = serde_json::to_string(&fit.model).unwrap();
                    assert_eq!(serde_json::from_str::<Model>(&stored).unwrap(), fit.model, "{name}");
                    Some((name, steps.mean, steps.sigma))
                }
                Err(error) => {
                    assert!(error.to_string().contains("range of numbers"), "{error}");
                    None
                }
            }
        }
        Err(error) => {
            assert!(matches!(error, Error::Short { .. } | Error::Invalid(_)), "{error:?}");
            None
        }
    }
}

fn noise(step: usize) -> f64 {
    ((step * step * 37 + step * 11) % 101) as f64 / 50.0 - 1.0
}

#[test]
fn any_series_has_a_model_or_a_clear_error() {
    type Shape = fn(usize) -> f64;
    let shapes: [Shape; 9] = [
        |_| 0.0,
        |_| 7.3,
        |step| 0.1 * step as f64 + 5.0,
        |step| (step * step) as f64,
        noise,
        |step| 1e300 * noise(step),
        |step| 1e-300 * noise(step),
        |step| 1e12 + 1e-3 * noise(step),
        |step| if step == 7 { 1e9 } else { noise(step) },
    ];
    for (index, shape) in shapes.iter().enumerate() {
        for length in (0..=12).chain([25, 30, 47, 60]) {
            let values: Vec<f64> = (0..length).map(shape).collect();
            for season in [1, 2, 4, 12, 365] {
                let series = Series { values: &values, seasons: &[season], regressors: &[] };
                let found = survive(&series, arima::Options::default(), &[]);
                assert!(found.is_some() || length == 0 || index == 5, "{index} {length} {season}");
                for (order, seasonal) in [((1, 0, 1), (0, 0, 0)), ((0, 1, 1), (0, 1, 1)), ((2, 2, 0), (1, 0, 0))] {
                    let options = arima::Options { order: Some(order), seasonal: Some(seasonal), ..Default::default() };
                    survive(&series, options, &[]);
                }
                let columns: [Shape; 4] =
                    [|_| 2.0, |step| step as f64, |step| noise(step + 9), |step| step as f64 - 1.0];
                let regressors: Vec<Vec<f64>> = columns.iter().map(|of| (0..length).map(of).collect()).collect();
                let future: Vec<Vec<f64>> = columns.iter().map(|of| (length..length + 5).map(of).collect()).collect();
                for order in [None, Some((1, 0, 1)), Some((1, 1, 0))] {
                    let series = Series { regressors: &regressors, ..series };
                    survive(&series, arima::Options { order, ..Default::default() }, &future);
                }
                for constant in [Some(true), Some(false)] {
                    survive(&series, arima::Options { constant, ..Default::default() }, &[]);
                    let seasonal = Some((1, 1, 0));
                    survive(&series, arima::Options { constant, seasonal, order: None }, &[]);
                }
            }
        }
    }
}

/// Its moving average has a root at the unit circle, which is kept away from it.
#[test]
fn a_season_that_does_not_change_is_forecast_by_a_moving_average() {
    let height = |step: usize| 6.0 * noise(step % 12) + 0.05 * step as f64;
    let values: Vec<f64> = (0..144).map(|step| height(step) + noise(step)).collect();
    let series = Series { values: &values, seasons: &[12], regressors: &[] };
    let (name, mean, _) = survive(&series, arima::Options::default(), &[]).unwrap();
    assert!(name.contains("(0,1,1)[12]"), "{name}");
    assert!(mean.iter().zip(144..).all(|(mean, step)| (mean - height(step)).abs() < 1.0), "{mean:?}");
}

#[test]
fn simple_series_are_continued_as_they_are() {
    let learn = |values: &[f64], season| {
        let series = Series { values, seasons: &[season], regressors: &[] };
        survive(&series, arima::Options::default(), &[]).unwrap()
    };
    let (name, mean, sigma) = learn(&[7.3; 40], 12);
    assert_eq!((name.as_str(), sigma), ("ARIMA(0,0,0) with mean", vec![0.0; 5]));
    assert!(distance(&mean, &[7.3; 5]) < 1e-14);
    let line: Vec<f64> = (0..40).map(|step| 5.0 + 0.1 * step as f64).collect();
    let (name, mean, _) = learn(&line, 1);
    assert_eq!(name, "ARIMA(0,1,0) with drift");
    assert!(distance(&mean, &[9.0, 9.1, 9.2, 9.3, 9.4]) < 1e-12, "{mean:?}");
    let (_, mean, _) = learn(&[4.0], 12);
    assert_eq!(mean, [4.0; 5]);
    let season: Vec<f64> = (0..40).map(|step| [1.0, 5.0, 2.0, -3.0][step % 4]).collect();
    let (_, mean, _) = learn(&season, 4);
    assert!(distance(&mean, &[1.0, 5.0, 2.0, -3.0, 1.0]) < 1e-12, "{mean:?}");
}

/// A model is the same whatever the unit of the series.
#[test]
fn units_do_not_matter() {
    let values: Vec<f64> = (0..80).map(|step| noise(step) + 0.05 * step as f64 + 3.0 * noise(step % 4)).collect();
    let learn = |unit: f64| {
        let values: Vec<f64> = values.iter().map(|value| value * unit).collect();
        survive(&Series { values: &values, seasons: &[4], regressors: &[] }, Default::default(), &[]).unwrap()
    };
    let (name, mean, sigma) = learn(1.0);
    for unit in [1e-200_f64, 1e-5, 1e10, 1e200] {
        let (other, scaled, deviations) = learn(unit);
        assert_eq!(other, name);
        let back = |values: Vec<f64>| values.iter().map(|value| value / unit).collect::<Vec<f64>>();
        assert!(distance(&back(scaled), &mean) < 1e-6 && distance(&back(deviations), &sigma) < 1e-6);
    }
}

#[test]
fn regressors_that_tell_nothing_new_have_no_effect() {
    let values: Vec<f64> = (0..60).map(|step| 3.0 + 2.0 * noise(step + 5) + noise(step)).collect();
    let useful: Vec<f64> = (0..65).map(|step| noise(step + 5)).collect();
    let double: Vec<f64> = useful.iter().map(|value| 2.0 * value + 1.0).collect();
    let forecast = |columns: &[&Vec<f64>], options: arima::Options| {
        let learnt: Vec<Vec<f64>> = columns.iter().map(|column| column[..60].to_vec()).collect();
        let future: Vec<Vec<f64>> = columns.iter().map(|column| column[60..].to_vec()).collect();
        survive(&Series { values: &values, seasons: &[], regressors: &learnt }, options, &future).unwrap().1
    };
    for order in [None, Some((1, 0, 0)), Some((0, 1, 1))] {
        let options = arima::Options { order, ..Default::default() };
        let alone = forecast(&[&useful], options.clone());
        let more = forecast(&[&useful, &double, &vec![4.0; 65], &vec![0.0; 65]], options.clone());
        assert!(distance(&more, &alone) < 1e-9);
        let tiny: Vec<f64> = useful.iter().map(|value| 1e-290 * value).collect();
        assert!(distance(&forecast(&[&tiny], options), &alone) < 1e-9);
    }
}

#[test]
fn what_cannot_be_learnt_or_continued_is_refused() {
    let values: Vec<f64> = (0..30).map(noise).collect();
    let refused = |values: &[f64], regressors: &[Vec<f64>], order, seasonal, constant| {
        let series = Series { values, seasons: &[12], regressors };
        learn(&series, arima::Options { order, seasonal, constant }).unwrap_err().to_string()
    };
    let short = refused(&values[..26], &[], Some((0, 1, 1)), Some((0, 1, 1)), None);
    assert_eq!(short, "a series of 26 values is too short for ARIMA of these orders, which needs 27");
    let far = refused(&values, &[], Some((usize::MAX, 0, 0)), Some((usize::MAX, 0, usize::MAX)), None);
    assert_eq!(far, "the orders reach further back than 2000 steps");
    let constant = refused(&values, &[], Some((0, 1, 0)), Some((0, 1, 0)), Some(true));
    assert_eq!(constant, "a model with two differences or more has no constant");
    assert!(refused(&[1.0, f64::NAN], &[], None, None, None).contains("finite"));
    assert!(refused(&values, &[vec![1.0]], None, None, None).contains("30 numbers"));
    let series = Series { values: &values, seasons: &[], regressors: std::slice::from_ref(&values) };
    let learnt = learn(&series, arima::Options { order: Some((1, 0, 0)), ..Default::default() }).unwrap().model;
    assert!(learnt.forecast(2, &[]).unwrap_err().to_string().contains("1 regressors"));
    assert!(learnt.forecast(2, &[vec![1.0]]).unwrap_err().to_string().contains("2 finite numbers"));
    assert!(learnt.forecast(1, &[vec![f64::NAN]]).is_err());
}

#[test]
fn a_search_is_stopped() {
    let values: Vec<f64> = (0..80).map(noise).collect();
    let series = Series { values: &values, seasons: &[4], regressors: &[] };
    let asked = std::sync::atomic::AtomicUsize::new(0);
    for after in [0, 1, 10, 100] {
        asked.store(0, std::sync::atomic::Ordering::Relaxed);
        let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= after;
        let stopped = fit(&Method::Arima(arima::Options::default()), &series, &stop);
        assert_eq!(stopped.err(), Some(Error::Stopped));
    }
}
