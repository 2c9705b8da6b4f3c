//! The features that a column makes of its values: how they are read, row by row, and what is learnt of them meanwhile.

use learn::preprocess::{Encode, bucket};
use pgrx::{PgSqlErrorCode, pg_sys};

use super::categories::{self, Categories};
use super::columns::{Feature, FeatureKind, MOST_CATEGORIES, too_many_features};
use super::cursor::ResultColumn;
use super::defaults;
use super::origin::Extent;
use super::roles::Roles;
use super::statistics::Statistics;
use crate::error::{Error, Result};
use crate::features::{Kind, MOST_FEATURES, Many, Number, Word, type_name};

/// Bytes of all distinct values of all text columns, which are kept in memory, and in the model.
const MOST_TEXT: usize = 64 << 20;

/// The features of the row that is being read.
#[derive(Default)]
pub struct Row {
    pub values: Vec<f32>,
    /// What float32 does not hold of some of its features.
    pub rests: Vec<(u32, f32)>,
    array: Vec<f32>,
    doubles: Vec<f64>,
    /// A category.
    word: String,
    /// Arrays that are the first of their columns, and their sizes.
    pub found: Vec<(usize, usize)>,
    /// Whether what cannot be told apart, or has no label, is left out.
    pub lenient: bool,
    /// Bytes of the distinct values of text columns, of all rows.
    text: usize,
}

impl Row {
    pub fn new(lenient: bool) -> Row {
        Row { lenient, ..Row::default() }
    }

    /// Makes room for the next row.
    pub fn clear(&mut self) {
        self.values.clear();
        self.rests.clear();
    }
}

/// A column that features are made from, while the rows are read.
pub struct FeatureReader {
    pub name: String,
    pub type_oid: pg_sys::Oid,
    pub nullable: bool,
    /// From 1, in the statement.
    pub position: usize,
    pub encoder: Encoder,
    pub statistics: Statistics,
    /// Of each feature, where its values may be more than float32 tells apart.
    pub extents: Vec<Extent>,
    /// Whether it is kept whatever its values are: `preprocess` says something of it, or its first rows do.
    pub stays: bool,
    /// Rows with values past the most that are told apart.
    pub untold: u64,
    /// Whether it tells the group of a row, which chooses the model.
    pub tells_group: bool,
}

/// What makes features of the values of a column.
pub enum Encoder {
    Number(Number),
    Category(Word, Categories<String>),
    /// To so many buckets, each with the number of its rows.
    Hashed(Word, Vec<u64>),
    /// The size of arrays is known from the first one on.
    Many(Many, Option<usize>),
}

impl FeatureReader {
    /// Of the column at `index` of the statement. `None` where it is text that is no category.
    pub fn of(
        index: usize,
        column: &ResultColumn,
        kind: Kind,
        nullable: bool,
        roles: &Roles,
    ) -> Result<Option<FeatureReader>> {
        let tells_group = roles.tells_group(&column.name);
        let word = Word::of(kind).filter(|word| match word {
            Word::Text(_) => true,
            Word::Number(_) => roles.is_encoded(&column.name),
            Word::Date => tells_group,
        });
        if tells_group && word.is_none() {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!("column \"{}\" is of type {}, which group_by does not take", column.name, type_name(column.type_oid)),
            )
            .hint("group_by takes texts, enums, whole numbers, booleans and dates. Cast the column to text, with a query in parentheses."));
        }
        let encoder = match (word, kind) {
            (Some(word), _) => match roles.spec(&column.name, true)?.encode {
                Some(Encode::Hash(buckets)) => Encoder::Hashed(word, vec![0; buckets as usize]),
                _ => Encoder::Category(word, Categories::new()),
            },
            (None, Kind::Number(number)) => Encoder::Number(number),
            (None, Kind::Many(many)) => Encoder::Many(many, many.size()),
            // Every text is a word.
            (None, Kind::Text(_)) => return Ok(None),
        };
        Ok(Some(FeatureReader {
            name: column.name.clone(),
            type_oid: column.type_oid,
            nullable,
            position: index + 1,
            encoder,
            statistics: Statistics::default(),
            extents: Vec::new(),
            stays: roles.is_named(&column.name),
            untold: 0,
            tells_group,
        }))
    }

    /// Appends the features of a value to the row; NULL is `None`. `index` is the column's among the features.
    pub fn read(&mut self, index: usize, value: Option<pg_sys::Datum>, row: &mut Row) -> Result<()> {
        match (&self.encoder, value) {
            (Encoder::Number(number), _) => {
                let number = *number;
                self.read_number(number, value, row);
                Ok(())
            }
            (Encoder::Many(..), _) => self.read_many(index, value, row),
            (Encoder::Category(..) | Encoder::Hashed(..), None) => {
                self.statistics.add_missing(1);
                row.values.push(f32::NAN);
                Ok(())
            }
            (Encoder::Category(..) | Encoder::Hashed(..), Some(datum)) => self.read_word(datum, row),
        }
    }

    fn read_number(&mut self, number: Number, value: Option<pg_sys::Datum>, row: &mut Row) {
        // SAFETY: the column is of the number's type.
        let double = value.map_or(f64::NAN, |datum| unsafe { number.double(datum) });
        let single = match (number, value) {
            // SAFETY: as above.
            (Number::Int8, Some(datum)) => unsafe { number.read(datum) },
            _ => double as f32,
        };
        self.statistics.add(double);
        if number.is_wide() {
            self.extents.resize_with(1, Extent::default);
            wide(&mut self.extents, &[double], &[single], row.values.len(), &mut row.rests);
        }
        row.values.push(single);
    }

    fn read_word(&mut self, datum: pg_sys::Datum, row: &mut Row) -> Result<()> {
        match &mut self.encoder {
            Encoder::Category(word, categories) => {
                // SAFETY: the column is of the word's type.
                let text = unsafe { word.read(datum, &mut row.word) }?;
                let known = categories.len();
                let code = categories.add(text, str::to_owned, || Ok::<_, Error>(text.to_owned()))?;
                if categories.len() > known {
                    row.text = row.text.saturating_add(text.len());
                    let too_many = code as usize >= MOST_CATEGORIES;
                    if (too_many || row.text > MOST_TEXT) && row.lenient {
                        // It is not told apart from others, and may be left out.
                        categories.forget_last();
                        self.untold += 1;
                        row.values.push(f32::NAN);
                        return Ok(());
                    }
                    if too_many {
                        return Err(too_many_categories(&self.name));
                    }
                    if row.text > MOST_TEXT {
                        return Err(too_much_text(&self.name));
                    }
                }
                row.values.push(code as f32);
            }
            Encoder::Hashed(word, members) => {
                // SAFETY: the column is of the word's type.
                let text = unsafe { word.read(datum, &mut row.word) }?;
                let bucket = bucket(text, u32::try_from(members.len()).unwrap_or(u32::MAX));
                if let Some(members) = members.get_mut(bucket as usize) {
                    *members += 1;
                }
                row.values.push(bucket as f32);
            }
            Encoder::Number(_) | Encoder::Many(..) => {}
        }
        Ok(())
    }

    fn read_many(&mut self, index: usize, value: Option<pg_sys::Datum>, row: &mut Row) -> Result<()> {
        let Encoder::Many(many, size) = &mut self.encoder else { return Ok(()) };
        row.array.clear();
        if let Some(datum) = value {
            let shape = if many.is_wide() {
                row.doubles.clear();
                // SAFETY: the column is of the type that this was made for.
                let shape = unsafe { many.read(datum, MOST_FEATURES, &mut row.doubles) }?;
                row.array.extend(row.doubles.iter().map(|value| *value as f32));
                self.extents.resize_with(row.array.len(), Extent::default);
                wide(&mut self.extents, &row.doubles, &row.array, row.values.len(), &mut row.rests);
                shape
            } else {
                // SAFETY: as above.
                unsafe { many.read(datum, MOST_FEATURES, &mut row.array) }?
            };
            match *size {
                _ if shape.len == 0 => return Err(empty_array(&self.name)),
                _ if shape.len > MOST_FEATURES => return Err(too_many_features(shape.len)),
                None => row.found.push((index, shape.len)),
                Some(size) if size == shape.len => {}
                Some(size) => return Err(other_size(&self.name, size, shape.len)),
            }
        } else if let Some(size) = *size {
            row.array.resize(size, f32::NAN);
        }
        // Of a moment the seconds, which come last, have a least and a greatest that say something.
        let first = if matches!(many, Many::Moment(_)) { row.array.len() - 1 } else { 0 };
        match many.is_wide() && value.is_some() {
            true => row.doubles.iter().skip(first).for_each(|value| self.statistics.add(*value)),
            false => row.array.iter().skip(first).for_each(|value| self.statistics.add(f64::from(*value))),
        }
        row.values.extend_from_slice(&row.array);
        Ok(())
    }

    /// What it has come to after the last row.
    pub fn finish(self) -> Feature {
        let size = self.size();
        let hashed = matches!(self.encoder, Encoder::Hashed(..));
        let (many, kind, categories) = match self.encoder {
            Encoder::Number(number) => (None, number.into(), None),
            Encoder::Many(many @ Many::Array(number), _) => (Some(many), number.into(), None),
            Encoder::Many(many, _) => (Some(many), FeatureKind::Quantity, None),
            Encoder::Category(_, categories) => {
                let sorted = categories.sort(|a, b| a.key.cmp(&b.key));
                (None, FeatureKind::Category, Some(sorted))
            }
            Encoder::Hashed(_, members) => (None, FeatureKind::Category, Some(categories::buckets(members))),
        };
        Feature {
            name: self.name,
            type_oid: self.type_oid,
            nullable: self.nullable,
            position: self.position,
            size,
            many,
            kind,
            categories,
            hashed,
            untold: self.untold,
            tells_group: self.tells_group,
            statistics: self.statistics,
            origins: origins_of(&self.extents),
            extents: self.extents,
        }
    }

    /// Features that the column makes; 0 for arrays whose size is not known yet.
    pub fn size(&self) -> usize {
        match self.encoder {
            Encoder::Many(_, size) => size.unwrap_or(0),
            _ => 1,
        }
    }

    /// Why nothing can be learnt from it, of so many rows.
    pub fn says_nothing(&self, rows: u64) -> Option<String> {
        if self.stays {
            return None;
        }
        let missing = self.statistics.missing();
        match &self.encoder {
            Encoder::Category(_, categories) => {
                defaults::says_nothing(rows, missing, Some(categories.len() as u64 + self.untold))
            }
            Encoder::Many(Many::Moment(_), _) | Encoder::Number(_) => defaults::says_nothing(rows, missing, None),
            Encoder::Many(_, None) => defaults::says_nothing(0, 0, None),
            Encoder::Many(_, Some(size)) => defaults::says_nothing(rows.saturating_mul(*size as u64), missing, None),
            Encoder::Hashed(..) => None,
        }
    }
}

/// Takes the values of a column whose features begin at `start` of the row, as they are and as float32.
fn wide(extents: &mut [Extent], doubles: &[f64], singles: &[f32], start: usize, rests: &mut Vec<(u32, f32)>) {
    for (element, (extent, (double, single))) in extents.iter_mut().zip(doubles.iter().zip(singles)).enumerate() {
        if let Some(rest) = extent.add(*double, *single) {
            rests.push(((start + element) as u32, rest));
        }
    }
}

/// None where all are 0.
fn origins_of(extents: &[Extent]) -> Vec<f64> {
    let origins: Vec<f64> = extents.iter().map(Extent::origin).collect();
    if origins.iter().all(|origin| *origin == 0.0) { Vec::new() } else { origins }
}

fn too_many_categories(name: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        format!("text column \"{name}\" has more than {MOST_CATEGORIES} distinct values"),
    )
    .hint(format!(
        "Such a column can be hashed, by preprocess => '{{\"{name}\": {{\"encode\": {{\"hash\": 1024}}}}}}', or left out, by \
         '{{\"{name}\": {{\"role\": \"ignore\"}}}}'."
    ))
}

fn too_much_text(name: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        format!("the distinct values of text columns, the last of them \"{name}\", take more than {MOST_TEXT} bytes"),
    )
    .hint("Categories are short. Leave columns of free text out with a query in parentheses.")
}

fn empty_array(name: &str) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_ARRAY_ELEMENT_ERROR, format!("column \"{name}\" has an empty array"))
}

fn other_size(name: &str, size: usize, other: usize) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_ARRAY_ELEMENT_ERROR,
        format!("column \"{name}\" has arrays of {size} and of {}", learn::count(other, "element")),
    )
    .hint("All arrays of a column need the same number of elements.")
}
