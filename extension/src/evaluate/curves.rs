//! The curves of a classification or a regression on given rows, as rows ready to plot.

use learn::metrics::curves::{self, Calibration};
use pgrx::{IntoDatum, PgSqlErrorCode, pg_sys};

use super::rows::{self, Member, Relation, Take};
use super::sided::Sided;
use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::memory::{self, GivenBack};
use crate::model::Model;
use crate::model_meta::Task;
use crate::names::Resolved;
use crate::sql::{Call, text_datum};

crate::sql_function!(pgml_confusion_matrix, confusion_matrix);
crate::sql_function!(pgml_roc_curve, roc_curve);
crate::sql_function!(pgml_precision_recall_curve, precision_recall_curve);
crate::sql_function!(pgml_calibration_curve, calibration_curve);
crate::sql_function!(pgml_residual_quantiles, residual_quantiles);

/// Numbers that are kept of the rows, four bytes each, for what needs the order of all of them.
const MOST_KEPT: usize = 1 << 26;

/// Bins of a calibration curve.
const MOST_BINS: i32 = 10_000;

/// Quantiles of one call.
const MOST_QUANTILES: usize = 10_000;

/// The model that the call names, which must be of that task.
fn target(call: &Call, task: Task) -> Result<Resolved> {
    let target = super::target(call, Privilege::Predict)?;
    match target.model.task {
        own if own == task => Ok(target),
        own => Err(Error::unsupported(format!("{target} is for {}, not for {}", own.name(), task.name()))
            .hint("Use pgml.evaluate for its metrics.")),
    }
}

/// Reads the relation that the call names and gives the rows to the taker; after the argument that names the labels comes
/// which rows these are.
fn read<T: Take>(call: &Call, target: Resolved, argument: usize, taker: T) -> Result<Member<T>> {
    let relation = Relation::of(call, 1)?;
    let labels = super::labels(call, argument)?;
    let (target, mut sided) = Sided::of(call, argument + 1, target, &relation, labels.as_deref())?;
    let mut member = Member::new(target, &relation, labels.as_deref(), taker)?;
    rows::run(&relation, &mut sided, &mut member)?;
    sided.tell();
    Ok(member)
}

/// How often rows of a class were predicted to be of a class.
struct Confusion {
    /// By class of the row: by predicted class.
    counts: Vec<Vec<u64>>,
}

impl Take for Confusion {
    fn row(&mut self, model: &Model, _features: &[f32], labels: &[f32], values: &[f32]) -> Result<()> {
        let actual = labels.first().copied().unwrap_or(0.0) as usize;
        if self.counts.len() <= actual {
            self.counts.resize_with(actual + 1, Vec::new);
        }
        let Some(counts) = self.counts.get_mut(actual) else { return Ok(()) };
        if counts.is_empty() {
            *counts = memory::filled(0, model.classes().len())?;
        }
        if let Some(count) = model.class_index(values).and_then(|class| counts.get_mut(class)) {
            *count += 1;
        }
        Ok(())
    }
}

/// `pgml.confusion_matrix(...) RETURNS TABLE (actual text, predicted text, count bigint)`.
fn confusion_matrix(call: &Call) -> Result<pg_sys::Datum> {
    let target = target(call, Task::Classification)?;
    let member = read(call, target, 2, Confusion { counts: Vec::new() })?;
    // Made before the rows are stored: text that is made meanwhile would live as long as the query.
    let names: Vec<pg_sys::Datum> = member.classes().into_iter().map(text_datum).collect();
    let predicted = member.target.model.classes().len();
    let count = |actual: usize, predicted: usize| {
        let count = member.taker.counts.get(actual).and_then(|counts| counts.get(predicted));
        i64::try_from(count.copied().unwrap_or(0)).unwrap_or(i64::MAX)
    };
    let pairs = names.iter().enumerate().flat_map(|(actual, name)| {
        let others = names.iter().take(predicted).enumerate();
        let count = &count;
        others.map(move |(other, predicted)| [Some(*name), Some(*predicted), count(actual, other).into_datum()])
    });
    call.rows(pairs)
}

/// The scores of all rows.
#[derive(Default)]
struct Scores {
    /// Row by row, one for each class, or of two classes that of the one that is looked for.
    scores: Vec<f32>,
    truths: Vec<u32>,
    width: usize,
    /// The class of the first score.
    first: usize,
}

impl Take for Scores {
    fn row(&mut self, model: &Model, _features: &[f32], labels: &[f32], values: &[f32]) -> Result<()> {
        let Some(scores) = model.class_scores(values) else {
            return Err(Error::unsupported("the model predicts classes without scores"));
        };
        if self.scores.len() + scores.len() > MOST_KEPT {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("a curve needs one score for each row and class, and takes at most {MOST_KEPT} scores"),
            )
            .hint("Give fewer rows: relation_name => '(SELECT ... FROM ... TABLESAMPLE SYSTEM (10))'."));
        }
        (self.width, self.first) = (scores.len(), first_class(model, scores));
        memory::reserve(&mut self.scores, scores.len())?;
        match (scores, self.first) {
            ([second], 0) => self.scores.push(of_first(model, *second)),
            _ => self.scores.extend_from_slice(scores),
        }
        memory::reserve(&mut self.truths, 1)?;
        self.truths.push(labels.first().copied().unwrap_or(0.0) as u32);
        Ok(())
    }
}

impl Scores {
    /// The class that a column of scores is of.
    fn class(&self, column: usize) -> usize {
        column + self.first
    }

    /// The scores of a class, and which rows are of it; NaN scores below all others.
    fn of(&self, column: usize) -> Result<Vec<(f32, bool)>> {
        let mut rows = Vec::new();
        memory::reserve(&mut rows, self.truths.len())?;
        let class = self.class(column) as u32;
        let scores = self.scores.iter().skip(column).step_by(self.width.max(1));
        let ordered = |score: f32| if score.is_nan() { f32::NEG_INFINITY } else { score };
        rows.extend(scores.zip(&self.truths).map(|(score, truth)| (ordered(*score), *truth == class)));
        Ok(rows)
    }
}

/// The class that the first of a model's scores is drawn for: of two classes, which have one score, the one looked for.
fn first_class(model: &Model, scores: &[f32]) -> usize {
    if scores.len() == 1 { model.positive.unwrap_or(1) } else { 0 }
}

/// The score of the first of two classes.
fn of_first(model: &Model, second: f32) -> f32 {
    if model.gives_probabilities() { 1.0 - second } else { -second }
}

/// Rows of a function that gives a curve for each class; of two classes, of the one that is looked for.
fn curve<P>(
    call: &Call,
    draw: impl Fn(&mut [(f32, bool)]) -> Vec<P>,
    point: impl Fn(&P) -> [Option<pg_sys::Datum>; 3],
) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let target = target(call, Task::Classification)?;
    let member = read(call, target, 2, Scores::default())?;
    let names: Vec<pg_sys::Datum> = member.classes().into_iter().map(text_datum).collect();
    let scores = &member.taker;
    let mut failure = Ok(());
    let (draw, point, failure_of) = (&draw, &point, &mut failure);
    let points = (0..scores.width).flat_map(|column| {
        let class = names.get(scores.class(column)).copied();
        let drawn = scores.of(column).map(|mut rows| draw(&mut rows)).unwrap_or_else(|error| {
            *failure_of = Err(error);
            Vec::new()
        });
        drawn.into_iter().map(move |drawn| {
            let [a, b, c] = point(&drawn);
            [class, a, b, c]
        })
    });
    let rows = call.rows(points)?;
    failure.map(|()| rows)
}

/// `pgml.roc_curve(...) RETURNS TABLE (class text, threshold real, fpr double precision, tpr double precision)`.
fn roc_curve(call: &Call) -> Result<pg_sys::Datum> {
    curve(call, curves::roc, |point| {
        [point.threshold.into_datum(), point.false_positives.into_datum(), point.true_positives.into_datum()]
    })
}

/// `pgml.precision_recall_curve(...) RETURNS TABLE (class text, threshold real, precision double precision, recall
/// double precision)`.
fn precision_recall_curve(call: &Call) -> Result<pg_sys::Datum> {
    curve(call, curves::precision_recall, |point| {
        [point.threshold.into_datum(), point.precision.into_datum(), point.recall.into_datum()]
    })
}

/// The bins of each class; of two classes, of the one that is looked for.
struct Bins {
    classes: Vec<Calibration>,
    count: usize,
}

impl Take for Bins {
    fn row(&mut self, model: &Model, _features: &[f32], labels: &[f32], values: &[f32]) -> Result<()> {
        let probabilities = model.class_scores(values).unwrap_or(&[]);
        if self.classes.is_empty() {
            self.classes = vec![Calibration::new(self.count); probabilities.len()];
        }
        let truth = labels.first().copied().unwrap_or(0.0) as usize;
        let first = first_class(model, probabilities);
        let flipped = probabilities.len() == 1 && first == 0;
        for (column, (bins, probability)) in self.classes.iter_mut().zip(probabilities).enumerate() {
            let probability = if flipped { of_first(model, *probability) } else { *probability };
            bins.add(probability, truth == first + column);
        }
        Ok(())
    }
}

/// `pgml.calibration_curve(project or model, relation_name, bins, y_column_name) RETURNS TABLE (class text, bin integer,
/// rows bigint, predicted double precision, actual double precision)`.
fn calibration_curve(call: &Call) -> Result<pg_sys::Datum> {
    let target = target(call, Task::Classification)?;
    let bins = call.i32(2).ok_or_else(|| Error::null_argument("bins"))?;
    if !(1..=MOST_BINS).contains(&bins) {
        return Err(Error::invalid(format!("bins must be from 1 to {MOST_BINS}: {bins}")));
    }
    if !target.model.gives_probabilities() {
        return Err(Error::unsupported(format!("the model of {target} gives no probabilities"))
            .hint("Use an algorithm that has pgml.predict_proba."));
    }
    let count = usize::try_from(bins).unwrap_or(1);
    let member = read(call, target, 3, Bins { classes: Vec::new(), count })?;
    let names: Vec<pg_sys::Datum> = member.classes().into_iter().map(text_datum).collect();
    let first = if member.taker.classes.len() == 1 { member.target.model.positive.unwrap_or(1) } else { 0 };
    let rows = member.taker.classes.iter().enumerate().flat_map(|(column, bins)| {
        let class = names.get(first + column).copied();
        (1i32..).zip(bins.bins()).map(move |(number, bin)| {
            let rows = i64::try_from(bin.rows).unwrap_or(i64::MAX);
            [class, number.into_datum(), rows.into_datum(), bin.predicted().into_datum(), bin.actual().into_datum()]
        })
    });
    call.rows(rows)
}

/// What is left of the labels when predictions are taken from them.
struct Residuals {
    /// By label.
    labels: Vec<Vec<f32>>,
}

impl Take for Residuals {
    fn row(&mut self, model: &Model, _features: &[f32], labels: &[f32], values: &[f32]) -> Result<()> {
        let count = self.labels.len().max(1);
        for ((residuals, label), value) in self.labels.iter_mut().zip(labels).zip(model.estimates(values)) {
            if residuals.len() * count >= MOST_KEPT {
                return Err(Error::new(
                    PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                    format!("quantiles are taken of {MOST_KEPT} residuals at most"),
                )
                .hint("Give fewer rows: relation_name => '(SELECT ... FROM ... TABLESAMPLE SYSTEM (10))'."));
            }
            memory::reserve(residuals, 1)?;
            residuals.push((f64::from(*label) - f64::from(*value)) as f32);
        }
        Ok(())
    }
}

/// `pgml.residual_quantiles(project or model, relation_name, quantiles, y_column_name) RETURNS TABLE (label text, quantile
/// double precision, residual double precision)`.
fn residual_quantiles(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let target = target(call, Task::Regression)?;
    let levels = call.f64s(2, "quantiles", MOST_QUANTILES)?.ok_or_else(|| Error::null_argument("quantiles"))?;
    if let Some(level) = levels.iter().find(|level| !(0.0..=1.0).contains(*level)) {
        return Err(Error::invalid(format!("quantile {level} is not from 0 to 1")));
    }
    let names: Vec<pg_sys::Datum> = target.model.labels.iter().map(|label| text_datum(&label.name)).collect();
    let residuals = Residuals { labels: vec![Vec::new(); names.len()] };
    let mut member = read(call, target, 3, residuals)?;
    for residuals in &mut member.taker.labels {
        residuals.sort_unstable_by(f32::total_cmp);
    }
    let rows = names.iter().zip(&member.taker.labels).flat_map(|(name, residuals)| {
        let quantile = |level: f64| curves::quantile(residuals, level).into_datum();
        levels.iter().map(move |level| [Some(*name), level.into_datum(), quantile(*level)])
    });
    call.rows(rows)
}
