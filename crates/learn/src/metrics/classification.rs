//! Metrics of a classification.

use super::Named;
use super::auc::{area, average_precision};
use super::sum::Sum;

/// The class that probabilities (or scores) speak for. A single number is the probability of class 1, which has to be
/// above one half; of several, the first of the highest, as XGBoost's and NumPy's arg max have it.
pub fn class_of(probabilities: &[f32]) -> u32 {
    match probabilities {
        [positive] => u32::from(*positive > 0.5),
        several => {
            let mut best = 0;
            for (class, probability) in several.iter().enumerate() {
                if several.get(best).is_none_or(|highest| probability > highest) {
                    best = class;
                }
            }
            u32::try_from(best).unwrap_or(u32::MAX)
        }
    }
}

/// Scores that are kept for ROC AUC, four bytes each, where nothing else is asked for; beyond that it is not reported.
pub const MOST_SCORES: usize = 1 << 26;

/// Counts and sums over predicted and true classes.
///
/// Feed it either with [`add`](Classification::add) or with [`add_class`](Classification::add_class), where there are
/// no probabilities; then log loss and ROC AUC are not defined.
#[derive(Clone, Debug)]
pub struct Classification {
    rows: u64,
    correct: u64,
    /// By class: rows of it, rows predicted to be of it, and rows of both.
    truths: Vec<u64>,
    predictions: Vec<u64>,
    hits: Vec<u64>,
    /// The class that is looked for, where there is one.
    positive: Option<u32>,
    loss: Sum,
    brier: Sum,
    /// Every row's probabilities: of class 1 if there are two classes, else of all; empty once there are too many.
    scores: Vec<f32>,
    kept_truths: Vec<u32>,
    probabilities: bool,
    overflowed: bool,
    most_scores: usize,
}

/// How many rows are of a class, are predicted to be, and both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfClass {
    /// Rows of the class.
    pub rows: u64,
    /// Rows that are predicted to be of it.
    pub predicted: u64,
    /// Rows of it that are.
    pub hits: u64,
}

impl OfClass {
    /// The share of the rows predicted to be of the class that are; 0 if there are none.
    pub fn precision(&self) -> f64 {
        ratio(self.hits, self.predicted)
    }

    /// The share of the rows of the class that were found; 0 if there are none.
    pub fn recall(&self) -> f64 {
        ratio(self.hits, self.rows)
    }

    /// The harmonic mean of the two.
    pub fn f1(&self) -> f64 {
        ratio(2 * self.hits, self.rows + self.predicted)
    }
}

impl Classification {
    /// Without rows yet, with the classes of the model. Classes beyond them that turn up are counted as well.
    pub fn new(classes: u32) -> Classification {
        let classes = classes as usize;
        Classification {
            rows: 0,
            correct: 0,
            truths: vec![0; classes],
            predictions: vec![0; classes],
            hits: vec![0; classes],
            positive: (classes == 2).then_some(1),
            loss: Sum::default(),
            brier: Sum::default(),
            scores: Vec::new(),
            kept_truths: Vec::new(),
            probabilities: true,
            overflowed: false,
            most_scores: MOST_SCORES,
        }
    }

    /// With another bound on the scores that are kept.
    #[must_use]
    pub fn keeping(self, most_scores: usize) -> Classification {
        Classification { most_scores, ..self }
    }

    /// With another positive class, which precision, recall, f1 and average precision are of, or with none: then they are
    /// means over the classes. Of two classes it is class 1 without this, of more there is none.
    #[must_use]
    pub fn of_class(self, positive: Option<u32>) -> Classification {
        Classification { positive, ..self }
    }

    /// That class.
    pub fn positive(&self) -> Option<u32> {
        self.positive
    }

    /// Takes a row with its probabilities: of class 1 alone, or one for each class.
    pub fn add(&mut self, truth: u32, probabilities: &[f32]) {
        self.count(truth, class_of(probabilities), 1);
        let of = |class: u32| match probabilities {
            [positive] if class == 1 => f64::from(*positive),
            [positive] => 1.0 - f64::from(*positive),
            several => several.get(class as usize).copied().map_or(0.0, f64::from),
        };
        // scikit-learn keeps probabilities this far from 0 and 1, by the type they come in: float32 here.
        let least = f64::from(f32::EPSILON);
        let probability = of(truth);
        let clipped = if probability.is_nan() { probability } else { probability.clamp(least, 1.0 - least) };
        self.loss.add(-clipped.ln());
        // Of two classes both are off by the same, which counts once.
        self.brier.add(match probabilities {
            [second] | [_, second] => (f64::from(*second) - f64::from(u8::from(truth == 1))).powi(2),
            several => (0u32..)
                .zip(several)
                .map(|(class, probability)| (f64::from(*probability) - f64::from(u8::from(class == truth))).powi(2))
                .sum(),
        });

        let kept: &[f32] =
            if let [_, positive] = probabilities { std::slice::from_ref(positive) } else { probabilities };
        if self.overflowed || self.scores.len() + kept.len() > self.most_scores {
            self.overflowed = true;
            self.scores = Vec::new();
            self.kept_truths = Vec::new();
        } else {
            self.scores.extend_from_slice(kept);
            self.kept_truths.push(truth);
        }
    }

    /// Takes a row without probabilities.
    pub fn add_class(&mut self, truth: u32, predicted: u32) {
        self.add_classes(truth, predicted, 1);
    }

    /// Takes a number of equal rows, without probabilities.
    pub fn add_classes(&mut self, truth: u32, predicted: u32, rows: u64) {
        self.count(truth, predicted, rows);
        self.probabilities = false;
    }

    fn count(&mut self, truth: u32, predicted: u32, rows: u64) {
        let (truth, predicted) = (truth as usize, predicted as usize);
        let classes = truth.max(predicted).saturating_add(1);
        if classes > self.truths.len() {
            for counts in [&mut self.truths, &mut self.predictions, &mut self.hits] {
                counts.resize(classes, 0);
            }
        }
        self.rows += rows;
        let increment = |counts: &mut Vec<u64>, class: usize| {
            if let Some(count) = counts.get_mut(class) {
                *count += rows;
            }
        };
        increment(&mut self.truths, truth);
        increment(&mut self.predictions, predicted);
        if truth == predicted {
            self.correct += rows;
            increment(&mut self.hits, truth);
        }
    }

    /// How many rows there were.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// scikit-learn's `accuracy_score`: the share of rows whose class is right.
    pub fn accuracy(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.correct as f64 / self.rows as f64)
    }

    /// scikit-learn's `balanced_accuracy_score`: the mean over the classes that have rows of the share of these that was
    /// found.
    pub fn balanced_accuracy(&self) -> Option<f64> {
        let there = self.truths.iter().zip(&self.hits).filter(|(of_class, _)| **of_class > 0);
        let (sum, count) =
            there.fold((0.0, 0u32), |(sum, count), (of_class, hits)| (sum + ratio(*hits, *of_class), count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// scikit-learn's `precision_score`: the share of the rows predicted to be of a class that are. Of the positive class
    /// if there is one (`average='binary'`), else the mean over the classes that occur (`average='macro'`); 0 for a
    /// class that was never predicted (`zero_division=0`).
    pub fn precision(&self) -> Option<f64> {
        self.averaged(|_, predicted, hits| ratio(hits, predicted))
    }

    /// scikit-learn's `recall_score`: the share of the rows of a class that were found. Averaged like
    /// [`precision`](Classification::precision).
    pub fn recall(&self) -> Option<f64> {
        self.averaged(|of_class, _, hits| ratio(hits, of_class))
    }

    /// scikit-learn's `f1_score`: the harmonic mean of the two. Averaged like
    /// [`precision`](Classification::precision).
    pub fn f1(&self) -> Option<f64> {
        self.averaged(|of_class, predicted, hits| ratio(2 * hits, of_class + predicted))
    }

    fn averaged(&self, score: impl Fn(u64, u64, u64) -> f64) -> Option<f64> {
        if self.rows == 0 {
            return None;
        }
        let counts = self.truths.iter().zip(&self.predictions).zip(&self.hits);
        let mut counts = counts.map(|((&of_class, &predicted), &hits)| (of_class, predicted, hits));
        if let Some(positive) = self.positive {
            return counts.nth(positive as usize).map(|(of_class, predicted, hits)| score(of_class, predicted, hits));
        }
        let scores: Vec<f64> = counts
            .filter(|(of_class, predicted, _)| of_class + predicted > 0)
            .map(|(of_class, predicted, hits)| score(of_class, predicted, hits))
            .collect();
        Some(scores.iter().sum::<f64>() / scores.len() as f64)
    }

    /// scikit-learn's `matthews_corrcoef`, for any number of classes; 0 where all rows are of one class, or are
    /// predicted to be.
    pub fn mcc(&self) -> Option<f64> {
        if self.rows == 0 {
            return None;
        }
        // Whole numbers as far as they go: with 10^9 rows the products are below 2^60, their sums below 2^127.
        let product =
            |a: &[u64], b: &[u64]| -> i128 { a.iter().zip(b).map(|(&a, &b)| i128::from(a) * i128::from(b)).sum() };
        let all = i128::from(self.rows) * i128::from(self.rows);
        let both = i128::from(self.correct) * i128::from(self.rows) - product(&self.truths, &self.predictions);
        let truth = all - product(&self.truths, &self.truths);
        let predicted = all - product(&self.predictions, &self.predictions);
        if truth == 0 || predicted == 0 {
            return Some(0.0);
        }
        Some(both as f64 / ((truth as f64).sqrt() * (predicted as f64).sqrt()))
    }

    /// scikit-learn's `log_loss`: the mean of minus the logarithm of the true class's probability. `None` if a row came
    /// without probabilities.
    pub fn log_loss(&self) -> Option<f64> {
        (self.rows > 0 && self.probabilities).then(|| self.loss.value() / self.rows as f64)
    }

    /// scikit-learn's `brier_score_loss`: the mean squared distance of the probabilities from what is; of two classes that
    /// of one of them, of more the sum over the classes. `None` if a row came without probabilities.
    pub fn brier(&self) -> Option<f64> {
        (self.rows > 0 && self.probabilities).then(|| self.brier.value() / self.rows as f64)
    }

    /// scikit-learn's `roc_auc_score`: of the positive class if there is one, else the mean over the classes of each
    /// against the rest (`multi_class='ovr'`). Classes that no row is of, for which scikit-learn has no answer at all,
    /// are left out of the mean. `None` if no class is left, a row came without probabilities, or there were more of them
    /// than are kept.
    pub fn roc_auc(&self) -> Option<f64> {
        self.ranked(area)
    }

    /// scikit-learn's `average_precision_score`, the area under the curve of precision and recall, of the positive class or
    /// the mean over the classes. `None` as of [`roc_auc`](Classification::roc_auc).
    pub fn average_precision(&self) -> Option<f64> {
        self.ranked(average_precision)
    }

    /// What is made of the order of the scores of a class.
    fn ranked(&self, make: impl Fn(&mut [(f32, bool)]) -> Option<f64>) -> Option<f64> {
        if !self.probabilities || self.overflowed || self.kept_truths.is_empty() {
            return None;
        }
        let width = self.scores.len() / self.kept_truths.len();
        if width * self.kept_truths.len() != self.scores.len() || width == 0 {
            return None;
        }
        let classes = match (self.positive, width) {
            (Some(positive), _) => positive..positive + 1,
            (None, 1) => 1..2,
            (None, _) => 0..u32::try_from(width).unwrap_or(u32::MAX),
        };
        let mut rows = Vec::with_capacity(self.kept_truths.len());
        let mut made = Vec::new();
        for class in classes {
            // The only column of two classes is that of class 1.
            let (column, other) = if width == 1 { (0, class == 0) } else { (class as usize, false) };
            let scores = self.scores.iter().skip(column).step_by(width);
            let scores = scores.map(|score| if other { 1.0 - *score } else { *score });
            rows.clear();
            rows.extend(scores.zip(&self.kept_truths).map(|(score, &truth)| (score, truth == class)));
            made.extend(make(&mut rows));
        }
        (!made.is_empty()).then(|| made.iter().sum::<f64>() / made.len() as f64)
    }

    /// The counts of each class.
    pub fn by_class(&self) -> Vec<OfClass> {
        let counts = self.truths.iter().zip(&self.predictions).zip(&self.hits);
        counts.map(|((&rows, &predicted), &hits)| OfClass { rows, predicted, hits }).collect()
    }

    /// All of them, the one that models are compared by first.
    pub fn all(&self) -> Vec<Named> {
        vec![
            ("f1", self.f1()),
            ("precision", self.precision()),
            ("recall", self.recall()),
            ("accuracy", self.accuracy()),
            ("balanced_accuracy", self.balanced_accuracy()),
            ("mcc", self.mcc()),
            ("roc_auc", self.roc_auc()),
            ("average_precision", self.average_precision()),
            ("log_loss", self.log_loss()),
            ("brier", self.brier()),
        ]
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_is_the_first_of_the_most_probable() {
        for (probabilities, class) in [
            (vec![0.5], 0),
            (vec![0.500_001], 1),
            (vec![0.2, 0.5, 0.3], 1),
            (vec![0.4, 0.2, 0.4], 0),
            (vec![f32::NAN, 0.5], 0),
            (vec![], 0),
        ] {
            assert_eq!(class_of(&probabilities), class, "{probabilities:?}");
        }
    }

    #[test]
    fn hard_classes_have_no_probabilistic_metrics() {
        let mut metrics = Classification::new(2);
        metrics.add(1, &[0.9]);
        metrics.add_class(0, 1);
        assert_eq!(metrics.accuracy(), Some(0.5));
        assert_eq!((metrics.log_loss(), metrics.roc_auc()), (None, None));
    }

    #[test]
    fn nothing_is_defined_without_rows() {
        assert!(Classification::new(3).all().iter().all(|(_, value)| value.is_none()));
    }

    #[test]
    fn the_positive_class_may_be_the_first_or_one_of_several() {
        let mut metrics = Classification::new(2).of_class(Some(0));
        for (truth, second) in [(0, 0.2), (0, 0.7), (1, 0.9), (1, 0.8)] {
            metrics.add(truth, &[second]);
        }
        assert_eq!((metrics.precision(), metrics.recall()), (Some(1.0), Some(0.5)));
        assert_eq!((metrics.roc_auc(), metrics.average_precision()), (Some(1.0), Some(1.0)));
        let mut metrics = Classification::new(3).of_class(Some(2));
        for (truth, third) in [(0, 0.1), (2, 0.8), (2, 0.2)] {
            metrics.add(truth, &[0.9 - third, 0.1, third]);
        }
        assert_eq!((metrics.precision(), metrics.recall()), (Some(1.0), Some(0.5)));
        assert_eq!(metrics.by_class()[2], OfClass { rows: 2, predicted: 1, hits: 1 });
    }

    #[test]
    fn a_class_that_the_model_does_not_know_is_counted() {
        let mut metrics = Classification::new(3);
        metrics.add(7, &[0.5, 0.25, 0.25]);
        assert_eq!(metrics.accuracy(), Some(0.0));
        assert_eq!(metrics.recall(), Some(0.0));
    }
}
