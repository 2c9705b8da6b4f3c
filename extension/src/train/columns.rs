//! The conversion of a statement's rows to rows of features: the use of each column, and the reading of its values.

use learn::preprocess::{Encode, Impute, Role, Spec};
use learn::side::{By, Rule};
use learn::split::Split;
use pgrx::{PgSqlErrorCode, pg_sys};
use serde_json::{Value, json};

use super::categories::Sorted;
use super::cursor::{Receiver, ResultColumn};
use super::defaults;
use super::engine::Engine;
use super::feature::{Encoder, FeatureReader, Row};
use super::interrupts;
use super::label::{Label, LabelReader};
use super::origin::Extent;
use super::rival::{RivalReader, RivalRows};
use super::roles::{Divided, DividingReader, Roles, WeightReader};
use super::sides::{Hashes, Keys, SideReader, Sides};
use super::spool::{Owner, Spool};
use super::statistics::Statistics;
use super::view::View;
use crate::error::{Error, Result};
use crate::features::{self, Kind, MOST_FEATURES, Many, Moment, Number};
use crate::model_meta::{FeatureColumn, LabelColumn, ModelMeta, Task};

/// Past this many distinct values a text column is not a category but an identifier or free text.
pub const MOST_CATEGORIES: usize = 65_536;

/// Rows between two reports: few enough for a slow query, enough to cost nothing.
const ROWS_PER_REPORT: u64 = 256;

/// Values of rows that wait in memory: 64 MB.
const MOST_WAITING: usize = 1 << 24;

/// After so many rows, and again after as many, it is asked which text columns are learnt from for sure.
const SETTLING: u64 = 1 << 16;

/// Reads the rows into a spool and learns about the columns meanwhile.
pub struct Reader {
    task: Task,
    features: Vec<FeatureReader>,
    /// Each with its position among the columns of the statement.
    labels: Vec<(usize, LabelReader)>,
    weight: Option<WeightReader>,
    /// Whether a row weighs anything.
    weighs: bool,
    dividing: Option<DividingReader>,
    /// By which the sides of rows are known, where they follow from what the rows are.
    hashes: Option<Hashes>,
    keys: Option<Keys>,
    /// The deployed model, which reads the rows too.
    rival: Option<RivalReader>,
    /// Which rows the training of the model held out that the training goes on from, where that is known.
    base: Option<Sides>,
    /// Labels of the row being read after the first, and its weight, which stand behind its features in the spool.
    others: Vec<f32>,
    /// Rows that were left out since they have no label.
    unlabelled: u64,
    /// The features of the row being read.
    row: Row,
    /// Rows that came before the sizes of all arrays were known; those arrays are NULL in them and left out.
    pending: Vec<Waiting>,
    owner: Owner,
    spool: Option<Spool>,
    /// Told of the number of rows now and then.
    progress: Box<dyn FnMut(u64)>,
}

/// A row that waits: its features, their rests, and its label.
type Waiting = (Vec<f32>, Vec<(u32, f32)>, f32);

/// The columns by what they are used for.
#[derive(Default)]
struct Uses {
    features: Vec<FeatureReader>,
    /// Each with its position among the columns of the statement.
    labels: Vec<(usize, LabelReader)>,
    weight: Option<WeightReader>,
    dividing: Option<DividingReader>,
}

impl Uses {
    fn of(
        task: Task,
        label_names: &[String],
        roles: &Roles,
        columns: &[ResultColumn],
        not_null: &[String],
    ) -> Result<Uses> {
        let (mut uses, mut labels, mut unfit) = (Uses::default(), Vec::new(), Vec::new());
        for name in roles.names() {
            if !columns.iter().any(|column| column.name == name) || label_names.iter().any(|label| label == name) {
                return Err(no_such_role(name, columns));
            }
        }
        for (index, column) in columns.iter().enumerate() {
            if columns.iter().take(index).any(|other| other.name == column.name) {
                return Err(Error::new(
                    PgSqlErrorCode::ERRCODE_DUPLICATE_COLUMN,
                    format!("there are two columns named \"{}\"", column.name),
                )
                .hint("Name them apart with AS."));
            }
            if let Some(at) = label_names.iter().position(|name| *name == column.name) {
                labels.push((at, (index, LabelReader::new(task, column)?)));
                continue;
            }
            match roles.of_column(&column.name) {
                Role::Feature => match Kind::of(column.type_oid) {
                    Some(kind) => {
                        let nullable = !not_null.contains(&column.name);
                        uses.features.extend(FeatureReader::of(index, column, kind, nullable, roles)?);
                    }
                    None => unfit.push(column),
                },
                Role::Ignore | Role::Key => {}
                Role::Weight => uses.weight = Some(WeightReader::new(column, index)?),
                role @ (Role::Test | Role::Time | Role::Group) => {
                    uses.dividing = Some(DividingReader::new(column, index, role)?);
                }
            }
        }
        for (at, name) in label_names.iter().enumerate() {
            if !labels.iter().any(|(found, _)| *found == at) {
                return Err(no_label(name, columns));
            }
        }
        labels.sort_by_key(|(at, _)| *at);
        uses.labels = labels.into_iter().map(|(_, label)| label).collect();
        match unfit.is_empty() {
            true => Ok(uses),
            false => Err(unfit_columns(&unfit)),
        }
    }
}

impl Reader {
    /// Decides what each column is, or says which cannot be a feature, before any row is read.
    pub fn new(
        task: Task,
        label_names: &[String],
        roles: &Roles,
        columns: &[ResultColumn],
        not_null: &[String],
        progress: Box<dyn FnMut(u64)>,
    ) -> Result<Reader> {
        let Uses { features, labels, weight, dividing } = Uses::of(task, label_names, roles, columns, not_null)?;
        if features.is_empty() {
            return Err(Error::invalid("there is no column to learn from")
                .hint("A model needs at least one column to predict from."));
        }
        Ok(Reader {
            task,
            features,
            labels,
            weight,
            weighs: false,
            dividing,
            hashes: None,
            keys: None,
            rival: None,
            base: None,
            others: Vec::new(),
            unlabelled: 0,
            row: Row::new(!crate::guc::strict()),
            pending: Vec::new(),
            owner: Owner::current(),
            spool: None,
            progress,
        })
    }

    /// Keeps of each row by what its side is known, unless it is its place, and has the deployed model read it.
    pub fn with_sides(
        mut self,
        columns: &[ResultColumn],
        roles: &Roles,
        (by_place, key): (bool, &[usize]),
        rival: Option<RivalReader>,
        base: Option<SideReader>,
    ) -> Reader {
        let of_role = |role: Role| columns.iter().enumerate().find(|(_, column)| roles.of_column(&column.name) == role);
        self.rival = rival;
        self.base = base.map(|reader| Sides::new(Some(reader)));
        self.keys = Keys::of(key, columns);
        self.hashes = if let Some((position, column)) = of_role(Role::Group) {
            Some(Hashes::of_value(By::Group(column.name.clone()), column, position))
        } else if by_place || self.dividing.is_some() {
            None
        } else if let Some((position, column)) = of_role(Role::Key) {
            Some(Hashes::of_value(By::Key(column.name.clone()), column, position))
        } else {
            let at = |position: usize| columns.get(position).map(|column| (position, column));
            let lenient = self.row.lenient;
            let features = self.features.iter().filter_map(|feature| {
                let is_open = lenient && !feature.stays && matches!(feature.encoder, Encoder::Category(..));
                at(feature.position - 1).map(|(position, column)| (position, column, is_open))
            });
            let labels = self.labels.iter().filter_map(|(position, _)| at(*position));
            Some(Hashes::of_content(features, labels, self.task))
        };
        self
    }

    /// Makes of moments the features that a model of these columns makes of them.
    pub fn as_in(&mut self, columns: &[FeatureColumn]) {
        for feature in &mut self.features {
            let known = columns.iter().find(|column| column.name == feature.name);
            if let (Encoder::Many(Many::Moment(moment), size), Some(known)) = (&mut feature.encoder, known)
                && let Some(before) = Moment::named(&known.pg_type, known.size as usize)
                && before.is_date == moment.is_date
            {
                (*moment, *size) = (before, Some(before.parts.len()));
            }
        }
    }

    /// Name and kind of the features, as far as they are known before the first row: `None` if there are arrays.
    pub fn scalar_features(&self) -> Option<Vec<(String, FeatureKind)>> {
        self.features
            .iter()
            .map(|feature| {
                let kind = match feature.encoder {
                    Encoder::Number(number) => number.into(),
                    Encoder::Category(..) | Encoder::Hashed(..) => FeatureKind::Category,
                    Encoder::Many(..) => return None,
                };
                Some((feature.name.clone(), kind))
            })
            .collect()
    }

    /// Of so many rows the first ones tell which texts come again and again: these columns are learnt from.
    fn settle(&mut self) {
        let Some(hashes) = &mut self.hashes else { return };
        let rows = hashes.rows.len() as u64;
        if !rows.is_multiple_of(SETTLING) {
            return;
        }
        let open: Vec<String> = hashes.open().map(str::to_owned).collect();
        for feature in self.features.iter_mut().filter(|feature| open.contains(&feature.name)) {
            let known = rows.saturating_sub(feature.statistics.missing());
            if let Encoder::Category(_, categories) = &feature.encoder
                && 4 * (categories.len() as u64 + feature.untold) < known
            {
                feature.stays = true;
                hashes.settle(&feature.name);
            }
        }
    }

    /// Now that the size of an array is known, the rows that came before get NaNs in its place.
    fn array_found(&mut self, index: usize, size: usize) -> Result<()> {
        let width = size + self.features.iter().map(FeatureReader::size).sum::<usize>();
        if width > MOST_FEATURES {
            return Err(too_many_features(width));
        }
        self.may_wait(width)?;
        // The other labels of those rows stand behind them already.
        let offset: usize = self.features.iter().take(index).map(FeatureReader::size).sum();
        for (row, rests, _) in &mut self.pending {
            row.splice(offset..offset, std::iter::repeat_n(f32::NAN, size));
            let behind = rests.iter_mut().filter(|(at, _)| *at as usize >= offset);
            behind.for_each(|(at, _)| *at += size as u32);
        }
        if let Some(feature) = self.features.get_mut(index) {
            feature.statistics.add_missing((size * self.pending.len()) as u64);
            if let Encoder::Many(_, known) = &mut feature.encoder {
                *known = Some(size);
            }
        }
        Ok(())
    }

    /// Rows of so many features wait in memory until the sizes of all arrays are known.
    fn may_wait(&self, width: usize) -> Result<()> {
        match width.saturating_mul(self.pending.len()) > MOST_WAITING {
            true => {
                Err(unknown_size(&self.features, &format!("the first {}", learn::count(self.pending.len(), "row"))))
            }
            false => Ok(()),
        }
    }

    /// A row with all its features goes to the spool; one that lacks arrays of unknown size waits.
    fn store(&mut self, label: f32) -> Result<()> {
        if let Some(spool) = &mut self.spool {
            spool.push(&self.row.values, &self.row.rests, label)?;
            if spool.rows() % ROWS_PER_REPORT == 0 {
                (self.progress)(spool.rows());
            }
            return Ok(());
        }
        self.pending.push((std::mem::take(&mut self.row.values), self.row.rests.clone(), label));
        self.may_wait(self.features.iter().map(FeatureReader::size).sum::<usize>().max(8))?;
        if self.features.iter().all(|feature| !matches!(feature.encoder, Encoder::Many(_, None))) {
            let width = self.features.iter().map(FeatureReader::size).sum::<usize>() + self.others.len();
            let mut spool = Spool::create(width, self.owner);
            for (row, rests, label) in self.pending.drain(..) {
                spool.push(&row, &rests, label)?;
            }
            self.spool = Some(spool);
        }
        Ok(())
    }

    /// The columns from which nothing can be learnt, and why: none where there are no others.
    fn says_nothing(&self, rows: u64) -> Vec<(String, String)> {
        if !self.row.lenient {
            return Vec::new();
        }
        let named = |feature: &FeatureReader| Some((feature.name.clone(), feature.says_nothing(rows)?));
        self.features.iter().filter_map(named).collect()
    }

    /// All rows, without the features of columns that are left out.
    fn spool_without(&mut self, left_out: &[(String, String)]) -> Result<Spool> {
        let others = self.others.len();
        let is_left_out = |feature: &FeatureReader| left_out.iter().any(|(name, _)| *name == feature.name);
        let unknown = |feature: &FeatureReader| matches!(feature.encoder, Encoder::Many(_, None));
        if self.spool.is_none() && self.features.iter().all(|feature| !unknown(feature) || is_left_out(feature)) {
            let width = self.features.iter().map(FeatureReader::size).sum::<usize>() + others;
            let mut spool = Spool::create(width, self.owner);
            for (row, rests, label) in self.pending.drain(..) {
                spool.push(&row, &rests, label)?;
            }
            self.spool = Some(spool);
        }
        let Some(mut spool) = self.spool.take() else { return Err(unknown_size(&self.features, "all rows")) };
        if !left_out.is_empty() {
            spool.finish()?;
            let keeps = |feature: &FeatureReader| std::iter::repeat_n(!is_left_out(feature), feature.size());
            let kept: Vec<bool> =
                self.features.iter().flat_map(keeps).chain(std::iter::repeat_n(true, others)).collect();
            spool = spool.only(&kept, self.owner)?;
            self.features.retain(|feature| !is_left_out(feature));
        }
        Ok(spool)
    }

    fn require_finite(&self, rows: u64) -> Result<()> {
        let infinite: Vec<&FeatureReader> =
            self.features.iter().filter(|feature| feature.statistics.infinite() > 0).collect();
        let Some(first) = infinite.first() else { return Ok(()) };
        let error = Error::new(
            PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            format!(
                "column \"{}\" is infinite, or too large for real, in {} of {}",
                first.name,
                first.statistics.infinite(),
                learn::count(rows, "row")
            ),
        )
        .hint("Leave such rows out, or turn such values into NULL, with a query in parentheses.");
        let others: Vec<String> = infinite.iter().skip(1).map(|feature| format!("\"{}\"", feature.name)).collect();
        Err(match others.is_empty() {
            true => error,
            false => error.detail(format!("The same holds for {}.", others.join(", "))),
        })
    }

    /// What was read, or why it cannot be learnt from.
    pub fn finish(mut self, source: &str) -> Result<Data> {
        let rows = self.spool.as_ref().map_or(self.pending.len() as u64, Spool::rows);
        if let (0, 1.., Some((_, label))) = (rows, self.unlabelled, self.labels.first()) {
            return Err(label.nowhere(self.unlabelled));
        }
        if rows == 0 {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
                format!("{source} has no rows to learn from"),
            ));
        }
        if self.weight.is_some() && !self.weighs {
            return Err(Error::invalid("the weights of all rows are 0"));
        }
        let mut labels = Vec::with_capacity(self.labels.len());
        for (position, label) in std::mem::take(&mut self.labels) {
            labels.push(Label { position: position + 1, ..label.finish(rows)? });
        }
        let (mut left_out, mut kept) = (self.says_nothing(rows), Vec::new());
        // Who has nothing else wants to learn from it.
        if left_out.len() == self.features.len() {
            std::mem::swap(&mut left_out, &mut kept);
        }
        if let Some(hashes) = &mut self.hashes {
            left_out.iter().for_each(|(name, _)| hashes.leave_out(name));
            let open: Vec<String> = hashes.open().map(str::to_owned).collect();
            open.iter().for_each(|name| hashes.settle(name));
        }
        let mut spool = self.spool_without(&left_out)?;
        self.require_finite(rows)?;
        spool.finish()?;
        let features = self.features.into_iter().map(FeatureReader::finish).collect();
        let (by, divided) = self.dividing.map_or((By::Position, Divided::No), DividingReader::finish);
        Ok(Data {
            task: self.task,
            spool,
            features,
            labels,
            weighted: self.weight.is_some(),
            divided,
            by,
            hashes: self.hashes,
            keys: self.keys,
            positive: None,
            left_out,
            kept,
            unlabelled: self.unlabelled,
            rival: self.rival.map(RivalReader::finish).transpose()?,
            base: self.base.and_then(|base| base.finish().known),
            rule: None,
        })
    }
}

impl Receiver for Reader {
    fn row(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<()> {
        let missing = |(at, label): &(usize, LabelReader)| label.is_missing(values.get(*at), nulls.get(*at));
        if self.row.lenient && self.labels.iter().any(missing) {
            self.unlabelled += 1;
            return Ok(());
        }
        self.row.clear();
        for (index, feature) in self.features.iter_mut().enumerate() {
            let at = feature.position - 1;
            let (Some(datum), Some(null)) = (values.get(at), nulls.get(at)) else { continue };
            feature.read(index, (!null).then_some(*datum), &mut self.row)?;
        }
        for (index, size) in std::mem::take(&mut self.row.found) {
            self.array_found(index, size)?;
        }
        self.others.clear();
        let mut first = 0.0;
        for (number, (position, label)) in self.labels.iter_mut().enumerate() {
            let label = label.read(values.get(*position), nulls.get(*position))?;
            if number == 0 {
                first = label;
            } else {
                self.others.push(label);
            }
        }
        if let Some(weight) = &self.weight {
            let weight = weight.read(values, nulls)?;
            self.weighs |= weight > 0.0;
            self.others.push(weight);
        }
        if let Some(dividing) = &mut self.dividing {
            dividing.read(values, nulls)?;
        }
        if let Some(hashes) = &mut self.hashes {
            hashes.take(values, nulls, first)?;
            self.settle();
        }
        if let Some(keys) = &mut self.keys {
            keys.take(values, nulls)?;
        }
        if let Some(rival) = &mut self.rival {
            let others = self.others.get(..self.labels.len().saturating_sub(1)).unwrap_or(&[]);
            rival.take(values, nulls, first, others)?;
        }
        if let Some(base) = &mut self.base {
            let held_out = base.ask(values, nulls)?;
            base.push(held_out)?;
        }
        self.row.values.extend_from_slice(&self.others);
        self.store(first)
    }
}

pub fn no_label(name: &str, columns: &[ResultColumn]) -> Error {
    no_column(name, "the label", columns)
}

/// Refuses columns without the label that a project's last training had, and that this one has not named.
pub fn require_inherited(labels: &[String], columns: &[ResultColumn]) -> Result<()> {
    let is_there = |label: &String| columns.iter().any(|column| column.name == *label);
    match labels.iter().find(|label| !is_there(label)) {
        Some(gone) => {
            let names: Vec<&str> = columns.iter().take(10).map(|column| column.name.as_str()).collect();
            let more = if columns.len() > names.len() { ", ..." } else { "" };
            Err(no_column(gone, "the label of the project's last training", &[])
                .hint(format!("y_column_name => '...' names another. The columns are {}{more}.", names.join(", "))))
        }
        None => Ok(()),
    }
}

/// A column that is needed and not there; `what` it is.
pub fn no_column(name: &str, what: &str, columns: &[ResultColumn]) -> Error {
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let error =
        Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN, format!("column \"{name}\", {what}, does not exist"));
    // As SQL writes it, and as the name of a relation is given.
    let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).map(|name| name.replace("\"\"", "\""));
    match bare.filter(|bare| names.contains(bare)) {
        Some(bare) => error.hint(format!("Give the name of the column without quotes: '{bare}'.")),
        None if names.is_empty() => error,
        None => error.hint(crate::nearest::hint(name, &names)),
    }
}

fn no_such_role(name: &str, columns: &[ResultColumn]) -> Error {
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let text = format!("preprocess gives a role to column \"{name}\", which does not exist or is the label");
    Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN, text).hint(crate::nearest::hint(name, &names))
}

fn unfit_columns(columns: &[&ResultColumn]) -> Error {
    let describe = |column: &ResultColumn| (column.name.clone(), features::type_name(column.type_oid));
    let (name, type_name) = columns.first().map(|column| describe(column)).unwrap_or_default();
    let others: Vec<String> = columns
        .iter()
        .skip(1)
        .map(|column| describe(column))
        .map(|(name, type_name)| format!("\"{name}\" of type {type_name}"))
        .collect();
    let error = Error::new(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        format!("column \"{name}\" is of type {type_name}, which cannot be a feature"),
    )
    .hint(
        "Features are numbers, booleans, text, enums, dates, times, intervals, and arrays of numbers. Leave the column \
         out, or convert it, with a query in parentheses.",
    );
    if others.is_empty() {
        error
    } else {
        error.detail(format!("These columns cannot be features either: {}.", others.join(", ")))
    }
}

fn unknown_size(features: &[FeatureReader], rows: &str) -> Error {
    let unknown = features.iter().find(|feature| matches!(feature.encoder, Encoder::Many(_, None)));
    let name = unknown.map_or("", |feature| feature.name.as_str());
    Error::new(
        PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
        format!("column \"{name}\" is NULL in {rows}, so the size of its arrays is not known"),
    )
}

pub fn too_many_features(width: usize) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        format!("rows have {width} features, and at most {MOST_FEATURES} are supported"),
    )
}

/// What kind of feature a column makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureKind {
    Quantity,
    Integer,
    Boolean,
    Category,
}

impl From<Number> for FeatureKind {
    fn from(number: Number) -> FeatureKind {
        match number {
            Number::Float4 | Number::Float8 | Number::Numeric | Number::Time | Number::Interval => {
                FeatureKind::Quantity
            }
            Number::Int2 | Number::Int4 | Number::Int8 => FeatureKind::Integer,
            Number::Bool => FeatureKind::Boolean,
        }
    }
}

/// A column that features are made from, after the last row.
pub struct Feature {
    pub name: String,
    pub type_oid: pg_sys::Oid,
    pub nullable: bool,
    /// From 1, in the statement.
    pub position: usize,
    /// Features that it makes.
    pub size: usize,
    /// Of a column whose values make several.
    pub many: Option<Many>,
    pub kind: FeatureKind,
    /// Of a text column.
    pub categories: Option<Sorted<String>>,
    /// Whether its categories are buckets of a hash.
    pub hashed: bool,
    /// Rows with categories past the most that are told apart, which count as missing.
    pub untold: u64,
    /// Whether it tells the group of a row, which chooses the model.
    pub tells_group: bool,
    pub statistics: Statistics,
    /// Taken off its values, one for each feature that it makes; none where nothing is.
    pub origins: Vec<f64>,
    /// Of each feature, where its values may be more than float32 tells apart.
    pub extents: Vec<Extent>,
}

/// All rows of a training, read, and what is known of their columns.
pub struct Data {
    pub task: Task,
    pub spool: Spool,
    pub features: Vec<Feature>,
    /// One; several in a joint regression; none in a clustering or decomposition.
    pub labels: Vec<Label>,
    /// Whether rows have weights, which stand behind the features and other labels in the spool.
    pub weighted: bool,
    /// Whether a column says which rows are tested on.
    pub divided: Divided,
    /// Which column that is.
    pub by: By,
    /// The hashes of rows, by which they are divided where no column says otherwise: seeded once they are.
    pub hashes: Option<Hashes>,
    /// The keys of rows, where they have any.
    pub keys: Option<Keys>,
    /// The rows as the deployed model reads them.
    pub rival: Option<RivalRows>,
    /// The rows that the training of the model held out that this one goes on from, where that is known.
    pub base: Option<Split>,
    /// By what the rows were divided, once they are.
    pub rule: Option<Rule>,
    /// The class that is looked for, once that is known.
    pub positive: Option<u32>,
    /// Columns that are left out since nothing can be learnt from them, and why.
    pub left_out: Vec<(String, String)>,
    /// Columns that would have been left out so if there were others.
    pub kept: Vec<(String, String)>,
    /// Rows that were left out, since they have no label.
    pub unlabelled: u64,
}

impl Data {
    /// Features of a row, as SQL gives it.
    pub fn width(&self) -> usize {
        self.spool.width() - self.labels.len().saturating_sub(1) - usize::from(self.weighted)
    }

    /// Forgets the categories that no training row has: to a model they are as unknown as those that come later, and its
    /// metrics say so. Of a column whose categories are listed, those are known and no others; of one with more than the
    /// engine can take the most frequent: gives its name, how many these are, and of how many. May be asked again with another
    /// split.
    pub fn keep_categories_of(
        &mut self,
        split: &Split,
        roles: &Roles,
        engine: &dyn Engine,
    ) -> Result<Vec<(String, usize, usize)>> {
        let mut position = 0;
        let mut present = Vec::new();
        for feature in &mut self.features {
            if let Some(sorted) = &mut feature.categories {
                let spec = roles.spec(&feature.name, true)?;
                match &spec.encode {
                    Some(Encode::Ordinal(list)) => sorted.become_of(list),
                    _ => present.push((position, vec![0; sorted.all()], spec)),
                }
            }
            position += feature.size;
        }
        if present.is_empty() {
            return Ok(Vec::new());
        }
        let mut view = View::new(self, split, false, u64::MAX).with_codes();
        let width = view.width();
        while let Some(part) = view.chunk()? {
            for row in part.features.chunks_exact(width) {
                for (position, present, _) in &mut present {
                    if let Some(value) = row.get(*position).filter(|value| !value.is_nan())
                        && let Some(present) = present.get_mut(*value as usize)
                    {
                        *present += 1;
                    }
                }
            }
            interrupts::check();
        }
        let counts: Vec<(&[u64], &Spec)> = present.iter().map(|(_, counts, spec)| (counts.as_slice(), spec)).collect();
        let limits = defaults::most_categories(&counts, engine);
        let mut present = present.into_iter().zip(limits).peekable();
        let (mut position, mut grouped) = (0, Vec::new());
        for feature in &mut self.features {
            if let Some(((_, counts, spec), most)) = present.next_if(|((of, ..), _)| *of == position)
                && let Some(sorted) = &mut feature.categories
            {
                if feature.hashed {
                    sorted.hide(&counts);
                    position += feature.size;
                    continue;
                }
                let all = defaults::distinct(&counts);
                if all > most {
                    grouped.push((feature.name.clone(), most, all));
                }
                sorted.keep(&most_frequent(&counts, most));
                if let Spec { impute: Some(Impute::Constant(constant)), .. } = spec {
                    sorted.has(&constant.as_str().map_or_else(|| constant.to_string(), str::to_owned));
                }
            }
            position += feature.size;
        }
        Ok(grouped)
    }

    /// Names the columns of whole numbers that the model cannot tell apart.
    pub fn blurred(&self) -> Option<String> {
        let whole = |feature: &&Feature| match feature.many {
            Some(Many::Array(number)) => number.is_whole(),
            Some(_) => false,
            None => feature.kind == FeatureKind::Integer,
        };
        let blurred = self.features.iter().filter(whole).filter_map(|feature| {
            let apart = feature.extents.iter().filter_map(Extent::blurred).fold(0.0, f64::max);
            (apart > 0.0).then(|| format!("\"{}\" ({apart})", feature.name))
        });
        let blurred: Vec<String> = blurred.collect();
        (!blurred.is_empty()).then(|| {
            format!(
                "whole numbers of these columns are rounded for the model, to multiples of at most the number in parentheses: {}. \
                 Numbers that are names should be text; this is not said of float8",
                blurred.join(", ")
            )
        })
    }

    /// The columns that tell the group of a row: none where there are no groups.
    pub fn group_columns(&self) -> Vec<&str> {
        self.features.iter().filter(|feature| feature.tells_group).map(|feature| feature.name.as_str()).collect()
    }

    /// How many classes the label has; `None` where it is not one of classes.
    pub fn classes(&self) -> Option<usize> {
        self.labels.first().and_then(|label| label.classes.as_ref()).map(|classes| classes.len())
    }

    /// The names of all features, unlike each other: a column's name, or its name and a number from 1 for each element
    /// of an array, or the part of a moment.
    pub fn feature_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::with_capacity(self.width());
        let columns: Vec<&str> = self.features.iter().map(|feature| feature.name.as_str()).collect();
        for feature in &self.features {
            let parts: Vec<String> = match feature.many {
                None => {
                    names.push(feature.name.clone());
                    continue;
                }
                Some(Many::Moment(moment)) => moment.parts.iter().map(|part| part.name().to_owned()).collect(),
                Some(Many::Array(_) | Many::Vector) => (1..=feature.size).map(|element| element.to_string()).collect(),
            };
            let mut stem = feature.name.clone();
            while parts.iter().any(|part| columns.contains(&format!("{stem}.{part}").as_str())) {
                stem.push('_');
            }
            names.extend(parts.iter().map(|part| format!("{stem}.{part}")));
        }
        names
    }

    /// Names and kinds of all features.
    pub fn final_features(&self) -> Vec<(String, FeatureKind)> {
        let kinds = self.features.iter().flat_map(|feature| std::iter::repeat_n(feature.kind, feature.size));
        self.feature_names().into_iter().zip(kinds).collect()
    }

    /// The classes of the label as text; none where it is not one of classes.
    pub fn class_names(&self) -> Vec<String> {
        let classes = self.labels.first().and_then(|label| label.classes.as_ref());
        classes.map(|classes| classes.classes().into_iter().map(|class| class.text).collect()).unwrap_or_default()
    }

    /// Whether each label of a regression is one number in all rows.
    pub fn is_constant(&self) -> bool {
        self.task == Task::Regression && self.labels.iter().all(|label| label.statistics.only().is_some())
    }

    /// The class that is looked for, as text.
    pub fn positive_class(&self) -> Option<String> {
        self.class_names().into_iter().nth(self.positive? as usize)
    }

    /// What is stored in the model.
    pub fn meta(&self) -> ModelMeta {
        ModelMeta {
            task: self.task,
            columns: self
                .features
                .iter()
                .map(|feature| FeatureColumn {
                    name: feature.name.clone(),
                    pg_type: features::type_name(features::base_type(feature.type_oid)),
                    size: u32::try_from(feature.size).unwrap_or(u32::MAX),
                    hashed: feature.hashed,
                    empty: match &feature.categories {
                        Some(sorted) if feature.hashed => sorted.hidden(),
                        _ => Vec::new(),
                    },
                    origins: feature.origins.clone(),
                    categories: feature
                        .categories
                        .as_ref()
                        .map(|sorted| sorted.values.iter().map(|category| category.text.clone()).collect()),
                })
                .collect(),
            labels: self
                .labels
                .iter()
                .map(|label| LabelColumn {
                    name: label.name.clone(),
                    pg_type: features::type_name(label.type_oid),
                    classes: label.classes.as_ref().map(|classes| classes.classes()),
                })
                .collect(),
            pipeline: None,
            split: self.rule.clone(),
            positive: self.positive_class(),
        }
    }

    /// For `pgml.snapshots.columns`: an object for each column of the statement, in its order.
    pub fn columns_json(&self, not_null: &[String]) -> Result<Value> {
        let mut columns = Vec::new();
        for feature in &self.features {
            let mut statistics = feature.statistics.to_json();
            if let Some(sorted) = &feature.categories {
                statistics.insert("distinct".into(), json!(sorted.values.len()));
                statistics.insert("categories".into(), super::categories::to_json(sorted));
                if feature.hashed {
                    statistics.insert("hashed".into(), json!(true));
                }
            } else {
                statistics.insert("quantiles".into(), feature.statistics.quantiles());
            }
            let column = json!({
                "name": feature.name,
                "pg_type": type_name(feature.type_oid)?,
                "nullable": feature.nullable,
                "label": false,
                "position": feature.position,
                "size": feature.size,
                "array": feature.many.is_some_and(|many| !matches!(many, Many::Moment(_))),
                "statistics": statistics,
            });
            columns.push((feature.position, column));
        }
        for label in &self.labels {
            let mut statistics = label.statistics.to_json();
            if let Some(classes) = &label.classes {
                statistics.insert("distinct".into(), json!(classes.len()));
                statistics.insert("categories".into(), classes.to_json());
            }
            let column = json!({
                "name": label.name,
                "pg_type": type_name(label.type_oid)?,
                "nullable": !not_null.contains(&label.name),
                "label": true,
                "position": label.position,
                "size": 1,
                "array": false,
                "statistics": statistics,
            });
            columns.push((label.position, column));
        }
        columns.sort_by_key(|(position, _)| *position);
        Ok(columns.into_iter().map(|(_, column)| column).collect())
    }
}

/// Which categories have rows, of more than so many the most frequent ones, of equals those that came first.
fn most_frequent(counts: &[u64], most: usize) -> Vec<bool> {
    let mut order: Vec<usize> =
        (0..counts.len()).filter(|code| counts.get(*code).is_some_and(|count| *count > 0)).collect();
    order.sort_by_key(|code| std::cmp::Reverse(counts.get(*code).copied()));
    let mut kept = vec![false; counts.len()];
    for code in order.into_iter().take(most) {
        if let Some(kept) = kept.get_mut(code) {
            *kept = true;
        }
    }
    kept
}

/// The type as PostgresML names it: `float4`, `int2[]`.
fn type_name(type_oid: pg_sys::Oid) -> Result<String> {
    let name = crate::registry::type_name(type_oid)?;
    Ok(match name.strip_prefix('_') {
        Some(element) => format!("{element}[]"),
        None => name,
    })
}
