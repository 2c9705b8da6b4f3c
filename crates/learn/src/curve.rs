//! Learning curves: how good a model was after each round of its training, on the rows that it learns from and on others.

use crate::Error;
use crate::family::{Control, Meaning, Predict};

/// Points of a series, at most; a few more while one grows.
pub const MOST_POINTS: usize = 200;

/// Which rows a series was measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Those that the training learns from.
    Train,
    /// Those that are held out.
    Test,
}

impl Part {
    /// As in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Test => "test",
        }
    }
}

/// A metric on one part, round by round.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The rows.
    pub part: Part,
    /// The metric's name; XGBoost's, such as `rmse`, whatever the algorithm.
    pub metric: String,
    /// Round, from 1, and value, which is finite.
    pub points: Vec<(u32, f64)>,
}

/// The series of a training, thinned evenly as they grow: the first round, the last, and the multiples of a power of two.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// One for each part and metric.
    pub series: Vec<Series>,
    stride: u32,
}

impl Default for Curve {
    fn default() -> Curve {
        Curve { series: Vec::new(), stride: 1 }
    }
}

impl Curve {
    /// An empty curve, for a training of `rounds` rounds.
    pub fn of(rounds: u32) -> Curve {
        let mut stride = 1;
        while rounds / stride > MOST_POINTS as u32 {
            stride *= 2;
        }
        Curve { series: Vec::new(), stride }
    }

    /// Whether the points of a round stay, as long as the series do not grow longer.
    pub fn keeps(&self, round: u32) -> bool {
        round == 1 || round.is_multiple_of(self.stride)
    }

    /// Adds a point. Rounds come in their order; any round may be given, since the last one stays.
    pub fn add(&mut self, round: u32, part: Part, metric: &str, value: f64) {
        if !value.is_finite() {
            return;
        }
        let found = self.series.iter().position(|series| series.part == part && series.metric == metric);
        let at = found.unwrap_or_else(|| {
            self.series.push(Series { part, metric: metric.to_owned(), points: Vec::new() });
            self.series.len() - 1
        });
        let is_passing = |(round, _): &(u32, f64)| !self.keeps(*round);
        let replaces = self.series[at].points.last().is_some_and(is_passing);
        let points = &mut self.series[at].points;
        if replaces {
            points.pop();
        }
        points.push((round, value));
        if points.len() > MOST_POINTS {
            self.stride *= 2;
            for series in &mut self.series {
                let last = series.points.len().saturating_sub(1);
                let mut index = 0;
                series.points.retain(|(round, _)| {
                    index += 1;
                    *round == 1 || round.is_multiple_of(self.stride) || index > last
                });
            }
        }
    }
}

/// Some rows with what is true of them.
pub struct Sample<'a> {
    /// Which they are.
    pub part: Part,
    /// Row by row.
    pub features: &'a [f32],
    /// One for each row: a number, or the index of a class.
    pub labels: &'a [f32],
}

/// How many rows of a part are enough for the curve of a model of so many trees: predicting them takes a small part of
/// the time of a training.
pub fn sample_rows(trees: usize) -> usize {
    (200_000 / trees.max(1)).clamp(1000, 2000)
}

/// The curve of a model that was trained in rounds: what it would predict if each had been the last.
///
/// # Errors
/// [`Error::Stopped`] where the training is to end, [`Error::Memory`].
pub fn of_model(model: &dyn Predict, samples: &[Sample<'_>], control: &mut Control<'_>) -> Result<Curve, Error> {
    let rounds = u32::try_from(model.rounds()).unwrap_or(u32::MAX);
    let mut curve = Curve::of(rounds);
    if rounds < 2 {
        return Ok(curve);
    }
    let values = model.values();
    let meaning = model.meaning();
    for sample in samples.iter().filter(|sample| !sample.labels.is_empty()) {
        let at: Vec<u32> = (1..=rounds).filter(|round| curve.keeps(*round) || *round == rounds).collect();
        model.predict_staged(sample.features, &at, control, &mut |round, predicted| {
            for (metric, value) in measure(meaning, values, predicted, sample.labels) {
                curve.add(round, sample.part, metric, value);
            }
        })?;
    }
    Ok(curve)
}

/// The metrics of a curve.
fn measure(meaning: Meaning, size: usize, predicted: &[f32], labels: &[f32]) -> Vec<(&'static str, f64)> {
    let (mut squares, mut loss, mut wrong) = (0.0, 0.0, 0.0);
    for (predicted, label) in predicted.chunks_exact(size.max(1)).zip(labels) {
        match meaning {
            Meaning::Values => {
                squares += (f64::from(*label) - predicted.first().map_or(f64::NAN, |value| f64::from(*value))).powi(2);
            }
            _ => {
                let class = *label as usize;
                let own = predicted.get(class).copied().unwrap_or(0.0);
                // As in the metrics of a model.
                loss -= f64::from(own.clamp(f32::EPSILON, 1.0 - f32::EPSILON)).ln();
                let best = crate::metrics::class_of(predicted) as usize;
                wrong += f64::from(u8::from(best != class));
            }
        }
    }
    let rows = labels.len().max(1) as f64;
    let (logloss, error) = if size > 2 { ("mlogloss", "merror") } else { ("logloss", "error") };
    match meaning {
        Meaning::Values => vec![("rmse", (squares / rows).sqrt())],
        Meaning::Probabilities => vec![(logloss, loss / rows), (error, wrong / rows)],
        _ => vec![(error, wrong / rows)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_its_first_and_last_point_and_is_thinned_evenly() {
        for rounds in [1, 2, 199, 200, 201, 202, 399, 401, 1000, 54_321] {
            let mut curve = Curve::default();
            for round in 1..=rounds {
                curve.add(round, Part::Test, "rmse", f64::from(round));
                if curve.keeps(round) || round == rounds {
                    curve.add(round, Part::Train, "rmse", 0.0);
                }
            }
            let [test, train] = &curve.series[..] else { panic!("{:?}", curve.series) };
            let at: Vec<u32> = test.points.iter().map(|(round, _)| *round).collect();
            assert_eq!(at, train.points.iter().map(|(round, _)| *round).collect::<Vec<_>>(), "{rounds}");
            assert!(at.len() <= MOST_POINTS && at.len() >= (rounds as usize).min(MOST_POINTS / 2), "{rounds}: {at:?}");
            assert_eq!((at.first(), at.last()), (Some(&1), Some(&rounds)));
            let gaps: Vec<u32> = at.windows(2).map(|two| two[1] - two[0]).collect();
            let widest = gaps.iter().max().copied().unwrap_or(0);
            assert!(gaps.iter().skip(1).rev().skip(1).all(|gap| *gap == widest), "{rounds}: {at:?}");
            // The rounds that a training of known length is looked at in are of the same kind.
            let known = Curve::of(rounds);
            let kept = (1..=rounds).filter(|round| known.keeps(*round)).count();
            assert!(kept <= MOST_POINTS + 1 && kept >= (rounds as usize).min(MOST_POINTS / 2), "{rounds}: {kept}");
        }
    }

    #[test]
    fn what_is_no_number_is_no_point() {
        let mut curve = Curve::default();
        curve.add(1, Part::Test, "auc", f64::NAN);
        assert!(curve.series.is_empty());
    }

    #[test]
    fn metrics_are_those_of_their_names() {
        let found = measure(Meaning::Probabilities, 2, &[0.25, 0.75, 0.5, 0.5, 0.9, 0.1], &[1.0, 0.0, 1.0]);
        let loss = -(0.75_f64.ln() + 0.5_f64.ln() + f64::from(0.1_f32).ln()) / 3.0;
        assert_eq!(found.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["logloss", "error"]);
        assert!((found[0].1 - loss).abs() < 1e-9 && (found[1].1 - 1.0 / 3.0).abs() < 1e-9, "{found:?}");
        assert_eq!(measure(Meaning::Values, 1, &[1.0, 5.0], &[1.0, 2.0]), [("rmse", 4.5_f64.sqrt())]);
        assert_eq!(measure(Meaning::Scores, 3, &[0.1, 0.9, 0.3], &[2.0]), [("merror", 1.0)]);
    }

    /// A model of few rounds is what one of more rounds was after them: where each round follows from those before it.
    #[test]
    fn a_stage_is_the_model_of_so_many_rounds() {
        use crate::families::FAMILIES;
        use crate::families::testing::{classification, data_set, fit_of, regression};
        let (iris, diabetes) = (data_set("iris"), data_set("diabetes"));
        for (name, rounds) in [
            ("gradient_boosting_trees", "n_estimators"),
            ("hist_gradient_boosting", "max_iter"),
            ("ada_boost", "n_estimators"),
            ("random_forest", "n_estimators"),
            ("extra_trees", "n_estimators"),
            ("bagging", "n_estimators"),
        ] {
            for family in FAMILIES.iter().filter(|family| family.name == name) {
                let (features, width, labels) =
                    if family.task == crate::family::Task::Regression { &diabetes } else { &iris };
                let problem = match family.task {
                    crate::family::Task::Regression => regression(features, *width, labels),
                    _ => classification(features, *width, labels),
                };
                let of = |count: u32| fit_of(family, &problem, &format!("{{\"{rounds}\": {count}}}"));
                let long = of(12);
                assert!((2..=12).contains(&long.rounds()), "{name}");
                let at = [1, 5, long.rounds() as u32];
                let mut found = Vec::new();
                let mut ask = |_| Ok(());
                let mut control = Control::new(&mut ask);
                long.predict_staged(features, &at, &mut control, &mut |round, values| {
                    found.push((round, values.to_vec()))
                })
                .unwrap();
                assert_eq!(found.iter().map(|(round, _)| *round).collect::<Vec<_>>(), at, "{name}");
                for (round, values) in found {
                    let mut expected = vec![0.0; values.len()];
                    of(round).predict_rows(features, &mut expected);
                    let off =
                        values.iter().zip(&expected).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f32::max);
                    assert!(off < 1e-5, "{name} of {:?}, round {round}: {off}", family.task);
                }
            }
        }
    }
}
