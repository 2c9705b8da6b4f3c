//! What a training does by itself with columns that it could not use as they are, unless `pgml.strict` is on: it leaves out
//! keys, columns of types that cannot be features, text that is another in nearly every row, and columns without a value; and
//! where the algorithm takes no missing values, it imputes them. One notice tells of all. What `preprocess` says of a column
//! goes before.

use learn::preprocess::{Encode, Impute, MOST_ONE_HOT, Spec};
use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys};
use serde_json::{Map, Value, json};

use super::columns::{Data, Feature};
use super::cursor::ResultColumn;
use super::engine::Engine;
use super::{label, report};
use crate::error::Result;
use crate::features::{Kind, Many, type_name};
use crate::guc;
use crate::registry;

/// A text column with so many distinct values may be one of names or of free text.
const MANY_TEXTS: u64 = 50;

/// Categories of a column that are told apart, however few rows they have.
const MANY_CATEGORIES: usize = 255;
/// So many rows are enough to know a category by.
const MANY_ROWS: u64 = 500;

/// What is to be told.
#[derive(Default)]
pub struct Notices {
    left_out: Vec<(String, String)>,
    kept: Vec<(String, String)>,
    imputed: Vec<(String, &'static str)>,
    grouped: Vec<(String, String)>,
    unlabelled: u64,
}

impl Notices {
    /// That a column is left out, and why.
    pub fn leave_out(&mut self, name: &str, why: String, preprocess: &mut Map<String, Value>) {
        preprocess.insert(name.to_owned(), json!({ "role": "ignore" }));
        self.left_out.push((name.to_owned(), why));
    }

    /// Whether a column is left out without having been asked for.
    pub fn has_left_out(&self, name: &str) -> bool {
        self.left_out.iter().any(|(left_out, _)| left_out == name)
    }

    /// That missing values of a column are imputed.
    pub fn imputed(&mut self, name: &str, how: &'static str) {
        self.imputed.push((name.to_owned(), how));
    }

    /// That some categories of a column count as missing.
    pub fn grouped(&mut self, name: &str, what: String) {
        self.grouped.push((name.to_owned(), what));
    }

    /// What reading the rows has found: rows without a label, which are left out, and columns that are kept for lack of others.
    pub fn read(&mut self, data: &Data) {
        self.unlabelled = data.unlabelled;
        let is_new = |name: &String| !self.kept.iter().any(|(kept, _)| kept == name);
        let more: Vec<_> = data.kept.iter().filter(|(name, _)| is_new(name)).cloned().collect();
        self.kept.extend(more);
    }

    /// Tells.
    pub fn notice(&self) {
        let list = |named: &mut dyn Iterator<Item = (&String, &str)>| -> String {
            named.map(|(name, what)| format!("\"{name}\" ({what})")).collect::<Vec<_>>().join(", ")
        };
        let mut parts = Vec::new();
        if !self.left_out.is_empty() {
            let named = list(&mut self.left_out.iter().map(|(name, why)| (name, why.as_str())));
            parts.push(format!("columns left out: {named}"));
        }
        if !self.kept.is_empty() {
            let named = list(&mut self.kept.iter().map(|(name, why)| (name, why.as_str())));
            parts.push(format!(
                "kept, since there is no other column, though it hardly says anything of new rows: {named}"
            ));
        }
        if !self.imputed.is_empty() {
            let named = list(&mut self.imputed.iter().map(|(name, how)| (name, *how)));
            parts.push(format!("missing values imputed: {named}"));
        }
        if !self.grouped.is_empty() {
            let named = list(&mut self.grouped.iter().map(|(name, what)| (name, what.as_str())));
            parts.push(format!("categories that count as missing: {named}"));
        }
        if self.unlabelled > 0 {
            parts.push(label::left_out(self.unlabelled));
        }
        if parts.is_empty() {
            return;
        }
        let message = parts.join("; ");
        report::keep(&message);
        let mut example = Map::new();
        if let Some((name, _)) = self.left_out.iter().find(|(_, why)| !why.starts_with("type ")) {
            example.insert(name.clone(), json!({ "role": "feature" }));
        }
        if let Some((name, how)) = self.imputed.first() {
            example.insert(name.clone(), json!({ "impute": if *how == "median" { "mean" } else { how } }));
        }
        if let Some((name, _)) = self.grouped.first() {
            example.insert(name.clone(), json!({ "encode": "native" }));
        }
        let hint = match example.is_empty() {
            true => "With pgml.strict = on nothing is done by itself.".to_owned(),
            false => format!(
                "A column is used as preprocess says of it: preprocess => '{}'. With pgml.strict = on nothing is done by itself.",
                quoted(&example)
            ),
        };
        let hint = match self.left_out.iter().any(|(_, why)| why.starts_with("type ")) {
            true => format!(
                "{hint} A query in parentheses converts other types: '(SELECT price::numeric, ... FROM sales)'."
            ),
            false => hint,
        };
        pgrx::pg_sys::panic::ErrorReport::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message, "pgml_train")
            .set_hint(hint)
            .report(PgLogLevel::NOTICE);
    }
}

/// A JSON object as it stands between the quotes of a SQL literal.
pub fn quoted(object: &Map<String, Value>) -> String {
    Value::Object(object.clone()).to_string().replace('\'', "''")
}

/// Leaves out keys, and columns of types that cannot be features, as far as the statement's description tells.
pub fn leave_out(
    columns: &[ResultColumn],
    labels: &[String],
    preprocess: &mut Map<String, Value>,
    told: &mut Notices,
) -> Result<()> {
    if guc::strict() {
        return Ok(());
    }
    let open: Vec<&ResultColumn> = columns
        .iter()
        .filter(|column| !labels.contains(&column.name) && !preprocess.contains_key(&column.name))
        .collect();
    let others = preprocess.values().any(|spec| spec.get("role").is_none_or(|role| role == "feature"));
    let mut keys = Vec::new();
    for column in open.iter().filter(|column| Kind::of(column.type_oid).is_some()) {
        if is_key(column)? {
            keys.push(column.name.as_str());
        }
    }
    // Who has nothing but a key wants to learn from it.
    let fit = open.iter().filter(|column| Kind::of(column.type_oid).is_some()).count();
    if fit == keys.len() && !others {
        told.kept.extend(keys.drain(..).map(|name| (name.to_owned(), "a key".to_owned())));
    }
    for column in open {
        if Kind::of(column.type_oid).is_none() {
            told.leave_out(&column.name, format!("type {}", type_name(column.type_oid)), preprocess);
        } else if keys.contains(&column.name.as_str()) {
            told.leave_out(&column.name, "a key".to_owned(), preprocess);
        }
    }
    Ok(())
}

/// The columns that together name a row, by their places: of the first key of the relation that is whole among them.
pub fn key(columns: &[ResultColumn]) -> Result<Vec<usize>> {
    let Some((relation, _)) = columns.iter().find_map(|column| column.origin) else { return Ok(Vec::new()) };
    let place = |number: i16| columns.iter().position(|column| column.origin == Some((relation, number)));
    let whole = |key: Vec<i16>| key.into_iter().map(place).collect::<Option<Vec<usize>>>();
    Ok(registry::keys(relation)?.into_iter().find_map(whole).unwrap_or_default())
}

fn is_key(column: &ResultColumn) -> Result<bool> {
    match column.origin {
        Some((relation, attribute)) if is_key_type(column.type_oid) => {
            Ok(registry::keys(relation)?.iter().any(|key| key.as_slice() == [attribute]))
        }
        _ => Ok(false),
    }
}

/// Of dates, times and measurements each may be another, and still say something.
fn is_key_type(type_oid: pg_sys::Oid) -> bool {
    matches!(
        type_oid,
        pg_sys::INT2OID
            | pg_sys::INT4OID
            | pg_sys::INT8OID
            | pg_sys::TEXTOID
            | pg_sys::VARCHAROID
            | pg_sys::BPCHAROID
            | pg_sys::UUIDOID
    )
}

/// Why a column of which all rows have been read says nothing: of so many values, so many are missing; of a text so many are
/// distinct.
pub fn says_nothing(values: u64, missing: u64, distinct: Option<u64>) -> Option<String> {
    let known = values.saturating_sub(missing);
    match distinct {
        _ if known == 0 => Some("NULL in all rows".to_owned()),
        Some(distinct) if distinct >= MANY_TEXTS && 2 * distinct > known => {
            Some(format!("text, {distinct} different ones in {known} rows"))
        }
        _ => None,
    }
}

/// How many categories have rows.
pub fn distinct(counts: &[u64]) -> usize {
    counts.iter().filter(|count| **count > 0).count()
}

/// How many categories of each column are told apart, the most frequent ones; `columns` says how many training rows each
/// category has.
///
/// Of many categories with few rows each, trees learn the noise: on nycflights13 XGBoost's skill is 0.81 with all 3,681 tail
/// numbers and 0.91 with the 255 most frequent, LightGBM's 0.90 and 0.91. Columns whose rare categories say much, such as
/// breeds of pets, lose 0.001.
pub fn most_categories(columns: &[(&[u64], &Spec)], engine: &dyn Engine) -> Vec<usize> {
    let native = engine.takes_categories();
    let open = |spec: &Spec| spec.encode.is_none() || native && spec.encode == Some(Encode::Native);
    if guc::strict() {
        return vec![usize::MAX; columns.len()];
    }
    if native {
        let limit = |(counts, spec): &(&[u64], &Spec)| match (open(spec), engine.most_categories()) {
            (false, _) => usize::MAX,
            (true, Some(most)) => most,
            (true, None) if spec.encode.is_some() => usize::MAX,
            (true, None) => counts.iter().filter(|count| **count >= MANY_ROWS).count().max(MANY_CATEGORIES),
        };
        return columns.iter().map(limit).collect();
    }
    let asked = columns.iter().filter(|(_, spec)| spec.encode == Some(Encode::OneHot));
    let mut room = MOST_ONE_HOT.saturating_sub(asked.map(|(counts, _)| distinct(counts)).sum());
    let mut all: Vec<usize> =
        columns.iter().filter(|(_, spec)| open(spec)).map(|(counts, _)| distinct(counts)).collect();
    all.sort_unstable();
    // The small ones in full, and what they leave in equal parts.
    let mut left = all.len();
    for count in all {
        if count.saturating_mul(left) > room {
            break;
        }
        (room, left) = (room - count, left - 1);
    }
    let most = room.checked_div(left).unwrap_or(usize::MAX);
    columns.iter().map(|(_, spec)| if open(spec) { most } else { usize::MAX }).collect()
}

/// How missing values of a column are imputed where nothing was asked for, and whether that is to be told: a row may lack
/// tomorrow what every row has today, which is nothing to tell of.
pub fn impute(feature: &Feature, spec: &Spec, engine: &dyn Engine) -> Option<(Impute, Option<&'static str>)> {
    if guc::strict() || engine.takes_missing() || spec.impute.is_some() {
        return None;
    }
    let is_missing = feature.statistics.missing() > 0;
    match feature.categories {
        None if is_missing => Some((Impute::Median, Some("median"))),
        // A constant needs no pass over the rows.
        None if feature.many.is_none() && feature.nullable => {
            feature.statistics.mean().map(|mean| (Impute::Constant(json!(mean)), None))
        }
        None if matches!(feature.many, Some(Many::Moment(_))) && feature.nullable => Some((Impute::Mean, None)),
        // One-hot and other encodings have an answer.
        Some(_) if is_missing && engine.takes_categories() && spec.encode.is_none() => {
            Some((Impute::Mode, Some("mode")))
        }
        _ => None,
    }
}
