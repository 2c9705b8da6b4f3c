//! The rows of a relation, predicted: one pass over them, in blocks, for one model or several.

use pgrx::{PgSqlErrorCode, pg_sys};

use super::sided::{Judge, Sided};
use crate::error::{Error, Result};
use crate::guc;
use crate::model::Model;
use crate::names::Resolved;
use crate::predict::batch::{ROWS_AT_ONCE, WORK_AT_ONCE};
use crate::predict::input::{Attribute, Feed};
use crate::train::columns::no_label;
use crate::train::cursor::{self, Receiver, ResultColumn};
use crate::train::label::LabelReader;
use crate::train::request::LONGEST_QUERY;
use crate::train::{interrupts, source::Source};

use crate::sql::Call;

/// Values of a block.
const VALUES_AT_ONCE: usize = 1 << 20;

/// A relation, or a query in parentheses, that the caller names, and so reads with its own rights.
pub struct Relation {
    source: Source,
    columns: Vec<ResultColumn>,
}

impl Relation {
    /// As the argument of that number names it.
    pub fn of(call: &Call, argument: usize) -> Result<Relation> {
        let name = call
            .text(argument, "relation_name", LONGEST_QUERY)?
            .ok_or_else(|| Error::null_argument("relation_name"))?;
        let source = Source::resolve(&name)?;
        let columns = cursor::describe(&source.statement)?;
        Ok(Relation { source, columns })
    }

    /// The rows of a source that meet a condition, which is written as SQL over `pgml_rows`.
    pub fn of_source(source: &Source, condition: Option<&str>) -> Result<Relation> {
        let mut source = source.clone();
        if let Some(condition) = condition {
            source.statement = format!("SELECT * FROM (\n{}\n) AS pgml_rows WHERE {condition}", source.statement);
        }
        let columns = cursor::describe(&source.statement)?;
        Ok(Relation { source, columns })
    }

    pub fn columns(&self) -> &[ResultColumn] {
        &self.columns
    }

    /// Whether it is the one that a training read, by that name, or the copy that it made of it.
    pub fn is(&self, name: &str, snapshot: i64) -> bool {
        self.source.name == name || self.source.name == format!("pgml.snapshot_{snapshot}")
    }

    /// Gives each row.
    pub fn read(&self, receiver: &mut dyn Receiver) -> Result<()> {
        cursor::run(&self.source.statement, false, receiver)
    }
}

/// What is done with each row.
pub trait Take {
    /// The features of a row, its labels, and the model's values. Of a classification the label is the index of a class.
    fn row(&mut self, model: &Model, features: &[f32], labels: &[f32], values: &[f32]) -> Result<()>;
}

/// A model, how the columns of a relation become its features and labels, and what takes its rows.
pub struct Member<T> {
    pub target: Resolved,
    pub taker: T,
    feeds: Vec<Feed>,
    labels: Labels,
    features: Vec<f32>,
    truths: Vec<f32>,
    values: Vec<f32>,
    waiting: usize,
    at_once: usize,
    rows: u64,
    /// Rows without a label, beside those that all others lack it of too.
    unlabelled: u64,
}

impl<T: Take> Member<T> {
    /// Finds the columns that the model takes, and the labels: those of its training where `label_names` is `None`.
    pub fn new(target: Resolved, relation: &Relation, label_names: Option<&[String]>, taker: T) -> Result<Member<T>> {
        let attributes: Vec<Attribute> = relation
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| (index, column.name.clone(), column.type_oid))
            .collect();
        let feeds = Feed::by_name(&target, &attributes)?;
        let labels = Labels::new(&target, relation, label_names)?;
        let model = &target.model;
        let at_once = (WORK_AT_ONCE / model.work()).min(VALUES_AT_ONCE / model.width().max(1)).clamp(1, ROWS_AT_ONCE);
        Ok(Member {
            target,
            taker,
            feeds,
            labels,
            features: Vec::new(),
            truths: Vec::new(),
            values: Vec::new(),
            waiting: 0,
            at_once,
            rows: 0,
            unlabelled: 0,
        })
    }

    /// The same, where so many share the memory that one may take for the rows that wait.
    pub fn sharing(self, members: usize) -> Member<T> {
        Member { at_once: (self.at_once / members.max(1)).max(1), ..self }
    }

    /// How many rows there were.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The classes of the rows by their indexes: those of the model, and behind them those that it does not know.
    pub fn classes(&self) -> Vec<&str> {
        let own = self.target.model.classes().iter().map(|class| class.text.as_str());
        own.chain(self.labels.unknown.iter().map(String::as_str)).collect()
    }

    fn flush(&mut self) -> Result<()> {
        interrupts::check();
        let model = &self.target.model;
        if self.waiting == 0 {
            return Ok(());
        }
        model.predict_all(&self.features, &mut self.values)?;
        let (width, labels, values) = (model.width(), self.labels.readers.len(), model.num_values());
        for row in 0..self.waiting {
            let part = |all: &'_ [f32], length: usize| row * length..((row + 1) * length).min(all.len());
            let features = self.features.get(part(&self.features, width)).unwrap_or(&[]);
            let truths = self.truths.get(part(&self.truths, labels)).unwrap_or(&[]);
            let values = self.values.get(part(&self.values, values)).unwrap_or(&[]);
            self.taker.row(model, features, truths, values)?;
        }
        self.features.clear();
        self.truths.clear();
        self.waiting = 0;
        Ok(())
    }

    /// After the last of the rows that were looked at.
    pub fn finish(&mut self, sided: &Sided) -> Result<()> {
        self.labels.complete(self.rows)?;
        let unlabelled = sided.unlabelled() + self.unlabelled;
        if let (1.., Some((_, label))) = (unlabelled, self.labels.readers.first())
            && unlabelled == sided.unlabelled() + sided.seen()
        {
            return Err(label.nowhere(unlabelled));
        }
        self.flush()?;
        self.labels.known(&self.target)
    }
}

impl<T: Take> Receiver for Member<T> {
    fn row(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<()> {
        // A row that others have a label for.
        if self.lacks_label(values, nulls) {
            self.unlabelled += 1;
            return Ok(());
        }
        let width = self.target.model.width();
        let start = self.features.len();
        crate::memory::reserve(&mut self.features, width)?;
        self.features.resize(start + width, f32::NAN);
        for feed in &self.feeds {
            let (Some(datum), Some(false)) = (values.get(feed.source()), nulls.get(feed.source())) else { continue };
            // SAFETY: the column is of the type that the feed was made for, and not NULL.
            unsafe { feed.read(*datum, &self.target, &mut self.features[start..])? };
        }
        self.labels.read(&self.target.model, values, nulls, &mut self.truths)?;
        self.rows += 1;
        self.waiting += 1;
        if self.waiting < self.at_once { Ok(()) } else { self.flush() }
    }
}

impl<T: Take> Judge for Member<T> {
    fn lacks_label(&self, values: &[pg_sys::Datum], nulls: &[bool]) -> bool {
        !guc::strict() && self.labels.is_missing(values, nulls)
    }
}

/// Reads the rows that are looked at once for one model.
pub fn run<T: Take>(relation: &Relation, sided: &mut Sided, member: &mut Member<T>) -> Result<()> {
    sided.read(relation, member)?;
    member.finish(sided)
}

/// The labels of a relation's rows, as a model counts classes.
struct Labels {
    /// Each with the number of its column.
    readers: Vec<(usize, LabelReader)>,
    /// Of a classification: for each class in the order of its appearance the model's index for it.
    indexes: Vec<f32>,
    /// Classes that the model does not know, whose indexes follow its own.
    unknown: Vec<String>,
}

impl Labels {
    fn new(target: &Resolved, relation: &Relation, names: Option<&[String]>) -> Result<Labels> {
        let model = &target.model;
        let own: Vec<String> = model.labels.iter().map(|label| label.name.clone()).collect();
        let names = names.unwrap_or(&own);
        if names.len() != own.len() {
            let given = names.len();
            let own_count = learn::count(own.len(), "label");
            let error = Error::invalid(format!("{target} has {own_count}, and y_column_name gives {given}"));
            return Err(match own.is_empty() {
                true => error.hint("Leave y_column_name out: a clustering or a decomposition has no label."),
                false => error.hint(format!("The labels in training were {}.", own.join(", "))),
            });
        }
        let mut readers = Vec::with_capacity(names.len());
        for name in names {
            let Some(at) = relation.columns.iter().position(|column| column.name == *name) else {
                return Err(no_label(name, &relation.columns));
            };
            readers.push((at, LabelReader::new(model.task, &relation.columns[at])?));
        }
        Ok(Labels { readers, indexes: Vec::new(), unknown: Vec::new() })
    }

    fn read(&mut self, model: &Model, values: &[pg_sys::Datum], nulls: &[bool], truths: &mut Vec<f32>) -> Result<()> {
        let is_class = !model.classes().is_empty();
        for (at, reader) in &mut self.readers {
            let label = reader.read(values.get(*at), nulls.get(*at))?;
            if !is_class || label.is_nan() {
                truths.push(label);
                continue;
            }
            let code = label as usize;
            if code >= self.indexes.len() {
                let Some((number, text)) = reader.class(code) else { continue };
                let index = match index_of(model, number, text) {
                    Some(index) => index,
                    None => {
                        self.unknown.push(text.to_owned());
                        model.classes().len() + self.unknown.len() - 1
                    }
                };
                self.indexes.push(index as f32);
            }
            truths.push(self.indexes.get(code).copied().unwrap_or(f32::NAN));
        }
        Ok(())
    }

    /// Whether the row lacks a label: it cannot be judged.
    fn is_missing(&self, values: &[pg_sys::Datum], nulls: &[bool]) -> bool {
        self.readers.iter().any(|(at, reader)| reader.is_missing(values.get(*at), nulls.get(*at)))
    }

    /// Refuses labels of which some are missing.
    fn complete(&self, rows: u64) -> Result<()> {
        self.readers.iter().try_for_each(|(_, reader)| reader.complete(rows))
    }

    /// Refuses labels that are something else than those of the training.
    fn known(&self, target: &Resolved) -> Result<()> {
        let unknown = self.unknown.len();
        if unknown == 0 || unknown < self.indexes.len() {
            return Ok(());
        }
        let classes: Vec<&str> = target.model.classes().iter().take(30).map(|class| class.text.as_str()).collect();
        let first = self.unknown.first().map_or("", String::as_str);
        Err(Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("no label of the rows is a class that {target} knows: the first is \"{first}\""),
        )
        .hint(format!("The classes of the model are {}.", classes.join(", "))))
    }
}

/// The model's class of that text, or of that number however it is written.
fn index_of(model: &Model, number: Option<f64>, text: &str) -> Option<usize> {
    let classes = model.classes();
    let same = |class: &str| number.is_some_and(|number| class.parse() == Ok(number));
    classes.iter().position(|class| class.text == text).or_else(|| classes.iter().position(|class| same(&class.text)))
}
