//! The recursions of exponential smoothing: Hyndman et al. (2008), table 2.2, in the form that corrects the states by
//! the observed value, which is the same for additive and multiplicative errors.

use super::{Component, Shape};

/// How fast the states follow the series; those that a shape lacks are 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub alpha: f64,
    pub beta: f64,
    pub gamma: f64,
    /// 1 for a trend that is not damped.
    pub phi: f64,
}

/// What is known after a step.
#[derive(Clone, Debug)]
pub(super) struct States {
    pub level: f64,
    pub slope: f64,
    /// A ring, read and replaced at `next`; one value if there is no season.
    pub season: Vec<f64>,
    pub next: usize,
}

const NONE: u8 = 0;
const ADDITIVE: u8 = 1;
const MULTIPLICATIVE: u8 = 2;

/// Smooths `values` beginning with `states`, and calls `each` with the forecast and the value of every step.
pub(super) fn smooth(
    shape: Shape,
    parameters: &Parameters,
    states: &mut States,
    values: &[f64],
    each: impl FnMut(f64, f64),
) {
    use Component::{Additive as A, Multiplicative as M, None as N};
    match (shape.trend, shape.season) {
        (N, N) => recursion::<NONE, NONE>(parameters, states, values, each),
        (N, A) => recursion::<NONE, ADDITIVE>(parameters, states, values, each),
        (N, M) => recursion::<NONE, MULTIPLICATIVE>(parameters, states, values, each),
        (A, N) => recursion::<ADDITIVE, NONE>(parameters, states, values, each),
        (A, A) => recursion::<ADDITIVE, ADDITIVE>(parameters, states, values, each),
        (A, M) => recursion::<ADDITIVE, MULTIPLICATIVE>(parameters, states, values, each),
        (M, N) => recursion::<MULTIPLICATIVE, NONE>(parameters, states, values, each),
        (M, A) => recursion::<MULTIPLICATIVE, ADDITIVE>(parameters, states, values, each),
        (M, M) => recursion::<MULTIPLICATIVE, MULTIPLICATIVE>(parameters, states, values, each),
    }
}

/// Compiled for each pair of components, as it is run some thousand times for each series.
fn recursion<const TREND: u8, const SEASON: u8>(
    parameters: &Parameters,
    states: &mut States,
    values: &[f64],
    mut each: impl FnMut(f64, f64),
) {
    let &Parameters { alpha, beta, gamma, phi } = parameters;
    let (mut level, mut slope, mut next) = (states.level, states.slope, states.next);
    let season = &mut states.season[..];
    for &value in values {
        let grown = match TREND {
            NONE => 0.0,
            ADDITIVE => phi * slope,
            _ if phi == 1.0 => slope,
            _ => slope.powf(phi),
        };
        let expected = match TREND {
            NONE => level,
            ADDITIVE => level + grown,
            _ => level * grown,
        };
        let (forecast, adjusted) = match SEASON {
            NONE => (expected, value),
            ADDITIVE => (expected + season[next], value - season[next]),
            _ => (expected * season[next], value / season[next]),
        };
        each(forecast, value);
        let before = level;
        level = expected + alpha * (adjusted - expected);
        slope = match TREND {
            NONE => 0.0,
            ADDITIVE => grown + beta * (adjusted - expected),
            _ => grown + beta / alpha * (level / before - grown),
        };
        if SEASON != NONE {
            let seen = if SEASON == ADDITIVE { value - expected } else { value / expected };
            season[next] += gamma * (seen - season[next]);
            next += 1;
            if next == season.len() {
                next = 0;
            }
        }
    }
    (states.level, states.slope, states.next) = (level, slope, next);
}

/// Sums of the logarithms of many numbers, of which few are taken.
pub(super) struct LogSum {
    product: f64,
    sum: f64,
}

impl LogSum {
    pub(super) fn new() -> Self {
        Self { product: 1.0, sum: 0.0 }
    }

    pub(super) fn add(&mut self, number: f64) {
        self.product *= number;
        if !(1e-100..1e100).contains(&self.product) {
            self.sum += self.product.ln();
            self.product = 1.0;
        }
    }

    pub(super) fn total(&self) -> f64 {
        self.sum + self.product.ln()
    }
}
