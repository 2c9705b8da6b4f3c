//! Metrics of a decomposition: how much of the features its components keep.

use faer::Mat;
use faer::Side;
use faer::linalg::solvers::SelfAdjointEigen;

use super::Named;
use crate::Error;

/// Running means of features and components, and sums of products around them.
pub struct Decomposition {
    rows: u64,
    features: Vec<f64>,
    components: Vec<f64>,
    /// Of each feature: how far all rows are from its mean, squared.
    totals: Vec<f64>,
    /// Of each component with each feature, component by component.
    across: Vec<f64>,
    /// Of each component with each.
    among: Vec<f64>,
}

impl Decomposition {
    /// Without rows yet; rows will have these numbers of features and components.
    ///
    /// # Errors
    /// [`Error::Memory`] where there is no memory for them.
    pub fn new(width: usize, components: usize) -> Result<Decomposition, Error> {
        let mut across = Vec::new();
        room::reserve(&mut across, width.checked_mul(components).ok_or(Error::Memory)?)?;
        across.resize(width * components, 0.0);
        let mut among = Vec::new();
        room::reserve(&mut among, components.checked_mul(components).ok_or(Error::Memory)?)?;
        among.resize(components * components, 0.0);
        let (features, components) = (vec![0.0; width], vec![0.0; components]);
        Ok(Decomposition { rows: 0, totals: features.clone(), features, components, across, among })
    }

    /// Takes a row, of which no feature is missing, and what the model made of it.
    pub fn add(&mut self, row: &[f32], components: &[f32]) {
        self.rows += 1;
        let count = self.rows as f64;
        let mut gaps = Vec::with_capacity(row.len());
        for ((mean, total), value) in self.features.iter_mut().zip(&mut self.totals).zip(row) {
            let before = f64::from(*value) - *mean;
            *mean += before / count;
            *total += before * (f64::from(*value) - *mean);
            gaps.push(before);
        }
        let before: Vec<f64> = components.iter().zip(&self.components).map(|(a, b)| f64::from(*a) - b).collect();
        for (mean, before) in self.components.iter_mut().zip(&before) {
            *mean += before / count;
        }
        for (index, value) in components.iter().enumerate() {
            let after = f64::from(*value) - self.components[index];
            let across = &mut self.across[index * row.len()..(index + 1) * row.len()];
            for (sum, gap) in across.iter_mut().zip(&gaps) {
                *sum += after * gap;
            }
            let among = &mut self.among[index * before.len()..(index + 1) * before.len()];
            for (sum, gap) in among.iter_mut().zip(&before) {
                *sum += after * gap;
            }
        }
    }

    /// How many rows there were.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The share of the variance of all features that is explained by the best linear function of the components.
    ///
    /// On the rows of its training this is the sum of `explained_variance_ratio_` of scikit-learn's PCA. It is also
    /// defined for other rows, where components are not independent of each other any more, and whatever their scale.
    pub fn cumulative_explained_variance(&self) -> Option<f64> {
        let (explained, total) = (self.explained()?.iter().sum::<f64>(), self.totals.iter().sum::<f64>());
        (total > 0.0).then(|| (explained / total).min(1.0))
    }

    /// The same of standardised features: the mean over the features of the share that is explained of each. Models are
    /// compared by it, and each may have scaled the features in its own way.
    pub fn standardised_explained_variance(&self) -> Option<f64> {
        let explained = self.explained()?;
        let shares = explained.iter().zip(&self.totals).filter(|(_, total)| **total > 0.0);
        let (sum, count) = shares
            .fold((0.0, 0u32), |(sum, count), (explained, total)| (sum + (explained / total).min(1.0), count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// Of each feature, what the best linear function of the components explains of its total.
    fn explained(&self) -> Option<Vec<f64>> {
        let (width, count) = (self.features.len(), self.components.len());
        if self.rows < 2 {
            return None;
        }
        // Scaled to correlations, so that components of small variance do not drown.
        let deviation: Vec<f64> = (0..count).map(|index| self.among[index * count + index].max(0.0).sqrt()).collect();
        let scale = |index: usize| if deviation[index] > 0.0 { 1.0 / deviation[index] } else { 0.0 };
        let among = Mat::from_fn(count, count, |a, b| {
            let (sum, mirrored) = (self.among[a * count + b], self.among[b * count + a]);
            (sum + mirrored) / 2.0 * scale(a) * scale(b)
        });
        let across = Mat::from_fn(count, width, |index, feature| self.across[index * width + feature] * scale(index));
        let eigen = SelfAdjointEigen::new(among.as_ref(), Side::Lower).ok()?;
        let turned = eigen.U().transpose() * &across;
        let mut explained = vec![0.0; width];
        for (index, value) in eigen.S().column_vector().iter().enumerate().filter(|(_, value)| **value > 1e-9) {
            for (feature, sum) in explained.iter_mut().enumerate() {
                *sum += turned[(index, feature)].powi(2) / value;
            }
        }
        Some(explained)
    }

    /// All of them, the one that models are compared by first.
    pub fn all(&self) -> Vec<Named> {
        vec![
            ("standardised_explained_variance", self.standardised_explained_variance()),
            ("cumulative_explained_variance", self.cumulative_explained_variance()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics_of(rows: &[([f32; 3], Vec<f32>)]) -> Decomposition {
        let mut metrics = Decomposition::new(3, rows[0].1.len()).unwrap();
        for (row, components) in rows {
            metrics.add(row, components);
        }
        metrics
    }

    fn explained(rows: &[([f32; 3], Vec<f32>)]) -> Option<f64> {
        metrics_of(rows).cumulative_explained_variance()
    }

    #[test]
    fn what_the_components_keep_is_counted_once() {
        let features = [[1.0f32, 2.0, 0.0], [-1.0, 2.0, 0.0], [1.0, -2.0, 0.0], [-1.0, -2.0, 0.0]];
        let with = |components: fn(&[f32; 3]) -> Vec<f32>| {
            explained(&features.iter().map(|row| (*row, components(row))).collect::<Vec<_>>()).unwrap()
        };
        for (components, wanted) in [
            ((|row| vec![row[0]]) as fn(&[f32; 3]) -> Vec<f32>, 0.2),
            (|row| vec![row[1] * 100.0 + 7.0], 0.8),
            (|row| vec![row[0], row[1]], 1.0),
            (|row| vec![row[1], row[1] * 2.0], 0.8),
            (|row| vec![row[2]], 0.0),
        ] {
            assert!((with(components) - wanted).abs() < 1e-6, "{} {wanted}", with(components));
        }
        assert_eq!(explained(&[([1.0, 1.0, 1.0], vec![0.0])]), None);
    }

    #[test]
    fn columns_count_alike_once_standardised() {
        // The third column is constant, and the second one has four times the variance of the first.
        let features = [[1.0f32, 2.0, 5.0], [-1.0, 2.0, 5.0], [1.0, -2.0, 5.0], [-1.0, -2.0, 5.0]];
        for (component, raw, standardised) in [(0, 0.2, 0.5), (1, 0.8, 0.5)] {
            let rows: Vec<([f32; 3], Vec<f32>)> = features.iter().map(|row| (*row, vec![row[component]])).collect();
            let metrics = metrics_of(&rows);
            assert!((metrics.cumulative_explained_variance().unwrap() - raw).abs() < 1e-6);
            assert!((metrics.standardised_explained_variance().unwrap() - standardised).abs() < 1e-6);
        }
    }
}
