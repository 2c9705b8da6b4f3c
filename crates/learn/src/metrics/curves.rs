//! Curves of a classifier's scores, as scikit-learn draws them, and quantiles.

use std::cmp::Ordering;

/// A threshold of a ROC curve, and the shares of the other rows and of the rows of the class that score at least that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocPoint {
    /// The first is infinite: nothing reaches it.
    pub threshold: f32,
    /// `None` if there are no other rows.
    pub false_positives: Option<f64>,
    /// `None` if there are no rows of the class.
    pub true_positives: Option<f64>,
}

/// A threshold, and the precision and recall of calling what scores at least that the class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrecisionRecallPoint {
    /// The last is infinite: nothing reaches it.
    pub threshold: f32,
    /// 1 where nothing is called the class.
    pub precision: f64,
    /// `None` if there are no rows of the class.
    pub recall: Option<f64>,
}

/// How many rows score at least each score that occurs, from the highest: the score, rows of the class, others.
fn reached(rows: &mut [(f32, bool)]) -> Vec<(f32, u64, u64)> {
    rows.sort_unstable_by(|(a, _), (b, _)| b.total_cmp(a));
    let (mut of_class, mut others) = (0, 0);
    let tied = rows.chunk_by(|(a, _), (b, _)| a == b);
    tied.filter_map(|tied| {
        let more = tied.iter().filter(|(_, of_class)| *of_class).count() as u64;
        of_class += more;
        others += tied.len() as u64 - more;
        tied.first().map(|(score, _)| (*score, of_class, others))
    })
    .collect()
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// scikit-learn's `roc_curve`, of scores and whether a row is of the class: from the highest threshold, without the
/// points that lie on a line between others. Sorts the rows.
pub fn roc(rows: &mut [(f32, bool)]) -> Vec<RocPoint> {
    let reached = reached(rows);
    let (positives, negatives) = reached.last().map_or((0, 0), |(_, of_class, others)| (*of_class, *others));
    let point = |threshold, of_class, others| RocPoint {
        threshold,
        false_positives: share(others, negatives),
        true_positives: share(of_class, positives),
    };
    let corner = |index: usize| match index.checked_sub(1).and_then(|before| reached.get(before..index + 2)) {
        Some([a, b, c]) => c.1 - b.1 != b.1 - a.1 || c.2 - b.2 != b.2 - a.2,
        _ => true,
    };
    let corners = (0..reached.len()).filter(|index| corner(*index)).filter_map(|index| reached.get(index));
    let points = corners.map(|(threshold, of_class, others)| point(*threshold, *of_class, *others));
    std::iter::once(point(f32::INFINITY, 0, 0)).chain(points).collect()
}

/// scikit-learn's `precision_recall_curve`, from the lowest threshold. Sorts the rows.
pub fn precision_recall(rows: &mut [(f32, bool)]) -> Vec<PrecisionRecallPoint> {
    let reached = reached(rows);
    let positives = reached.last().map_or(0, |(_, of_class, _)| *of_class);
    let points = reached.iter().rev().map(|(threshold, of_class, others)| PrecisionRecallPoint {
        threshold: *threshold,
        precision: share(*of_class, of_class + others).unwrap_or(1.0),
        recall: share(*of_class, positives),
    });
    let end = PrecisionRecallPoint { threshold: f32::INFINITY, precision: 1.0, recall: share(0, positives) };
    points.chain([end]).collect()
}

/// Rows whose predicted probabilities lie in one of several bins of the same width.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CalibrationBin {
    /// Rows in it.
    pub rows: u64,
    of_class: u64,
    sum: f64,
}

impl CalibrationBin {
    /// The mean of the predicted probabilities.
    pub fn predicted(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.sum / self.rows as f64)
    }

    /// The share of the rows that are of the class.
    pub fn actual(&self) -> Option<f64> {
        share(self.of_class, self.rows)
    }
}

/// scikit-learn's `calibration_curve`, with `strategy='uniform'` and the bins that are empty. A bin has its upper end,
/// not its lower one; the first has both.
#[derive(Clone, Debug)]
pub struct Calibration {
    bins: Vec<CalibrationBin>,
}

impl Calibration {
    /// No rows yet.
    pub fn new(bins: usize) -> Calibration {
        Calibration { bins: vec![CalibrationBin::default(); bins.max(1)] }
    }

    /// Takes a row, the probability of the class and whether the row is of it; a probability that is NaN is in no bin.
    pub fn add(&mut self, probability: f32, of_class: bool) {
        if probability.is_nan() {
            return;
        }
        let count = self.bins.len();
        let probability = f64::from(probability);
        // The ends are those of numpy's linspace; what a product says is corrected by them.
        let end = |bin: usize| (bin + 1) as f64 * (1.0 / count as f64);
        let mut bin = ((probability * count as f64) as usize).min(count - 1);
        if bin > 0 && probability <= end(bin - 1) {
            bin -= 1;
        } else if bin + 1 < count && probability > end(bin) {
            bin += 1;
        }
        if let Some(bin) = self.bins.get_mut(bin) {
            bin.rows += 1;
            bin.of_class += u64::from(of_class);
            bin.sum += probability;
        }
    }

    /// From the lowest probabilities.
    pub fn bins(&self) -> &[CalibrationBin] {
        &self.bins
    }
}

/// NumPy's `quantile`, of sorted values: between two of them on the line from one to the other. `None` if there are none.
pub fn quantile(sorted: &[f32], level: f64) -> Option<f64> {
    let place = level.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let below = place.floor() as usize;
    let lower = f64::from(*sorted.get(below)?);
    let upper = sorted.get(below + 1).map_or(lower, |upper| f64::from(*upper));
    Some(match lower.partial_cmp(&upper) {
        Some(Ordering::Equal) => lower,
        _ => lower + (upper - lower) * (place - below as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_are_left_out_of_a_roc_curve() {
        let point = |threshold, false_positives, true_positives| RocPoint {
            threshold,
            false_positives: Some(false_positives),
            true_positives: Some(true_positives),
        };
        let mut rows = [(0.9, true), (0.8, true), (0.7, true), (0.3, false), (0.2, false)];
        let wanted =
            [point(f32::INFINITY, 0.0, 0.0), point(0.9, 0.0, 1.0 / 3.0), point(0.7, 0.0, 1.0), point(0.2, 1.0, 1.0)];
        assert_eq!(roc(&mut rows), wanted);
        let none = roc(&mut [(0.5, true)]);
        assert_eq!(none.iter().map(|point| point.false_positives).collect::<Vec<_>>(), [None, None]);
        assert_eq!(roc(&mut []).len(), 1);
    }

    #[test]
    fn precision_ends_at_one() {
        let points = precision_recall(&mut [(0.1, false), (0.4, false), (0.35, true), (0.8, true)]);
        let pairs: Vec<(f64, Option<f64>)> = points.iter().map(|point| (point.precision, point.recall)).collect();
        let wanted = [(0.5, Some(1.0)), (2.0 / 3.0, Some(1.0)), (0.5, Some(0.5)), (1.0, Some(0.5)), (1.0, Some(0.0))];
        assert_eq!(pairs, wanted);
    }

    #[test]
    fn bins_have_their_upper_end() {
        let mut bins = Calibration::new(4);
        for probability in [0.0, 0.25, 0.2501, 0.5, 1.0, f32::NAN] {
            bins.add(probability, probability > 0.3);
        }
        assert_eq!(bins.bins().iter().map(|bin| bin.rows).collect::<Vec<_>>(), [2, 2, 0, 1]);
        assert_eq!((bins.bins()[1].actual(), bins.bins()[2].actual()), (Some(0.5), None));
    }

    #[test]
    fn quantiles_lie_between_values() {
        let sorted = [1.0, 2.0, 4.0, 8.0];
        for (level, wanted) in [(0.0, 1.0), (0.5, 3.0), (1.0, 8.0), (1.0 / 3.0, 2.0), (0.9, 6.8)] {
            let quantile = quantile(&sorted, level).unwrap();
            assert!((quantile - wanted).abs() < 1e-12, "{level}: {quantile}");
        }
        assert_eq!(quantile(&[], 0.5), None);
    }
}
