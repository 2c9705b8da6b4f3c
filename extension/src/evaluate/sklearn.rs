//! PostgresML's functions over arrays that give scikit-learn's metrics: `pgml.sklearn_f1_score` and its relatives.

use std::collections::HashMap;

use learn::metrics::{Classification, Named, Regression};
use pgrx::{IntoDatum, JsonB, PgSqlErrorCode, pg_sys};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::features::{self, Number};
use crate::measure::to_json;
use crate::sql::Call;

crate::sql_function!(pgml_sklearn_f1_score, f1_score);
crate::sql_function!(pgml_sklearn_r2_score, r2_score);
crate::sql_function!(pgml_sklearn_regression_metrics, regression_metrics);
crate::sql_function!(pgml_sklearn_classification_metrics, classification_metrics);

/// Classes that can be told apart; more of them are numbers.
const MOST_CLASSES: usize = learn::xgboost::MOST_CLASSES as usize;

/// Elements between two looks for interrupts.
const AT_ONCE: usize = 1 << 16;

/// Both arrays, which are as long as each other.
struct Pairs {
    truths: Vec<f32>,
    predictions: Vec<f32>,
}

impl Pairs {
    /// `None` where one is NULL.
    fn of(call: &Call) -> Result<Option<Pairs>> {
        let (Some(truths), Some(predictions)) = (read(call, 0, "ground_truth")?, read(call, 1, "y_hat")?) else {
            return Ok(None);
        };
        match (truths.len(), predictions.len()) {
            (0, 0) => Err(Error::invalid("ground_truth and y_hat are empty")),
            (a, b) if a != b => {
                Err(Error::invalid(format!("ground_truth has {}, and y_hat {b}", learn::count(a, "element"))))
            }
            _ => Ok(Some(Pairs { truths, predictions })),
        }
    }

    fn each(&self, mut take: impl FnMut(f32, f32) -> Result<()>) -> Result<()> {
        for (truths, predictions) in self.truths.chunks(AT_ONCE).zip(self.predictions.chunks(AT_ONCE)) {
            pgrx::check_for_interrupts!();
            truths.iter().zip(predictions).try_for_each(|(truth, predicted)| take(*truth, *predicted))?;
        }
        Ok(())
    }
}

fn read(call: &Call, argument: usize, name: &str) -> Result<Option<Vec<f32>>> {
    let Some(datum) = call.datum(argument) else { return Ok(None) };
    let mut values: Vec<f32> = Vec::new();
    // SAFETY: a real[], as declared.
    unsafe { features::read_array(datum, Number::Float4, usize::MAX, &mut values)? };
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(Some(values)),
        Some(at) => Err(Error::new(
            PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("element {} of {name} is NULL, NaN or infinite", at + 1),
        )),
    }
}

fn json_datum(metrics: Vec<Named>) -> Option<pg_sys::Datum> {
    JsonB(Value::Object(to_json(metrics))).into_datum()
}

fn or_null(call: &Call, datum: Option<pg_sys::Datum>) -> pg_sys::Datum {
    datum.unwrap_or_else(|| call.null())
}

fn regression(pairs: &Pairs) -> Result<Regression> {
    let mut sums = Regression::new();
    pairs.each(|truth, predicted| {
        sums.add(f64::from(truth), f64::from(predicted));
        Ok(())
    })?;
    Ok(sums)
}

/// `pgml.sklearn_r2_score(ground_truth real[], y_hat real[]) RETURNS real`.
fn r2_score(call: &Call) -> Result<pg_sys::Datum> {
    let Some(pairs) = Pairs::of(call)? else { return Ok(call.null()) };
    let r2 = regression(&pairs)?.r2();
    Ok(or_null(call, r2.map(|r2| r2 as f32).into_datum()))
}

/// `pgml.sklearn_regression_metrics(ground_truth real[], y_hat real[]) RETURNS jsonb`.
fn regression_metrics(call: &Call) -> Result<pg_sys::Datum> {
    let Some(pairs) = Pairs::of(call)? else { return Ok(call.null()) };
    let sums = regression(&pairs)?;
    let metrics = vec![("r2", sums.r2()), ("mse", sums.mean_squared_error()), ("mae", sums.mean_absolute_error())];
    Ok(or_null(call, json_datum(metrics)))
}

/// Classes, which are whole numbers, in the order of their appearance, and how often a pair of them occurs.
#[derive(Default)]
struct Classes {
    codes: HashMap<u32, u32>,
    labels: Vec<f32>,
    pairs: HashMap<(u32, u32), u64>,
}

impl Classes {
    fn of(pairs: &Pairs) -> Result<Classes> {
        let mut classes = Classes::default();
        pairs.each(|truth, predicted| {
            let pair = (classes.code(truth)?, classes.code(predicted)?);
            *classes.pairs.entry(pair).or_default() += 1;
            Ok(())
        })?;
        Ok(classes)
    }

    fn code(&mut self, label: f32) -> Result<u32> {
        // Zero has no sign.
        let label = label + 0.0;
        if let Some(code) = self.codes.get(&label.to_bits()) {
            return Ok(*code);
        }
        if label.fract() != 0.0 {
            return Err(Error::invalid(format!("class {label} is not a whole number"))
                .hint("Convert probabilities to classes first."));
        }
        if self.labels.len() == MOST_CLASSES {
            let code = PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
            return Err(Error::new(code, format!("there are more than {MOST_CLASSES} classes")));
        }
        let code = u32::try_from(self.labels.len()).unwrap_or(u32::MAX);
        self.labels.push(label);
        self.codes.insert(label.to_bits(), code);
        Ok(code)
    }

    /// The metrics: of two classes those of class 1, or of the greater one where no row has class 1, else the means over
    /// the classes.
    fn metrics(&self) -> Classification {
        let positive = match self.labels.contains(&1.0) {
            true => 1.0,
            false => self.labels.iter().copied().fold(f32::MIN, f32::max),
        };
        let binary = self.labels.len() <= 2;
        let only_zero = self.labels == [0.0];
        let index = |code: u32| match self.labels.get(code as usize) {
            Some(label) if binary => u32::from(*label == positive && !only_zero),
            _ => code,
        };
        let mut sums = Classification::new(if binary { 2 } else { u32::try_from(self.labels.len()).unwrap_or(0) });
        for ((truth, predicted), count) in &self.pairs {
            sums.add_classes(index(*truth), index(*predicted), *count);
        }
        sums
    }

    /// The area under the ROC curve, with the predicted classes as scores of the greater of two true classes.
    fn roc_auc(&self) -> Option<f64> {
        let label = |code: u32| self.labels.get(code as usize).copied().unwrap_or(0.0);
        let mut truths: Vec<f32> = self.pairs.keys().map(|(truth, _)| label(*truth)).collect();
        truths.sort_unstable_by(f32::total_cmp);
        truths.dedup();
        let &[_, positive] = truths.as_slice() else { return None };
        let mut scores: Vec<(f32, bool, u64)> = self
            .pairs
            .iter()
            .map(|((truth, predicted), count)| (label(*predicted), label(*truth) == positive, *count))
            .collect();
        scores.sort_unstable_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let (mut below, mut positives, mut area) = (0.0, 0.0, 0.0);
        for tied in scores.chunk_by(|(a, ..), (b, ..)| a == b) {
            let of = |wanted: bool| -> f64 {
                tied.iter().filter(|(_, positive, _)| *positive == wanted).map(|(.., count)| *count as f64).sum()
            };
            area += of(true) * (below + of(false) / 2.0);
            below += of(false);
            positives += of(true);
        }
        Some(area / (positives * below))
    }
}

/// `pgml.sklearn_f1_score(ground_truth real[], y_hat real[]) RETURNS real`.
fn f1_score(call: &Call) -> Result<pg_sys::Datum> {
    let Some(pairs) = Pairs::of(call)? else { return Ok(call.null()) };
    let f1 = Classes::of(&pairs)?.metrics().f1();
    Ok(or_null(call, f1.map(|f1| f1 as f32).into_datum()))
}

/// `pgml.sklearn_classification_metrics(ground_truth real[], y_hat real[], num_classes bigint) RETURNS jsonb`.
fn classification_metrics(call: &Call) -> Result<pg_sys::Datum> {
    let (Some(pairs), Some(num_classes)) = (Pairs::of(call)?, call.i64(2)) else { return Ok(call.null()) };
    let classes = Classes::of(&pairs)?;
    if i64::try_from(classes.labels.len()).is_ok_and(|found| found > num_classes) {
        return Err(Error::invalid(format!(
            "num_classes is {num_classes}, but ground_truth and y_hat have {}",
            learn::count(classes.labels.len(), "class")
        )));
    }
    let sums = classes.metrics();
    let mut metrics = vec![
        ("f1", sums.f1()),
        // Of classes that exclude each other, what micro-averages of anything are.
        ("f1_micro", sums.accuracy()),
        ("precision", sums.precision()),
        ("recall", sums.recall()),
        ("accuracy", sums.accuracy()),
        ("mcc", sums.mcc()),
    ];
    if num_classes == 2 {
        metrics.push(("roc_auc", classes.roc_auc()));
    }
    Ok(or_null(call, json_datum(metrics)))
}
