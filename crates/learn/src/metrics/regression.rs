//! Metrics of a regression.

use super::Named;
use super::sum::Sum;

/// Sums over predictions and true values.
#[derive(Clone, Debug, Default)]
pub struct Regression {
    rows: u64,
    absolute: Sum,
    squared: Sum,
    /// Welford's running mean and sum of squared distances from it.
    mean: f64,
    spread: Sum,
}

impl Regression {
    /// No rows yet.
    pub fn new() -> Regression {
        Regression::default()
    }

    /// Takes a row.
    pub fn add(&mut self, truth: f64, predicted: f64) {
        self.rows += 1;
        let error = truth - predicted;
        self.absolute.add(error.abs());
        self.squared.add(error * error);
        let before = truth - self.mean;
        self.mean += before / self.rows as f64;
        self.spread.add(before * (truth - self.mean));
    }

    /// How many rows there were.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn average(&self, sum: Sum) -> Option<f64> {
        (self.rows > 0).then(|| sum.value() / self.rows as f64)
    }

    /// scikit-learn's `r2_score`: the share of the variance that is explained. Where the truth is constant, it is 1
    /// for perfect predictions and 0 for others; with fewer than two rows it is not defined.
    pub fn r2(&self) -> Option<f64> {
        if self.rows < 2 {
            return None;
        }
        let (unexplained, total) = (self.squared.value(), self.spread.value());
        Some(match (unexplained == 0.0, total == 0.0) {
            (true, true) => 1.0,
            (false, true) => 0.0,
            _ => 1.0 - unexplained / total,
        })
    }

    /// scikit-learn's `mean_absolute_error`.
    pub fn mean_absolute_error(&self) -> Option<f64> {
        self.average(self.absolute)
    }

    /// scikit-learn's `mean_squared_error`.
    pub fn mean_squared_error(&self) -> Option<f64> {
        self.average(self.squared)
    }

    /// scikit-learn's `root_mean_squared_error`.
    pub fn root_mean_squared_error(&self) -> Option<f64> {
        self.mean_squared_error().map(f64::sqrt)
    }

    /// All of them, the one that models are compared by first.
    pub fn all(&self) -> Vec<Named> {
        vec![
            ("r2", self.r2()),
            ("mean_absolute_error", self.mean_absolute_error()),
            ("mean_squared_error", self.mean_squared_error()),
            ("root_mean_squared_error", self.root_mean_squared_error()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_values_close_together_keep_their_r2() {
        // With naive sums of squares around 1e9 the variance, 1/6, would drown.
        let mut metrics = Regression::new();
        for i in 0..3000 {
            let truth = 1e9 + f64::from(i % 3) * 0.5;
            metrics.add(truth, truth + 0.1 * f64::from(i % 2 * 2 - 1));
        }
        let wanted = 1.0 - 0.01 / (1.0 / 6.0);
        assert!((metrics.r2().unwrap() - wanted).abs() < 1e-6, "{:?}", metrics.r2());
    }

    #[test]
    fn nothing_is_defined_without_rows() {
        assert!(Regression::new().all().iter().all(|(_, value)| value.is_none()));
    }
}
