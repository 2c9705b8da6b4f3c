//! Forecasts of a model, and the standard deviations of their errors.

use super::estimate::Blocks;
use super::kalman::{Filter, Lags, lags, responses_of};
use super::{Model, polynomial};
use crate::{Error, Result, Steps};

impl Model {
    /// Forecasts `horizon` steps. `regressors` has the columns that the series had, each `horizon` long.
    pub fn forecast(&self, horizon: usize, regressors: &[Vec<f64>]) -> Result<Steps> {
        self.check(horizon, regressors)?;
        let mut blocks = Blocks {
            ar: self.ar.clone(),
            ma: self.ma.clone(),
            seasonal_ar: self.seasonal_ar.clone(),
            seasonal_ma: self.seasonal_ma.clone(),
            ..Blocks::default()
        };
        let orders = &self.orders;
        blocks.multiply(orders.season);
        let differences = polynomial::differences(orders.plain.1, orders.seasonal.1, orders.season);
        let mean = self.means(horizon, &blocks.all_ar, &differences, regressors);
        let variances = self.variances(horizon, &blocks, &differences);
        let sigma: Vec<f64> = variances.iter().map(|variance| self.sigma * variance.sqrt()).collect();
        if mean.iter().chain(&sigma).any(|value| !value.is_finite()) {
            return Err(Error::Invalid("a forecast exceeds the range of numbers".into()));
        }
        Ok(Steps { mean, sigma })
    }

    fn check(&self, horizon: usize, regressors: &[Vec<f64>]) -> Result<()> {
        if regressors.len() != self.regression.len() {
            let (needed, found) = (self.regression.len(), regressors.len());
            return Err(Error::Invalid(format!("the model was learnt with {needed} regressors, not {found}")));
        }
        if regressors.iter().any(|column| column.len() != horizon || column.iter().any(|value| !value.is_finite())) {
            return Err(Error::Invalid(format!("each regressor must have {horizon} finite numbers, one a step")));
        }
        Ok(())
    }

    fn means(&self, horizon: usize, ar: &[f64], differences: &[f64], regressors: &[Vec<f64>]) -> Vec<f64> {
        let mut sparse = Lags::new();
        lags(ar, &mut sparse);
        // What is already known to enter each step, and then what the steps before it add.
        let mut changes = self.state.clone();
        changes.resize(horizon.max(changes.len()), 0.0);
        for step in 0..horizon {
            let earlier = sparse.iter().take_while(|(lag, _)| *lag <= step);
            changes[step] += earlier.map(|(lag, coefficient)| coefficient * changes[step - lag]).sum::<f64>();
        }
        lags(differences, &mut sparse);
        let mut values = self.tail.clone();
        for change in &changes[..horizon] {
            let length = values.len();
            let earlier = sparse.iter().map(|(lag, coefficient)| coefficient * values[length - lag]);
            values.push(change + earlier.sum::<f64>());
        }
        let mut mean = values.split_off(self.tail.len());
        for (step, mean) in mean.iter_mut().enumerate() {
            *mean += self.constant_at(self.length + step);
            for (coefficient, column) in self.regression.iter().zip(regressors) {
                *mean += coefficient * column[step];
            }
        }
        mean
    }

    /// Of the forecasts' errors, by that of the process: the errors of future steps, and what the filter has not yet
    /// learnt of the past ones.
    fn variances(&self, horizon: usize, blocks: &Blocks, differences: &[f64]) -> Vec<f64> {
        let (mut ar, mut ma, mut integration) = (Lags::new(), Lags::new(), Lags::new());
        lags(&blocks.all_ar, &mut ar);
        lags(&blocks.all_ma, &mut ma);
        lags(differences, &mut integration);
        let mut responses = Vec::new();
        responses_of(&ar, &ma, horizon, &mut responses);
        integrate(&integration, &mut responses);
        let mut variance = 0.0;
        let mut variances: Vec<f64> = responses
            .iter()
            .map(|response| {
                variance += response * response;
                variance
            })
            .collect();
        let mut filter = Filter::default();
        let steps = self.length - differences.len();
        if let Some(unknown) = filter.unknown(&blocks.all_ar, &blocks.all_ma, steps) {
            responses_of(&ar, &Lags::new(), horizon, &mut responses);
            integrate(&integration, &mut responses);
            for (step, variance) in variances.iter_mut().enumerate() {
                let reached = (step + 1).min(unknown.len());
                for (row, elements) in unknown[..reached].iter().enumerate() {
                    let along: f64 = (0..reached).map(|column| elements[column] * responses[step - column]).sum();
                    *variance += along * responses[step - row];
                }
            }
        }
        variances
    }
}

/// Sums up responses of differences to those of the values themselves.
fn integrate(differences: &Lags, responses: &mut [f64]) {
    for step in 1..responses.len() {
        let earlier = differences.iter().take_while(|(lag, _)| *lag <= step);
        responses[step] += earlier.map(|(lag, coefficient)| coefficient * responses[step - lag]).sum::<f64>();
    }
}
