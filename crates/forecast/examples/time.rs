//! Time that each method takes for a series: `cargo run --release -p forecast --example time [FILE]`, where the file is
//! a JSON array of series of one season of 12 steps; without it they are made up.

#![allow(clippy::expect_used, reason = "an example that is run by hand")]

use std::time::Instant;

use forecast::{Method, Series, arima, ets, fit, mstl, theta};

fn main() {
    let series: Vec<Vec<f64>> = match std::env::args().nth(1) {
        Some(file) => serde_json::from_str(&std::fs::read_to_string(file).expect("a file")).expect("series"),
        None => (0..100).map(made).collect(),
    };
    for (name, method) in [
        ("seasonal naive", Method::SeasonalNaive),
        ("exponential smoothing", Method::Ets(ets::Options::default())),
        ("theta", Method::Theta(theta::Options::default())),
        ("mstl", Method::Mstl(mstl::Options::default())),
        ("arima", Method::Arima(arima::Options::default())),
    ] {
        let begun = Instant::now();
        for values in &series {
            let learnt = fit(&method, &Series { values, seasons: &[12], regressors: &[] }, &|| false);
            learnt.and_then(|learnt| learnt.model.forecast(24, &[])).expect("a forecast");
        }
        println!("{name}: {:?} a series", begun.elapsed() / series.len() as u32);
    }
}

/// 200 values with a trend, a season and noise.
fn made(seed: u32) -> Vec<f64> {
    let mut state = f64::from(seed) + 0.5;
    let mut noise = || {
        state = (state * 16_807.0) % 2_147_483_647.0;
        state / 2_147_483_647.0 - 0.5
    };
    let season: Vec<f64> = (0..12).map(|_| 40.0 * noise()).collect();
    let slope = noise();
    (0..200).map(|step| 200.0 + slope * f64::from(step) + season[step as usize % 12] + 20.0 * noise()).collect()
}
