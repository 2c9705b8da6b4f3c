//! Intervals around the predictions of a regression that hold a given share of the labels: split-conformal prediction
//! (Papadopoulos, Proedrou, Vovk and Gammerman, "Inductive confidence machines for regression", 2002).
//!
//! How far predictions were off on rows that were not trained on tells how far they will be off: for rows of the same
//! distribution, the label lies within the k-th smallest of n distances with probability k / (n + 1) at least.

use crate::Error;
use crate::random::Random;

/// Distances that are kept while rows are measured: of more rows, those of a sample.
const SAMPLE: usize = 1 << 22;

/// Distances that are kept with the model: coverage is rounded up to this fraction of the rows.
pub const STEPS: usize = 250;

/// Distances of predictions from labels.
#[derive(Clone, Debug)]
pub struct Residuals {
    distances: Vec<f32>,
    seen: u64,
    random: Random,
}

impl Default for Residuals {
    fn default() -> Residuals {
        Residuals { distances: Vec::new(), seen: 0, random: Random::new(0) }
    }
}

impl Residuals {
    /// Takes a row.
    ///
    /// # Errors
    /// [`Error::Memory`] where there is no room for more.
    pub fn add(&mut self, truth: f64, predicted: f64) -> Result<(), Error> {
        let distance = (truth - predicted).abs() as f32;
        // Not below what it is, so that a label at the very end of an interval is in it.
        let distance = if f64::from(distance) < (truth - predicted).abs() { distance.next_up() } else { distance };
        self.seen += 1;
        // Any row is in the sample with the same probability (Vitter's algorithm R).
        if self.distances.len() < SAMPLE {
            room::reserve(&mut self.distances, 1)?;
            self.distances.push(distance);
        } else if let Some(place) = self.distances.get_mut(self.random.index(usize::try_from(self.seen).unwrap_or(0))) {
            *place = distance;
        }
        Ok(())
    }

    /// What is kept of them; `None` if there is no row, or a distance is not a number.
    pub fn summary(&self) -> Option<Summary> {
        let mut sorted = self.distances.clone();
        if sorted.is_empty() || sorted.iter().any(|distance| !distance.is_finite()) {
            return None;
        }
        sorted.sort_unstable_by(f32::total_cmp);
        let rows = sorted.len();
        let steps = rows.min(STEPS);
        let distances = (1..=steps).filter_map(|step| sorted.get(rank(step, steps, rows) - 1).copied()).collect();
        Some(Summary { rows: rows as u64, distances })
    }
}

/// The rank, from 1, of the distance that is kept as the one of that number, from 1.
fn rank(step: usize, steps: usize, rows: usize) -> usize {
    (step as u128 * rows as u128).div_ceil(steps.max(1) as u128) as usize
}

/// Some of the sorted distances of rows, evenly spaced, the largest last.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Of how many rows they are.
    pub rows: u64,
    /// From the smallest.
    pub distances: Vec<f32>,
}

impl Summary {
    /// How far on either side of a prediction the interval goes that holds this share (between 0 and 1) of the labels at
    /// least: infinitely far where there were too few rows to say.
    pub fn reach(&self, coverage: f64) -> f32 {
        let rows = usize::try_from(self.rows).unwrap_or(usize::MAX);
        // What float64 makes of 0.9 times 10 must not count as more than 9.
        let wanted = ((self.rows as f64 + 1.0) * coverage * (1.0 - f64::EPSILON)).ceil().max(1.0);
        let steps = self.distances.len();
        let mut known = (1..=steps).zip(&self.distances);
        let found = known.find(|(step, _)| rank(*step, steps, rows) as f64 >= wanted);
        found.map_or(f32::INFINITY, |(_, distance)| *distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(rows: u32) -> Summary {
        let mut residuals = Residuals::default();
        for row in 1..=rows {
            // In another order than that of their size.
            let distance = f64::from(row * 7919 % rows + 1);
            residuals.add(100.0, 100.0 + distance * if row % 2 == 0 { 1.0 } else { -1.0 }).unwrap();
        }
        residuals.summary().unwrap()
    }

    #[test]
    fn the_reach_is_the_distance_of_the_right_rank() {
        let nine = summary(9);
        assert_eq!(nine.distances, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        for (coverage, wanted) in [(0.05, 1.0), (0.5, 5.0), (0.51, 6.0), (0.9, 9.0), (0.91, f32::INFINITY)] {
            assert_eq!(nine.reach(coverage), wanted, "{coverage}");
        }
    }

    #[test]
    fn of_many_rows_the_reach_is_rounded_up() {
        let many = summary(100_000);
        assert_eq!((many.rows, many.distances.len()), (100_000, STEPS));
        for coverage in [0.1, 0.5, 0.9, 0.95, 0.99] {
            let reach = f64::from(many.reach(coverage)) / 100_000.0;
            assert!((coverage..=coverage + 1.01 / STEPS as f64).contains(&reach), "{coverage}: {reach}");
        }
    }

    #[test]
    fn nothing_is_known_without_rows() {
        assert_eq!(Residuals::default().summary(), None);
        let mut residuals = Residuals::default();
        residuals.add(f64::INFINITY, 1.0).unwrap();
        assert_eq!(residuals.summary(), None);
    }
}
