//! Columns that are not learnt from, but say something of their rows: how much a row counts, and on which side of the split
//! it is. `preprocess` names them: `{"sold_at": {"role": "time"}}`.

use std::collections::HashMap;

use learn::preprocess::{Encode, Role, Spec};
use learn::side::By;
use learn::split::Folds;
use pgrx::{PgSqlErrorCode, pg_sys};
use serde_json::{Map, Value};

use super::cursor::ResultColumn;
use crate::error::{Error, Result};
use crate::features::{self, Kind, Many, Number};
use crate::memory;

/// What was asked to be done to columns, as far as it matters while rows are read.
pub struct Roles {
    roles: Vec<(String, Role)>,
    /// What is to be done to each column, all of it read.
    specs: Vec<(String, Spec)>,
    preprocess: Map<String, Value>,
}

impl Roles {
    /// At most one column weighs rows, and one splits them.
    pub fn of(preprocess: &Map<String, Value>) -> Result<Roles> {
        let (mut roles, mut specs) = (Vec::new(), Vec::new());
        for (column, spec) in preprocess {
            let spec = Spec::parse(column, spec)?;
            roles.push((column.clone(), spec.role));
            specs.push((column.clone(), spec));
        }
        roles.retain(|(_, role)| *role != Role::Feature);
        let one = |what: &str, is: &dyn Fn(Role) -> bool| {
            let mut named = roles.iter().filter(|(_, role)| is(*role)).map(|(name, _)| name);
            match (named.next(), named.next()) {
                (Some(first), Some(second)) => Err(Error::invalid(format!(
                    "columns \"{first}\" and \"{second}\" both {what}: only one column may"
                ))),
                _ => Ok(()),
            }
        };
        one("weigh rows", &|role| role == Role::Weight)?;
        one("say which rows are tested on", &|role| matches!(role, Role::Test | Role::Time | Role::Group | Role::Key))?;
        Ok(Roles { roles, specs, preprocess: preprocess.clone() })
    }

    /// What a column is for.
    pub fn of_column(&self, name: &str) -> Role {
        self.roles.iter().find(|(column, _)| column == name).map_or(Role::Feature, |(_, role)| *role)
    }

    /// Whether anything is said of the column itself.
    pub fn is_named(&self, name: &str) -> bool {
        self.specs.iter().any(|(column, _)| column == name)
    }

    /// Whether a column that is no text is to be one of categories.
    pub fn is_encoded(&self, name: &str) -> bool {
        self.specs.iter().any(|(column, spec)| column == name && spec.encode.is_some())
    }

    /// Whether a column tells the group of a row, which chooses the model.
    pub fn tells_group(&self, name: &str) -> bool {
        self.specs.iter().any(|(column, spec)| column == name && spec.encode == Some(Encode::GroupBy))
    }

    /// The columns that do.
    pub fn group_columns(&self) -> Vec<&str> {
        self.specs.iter().map(|(column, _)| column.as_str()).filter(|column| self.tells_group(column)).collect()
    }

    /// What is to be done to a column of categories, or one of numbers.
    pub fn spec(&self, name: &str, category: bool) -> Result<Spec> {
        Ok(Spec::of(&self.preprocess, name, category)?)
    }

    /// Whether a column has that role.
    pub fn has(&self, wanted: Role) -> bool {
        self.roles.iter().any(|(_, role)| *role == wanted)
    }

    /// The columns that have a role.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(|(name, _)| name.as_str())
    }
}

/// What divides rows into those to train on and those to test on, where a column does.
#[derive(Default)]
pub enum Divided {
    /// No column.
    #[default]
    No,
    /// Whether each row is tested on.
    Tests(Vec<bool>),
    /// Numbers that are in the order of the rows' times.
    Times(Vec<i64>),
    /// The number of each row's group.
    Groups(Vec<u32>),
}

impl Divided {
    /// How a cross-validation divides the training rows.
    pub fn folds<'a>(&'a self, classes: Option<&'a [f32]>) -> Folds<'a> {
        match (self, classes) {
            (Divided::Times(times), _) => Folds::Times(times),
            (Divided::Groups(groups), _) => Folds::Groups(groups),
            (Divided::No | Divided::Tests(_), Some(classes)) => Folds::Classes(classes),
            (Divided::No | Divided::Tests(_), None) => Folds::Random,
        }
    }
}

/// Reads the column that weighs rows.
pub struct WeightReader {
    name: String,
    position: usize,
    number: Number,
}

impl WeightReader {
    pub fn new(column: &ResultColumn, position: usize) -> Result<WeightReader> {
        match Kind::of(column.type_oid) {
            Some(Kind::Number(number)) => Ok(WeightReader { name: column.name.clone(), position, number }),
            _ => Err(unfit(column, "weigh rows", "Weights are numbers.")),
        }
    }

    /// The weight of a row: finite, and not negative.
    pub fn read(&self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<f32> {
        let datum = values.get(self.position).filter(|_| nulls.get(self.position) == Some(&false));
        // SAFETY: the column is of the number's type.
        let weight = datum.map(|datum| unsafe { self.number.read(*datum) });
        let name = &self.name;
        match weight {
            Some(weight) if weight.is_finite() && weight >= 0.0 => Ok(weight),
            Some(weight) => Err(Error::new(
                PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                format!("column \"{name}\" weighs rows, but contains {weight}"),
            )
            .hint("Weights are finite and not negative.")),
            None => Err(is_null(name, "weighs rows")),
        }
    }
}

/// Reads the column that divides rows.
pub struct DividingReader {
    name: String,
    position: usize,
    type_oid: pg_sys::Oid,
    key: Option<TimeKey>,
    divided: Divided,
    groups: HashMap<String, u32>,
}

/// How a time is read.
#[derive(Clone, Copy)]
pub enum TimeKey {
    Integer(Number),
    Float(Number),
    Days,
    Microseconds,
}

impl DividingReader {
    pub fn new(column: &ResultColumn, position: usize, role: Role) -> Result<DividingReader> {
        let (key, divided) = match (role, Kind::of(column.type_oid)) {
            (Role::Test, Some(Kind::Number(Number::Bool))) => (None, Divided::Tests(Vec::new())),
            (Role::Test, _) => return Err(unfit(column, "say which rows are tested on", "Such a column is boolean.")),
            (Role::Time, _) => match TimeKey::of(column) {
                Some(key) => (Some(key), Divided::Times(Vec::new())),
                None => return Err(unfit(column, "order rows by time", "Times are dates, timestamps or numbers.")),
            },
            _ => (None, Divided::Groups(Vec::new())),
        };
        let name = column.name.clone();
        Ok(DividingReader { name, position, type_oid: column.type_oid, key, divided, groups: HashMap::new() })
    }

    /// Takes note of a row.
    pub fn read(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<()> {
        let datum = values.get(self.position).filter(|_| nulls.get(self.position) == Some(&false));
        let Some(&datum) = datum else { return Err(is_null(&self.name, "says on which side of the split rows are")) };
        match &mut self.divided {
            Divided::No => Ok(()),
            Divided::Tests(marks) => push(marks, datum.value() as u8 != 0),
            Divided::Times(times) => {
                // SAFETY: the column is of the type that the key was made for.
                let time = self.key.and_then(|key| unsafe { key.time(datum) });
                push(times, time.ok_or_else(|| is_null(&self.name, "orders rows by time"))?)
            }
            Divided::Groups(groups) => {
                // SAFETY: the column is of that type.
                let text = unsafe { features::printed(self.type_oid, datum) };
                let next = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
                let group = *self.groups.entry(text).or_insert(next);
                push(groups, group)
            }
        }
    }

    /// By which column, and what it says of each row.
    pub fn finish(self) -> (By, Divided) {
        let by = match (&self.divided, self.key) {
            (Divided::Times(_), Some(key)) => {
                By::Time { column: self.name, unit: key.unit().to_owned(), cutoff: i64::MAX }
            }
            (Divided::Groups(_), _) => By::Group(self.name),
            _ => By::Test(self.name),
        };
        (by, self.divided)
    }
}

impl TimeKey {
    /// `None` for a type that is no time.
    pub fn of(column: &ResultColumn) -> Option<TimeKey> {
        Some(match Kind::of(column.type_oid)? {
            Kind::Many(Many::Moment(moment)) if moment.is_date => TimeKey::Days,
            Kind::Many(Many::Moment(_)) => TimeKey::Microseconds,
            Kind::Number(number @ (Number::Int2 | Number::Int4 | Number::Int8)) => TimeKey::Integer(number),
            Kind::Number(number @ (Number::Float4 | Number::Float8 | Number::Numeric)) => TimeKey::Float(number),
            _ => return None,
        })
    }

    /// What its numbers are; those of one unit compare.
    pub fn unit(self) -> &'static str {
        match self {
            TimeKey::Integer(_) => "integer",
            TimeKey::Float(_) => "float",
            TimeKey::Days => "days",
            TimeKey::Microseconds => "microseconds",
        }
    }

    /// A number in the order of the times; `None` for NaN.
    ///
    /// # Safety
    /// `datum` is of the type that the key was made for.
    pub unsafe fn time(self, datum: pg_sys::Datum) -> Option<i64> {
        let bits = datum.value();
        match self {
            TimeKey::Integer(Number::Int2) => Some(i64::from(bits as i16)),
            TimeKey::Integer(Number::Int4) | TimeKey::Days => Some(i64::from(bits as i32)),
            TimeKey::Integer(_) | TimeKey::Microseconds => Some(bits as i64),
            // SAFETY: as the caller promises.
            TimeKey::Float(number) => in_order(unsafe { number.double(datum) }),
        }
    }
}

/// A whole number for each float, in the same order; `None` for NaN.
fn in_order(value: f64) -> Option<i64> {
    let bits = (value + 0.0).to_bits().cast_signed();
    (!value.is_nan()).then_some(if bits < 0 { bits ^ i64::MAX } else { bits })
}

pub fn push<T>(values: &mut Vec<T>, value: T) -> Result<()> {
    if values.len() == values.capacity() {
        let more = values.len().max(1024);
        memory::reserve(values, more)?;
    }
    values.push(value);
    Ok(())
}

fn unfit(column: &ResultColumn, what: &str, hint: &'static str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        format!("column \"{}\" is of type {}, which cannot {what}", column.name, features::type_name(column.type_oid)),
    )
    .hint(hint)
}

/// 22004.
pub fn is_null(name: &str, what: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
        format!("column \"{name}\" {what}, but contains NULL or NaN"),
    )
    .hint("Leave such rows out with a query in parentheses: (SELECT ... WHERE ... IS NOT NULL).")
}
