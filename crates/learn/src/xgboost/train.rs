//! The rounds of a training, and when they end.

use std::time::{Duration, Instant};

use super::booster::Booster;
use super::feed::{Feed, stoppable};
use super::library::{Library, take_log};
use super::matrix::Matrix;
use super::{ColumnKind, Columns, Params, Task};
use crate::Error;
use crate::curve::{Curve, Part};
use crate::rows::{Chunk, Rows, Stop};

/// A metric on the evaluation rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// XGBoost's name of it, such as `rmse` or `error@0.7`.
    pub name: String,
    /// Its value; may be NaN.
    pub value: f64,
}

/// How a training is getting on, after each round.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    /// Rounds done, from 1.
    pub round: u32,
    /// Rounds there will be at the most.
    pub total: u32,
    /// The metrics on the evaluation rows, in the order of `eval_metric`; empty if there are no such rows.
    pub metrics: &'a [Metric],
    /// Since the first round began; reading the rows comes before that.
    pub elapsed: Duration,
}

/// A trained model and how it came about.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model in XGBoost's UBJ format: with the names and types of the columns, the attributes, and, if it stopped
    /// early, only the rounds up to the best one.
    pub model: Vec<u8>,
    /// Rounds that the model has.
    pub rounds: u32,
    /// Rounds that were trained; more than `rounds` after early stopping.
    pub rounds_trained: u32,
    /// The best round, from 0, if early stopping was asked for; also an attribute of the model.
    pub best_iteration: Option<u32>,
    /// The last metric at the best round, if early stopping was asked for; also an attribute of the model.
    pub best_score: Option<f64>,
    /// The metrics on the evaluation rows at the model's last round; empty without such rows.
    pub metrics: Vec<Metric>,
    /// Rows that were trained on.
    pub rows: u64,
    /// Rows that were evaluated on.
    pub eval_rows: u64,
    /// The whole training, reading the rows included.
    pub elapsed: Duration,
    /// What the library warned of, a sentence each.
    pub warnings: Vec<String>,
}

/// Trains a model.
///
/// The rows are read several times (see [`Rows`]); unless [`Params::needs_all_values`], only a byte or two a value is
/// held in memory. `eval` are rows to measure on, and to stop early by; `attributes` are stored in the model beside it;
/// `progress` is called after every round.
///
/// The library's threads have all signals blocked; sources and `progress` are called with the caller's own mask.
///
/// # Errors
/// [`Error::Stopped`] with what a source or `progress` gave or panicked with; the other variants as they say. Everything is freed then.
pub fn train(
    library: &Library,
    params: &Params,
    columns: &Columns,
    train: &mut dyn Rows,
    eval: Option<&mut dyn Rows>,
    attributes: &[(String, String)],
    progress: &mut dyn FnMut(&Round<'_>) -> Result<(), Stop>,
) -> Result<Trained, Error> {
    let begun = Instant::now();
    let matrices = Matrices::read(library, params, columns, train, eval, None)?;
    Ok(Trained { elapsed: begun.elapsed(), ..matrices.train(params, attributes, progress)? })
}

/// Rows as the library holds them: read once, for several trainings.
pub struct Matrices<'l> {
    library: &'l Library,
    columns: Columns,
    task: Task,
    dense: bool,
    max_bin: Option<String>,
    train: Matrix<'l>,
    rows: u64,
    eval: Option<Matrix<'l>>,
    eval_rows: u64,
    sample: Option<Matrix<'l>>,
}

impl<'l> Matrices<'l> {
    /// Reads the rows to learn from, and those to measure on: see [`train`]. `sample` are some of the former, on which
    /// learning curves are measured.
    ///
    /// # Errors
    /// As of [`train`].
    pub fn read(
        library: &'l Library,
        params: &Params,
        columns: &Columns,
        train: &mut dyn Rows,
        eval: Option<&mut dyn Rows>,
        sample: Option<&mut dyn Rows>,
    ) -> Result<Matrices<'l>, Error> {
        library.capture_log()?;
        check_patience(params, eval.is_some())?;
        params.resolve(columns)?;
        let (train, rows) = matrix(library, params, columns, train, None, "learn from")?;
        let (eval, eval_rows) = match eval {
            Some(eval) => {
                let (eval, rows) = matrix(library, params, columns, eval, Some(&train), "evaluate on")?;
                (Some(eval), rows)
            }
            None => (None, 0),
        };
        let sample = match sample {
            Some(sample) => Some(matrix(library, params, columns, sample, Some(&train), "measure on")?.0),
            None => None,
        };
        let (dense, max_bin) = key(params);
        Ok(Matrices {
            library,
            columns: columns.clone(),
            task: params.task(),
            dense,
            max_bin,
            train,
            rows,
            eval,
            eval_rows,
            sample,
        })
    }

    /// Whether a training by these hyperparameters would read the rows into the same matrices.
    pub fn serve(&self, params: &Params, columns: &Columns) -> bool {
        (self.dense, &self.max_bin) == (key(params).0, &key(params).1)
            && self.task == params.task()
            && self.columns == *columns
    }

    /// Trains a model on them: see [`train`]. The matrices must [`serve`](Matrices::serve) the hyperparameters.
    ///
    /// # Errors
    /// As of [`train`].
    pub fn train(
        &self,
        params: &Params,
        attributes: &[(String, String)],
        progress: &mut dyn FnMut(&Round<'_>) -> Result<(), Stop>,
    ) -> Result<Trained, Error> {
        self.go_on(None, params, attributes, None, progress)
    }

    /// As [`train`](Matrices::train); with a model of the same columns, outputs and objective, in XGBoost's JSON or UBJ,
    /// the rounds are added to its own, as XGBoost's `train` does with `xgb_model`. The metrics of the rounds are added to
    /// `curve`, those on the sample of the training rows too.
    ///
    /// # Errors
    /// As of [`train`]; [`Error::Refused`] for a model that the library cannot read.
    pub fn go_on(
        &self,
        from: Option<&[u8]>,
        params: &Params,
        attributes: &[(String, String)],
        mut curve: Option<&mut Curve>,
        progress: &mut dyn FnMut(&Round<'_>) -> Result<(), Stop>,
    ) -> Result<Trained, Error> {
        debug_assert!(self.serve(params, &self.columns), "the matrices are of other hyperparameters");
        let begun = Instant::now();
        self.library.capture_log()?;
        check_patience(params, self.eval.is_some())?;
        let (library, columns, matrix, eval) = (self.library, &self.columns, &self.train, &self.eval);
        let booster = self.booster(from, params)?;

        let first = Instant::now();
        let mut patience = params.early_stopping_rounds().map(Patience::new);
        let mut metrics = Vec::new();
        let mut trained = 0;
        // What a slice cannot give back: dart weighs its trees anew in every round, and gblinear has none.
        let sliced = params.booster() == "gbtree";
        let mut kept: Option<Booster<'_>> = None;
        for round in 0..params.rounds() {
            booster.update(round, matrix)?;
            trained = round + 1;
            metrics = match eval {
                Some(eval) => booster.evaluate(round, eval)?,
                None => Vec::new(),
            };
            if let Some(curve) = &mut curve {
                self.add_round(curve, &booster, round, &metrics)?;
            }
            let report = Round { round: trained, total: params.rounds(), metrics: &metrics, elapsed: first.elapsed() };
            stoppable(|| progress(&report))?;
            if let Some(patience) = &mut patience {
                if patience.improved(round, &metrics) && !sliced {
                    kept = Some(Booster::load(library, &booster.save()?)?);
                }
                if patience.is_over() {
                    break;
                }
            }
        }

        if let (Some(curve), Some(sample)) = (curve, &self.sample)
            && !curve.keeps(trained)
        {
            measure_training(&booster, trained.saturating_sub(1), sample, curve)?;
        }
        let (model, rounds) = finish(booster, kept, patience.as_ref(), trained)?;
        model.set_columns(columns)?;
        for (name, value) in attributes {
            model.set_attribute(name, value)?;
        }
        if let Some(patience) = &patience {
            metrics.clone_from(&patience.metrics);
        }
        Ok(Trained {
            model: model.save()?,
            rounds,
            rounds_trained: trained,
            best_iteration: patience.as_ref().map(|patience| patience.best),
            best_score: patience.as_ref().map(|patience| patience.score),
            metrics,
            rows: self.rows,
            eval_rows: self.eval_rows,
            elapsed: begun.elapsed(),
            warnings: take_log(),
        })
    }
}

/// The model of the best round, of which `kept` is a copy where it cannot be cut out, and its rounds.
fn finish<'l>(
    booster: Booster<'l>,
    kept: Option<Booster<'l>>,
    patience: Option<&Patience>,
    trained: u32,
) -> Result<(Booster<'l>, u32), Error> {
    let Some(patience) = patience else { return Ok((booster, trained)) };
    let rounds = patience.best + 1;
    let finished = match kept {
        Some(kept) => kept,
        None if rounds < trained => booster.first(rounds)?,
        None => booster,
    };
    finished.set_attribute("best_iteration", &patience.best.to_string())?;
    finished.set_attribute("best_score", &patience.score.to_string())?;
    Ok((finished, rounds))
}

impl<'l> Matrices<'l> {
    /// A booster of the matrices with these hyperparameters, which goes on from a model.
    fn booster(&self, from: Option<&[u8]>, params: &Params) -> Result<Booster<'l>, Error> {
        let settings = params.resolve(&self.columns)?;
        let matrices: Vec<&Matrix<'_>> = std::iter::once(&self.train).chain(&self.eval).chain(&self.sample).collect();
        let booster = Booster::create(self.library, &matrices)?;
        if let Some(model) = from {
            booster.become_model(model)?;
            // Of a training that stopped early; the rounds to come count, too.
            for name in ["best_iteration", "best_score", "best_ntree_limit"] {
                booster.forget_attribute(name)?;
            }
        }
        for (name, value) in &settings {
            booster.set(name, value)?;
        }
        Ok(booster)
    }

    /// Adds a round to a curve, measured on the sample of the training rows too where the curve keeps it.
    fn add_round(&self, curve: &mut Curve, booster: &Booster<'_>, round: u32, metrics: &[Metric]) -> Result<(), Error> {
        metrics.iter().for_each(|metric| curve.add(round + 1, Part::Test, &metric.name, metric.value));
        match self.sample.as_ref().filter(|_| curve.keeps(round + 1)) {
            Some(sample) => measure_training(booster, round, sample, curve),
            None => Ok(()),
        }
    }
}

/// Adds the metrics on some of the training rows to a curve.
fn measure_training(booster: &Booster<'_>, round: u32, rows: &Matrix<'_>, curve: &mut Curve) -> Result<(), Error> {
    for metric in booster.evaluate(round, rows)? {
        curve.add(round + 1, Part::Train, &metric.name, metric.value);
    }
    Ok(())
}

/// There must be rows to stop by.
fn check_patience(params: &Params, evaluated: bool) -> Result<(), Error> {
    match params.early_stopping_rounds() {
        Some(rounds) if !evaluated => Err(Error::InvalidParameter {
            name: "early_stopping_rounds".into(),
            value: rounds.to_string(),
            allowed: "there are no held-out rows to stop by".into(),
        }),
        _ => Ok(()),
    }
}

/// What decides how rows are held: whole or by their quantiles, and by how many.
fn key(params: &Params) -> (bool, Option<String>) {
    let dense = params.needs_all_values();
    (dense, if dense { None } else { params.setting("max_bin").map(str::to_owned) })
}

/// Reads a source into the kind of matrix that the method needs; gives the number of rows too.
fn matrix<'l>(
    library: &'l Library,
    params: &Params,
    columns: &Columns,
    source: &mut dyn Rows,
    reference: Option<&Matrix<'l>>,
    purpose: &'static str,
) -> Result<(Matrix<'l>, u64), Error> {
    let nthread = params.nthread().map_or(0, i64::from);
    let mut feed = Feed::new(library, source, columns, params.task(), purpose)?;
    let matrix = if params.needs_all_values() {
        Matrix::dense(&mut feed, columns, nthread)?
    } else {
        Matrix::quantile(&mut feed, reference, params.setting("max_bin"), nthread)?
    };
    Ok((matrix, feed.rows()))
}

/// Early stopping, as XGBoost's Python package does it: the last metric decides, and only a strict improvement counts.
/// Any number is better than NaN, though, and more of `ams` is better.
struct Patience {
    rounds: u32,
    best: u32,
    score: f64,
    metrics: Vec<Metric>,
    since: Option<u32>,
}

impl Patience {
    fn new(rounds: u32) -> Patience {
        Patience { rounds, best: 0, score: f64::NAN, metrics: Vec::new(), since: None }
    }

    /// Takes the metrics of a round; whether it is the best one so far.
    fn improved(&mut self, round: u32, metrics: &[Metric]) -> bool {
        let Some(deciding) = metrics.last() else { return false };
        let better = match self.since {
            None => true,
            Some(_) if self.score.is_nan() => !deciding.value.is_nan(),
            Some(_) if more_is_better(&deciding.name) => deciding.value > self.score,
            Some(_) => deciding.value < self.score,
        };
        if better {
            self.best = round;
            self.score = deciding.value;
            self.metrics = metrics.to_vec();
            self.since = Some(0);
        } else {
            self.since = self.since.map(|since| since + 1);
        }
        better
    }

    fn is_over(&self) -> bool {
        self.since.is_some_and(|since| since >= self.rounds)
    }
}

fn more_is_better(metric: &str) -> bool {
    metric != "mape" && ["auc", "pre", "map", "ndcg", "ams"].iter().any(|stem| metric.starts_with(stem))
}

/// See [`Params::dry_run`].
pub(super) fn dry_run(library: &Library, reduced: &Params, columns: &Columns) -> Result<Vec<String>, Error> {
    let (mut rows, mut eval) = (Sample::new(reduced.task(), columns), Sample::new(reduced.task(), columns));
    let trained = train(library, reduced, columns, &mut rows, Some(&mut eval), &[], &mut |_| Ok(()))?;
    Ok(trained.warnings)
}

/// Made-up rows on which any objective can be trained: labels between 0 and 1, or every class in turn.
struct Sample {
    width: usize,
    features: Vec<f32>,
    labels: Vec<f32>,
    given: bool,
}

/// Enough for splits, few enough to take no time.
const SAMPLE_ROWS: u16 = 32;

impl Sample {
    fn new(task: Task, columns: &Columns) -> Sample {
        let mut features = Vec::with_capacity(usize::from(SAMPLE_ROWS) * columns.width());
        let mut labels = Vec::with_capacity(usize::from(SAMPLE_ROWS));
        for row in 0..SAMPLE_ROWS {
            for (position, column) in columns.iter().enumerate() {
                // Any numbers that differ between rows and columns will do.
                let value = (u64::from(row) * 7919 + position as u64 * 104_729) % 31;
                features.push(match column.kind {
                    ColumnKind::Categorical { categories } => (value % u64::from(categories)) as f32,
                    _ => value as f32,
                });
            }
            labels.push(match task {
                Task::Regression => 0.25 + 0.5 * f32::from(row) / f32::from(SAMPLE_ROWS),
                Task::Classification { classes } => (u32::from(row) % classes) as f32,
            });
        }
        Sample { width: columns.width(), features, labels, given: false }
    }
}

impl Rows for Sample {
    fn width(&self) -> usize {
        self.width
    }

    fn rewind(&mut self) -> Result<(), Stop> {
        self.given = false;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop> {
        if std::mem::replace(&mut self.given, true) {
            return Ok(None);
        }
        Ok(Some(Chunk { features: &self.features, labels: &self.labels, weights: None }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best round, and how many were taken, of these values of a metric.
    fn stopped(metric: &str, values: &[f64]) -> (u32, usize) {
        let mut patience = Patience::new(2);
        let mut taken = 0;
        for (round, &value) in (0..).zip(values) {
            taken += 1;
            patience.improved(round, &[Metric { name: metric.into(), value }]);
            if patience.is_over() {
                break;
            }
        }
        (patience.best, taken)
    }

    #[test]
    fn it_ends_when_patience_does() {
        assert_eq!(stopped("rmse", &[3.0, 2.0, 2.0, 2.5, 1.0]), (1, 4));
        assert_eq!(stopped("rmse", &[3.0, 3.5, 2.0, 2.5, 1.0]), (4, 5));
        assert_eq!(stopped("auc", &[0.5, 0.6, 0.5, 0.6, 0.9]), (1, 4));
        assert_eq!(stopped("mape", &[0.5, 0.6, 0.7, 0.1]), (0, 3));
        assert_eq!(stopped("map@3", &[0.5, 0.6, 0.7, 0.8]), (3, 4));
        assert_eq!(stopped("rmse", &[f64::NAN, f64::NAN, 1.0]), (2, 3));
        assert_eq!(stopped("rmse", &[f64::NAN, f64::NAN, f64::NAN, 1.0]), (0, 3));
        assert_eq!(stopped("rmse", &[f64::NAN, 1.0, f64::NAN, 0.5]), (3, 4));
    }
}
