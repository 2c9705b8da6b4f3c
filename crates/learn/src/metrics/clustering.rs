//! Metrics of a clustering: how close rows are to those of their own cluster, and how far from those of others.

use std::collections::BTreeMap;

use super::Named;
use super::sum::Sum;
use crate::Error;
use crate::family::Control;
use crate::numerics::distance::squared;
use crate::random::Random;

/// Rows that pairwise distances are computed of at most.
const SAMPLE: usize = 10_000;

/// Rows and their clusters.
///
/// As in scikit-learn, rows without a cluster (-1) count as a cluster of their own, so that leaving rows out does not
/// make a clustering look better. Silhouette and Davies-Bouldin are about single distances: of more than 10,000 rows,
/// they are computed from a sample of this size, drawn by the seed; the others are of all rows.
pub struct Clustering {
    width: usize,
    rows: u64,
    random: Random,
    clusters: BTreeMap<i32, Spread>,
    sample: Vec<f32>,
    sampled: Vec<i32>,
}

/// The rows of a cluster: Welford's running means, and the sum of squared distances from them.
#[derive(Clone)]
struct Spread {
    rows: u64,
    means: Vec<f64>,
    within: Sum,
}

impl Clustering {
    /// Without rows yet; rows will have this number of features.
    pub fn new(width: usize, seed: u64) -> Clustering {
        let (clusters, sample, sampled) = (BTreeMap::new(), Vec::new(), Vec::new());
        Clustering { width, rows: 0, random: Random::new(seed), clusters, sample, sampled }
    }

    /// Takes a row, of which no feature is missing, and its cluster.
    ///
    /// # Errors
    /// [`Error::Memory`] where there is no room for more.
    pub fn add(&mut self, row: &[f32], cluster: i32) -> Result<(), Error> {
        self.rows += 1;
        let width = self.width;
        let empty = || Spread { rows: 0, means: vec![0.0; width], within: Sum::default() };
        let spread = self.clusters.entry(cluster).or_insert_with(empty);
        spread.rows += 1;
        for (mean, value) in spread.means.iter_mut().zip(row) {
            let before = f64::from(*value) - *mean;
            *mean += before / spread.rows as f64;
            spread.within.add(before * (f64::from(*value) - *mean));
        }
        // Any row is in the sample with the same probability (Vitter's algorithm R).
        if self.sampled.len() < SAMPLE {
            room::reserve(&mut self.sample, width)?;
            self.sample.extend_from_slice(row);
            self.sampled.push(cluster);
        } else if let at @ 0..SAMPLE = self.random.below(self.rows) as usize {
            self.sample[at * width..(at + 1) * width].copy_from_slice(row);
            self.sampled[at] = cluster;
        }
        Ok(())
    }

    /// How many rows there were.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The sum of squared distances of rows from the mean of their cluster.
    pub fn inertia(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.clusters.values().map(|spread| spread.within.value()).sum())
    }

    /// scikit-learn's `calinski_harabasz_score`: the variance between clusters by that within them. Defined for more
    /// than one cluster and fewer than rows.
    pub fn calinski_harabasz(&self) -> Option<f64> {
        let (rows, count) = (self.rows as f64, self.clusters.len() as f64);
        if count < 2.0 || count >= rows {
            return None;
        }
        let mut mean = vec![0.0; self.width];
        for spread in self.clusters.values() {
            for (mean, of_cluster) in mean.iter_mut().zip(&spread.means) {
                *mean += of_cluster * spread.rows as f64 / rows;
            }
        }
        let between: f64 =
            self.clusters.values().map(|spread| spread.rows as f64 * squared(&spread.means, &mean)).sum();
        let within = self.inertia()?;
        Some(if within == 0.0 { 1.0 } else { between * (rows - count) / (within * (count - 1.0)) })
    }

    /// scikit-learn's `davies_bouldin_score`: how near each cluster is to the one most like it, by how wide both are.
    pub fn davies_bouldin(&self) -> Option<f64> {
        if self.clusters.len() < 2 || self.clusters.len() as u64 >= self.rows {
            return None;
        }
        let index = self.indices();
        let (mut widths, mut counts) = (vec![0.0; index.len()], vec![0.0; index.len()]);
        for (row, cluster) in self.sample.chunks_exact(self.width).zip(&self.sampled) {
            widths[index[cluster]] += squared(row, &self.clusters[cluster].means).sqrt();
            counts[index[cluster]] += 1.0;
        }
        for (width, count) in widths.iter_mut().zip(&counts) {
            *width /= f64::max(*count, 1.0);
        }
        let means: Vec<&[f64]> = self.clusters.values().map(|spread| spread.means.as_slice()).collect();
        let worst = |a: usize| {
            let others = (0..means.len()).filter(|b| *b != a).map(|b| {
                let distance = squared(means[a], means[b]).sqrt();
                if distance > 0.0 { (widths[a] + widths[b]) / distance } else { 0.0 }
            });
            others.fold(0.0, f64::max)
        };
        Some((0..means.len()).map(worst).sum::<f64>() / means.len() as f64)
    }

    /// scikit-learn's `silhouette_score` of the rows with standardised columns: from -1 to 1, how much nearer a row is to the
    /// rows of its own cluster than to those of the nearest other one. Models are compared by it, and each may have scaled the
    /// columns as it liked: distances are those of one space this way. Defined for more than one cluster and fewer than rows.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn silhouette(&self, control: &mut Control<'_>) -> Result<Option<f64>, Error> {
        let index = self.indices();
        let of: Vec<usize> = self.sampled.iter().map(|cluster| index[cluster]).collect();
        let mut counts = vec![0.0f64; index.len()];
        for cluster in &of {
            counts[*cluster] += 1.0;
        }
        let present = counts.iter().filter(|count| **count > 0.0).count();
        if present < 2 || present >= of.len() {
            return Ok(None);
        }
        let sample = standardised(&self.sample, self.width)?;
        let mut sum = Sum::default();
        let mut distances = vec![0.0; counts.len()];
        for (a, row) in sample.chunks_exact(self.width).enumerate() {
            control.check()?;
            distances.fill(0.0);
            for (other, cluster) in sample.chunks_exact(self.width).zip(&of) {
                distances[*cluster] += squared(row, other).sqrt();
            }
            if counts[of[a]] < 2.0 {
                continue;
            }
            let own = distances[of[a]] / (counts[of[a]] - 1.0);
            let other = (0..counts.len())
                .filter(|cluster| *cluster != of[a] && counts[*cluster] > 0.0)
                .map(|cluster| distances[cluster] / counts[cluster])
                .fold(f64::INFINITY, f64::min);
            let larger = own.max(other);
            sum.add(if larger > 0.0 { (other - own) / larger } else { 0.0 });
        }
        Ok(Some(sum.value() / of.len() as f64))
    }

    fn indices(&self) -> BTreeMap<i32, usize> {
        self.clusters.keys().enumerate().map(|(index, cluster)| (*cluster, index)).collect()
    }

    /// All of them, the one that models are compared by first.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn all(&self, control: &mut Control<'_>) -> Result<Vec<Named>, Error> {
        Ok(vec![
            ("silhouette", self.silhouette(control)?),
            ("calinski_harabasz", self.calinski_harabasz()),
            ("davies_bouldin", self.davies_bouldin()),
            ("inertia", self.inertia()),
        ])
    }
}

/// Rows whose columns have the mean 0 and the standard deviation 1; constant ones are 0.
fn standardised(rows: &[f32], width: usize) -> Result<Vec<f32>, Error> {
    let count = (rows.len() / width.max(1)).max(1) as f64;
    let column = |at: usize| rows.iter().skip(at).step_by(width.max(1)).map(|value| f64::from(*value));
    let mut scales = Vec::with_capacity(width);
    for at in 0..width {
        let mean = column(at).sum::<f64>() / count;
        let deviation = (column(at).map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        scales.push((mean, if deviation > 0.0 { 1.0 / deviation } else { 0.0 }));
    }
    let mut all = Vec::new();
    room::reserve(&mut all, rows.len())?;
    all.extend(
        rows.iter()
            .zip(scales.iter().cycle())
            .map(|(value, (mean, scale))| ((f64::from(*value) - mean) * scale) as f32),
    );
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[(f32, i32)]) -> Vec<Named> {
        let mut metrics = Clustering::new(1, 0);
        for (value, cluster) in rows {
            metrics.add(&[*value], *cluster).unwrap();
        }
        metrics.all(&mut Control::new(&mut |_| Ok(()))).unwrap()
    }

    #[test]
    fn one_cluster_has_no_silhouette() {
        let defined = |rows: &[(f32, i32)]| of(rows).iter().filter(|(_, value)| value.is_some()).count();
        assert_eq!(defined(&[]), 0);
        assert_eq!(defined(&[(1.0, 0)]), 1);
        assert_eq!(defined(&[(1.0, 0), (2.0, 0)]), 1);
        assert_eq!(defined(&[(1.0, 0), (2.0, 1)]), 1);
        assert_eq!(defined(&[(1.0, 0), (2.0, 1), (2.0, 1)]), 4);
    }

    #[test]
    fn a_sample_stands_for_many_rows() {
        let rows: Vec<(f32, i32)> =
            (0..25_000).map(|row| ((row % 2) as f32 * 10.0 + (row % 7) as f32, row % 2)).collect();
        let (whole, part) = (of(&rows), of(&rows[..8400]));
        for (whole, part) in whole.iter().zip(&part).take(3) {
            let (whole, part) = (whole.1.unwrap(), part.1.unwrap());
            assert!((whole - part).abs() < 0.02 * part || whole > 1000.0, "{whole} {part}");
        }
    }
}
