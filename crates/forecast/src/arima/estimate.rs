//! Estimation of a model of given orders: by conditional sum of squares, and from there by exact maximum likelihood.

use std::f64::consts::TAU;

use super::kalman::{self, Filter, Sums};
use super::regression::{Design, least_squares};
use super::{Orders, polynomial};
use crate::optimise::{Tolerance, minimise};
use crate::{Result, Stop};

/// Enough to tell one model from another.
pub(super) const SEARCHED: Tolerance = Tolerance { gradient: 1e-4, gain: 1e-7, steps: 100 };
/// Enough for forecasts that are the same to six digits or more.
pub(super) const FINAL: Tolerance = Tolerance { gradient: 1e-9, gain: 0.0, steps: 300 };
const STARTED: Tolerance = Tolerance { gradient: 1e-3, gain: 1e-6, steps: 50 };
/// Roots so near the unit circle belong to a model that should have been differenced more or less.
const NEAR_UNIT: f64 = 1.01;

/// A model of these orders for this design, whose parameters vary.
pub(super) struct Candidate<'a> {
    pub orders: Orders,
    /// Keeps the roots of the seasonal moving average away from the unit circle. A season that hardly changes has its
    /// likeliest one there, and one nearby forecasts it better than the models that have none.
    pub bounded: bool,
    design: &'a Design,
    columns: Vec<&'a [f64]>,
    pub blocks: Blocks,
    filter: Filter,
    sums: Sums,
    buffer: Vec<f64>,
    /// Of the basis of the design, by the last evaluation.
    pub of_basis: Vec<f64>,
}

/// Coefficients of the four polynomials, and of both products.
#[derive(Default)]
pub(super) struct Blocks {
    pub ar: Vec<f64>,
    pub ma: Vec<f64>,
    pub seasonal_ar: Vec<f64>,
    pub seasonal_ma: Vec<f64>,
    pub all_ar: Vec<f64>,
    pub all_ma: Vec<f64>,
}

impl Blocks {
    fn set(&mut self, orders: &Orders, bounded: bool, parameters: &[f64]) {
        let (ar, rest) = parameters.split_at(orders.plain.0);
        let (ma, rest) = rest.split_at(orders.plain.2);
        let (seasonal_ar, seasonal_ma) = rest.split_at(orders.seasonal.0);
        polynomial::stationary(ar, &mut self.ar);
        polynomial::stationary(ma, &mut self.ma);
        polynomial::stationary(seasonal_ar, &mut self.seasonal_ar);
        polynomial::stationary(seasonal_ma, &mut self.seasonal_ma);
        self.ma.iter_mut().chain(&mut self.seasonal_ma).for_each(|coefficient| *coefficient = -*coefficient);
        if bounded {
            let within = NEAR_UNIT.powf(-(orders.season as f64));
            let powers = std::iter::successors(Some(within), |power| Some(power * within));
            self.seasonal_ma.iter_mut().zip(powers).for_each(|(coefficient, power)| *coefficient *= power);
        }
        self.multiply(orders.season);
    }

    pub fn multiply(&mut self, season: usize) {
        polynomial::product(&self.ar, &self.seasonal_ar, season, -1.0, &mut self.all_ar);
        polynomial::product(&self.ma, &self.seasonal_ma, season, 1.0, &mut self.all_ma);
    }

    /// Whether a root that is not kept from it is near the unit circle.
    fn near_unit(&self, season: usize) -> bool {
        let beyond = |coefficients: &[f64], sign: f64, radius: f64| {
            let signed: Vec<f64> = coefficients.iter().map(|coefficient| sign * coefficient).collect();
            polynomial::roots_beyond(&signed, radius)
        };
        let seasonal = NEAR_UNIT.powf(season as f64);
        !(beyond(&self.ar, 1.0, NEAR_UNIT)
            && beyond(&self.ma, -1.0, NEAR_UNIT)
            && beyond(&self.seasonal_ar, 1.0, seasonal))
    }
}

/// How well a candidate describes the series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Estimate {
    pub parameters: Vec<f64>,
    /// None if it is without error.
    pub log_likelihood: Option<f64>,
    /// Akaike's criterion, corrected for the number of values (Hurvich and Tsai, 1989); infinite if there are too few.
    pub aicc: f64,
    pub near_unit: bool,
}

impl<'a> Candidate<'a> {
    pub fn new(orders: Orders, bounded: bool, design: &'a Design) -> Self {
        Candidate {
            orders,
            bounded,
            design,
            columns: design.filtered(),
            blocks: Blocks::default(),
            filter: Filter::default(),
            sums: Sums::default(),
            buffer: Vec::new(),
            of_basis: Vec::new(),
        }
    }

    /// The number of coefficients, those of regression as well.
    pub fn count(&self) -> usize {
        self.orders.count() + self.design.basis.len()
    }

    /// Half the logarithm of the mean square error, plus half the mean of the logarithm of the variances.
    fn exact(&mut self, parameters: &[f64]) -> f64 {
        self.blocks.set(&self.orders, self.bounded, parameters);
        if !self.filter.begin(&self.blocks.all_ar, &self.blocks.all_ma)
            || !self.filter.run(&self.columns, &mut self.sums, None)
        {
            return f64::INFINITY;
        }
        let length = self.columns[0].len() as f64;
        let squares = least_squares(&self.sums.products, &mut self.of_basis);
        let value = 0.5 * ((squares / length).ln() + self.sums.log_variances / length);
        // What leaves no error at all leaves nothing to judge it by.
        if value.is_finite() { value } else { f64::INFINITY }
    }

    fn conditional(&mut self, parameters: &[f64]) -> f64 {
        self.blocks.set(&self.orders, self.bounded, parameters);
        kalman::lags(&self.blocks.all_ar, &mut self.filter.ar_lags);
        kalman::lags(&self.blocks.all_ma, &mut self.filter.ma_lags);
        let Filter { ar_lags, ma_lags, .. } = &self.filter;
        kalman::conditional(&self.columns, ar_lags, ma_lags, &mut self.sums.products, &mut self.buffer);
        0.5 * (least_squares(&self.sums.products, &mut self.of_basis) / self.columns[0].len() as f64).ln()
    }

    /// The most likely parameters near `start`, else near those of least conditional squares.
    pub fn estimate(&mut self, start: Option<&[f64]>, tolerance: Tolerance, stop: Stop) -> Result<Estimate> {
        let zeros = vec![0.0; self.orders.count()];
        if self.design.scale == 0.0 {
            self.blocks.set(&self.orders, self.bounded, &zeros);
            self.of_basis = vec![0.0; self.design.basis.len()];
            return Ok(Estimate { parameters: zeros, log_likelihood: None, aicc: f64::NEG_INFINITY, near_unit: false });
        }
        let given = self.orders.plain.0 + self.orders.seasonal.0 * self.orders.season;
        let start = match start {
            Some(start) => start.to_vec(),
            None if zeros.is_empty() || self.columns[0].len() <= given + 2 * self.count() => zeros,
            None => minimise(&mut |parameters| self.conditional(parameters), &zeros, STARTED, stop)?.point,
        };
        // Least squares may lead to where rounding makes a process of no stationary distribution.
        let start = if self.exact(&start).is_finite() { start } else { vec![0.0; self.orders.count()] };
        let found = minimise(&mut |parameters| self.exact(parameters), &start, tolerance, stop)?;
        // The coefficients are those of the last evaluation.
        let value = self.exact(&found.point);
        let length = self.columns[0].len() as f64;
        let deviance = length * (2.0 * value + 1.0 + TAU.ln() + 2.0 * self.design.scale.ln());
        let numbers = (self.count() + 1) as f64;
        let left = length - numbers - 1.0;
        let correction = if left > 0.0 { 2.0 * numbers * (numbers + 1.0) / left } else { f64::INFINITY };
        Ok(Estimate {
            parameters: found.point,
            log_likelihood: Some(-0.5 * deviance),
            aicc: deviance + 2.0 * numbers + correction,
            near_unit: self.blocks.near_unit(self.orders.season),
        })
    }

    /// The coefficients of the regression in units of the series; and for the last evaluation: the errors, the state of
    /// the next value, and the standard deviation of the errors.
    pub fn finish(&mut self) -> Finished {
        let regression = self.design.coefficients(&self.of_basis);
        let scale = self.design.scale;
        let mut residual = self.design.residual.clone();
        for (element, coefficient) in self.design.basis.iter().zip(&self.of_basis) {
            residual.iter_mut().zip(element).for_each(|(value, element)| *value -= coefficient * element);
        }
        let mut errors = Vec::with_capacity(residual.len());
        self.filter.begin(&self.blocks.all_ar, &self.blocks.all_ma);
        self.filter.run(&[&residual], &mut self.sums, Some(&mut errors));
        errors.iter_mut().for_each(|error| *error *= scale);
        let free = residual.len().saturating_sub(self.count()).max(1) as f64;
        Finished {
            regression,
            state: self.filter.state().iter().map(|element| element * scale).collect(),
            sigma: (self.sums.products[0] / free).sqrt() * scale,
            errors,
        }
    }
}

pub(super) struct Finished {
    pub regression: Vec<f64>,
    pub errors: Vec<f64>,
    pub state: Vec<f64>,
    pub sigma: f64,
}
