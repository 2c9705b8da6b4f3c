//! Series at the edges of what can be learnt.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::atomic::{AtomicUsize, Ordering};

use forecast::{Error, Method, Model, Series, ets, fit, mstl, theta};

fn methods() -> Vec<Method> {
    let form = |text: &str| Method::Ets(ets::Options { model: Some(text.parse().unwrap()), damped: None });
    let mut methods = vec![Method::SeasonalNaive, Method::Ets(ets::Options::default())];
    methods.extend(["ANN", "AAN", "AAA", "MAM", "MMN", "MMM", "ZZN", "ZMZ"].map(form));
    methods.push(Method::Theta(theta::Options::default()));
    methods.push(Method::Mstl(mstl::Options::default()));
    methods
}

/// Learns and continues a series. What is forecast must be finite, also by the model when it is read from its JSON, which
/// must forecast the same to the bit.
fn learn(method: &Method, values: &[f64], seasons: &[usize]) -> Result<Model, Error> {
    let fit = fit(method, &Series { values, seasons, regressors: &[] }, &|| false)?;
    assert_eq!(fit.fitted.len(), values.len());
    let steps = fit.model.forecast(60, &[])?;
    let about = || format!("{method:?} {seasons:?} {values:?}: {:?} {steps:?}", fit.model);
    assert!(steps.mean.iter().chain(&steps.sigma).all(|value| value.is_finite()), "{}", about());
    assert!(steps.sigma.iter().all(|sigma| *sigma >= 0.0), "{}", about());
    let stored = serde_json::to_string(&fit.model).unwrap();
    let read: Model = serde_json::from_str(&stored).unwrap();
    assert_eq!(read.forecast(60, &[])?, steps, "{}", about());
    Ok(fit.model)
}

fn wave(length: usize) -> impl Iterator<Item = f64> {
    (0..length).map(|step| 2.5 + (step as f64 * 0.7).sin() + (step as f64 * 1.9).cos())
}

#[test]
fn series_of_any_length_constant_or_huge_or_tiny_have_a_forecast_or_an_error() {
    let sizes = [1.0, -1.0, 1e300, 1e-300, f64::MAX / 5.0, f64::MIN_POSITIVE, 5e-324];
    for length in (0..=10).chain([13, 30]) {
        let mut all = vec![vec![0.0; length], vec![7.0; length], (0..length).map(|step| step as f64).collect()];
        all.push((0..length).map(|step| if step % 5 == 3 { 4.0 } else { 0.0 }).collect());
        all.push((0..length).map(|step| if step % 2 == 0 { 1e300 } else { 1e-300 }).collect());
        all.push((0..length).map(|step| if step + 1 == length { f64::MAX } else { -1.0 }).collect());
        all.extend(sizes.map(|size| wave(length).map(|value| value * size).collect()));
        for values in all {
            for seasons in [&[][..], &[2], &[4, 12], &[1000]] {
                for method in methods() {
                    if let Err(error) = learn(&method, &values, seasons) {
                        assert!(matches!(error, Error::Short { .. } | Error::Invalid(_)), "{error:?}");
                        let simple = matches!(&method, Method::Ets(options) if options.model.is_some());
                        assert!(length == 0 || simple, "{method:?} {seasons:?} {values:?}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_series_that_is_multiplied_has_its_forecasts_multiplied() {
    let values: Vec<f64> = wave(60).collect();
    let huge: Vec<f64> = values.iter().map(|value| value * 2_f64.powi(900)).collect();
    let tiny: Vec<f64> = values.iter().map(|value| value * 2_f64.powi(-900)).collect();
    for method in methods() {
        let steps = |values: &[f64]| {
            let fit = fit(&method, &Series { values, seasons: &[4], regressors: &[] }, &|| false);
            fit.and_then(|fit| fit.model.forecast(9, &[])).unwrap().mean
        };
        let same = |left: f64, right: f64| assert!((left / right - 1.0).abs() < 1e-3, "{method:?}: {left} {right}");
        steps(&huge)
            .iter()
            .zip(steps(&tiny))
            .for_each(|(huge, tiny)| same(huge / 2_f64.powi(900), tiny * 2_f64.powi(900)));
        steps(&huge).iter().zip(steps(&values)).for_each(|(huge, value)| same(huge / 2_f64.powi(900), value));
    }
}

#[test]
fn learning_ends_soon_after_it_is_stopped() {
    let values: Vec<f64> = wave(400).collect();
    let any = [
        (Method::Ets(ets::Options::default()), 30),
        (Method::Theta(theta::Options::default()), 3),
        (Method::Mstl(mstl::Options::default()), 6),
    ];
    for (method, most) in any {
        for patience in 0..=most {
            let asked = AtomicUsize::new(0);
            let stop = || asked.fetch_add(1, Ordering::Relaxed) >= patience;
            let outcome = fit(&method, &Series { values: &values, seasons: &[12], regressors: &[] }, &stop);
            assert_eq!(outcome.map(|fit| fit.model).unwrap_err(), Error::Stopped, "{method:?}");
            assert_eq!(asked.load(Ordering::Relaxed), patience + 1);
        }
    }
}

#[test]
fn forms_that_are_none_are_refused() {
    for text in ["", "ZZ", "NNN", "ZZZZ", "aan", "AXN", "ÄNN"] {
        assert!(matches!(text.parse::<ets::Form>(), Err(Error::Invalid(_))), "{text}");
    }
    for (form, damped) in [("AAM", None), ("AMN", None), ("MMA", None), ("ANN", Some(true))] {
        let method = Method::Ets(ets::Options { model: Some(form.parse().unwrap()), damped });
        let values: Vec<f64> = wave(60).map(|value| value + 5.0).collect();
        assert!(matches!(learn(&method, &values, &[12]), Err(Error::Invalid(_))), "{form}");
    }
}
