//! The label of a training: numbers to come near to in a regression, classes to tell apart in a classification.

use std::cmp::Ordering;

use pgrx::{PgSqlErrorCode, pg_sys};
use serde_json::Value;

use super::categories::{self, Categories, Sorted};
use super::cursor::ResultColumn;
use super::statistics::Statistics;
use crate::error::{Error, Result};
use crate::features::{self, Kind, Number, TextKind};
use crate::model_meta::{Class, Task};

/// Past this many the label is not a class but a number.
const MOST_CLASSES: usize = learn::xgboost::MOST_CLASSES as usize;

/// Bytes of a class as text.
const LONGEST_CLASS: usize = 10_000;

/// A label whose range has fewer different numbers as `real` than this is warned of.
const ROUNDED_PARTS: f64 = 10_000.0;

/// More classes than this, and more than half as many as there are rows, are hardly classes.
const MANY: usize = 20;

/// Classes with fractions that a label may have without a warning: half stars, grades in steps of a third.
const FEW_FRACTIONS: usize = 20;

/// That so many rows are left out, since they have no label.
pub fn left_out(rows: u64) -> String {
    format!("rows left out: {rows}, whose label is NULL or NaN")
}

/// Reads the label, row by row.
pub struct LabelReader {
    name: String,
    type_oid: pg_sys::Oid,
    statistics: Statistics,
    nulls: u64,
    nans: u64,
    /// The least and the greatest number of a regression as float64, and whether one was no float32.
    range: (f64, f64),
    is_rounded: bool,
    encoder: Encoder,
}

enum Encoder {
    Number(Number),
    NumericClasses(Number, Categories<Exact>),
    TextClasses(TextKind, Categories<String>),
}

/// A number to be told apart from others exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exact {
    Integer(i64),
    /// Bits of a float8 that is not NaN; zero has no sign.
    Float(u64),
}

impl Exact {
    /// # Safety
    /// `datum` is of the number's type.
    unsafe fn read(number: Number, datum: pg_sys::Datum) -> Option<Exact> {
        let bits = datum.value();
        let float = match number {
            Number::Bool => return Some(Exact::Integer(i64::from(bits as u8 != 0))),
            Number::Int2 => return Some(Exact::Integer(i64::from(bits as i16))),
            Number::Int4 => return Some(Exact::Integer(i64::from(bits as i32))),
            Number::Int8 => return Some(Exact::Integer(bits as i64)),
            // SAFETY: a value of the type, as the caller promises.
            _ => unsafe { number.double(datum) },
        };
        if float.is_nan() { None } else { Some(Exact::Float((float + 0.0).to_bits())) }
    }

    fn value(self) -> f64 {
        match self {
            Exact::Integer(value) => value as f64,
            Exact::Float(bits) => f64::from_bits(bits),
        }
    }

    fn compare(self, other: Exact) -> Ordering {
        match (self, other) {
            (Exact::Integer(a), Exact::Integer(b)) => a.cmp(&b),
            (a, b) => a.value().total_cmp(&b.value()),
        }
    }
}

impl LabelReader {
    pub fn new(task: Task, column: &ResultColumn) -> Result<LabelReader> {
        let unfit = |why: &str| {
            let type_name = features::type_name(column.type_oid);
            Error::new(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!("label \"{}\" is of type {type_name}, which {why}", column.name),
            )
        };
        let encoder = match (task, Kind::of(column.type_oid)) {
            (Task::Regression, Some(Kind::Number(number))) => Encoder::Number(number),
            (Task::Regression, Some(Kind::Text(_))) => {
                return Err(
                    unfit("cannot be a target of regression").hint("Use task => 'classification' for text labels.")
                );
            }
            (Task::Classification, Some(Kind::Number(number))) => Encoder::NumericClasses(number, Categories::new()),
            (Task::Classification, Some(Kind::Text(kind))) => Encoder::TextClasses(kind, Categories::new()),
            _ => {
                return Err(unfit("cannot be a label").hint(
                    "Labels are numbers, booleans, text and enums. Convert it with a query in parentheses, such as \
                     '(SELECT amount::numeric, ... FROM sales)' of money or 'extract(epoch FROM day)' of a date.",
                ));
            }
        };
        Ok(LabelReader {
            name: column.name.clone(),
            type_oid: column.type_oid,
            statistics: Statistics::default(),
            nulls: 0,
            nans: 0,
            range: (f64::INFINITY, f64::NEG_INFINITY),
            is_rounded: false,
            encoder,
        })
    }

    /// Whether a row has no label: NULL or NaN.
    #[inline]
    pub fn is_missing(&self, datum: Option<&pg_sys::Datum>, null: Option<&bool>) -> bool {
        let (Some(&datum), Some(false)) = (datum, null) else { return true };
        match self.encoder {
            Encoder::Number(number) | Encoder::NumericClasses(number, _) => {
                // SAFETY: the column is of the number's type.
                number.is_real() && unsafe { number.double(datum) }.is_nan()
            }
            Encoder::TextClasses(..) => false,
        }
    }

    /// That no row has a label, of so many.
    pub fn nowhere(&self, rows: u64) -> Error {
        Error::new(
            PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("label \"{}\" is NULL or NaN in {}", self.name, learn::all(rows, "row")),
        )
    }

    /// The label of a row as a number; of a classification the code of its class, in order of first appearance.
    #[inline]
    pub fn read(&mut self, datum: Option<&pg_sys::Datum>, null: Option<&bool>) -> Result<f32> {
        let (Some(&datum), Some(false)) = (datum, null) else {
            self.nulls += 1;
            return Ok(f32::NAN);
        };
        match &mut self.encoder {
            Encoder::Number(number) => {
                // SAFETY: the column is of the number's type.
                let value = unsafe { number.read(datum) };
                self.nans += u64::from(value.is_nan());
                self.statistics.add(f64::from(value));
                if number.is_wide() {
                    // SAFETY: as before.
                    let exact = unsafe { number.double(datum) };
                    self.range = (self.range.0.min(exact), self.range.1.max(exact));
                    self.is_rounded |= f64::from(value) != exact;
                }
                Ok(value)
            }
            Encoder::NumericClasses(number, classes) => {
                // SAFETY: the column is of the number's type.
                let Some(exact) = (unsafe { Exact::read(*number, datum) }) else {
                    self.nans += 1;
                    return Ok(f32::NAN);
                };
                self.statistics.add(f64::from(exact.value() as f32));
                let type_oid = self.type_oid;
                // SAFETY: the column is of that type.
                let text = || short(&self.name, unsafe { text_of(type_oid, *number, datum) });
                let code = classes.add(&exact, |exact| *exact, text)?;
                few_classes(&self.name, classes.len())?;
                Ok(code as f32)
            }
            Encoder::TextClasses(kind, classes) => {
                // SAFETY: the column is of the text's type.
                let text = unsafe { kind.read(datum) }?;
                let code = classes.add(text, str::to_owned, || short(&self.name, text.to_owned()))?;
                few_classes(&self.name, classes.len())?;
                Ok(code as f32)
            }
        }
    }

    /// Of a classification: the number and text of the class of that code.
    pub fn class(&self, code: usize) -> Option<(Option<f64>, &str)> {
        match &self.encoder {
            Encoder::Number(_) => None,
            Encoder::NumericClasses(_, classes) => {
                classes.get(code).map(|class| (Some(class.key.value()), class.text.as_str()))
            }
            Encoder::TextClasses(_, classes) => classes.get(code).map(|class| (None, class.text.as_str())),
        }
    }

    /// Refuses labels of which some are missing or infinite.
    pub fn complete(&self, rows: u64) -> Result<()> {
        let name = &self.name;
        if self.nulls > 0 || self.nans > 0 {
            let (what, present) = match (self.nulls, self.nans) {
                (nulls, 0) => (format!("NULL in {nulls}"), "IS NOT NULL"),
                (0, nans) => (format!("NaN in {nans}"), "<> 'NaN'"),
                // NULL is not unequal to anything.
                (nulls, nans) => (format!("NULL in {nulls} and NaN in {nans}"), "<> 'NaN'"),
            };
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                format!("label \"{name}\" is {what} of {}", learn::count(rows, "row")),
            )
            .hint(format!("Leave such rows out with a query in parentheses: (SELECT ... WHERE ... {present}).")));
        }
        if self.statistics.infinite() > 0 {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                format!(
                    "label \"{name}\" is infinite, or too large for real, in {} of {}",
                    self.statistics.infinite(),
                    learn::count(rows, "row")
                ),
            ));
        }
        Ok(())
    }

    /// Refuses labels that nothing can be learnt from.
    pub fn finish(self, rows: u64) -> Result<Label> {
        self.complete(rows)?;
        let name = &self.name;
        let classes = match self.encoder {
            Encoder::Number(_) => None,
            Encoder::NumericClasses(_, classes) => Some(Classes::Numeric(classes.sort(|a, b| a.key.compare(b.key)))),
            Encoder::TextClasses(_, classes) => Some(Classes::Text(classes.sort(|a, b| a.key.cmp(&b.key)))),
        };
        if let Some(classes) = classes.as_ref().filter(|classes| classes.len() < 2) {
            let only = classes.classes().into_iter().next().map(|class| class.text).unwrap_or_default();
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("label \"{name}\" is \"{only}\" in all rows, and a classification needs two classes"),
            ));
        }
        if let (None, Some(only)) = (&classes, self.statistics.only()) {
            super::report::warning(&format!(
                "label \"{name}\" is {only} in {}: there is nothing to learn",
                learn::all(rows, "row")
            ));
        }
        if self.is_rounded && self.range.0 < self.range.1 {
            judge_rounding(name, self.range)?;
        }
        if let Some(classes) =
            classes.as_ref().filter(|classes| classes.len() > MANY && classes.len() as u64 * 2 > rows)
        {
            super::report::warning(&format!(
                "label \"{name}\" has {} classes in {rows} rows: a class that one row has cannot be learnt; task => \
                 'regression' predicts a number, which text has to be cast to",
                classes.len()
            ));
        }
        if let Some(Classes::Numeric(sorted)) = &classes {
            warn_of_equals(name, sorted);
            warn_of_measurements(name, sorted);
        }
        Ok(Label { name: self.name, type_oid: self.type_oid, position: 0, statistics: self.statistics, classes })
    }
}

/// Labels and predictions are `real`: says so of labels whose differences that rounds away, and refuses labels that it makes
/// all the same.
fn judge_rounding(name: &str, (least, greatest): (f64, f64)) -> Result<()> {
    let size = least.abs().max(greatest.abs()) as f32;
    // Between the largest number and the next one.
    let apart = f64::from(size) - f64::from(size.next_down());
    if least as f32 == greatest as f32 {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            format!("label \"{name}\" is from {least} to {greatest}, which are the same number as real"),
        )
        .hint(format!("Train on its distance from a constant: (SELECT \"{name}\" - {} AS ..., ...).", least.floor())));
    }
    if apart > (greatest - least) / ROUNDED_PARTS {
        super::report::warning(&format!(
            "label \"{name}\" is from {least} to {greatest}, and a model has labels as real: they are rounded to multiples of \
             {apart}, in the metrics too; train on the distance from a constant such as {}",
            least.floor()
        ));
    }
    Ok(())
}

/// `pgml.predict` gives classes as `real`, which does not tell all of them apart.
fn warn_of_equals(name: &str, sorted: &Sorted<Exact>) {
    let mut pairs = sorted.values.iter().zip(sorted.values.iter().skip(1));
    let equal = pairs.find(|(one, other)| one.key.value() as f32 == other.key.value() as f32);
    if let Some((one, other)) = equal {
        super::report::warning(&format!(
            "label \"{name}\" has the classes {} and {}, which pgml.predict gives as the same real: pgml.predict_label \
             tells them apart",
            one.text, other.text
        ));
    }
}

/// Many classes that have fractions are rather measurements, of which a classification learns little and slowly.
fn warn_of_measurements(name: &str, sorted: &Sorted<Exact>) {
    let classes = sorted.values.len();
    let fraction = sorted.values.iter().find(|class| class.key.value().fract() != 0.0);
    if let Some(fraction) = fraction.filter(|_| classes > FEW_FRACTIONS) {
        super::report::warning(&format!(
            "label \"{name}\" has {classes} classes, some with a fraction, such as {}: task => 'regression' predicts \
             such a number",
            fraction.text
        ));
    }
}

fn few_classes(name: &str, classes: usize) -> Result<()> {
    if classes <= MOST_CLASSES {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        format!("label \"{name}\" has more than {MOST_CLASSES} classes"),
    )
    .hint("Use task => 'regression' for a label that is a number."))
}

/// The text of a class, which is kept in the model.
fn short(name: &str, text: String) -> Result<String> {
    if text.len() <= LONGEST_CLASS {
        return Ok(text);
    }
    let code = PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
    Err(Error::new(code, format!("label \"{name}\" has a class of {} bytes: the limit is {LONGEST_CLASS}", text.len())))
}

/// A value as a cast to text gives it.
///
/// # Safety
/// `datum` is a value of that type, not NULL.
unsafe fn text_of(type_oid: pg_sys::Oid, number: Number, datum: pg_sys::Datum) -> String {
    match number {
        Number::Bool => (datum.value() as u8 != 0).to_string(),
        // SAFETY: as the caller promises.
        _ => unsafe { features::printed(type_oid, datum) },
    }
}

/// The label, after the last row.
pub struct Label {
    pub name: String,
    pub type_oid: pg_sys::Oid,
    /// From 1, in the statement.
    pub position: usize,
    /// Of the numbers; of text only what is missing.
    pub statistics: Statistics,
    /// In a classification.
    pub classes: Option<Classes>,
}

/// Classes in their final order.
pub enum Classes {
    Numeric(Sorted<Exact>),
    Text(Sorted<String>),
}

impl Classes {
    pub fn len(&self) -> usize {
        match self {
            Classes::Numeric(sorted) => sorted.values.len(),
            Classes::Text(sorted) => sorted.values.len(),
        }
    }

    /// How many rows each has.
    pub fn members(&self) -> Vec<u64> {
        match self {
            Classes::Numeric(sorted) => sorted.values.iter().map(|class| class.members).collect(),
            Classes::Text(sorted) => sorted.values.iter().map(|class| class.members).collect(),
        }
    }

    /// From the codes in the spool to indexes of classes.
    pub fn remap(&self) -> &[f32] {
        match self {
            Classes::Numeric(sorted) => &sorted.remap,
            Classes::Text(sorted) => &sorted.remap,
        }
    }

    /// As stored in the model.
    pub fn classes(&self) -> Vec<Class> {
        match self {
            Classes::Numeric(sorted) => sorted
                .values
                .iter()
                .map(|category| Class { text: category.text.clone(), value: category.key.value() as f32 })
                .collect(),
            Classes::Text(sorted) => sorted
                .values
                .iter()
                .enumerate()
                .map(|(index, category)| Class { text: category.text.clone(), value: index as f32 })
                .collect(),
        }
    }

    pub fn to_json(&self) -> Value {
        match self {
            Classes::Numeric(sorted) => categories::to_json(sorted),
            Classes::Text(sorted) => categories::to_json(sorted),
        }
    }
}
