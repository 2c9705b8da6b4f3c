//! On which side of a split rows are (`learn::side`), read from their values: while a training reads its rows, of the rule that
//! it makes and of that of the deployed model; and of any row later.

use std::collections::BTreeMap;

use learn::remembered::{self, Memory, Remembered};
use learn::side::{self, By, Counter, Rule};
use learn::split::{Sampling, Split, TestSize};
use pgrx::{PgSqlErrorCode, pg_sys};

use super::columns::Data;
use super::cursor::ResultColumn;
use super::label::LabelReader;
use super::roles::{self, Divided, TimeKey};
use crate::error::{Error, Result};
use crate::features::{self, Kind, MOST_FEATURES, Many, Number, TextKind};
use crate::memory;
use crate::model_meta::{LabelColumn, Task};
use crate::names;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Hashes the values of some columns.
#[derive(Default)]
pub struct RowHasher {
    columns: Vec<Column>,
    met: Observed,
}

/// What hashing values has met.
#[derive(Default)]
struct Observed {
    /// The numbers of the last array.
    elements: Vec<f32>,
    /// Whether a number had a fraction.
    fractions: bool,
}

struct Column {
    position: usize,
    /// The hash of its name.
    name: u64,
    reading: Reading,
}

/// How a value is read.
#[derive(Clone, Copy)]
enum Reading {
    Number(Number),
    /// As a model sees it.
    Seen(Number),
    /// The target of a regression, which is a real to a model.
    Target(Number),
    Text(TextKind),
    Many(Many),
    Printed(pg_sys::Oid),
}

/// What the numbers of a column are.
#[derive(Clone, Copy)]
pub enum Numbers {
    /// Names of rows, which are told apart as they are.
    Exact,
    /// What is learnt from.
    Seen,
    /// The target of a regression.
    Target,
}

/// As what values of a type are hashed: the same value of two types has the same hash where this is the same.
fn kind(type_oid: pg_sys::Oid) -> &'static str {
    match Kind::of(type_oid) {
        Some(Kind::Number(Number::Time)) => "time",
        Some(Kind::Number(Number::Interval)) => "interval",
        Some(Kind::Number(_)) => "number",
        Some(Kind::Many(Many::Moment(_))) => "moment",
        Some(Kind::Many(_)) => "array",
        // Cast to text it has a mask that it is not printed with.
        None if type_oid == pg_sys::INETOID => "inet",
        Some(Kind::Text(_)) | None => "text",
    }
}

impl RowHasher {
    /// Takes one more column into the hash of a row.
    pub fn add(&mut self, column: &ResultColumn, position: usize, numbers: Numbers) {
        let reading = match Kind::of(column.type_oid) {
            Some(Kind::Number(number)) => match numbers {
                Numbers::Exact => Reading::Number(number),
                Numbers::Seen => Reading::Seen(number),
                Numbers::Target => Reading::Target(number),
            },
            Some(Kind::Text(kind)) => Reading::Text(kind),
            Some(Kind::Many(many)) => Reading::Many(many),
            None => Reading::Printed(column.type_oid),
        };
        self.columns.push(Column { position, name: side::of_bytes(column.name.as_bytes()), reading });
    }

    /// Of the values of one column, as they are.
    fn of_value(column: &ResultColumn, position: usize) -> RowHasher {
        let mut hasher = RowHasher::default();
        hasher.add(column, position, Numbers::Exact);
        hasher
    }

    /// The hash of a row.
    pub fn row(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<u64> {
        let mut sum = 0u64;
        for column in &self.columns {
            let hash = hash(column.reading, datum(column.position, values, nulls), &mut self.met)?;
            sum = sum.wrapping_add(side::in_column(column.name, hash));
        }
        Ok(sum)
    }

    /// The hash of the only column, whatever its name.
    pub fn value(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<u64> {
        let Some(column) = self.columns.first() else { return Ok(side::NULL) };
        hash(column.reading, datum(column.position, values, nulls), &mut self.met)
    }
}

fn datum(position: usize, values: &[pg_sys::Datum], nulls: &[bool]) -> Option<pg_sys::Datum> {
    values.get(position).copied().filter(|_| nulls.get(position) == Some(&false))
}

fn hash(reading: Reading, datum: Option<pg_sys::Datum>, met: &mut Observed) -> Result<u64> {
    let Some(datum) = datum else { return Ok(side::NULL) };
    let bits = datum.value();
    // SAFETY: the column is of the type that the reading was made for.
    Ok(unsafe {
        match reading {
            Reading::Number(Number::Int8 | Number::Time) | Reading::Seen(Number::Int8 | Number::Time) => {
                side::of_integer(bits as i64)
            }
            Reading::Number(Number::Interval) | Reading::Seen(Number::Interval) => {
                let interval = &*datum.cast_mut_ptr::<pg_sys::Interval>();
                let days = i64::from(interval.month) << 32 | i64::from(interval.day as u32);
                side::mix(side::of_integer(days) ^ interval.time.cast_unsigned())
            }
            Reading::Number(number) => side::of_number(number.double(datum)),
            Reading::Seen(number) => {
                let value = number.double(datum);
                met.fractions |= value.fract().abs() > 0.0;
                side::of_seen(value)
            }
            Reading::Target(number) => side::of_number(f64::from(number.read(datum))),
            Reading::Text(kind) => side::of_bytes(kind.read(datum)?.as_bytes()),
            Reading::Many(Many::Moment(moment)) if moment.is_date => {
                side::of_integer(i64::from(bits as i32).saturating_mul(DAY))
            }
            Reading::Many(Many::Moment(_)) => side::of_integer(bits as i64),
            Reading::Many(many) => {
                met.elements.clear();
                many.read(datum, MOST_FEATURES, &mut met.elements)?;
                met.fractions |= met.elements.iter().any(|value| value.fract().abs() > 0.0);
                side::of_elements(&met.elements)
            }
            Reading::Printed(type_oid) => side::of_bytes(features::printed(type_oid, datum).as_bytes()),
        }
    })
}

/// With a larger share of the held-out rows gone, rows have changed, or copies were removed, and what the rule holds out now may have
/// been trained on as it was before.
const MOST_GONE: f64 = 0.05;

/// With a larger share of the rows that are as they were under other keys, keys are given anew when the table is filled. Of rows that are
/// new one in a hundred is taken for one that was there.
const MOST_RENAMED: f64 = 0.25;

/// With a larger share of the held-out keys among those trained on, by chance or because they are, they do not name rows.
const MOST_SHARED: f64 = 0.05;

/// Of fewer rows than this nothing is said.
const FEWEST_HELD_OUT: u64 = 20;

/// Asks a rule of rows that have these columns.
pub struct SideReader {
    rule: Rule,
    asked: Asked,
    /// The class of a row, where the rule asks for it.
    class: Option<(usize, LabelReader)>,
    /// Where equal rows are told apart by their number.
    counter: Option<Counter>,
    /// What names a row, and which ones were trained on, where that is remembered.
    trained: Option<(RowHasher, Remembered)>,
    /// The contents of the rows that were held out and their keys, where these are remembered.
    held_out: Option<Remembered>,
    /// How many rows were met of these contents, and how many of them have such a key.
    met: u64,
    named: u64,
    /// Whether the last row that is held out now was so in the training.
    is_as_it_was: bool,
    /// Why rows have to be as they were, if they have to.
    narrowed: Option<String>,
}

enum Asked {
    Nothing,
    /// Whatever was not trained on, as its key tells.
    Keys,
    Row(RowHasher),
    Value(RowHasher),
    Time(usize, TimeKey, i64),
    Test(usize),
}

impl Asked {
    /// By a rule, whose columns `find` finds in the row.
    fn of(
        rule: &Rule,
        has_keys: bool,
        find: impl Fn(&str) -> Result<(usize, ResultColumn)>,
        is_target: impl Fn(&str) -> bool,
    ) -> Result<Asked> {
        Ok(match &rule.by {
            By::Nothing => Asked::Nothing,
            By::Position if has_keys => Asked::Keys,
            By::Position => return Err(unknown("by their place in the table")),
            By::Content(names) => {
                let mut hasher = RowHasher::default();
                for name in names {
                    let (at, column) = find(name)?;
                    let numbers = match rule.types.is_empty() {
                        _ if is_target(name) => Numbers::Target,
                        true => Numbers::Exact,
                        false => Numbers::Seen,
                    };
                    hasher.add(&column, at, numbers);
                }
                Asked::Row(hasher)
            }
            By::Key(name) | By::Group(name) => {
                let (at, column) = find(name)?;
                Asked::Value(RowHasher::of_value(&column, at))
            }
            By::Time { column: name, unit, cutoff } => {
                let (at, column) = find(name)?;
                match TimeKey::of(&column) {
                    Some(key) if key.unit() == unit => Asked::Time(at, key, *cutoff),
                    _ => return Err(other_type(&column)),
                }
            }
            By::Test(name) => {
                let (at, column) = find(name)?;
                match Kind::of(column.type_oid) {
                    Some(Kind::Number(Number::Bool)) => Asked::Test(at),
                    _ => return Err(other_type(&column)),
                }
            }
        })
    }
}

impl SideReader {
    /// Of the model of that id, with these labels. The names of the rule's columns are those of the relation, or other labels in their
    /// place where `label_names` gives them.
    pub fn new(
        (model, rule): (i64, &Rule),
        task: Task,
        labels: &[LabelColumn],
        label_names: Option<&[String]>,
        columns: &[ResultColumn],
    ) -> Result<SideReader> {
        let renamed = |name: &str| -> String {
            let at = labels.iter().position(|label| label.name == name);
            at.and_then(|at| label_names?.get(at)).map_or(name, String::as_str).to_owned()
        };
        let find = |name: &str| -> Result<(usize, ResultColumn)> {
            let given = renamed(name);
            let at = columns.iter().position(|column| column.name == given).ok_or_else(|| {
                let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
                Error::new(
                    PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                    format!("the row has no column \"{given}\", by which it is known whether it was held out"),
                )
                .hint(crate::nearest::hint(&given, &names))
            })?;
            let column = columns.get(at).cloned().ok_or_else(|| Error::corrupted("a column is lost"))?;
            if rule.types.get(name).is_some_and(|before| before != kind(column.type_oid)) {
                return Err(other_type(&column));
            }
            Ok((at, ResultColumn { name: name.to_owned(), ..column }))
        };
        let memory = if rule.remembers() { names::remembered(model)? } else { Memory::default() };
        let trained = memory.trained.and_then(|trained| Some((key_of(rule, columns)?, trained)));
        let held_out = memory.held_out;
        let is_target = |name: &str| task == Task::Regression && labels.iter().any(|label| label.name == name);
        let asked = Asked::of(rule, trained.is_some(), find, is_target)?;
        let class = match labels.first() {
            Some(label) if !rule.classes.is_empty() => {
                let (at, column) = find(&label.name)?;
                Some((at, LabelReader::new(task, &column)?))
            }
            _ => None,
        };
        let counter = rule.counted.then(Counter::default);
        Ok(SideReader {
            rule: rule.clone(),
            asked,
            class,
            counter,
            trained,
            held_out,
            met: 0,
            named: 0,
            is_as_it_was: true,
            narrowed: None,
        })
    }

    /// Whether equal rows are told apart by nothing but their number, which is another one where some of them are not read.
    pub fn only_counts(&self) -> bool {
        self.counter.is_some() && self.trained.is_none()
    }

    /// Whether the row was, or would have been, held out, and was not trained on when it had other values.
    pub fn is_held_out(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<bool> {
        if !self.is_chosen(values, nulls)? {
            return Ok(false);
        }
        let was_trained_on = match &mut self.trained {
            Some((key, trained)) => trained.has(key.row(values, nulls)?),
            None => false,
        };
        Ok(!was_trained_on && (self.is_as_it_was || self.narrowed.is_none()))
    }

    /// Whether it has to be asked of all rows of its relation before it is known of which it is to be believed.
    pub fn may_doubt(&self) -> bool {
        self.held_out.is_some() && !self.rule.counted
    }

    /// It has been asked of all rows, and will be again: where there is doubt, of those that are as they were, if there are enough.
    pub fn settle(&mut self) {
        self.narrowed = self.doubt().filter(|_| self.met >= FEWEST_HELD_OUT);
        (self.met, self.named) = (0, 0);
    }

    /// Why it asks for rows that are as they were, if it does.
    pub fn narrowed(&self) -> Option<&str> {
        self.narrowed.as_deref()
    }

    /// Whether the rule holds the row out.
    fn is_chosen(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<bool> {
        let hash = match &mut self.asked {
            Asked::Nothing => return Ok(false),
            Asked::Keys => return Ok(true),
            Asked::Time(at, key, cutoff) => {
                // SAFETY: the column is of the type that the key was made for.
                let time = datum(*at, values, nulls).and_then(|datum| unsafe { key.time(datum) });
                return Ok(time.is_some_and(|time| time >= *cutoff));
            }
            Asked::Test(at) => return Ok(datum(*at, values, nulls).is_some_and(|datum| datum.value() as u8 != 0)),
            Asked::Row(hasher) => hasher.row(values, nulls)?,
            Asked::Value(hasher) => hasher.value(values, nulls)?,
        };
        let mut hash = self.rule.seeded(hash);
        if let Some(counter) = &mut self.counter {
            hash = counter.count(hash);
        }
        let class = match &mut self.class {
            None => None,
            Some((at, reader)) => {
                let code = reader.read(values.get(*at), nulls.get(*at))?;
                if code.is_nan() { None } else { reader.class(code as usize).map(|(_, text)| text) }
            }
        };
        let holds_out = self.rule.holds_out(hash, class);
        if let Some(held_out) = self.held_out.as_ref().filter(|_| holds_out) {
            let is_there = held_out.has(hash);
            self.met += u64::from(is_there);
            if is_there && let Some((key, _)) = &mut self.trained {
                self.named += u64::from(held_out.has(key.row(values, nulls)?));
            }
            // Of equal rows any may be the one that is left.
            self.is_as_it_was = is_there && !self.rule.counted;
        }
        Ok(holds_out)
    }

    /// Why what it said is not to be believed of all the rows that it was asked of, which are those of the training's relation. Where
    /// they have keys: rows that are as they were have other ones. Else: rows that were held out are gone, and may be there with other
    /// values, as others that were trained on.
    pub fn doubt(&self) -> Option<String> {
        if self.narrowed.is_some() {
            return None;
        }
        let (then, met) = (self.rule.held_out, self.met);
        if self.trained.is_some() {
            let renamed = met.saturating_sub(self.named) as f64 / met.max(1) as f64;
            return (met >= FEWEST_HELD_OUT && renamed > MOST_RENAMED)
                .then(|| "rows that have not changed have other keys than in the training".to_owned());
        }
        let gone = then.saturating_sub(met) as f64 / then.max(1) as f64;
        (self.held_out.is_some() && then >= FEWEST_HELD_OUT && gone > MOST_GONE).then(|| {
            format!(
                "{:.0} % of the rows that were held out are gone or have changed; a relation that shows a key tells which",
                100.0 * gone
            )
        })
    }
}

/// What a rule holds out of the rows of its training's relation, which it is asked of one after another.
pub struct Sides {
    /// `None` where nothing is known of them.
    reader: Option<SideReader>,
    judge: Vec<bool>,
    /// Whether those of them are known not to have been trained on, whatever has become of others.
    as_they_were: Vec<bool>,
}

impl Sides {
    pub fn new(reader: Option<SideReader>) -> Sides {
        Sides { reader, judge: Vec::new(), as_they_were: Vec::new() }
    }

    /// Whether the next row is held out.
    pub fn ask(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<bool> {
        self.reader.as_mut().map_or(Ok(false), |reader| reader.is_held_out(values, nulls))
    }

    /// Whether that row judges.
    pub fn push(&mut self, judges: bool) -> Result<()> {
        roles::push(&mut self.judge, judges)?;
        if judges {
            roles::push(&mut self.as_they_were, self.reader.as_ref().is_some_and(|reader| reader.is_as_it_was))?;
        }
        Ok(())
    }

    /// After the last row.
    pub fn finish(self) -> Judges {
        // Where rows have changed those are left that have not.
        let changed = self.reader.as_ref().is_some_and(|reader| reader.doubt().is_some());
        let mut as_they_were = self.as_they_were.into_iter();
        let stays = |judges: &bool| *judges && (as_they_were.next() == Some(true) || !changed);
        let known: Vec<bool> = self.judge.iter().map(stays).collect();
        Judges {
            all: Split::marked(self.judge.into_iter()),
            known: self.reader.is_some().then(|| Split::marked(known.into_iter())),
            changed,
        }
    }
}

/// Rows that judge, as test rows of splits.
pub struct Judges {
    pub all: Split,
    /// Those that were not trained on, where that is known.
    pub known: Option<Split>,
    /// Whether others may have been trained on as they were before.
    pub changed: bool,
}

/// What names the rows of a relation as in the training, where it has all columns of the key.
fn key_of(rule: &Rule, columns: &[ResultColumn]) -> Option<RowHasher> {
    let mut hasher = RowHasher::default();
    for (name, before) in &rule.keys {
        let found = columns.iter().enumerate().find(|(_, column)| column.name == *name);
        let (at, column) = found.filter(|(_, column)| kind(column.type_oid) == before)?;
        hasher.add(column, at, Numbers::Exact);
    }
    Some(hasher)
}

/// The keys of the rows that a training reads.
pub struct Keys {
    /// The columns, and as what their values are hashed.
    columns: BTreeMap<String, String>,
    hasher: RowHasher,
    /// One for each row.
    rows: Vec<u64>,
}

impl Keys {
    /// Of the columns at these places, if there are any.
    pub fn of(places: &[usize], all: &[ResultColumn]) -> Option<Keys> {
        let mut keys = Keys { columns: BTreeMap::new(), hasher: RowHasher::default(), rows: Vec::new() };
        for place in places {
            let column = all.get(*place)?;
            keys.hasher.add(column, *place, Numbers::Exact);
            keys.columns.insert(column.name.clone(), kind(column.type_oid).to_owned());
        }
        (!places.is_empty()).then_some(keys)
    }

    /// Takes a row.
    pub fn take(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<()> {
        roles::push(&mut self.rows, self.hasher.row(values, nulls)?)
    }
}

/// What is to be remembered of a training's rows, as the rule says from now on: the keys of those that were trained on, where they have
/// any, and what those hold that were held out by that, with their keys.
pub fn remember(data: &mut Data, rule: &mut Rule, split: &Split) -> Result<Memory> {
    let (keys, mut memory) = (data.keys.take(), Memory::default());
    if !rule.has_tests() || split.train_rows() > remembered::MOST_ROWS || matches!(rule.by, By::Key(_)) {
        return Ok(memory);
    }
    let mut names: &[u64] = &[];
    if let Some(keys) = &keys {
        let trained = Remembered::of(marked(&keys.rows, split, false))?;
        // There are NULLs in a unique column, or a join has multiplied rows.
        if trained.confused() as f64 <= MOST_SHARED * split.test_rows() as f64 {
            rule.keys = keys.columns.clone();
            names = &keys.rows;
            memory.trained = Some(trained);
        }
    }
    // Where equal rows are counted, any of them may have another key.
    if let (Some(hashes), By::Content(_)) = (&data.hashes, &rule.by)
        && !(rule.counted && memory.trained.is_some())
    {
        rule.held_out = split.test_rows();
        memory.held_out = Some(Remembered::of(marked(&hashes.rows, split, true).chain(marked(names, split, true)))?);
    }
    Ok(memory)
}

/// Hashes of all rows, with whether those are, or are not, held out.
fn marked(hashes: &[u64], split: &Split, held_out: bool) -> impl Iterator<Item = (u64, bool)> + Clone {
    (0..).zip(hashes).map(move |(row, hash)| (*hash, split.is_test(row) == held_out))
}

/// The rows that a training has held out cannot be told.
pub fn unknown(how: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("the held-out rows cannot be told from others: they were chosen {how}"),
    )
    .hint("Train with test_sampling => 'stratified' or 'random', or name a key: preprocess => '{\"id\": {\"role\": \"key\"}}'.")
}

fn other_type(column: &ResultColumn) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        format!(
            "column \"{}\" is of type {}, and was of another type in training",
            column.name,
            features::type_name(column.type_oid)
        ),
    )
    .hint("Cast the column to the type that the model was trained with.")
}

/// The hashes of the rows that a training reads.
pub struct Hashes {
    pub by: By,
    hasher: RowHasher,
    /// Of the first label alone, where the row's is of all columns.
    label: RowHasher,
    /// One for each row.
    pub rows: Vec<u64>,
    /// Columns of which it is not known yet whether they are learnt from.
    open: Vec<Open>,
    /// What each class of a label adds to the hash of its row, by its code.
    classes: Vec<u64>,
    /// As what the values of each column are hashed.
    types: BTreeMap<String, String>,
}

/// A column that may be left out once all rows have been read.
struct Open {
    name: String,
    hasher: RowHasher,
    /// What it adds to the hash of each row.
    rows: Vec<u64>,
}

impl Hashes {
    /// Of a column that names each row, or what it belongs to.
    pub fn of_value(by: By, column: &ResultColumn, position: usize) -> Hashes {
        let (hasher, label) = (RowHasher::of_value(column, position), RowHasher::default());
        let types = BTreeMap::from([(column.name.clone(), kind(column.type_oid).to_owned())]);
        Hashes { by, hasher, label, rows: Vec::new(), open: Vec::new(), classes: Vec::new(), types }
    }

    /// Of all that is learnt from, with whether that is still open, and the labels, the first one first.
    pub fn of_content<'a>(
        features: impl Iterator<Item = (usize, &'a ResultColumn, bool)>,
        labels: impl Iterator<Item = (usize, &'a ResultColumn)>,
        task: Task,
    ) -> Hashes {
        let (mut hasher, mut label, mut names) = (RowHasher::default(), RowHasher::default(), Vec::new());
        let (mut open, mut types) = (Vec::new(), BTreeMap::new());
        for (position, column, is_open) in features {
            if is_open {
                let mut hasher = RowHasher::default();
                hasher.add(column, position, Numbers::Seen);
                open.push(Open { name: column.name.clone(), hasher, rows: Vec::new() });
            } else {
                hasher.add(column, position, Numbers::Seen);
            }
            names.push(column.name.clone());
            types.insert(column.name.clone(), kind(column.type_oid).to_owned());
        }
        let target = if task == Task::Regression { Numbers::Target } else { Numbers::Seen };
        for (number, (position, column)) in labels.enumerate() {
            hasher.add(column, position, target);
            names.push(column.name.clone());
            types.insert(column.name.clone(), kind(column.type_oid).to_owned());
            if number == 0 {
                label.add(column, position, target);
            }
        }
        Hashes { by: By::Content(names), hasher, label, rows: Vec::new(), open, classes: Vec::new(), types }
    }

    /// The columns of which it is open whether they are learnt from.
    pub fn open(&self) -> impl Iterator<Item = &str> {
        self.open.iter().map(|open| open.name.as_str())
    }

    /// That a column is learnt from.
    pub fn settle(&mut self, name: &str) {
        let Some(at) = self.open.iter().position(|open| open.name == name) else { return };
        let open = self.open.swap_remove(at);
        self.rows.iter_mut().zip(open.rows).for_each(|(sum, own)| *sum = sum.wrapping_add(own));
        self.hasher.met.fractions |= open.hasher.met.fractions;
        self.hasher.columns.extend(open.hasher.columns);
    }

    /// That a column is left out, as if it had not been there: the next training, which knows that, has the same rows held out.
    /// One that was not open has been NULL in all rows.
    pub fn leave_out(&mut self, name: &str) {
        let By::Content(names) = &mut self.by else { return };
        let Some(at) = names.iter().position(|other| other == name) else { return };
        names.remove(at);
        self.types.remove(name);
        match self.open.iter().position(|open| open.name == name) {
            Some(at) => drop(self.open.swap_remove(at)),
            None => {
                let own = side::in_column(side::of_bytes(name.as_bytes()), side::NULL);
                self.rows.iter_mut().for_each(|sum| *sum = sum.wrapping_sub(own));
            }
        }
    }

    /// Takes a row, whose label is `code` in a classification.
    pub fn take(&mut self, values: &[pg_sys::Datum], nulls: &[bool], code: f32) -> Result<()> {
        if !matches!(self.by, By::Content(_)) {
            // All rows without a key would be on one side.
            if let (By::Key(name), Some(column)) = (&self.by, self.hasher.columns.first())
                && datum(column.position, values, nulls).is_none()
            {
                return Err(roles::is_null(name, "names rows"));
            }
            return roles::push(&mut self.rows, self.hasher.value(values, nulls)?);
        }
        roles::push(&mut self.rows, self.hasher.row(values, nulls)?)?;
        for open in &mut self.open {
            roles::push(&mut open.rows, open.hasher.row(values, nulls)?)?;
        }
        // Codes are numbered as they appear.
        if code == self.classes.len() as f32 && self.classes.len() < MOST_CODES {
            self.classes.push(self.label.row(values, nulls)?);
        }
        Ok(())
    }

    /// What a label adds to the hash of its row.
    fn of_label(&self, task: Task, label: f32) -> u64 {
        match (task, self.label.columns.first()) {
            (Task::Classification, _) => self.classes.get(label as usize).copied().unwrap_or(0),
            (_, Some(column)) => side::in_column(column.name, side::of_number(f64::from(label))),
            _ => 0,
        }
    }
}

/// Classes whose hashes are kept; numbers of a regression are not codes.
const MOST_CODES: usize = 1 << 16;

/// Divides the rows of a training by hashes with this seed, and says by what rule.
pub fn divide(data: &mut Data, sampling: Sampling, size: TestSize, seed: u64) -> Result<(Split, Rule)> {
    let rows = data.spool.rows();
    match &data.divided {
        Divided::Tests(marks) => return Ok((Split::marked(marks.iter().copied()), Rule::plain(data.by.clone()))),
        _ if size.of(rows)? == 0 => return Ok((Split::last(rows, size)?, Rule::plain(By::Nothing))),
        Divided::Times(times) => {
            let (split, first) = Split::latest(times, size)?;
            let mut by = data.by.clone();
            if let By::Time { cutoff, .. } = &mut by {
                *cutoff = first;
            }
            return Ok((split, Rule::plain(by)));
        }
        Divided::No | Divided::Groups(_) => {}
    }
    let Some(mut hashes) = data.hashes.take() else {
        return Ok((Split::last(rows, size)?, Rule::plain(By::Position)));
    };
    let mut rule = Rule { seed, types: hashes.types.clone(), ..Rule::plain(hashes.by.clone()) };
    let labels = if data.labels.is_empty() { Vec::new() } else { data.spool.labels()? };
    if matches!(rule.by, By::Content(_)) {
        let label = |row: usize| labels.get(row).map_or(0, |label| hashes.of_label(data.task, *label));
        rule.counted = side::is_coarse(&hashes.rows, hashes.hasher.met.fractions, label)?;
    }
    let mut counter = Counter::default();
    for hash in &mut hashes.rows {
        *hash = rule.seeded(*hash);
        if rule.counted {
            *hash = counter.count(*hash);
        }
    }
    let stratified = sampling == Sampling::Stratified && !matches!(rule.by, By::Group(_));
    let classes = data.labels.first().and_then(|label| label.classes.as_ref()).filter(|_| stratified);
    let split = match classes {
        None => rule.divide(&hashes.rows, None, size)?,
        Some(classes) => {
            let names: Vec<String> = classes.classes().into_iter().map(|class| class.text).collect();
            let mut numbers = Vec::new();
            memory::reserve(&mut numbers, labels.len())?;
            let remap = classes.remap();
            numbers.extend(labels.iter().map(|code| remap.get(*code as usize).map_or(0, |number| *number as u32)));
            rule.divide(&hashes.rows, Some((&numbers, &names)), size)?
        }
    };
    if split.test_rows() == 0 && matches!(rule.by, By::Group(_)) {
        return Err(learn::Error::Split("all rows are of one group, which cannot be divided".into()).into());
    }
    data.hashes = Some(hashes);
    Ok((split, rule))
}
