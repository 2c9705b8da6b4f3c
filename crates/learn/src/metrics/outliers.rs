//! Metrics of a model of outliers: there is no label, so they say what it does and not how right that is.

use super::Named;

/// Counts of rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outliers {
    rows: u64,
    outliers: u64,
    sum: f64,
}

impl Outliers {
    /// Takes by how much the score of a row is above the threshold.
    pub fn add(&mut self, score: f64) {
        self.rows += 1;
        self.outliers += u64::from(score > 0.0);
        self.sum += score;
    }

    /// The share of the rows that are outliers, and the mean of the scores.
    pub fn all(&self) -> Vec<Named> {
        let of_rows = |sum: f64| (self.rows > 0).then(|| sum / self.rows as f64);
        vec![("outlier_share", of_rows(self.outliers as f64)), ("mean_score", of_rows(self.sum))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_above_zero() {
        let mut sums = Outliers::default();
        assert_eq!(sums.all(), [("outlier_share", None), ("mean_score", None)]);
        [0.5, -0.5, 0.0, 2.0].into_iter().for_each(|score| sums.add(score));
        assert_eq!(sums.all(), [("outlier_share", Some(0.5)), ("mean_score", Some(0.5))]);
    }
}
