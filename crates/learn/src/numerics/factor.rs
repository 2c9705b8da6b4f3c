//! A Cholesky factor that grows by one feature at a time, for algorithms that choose features one after the other.

use faer::Mat;

/// The factor of the products of the features chosen so far.
#[derive(Default)]
pub(crate) struct Factor {
    /// The lower triangle, row by row.
    rows: Vec<Vec<f64>>,
}

impl Factor {
    /// Of these features.
    pub(crate) fn of(gram: &Mat<f64>, features: &[usize]) -> Factor {
        let mut factor = Factor::default();
        for (index, feature) in features.iter().enumerate() {
            factor.push(gram, &features[..index], *feature, 0.0);
        }
        factor
    }

    /// Adds a feature to those chosen; false where so much of it as `least` of its length is a sum of them.
    pub(crate) fn push(&mut self, gram: &Mat<f64>, chosen: &[usize], feature: usize, least: f64) -> bool {
        let products: Vec<f64> = chosen.iter().map(|other| gram[(feature, *other)]).collect();
        let mut row = self.forward(&products);
        let square = gram[(feature, feature)];
        let rest = square - row.iter().map(|value| value * value).sum::<f64>();
        if rest.is_nan() || rest <= least * least * square {
            return false;
        }
        row.push(rest.sqrt());
        self.rows.push(row);
        true
    }

    fn forward(&self, right: &[f64]) -> Vec<f64> {
        let mut solution: Vec<f64> = Vec::with_capacity(right.len());
        for (row, right) in self.rows.iter().zip(right) {
            let sum: f64 = row.iter().zip(&solution).map(|(a, b)| a * b).sum();
            solution.push((right - sum) / row[solution.len()]);
        }
        solution
    }

    /// The solution of the products of the features times it being `right`.
    pub(crate) fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut solution = self.forward(right);
        for index in (0..solution.len()).rev() {
            solution[index] /= self.rows[index][index];
            let (before, own) = solution.split_at_mut(index);
            for (value, factor) in before.iter_mut().zip(&self.rows[index]) {
                *value -= factor * own[0];
            }
        }
        solution
    }
}
