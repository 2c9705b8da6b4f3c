//! The deployed model beside a training. While the rows are read, it is asked of each whether its own training held it out, and
//! these it reads as a prediction does, from all columns of the relation: what the new model leaves out, encodes otherwise or
//! splits by does not matter to it.

use learn::split::Split;
use pgrx::pg_sys;

use super::cursor::ResultColumn;
use super::sides::{Judges, SideReader, Sides};
use super::spool::{Owner, Spool};
use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::names::{self, Key, Resolved};
use crate::predict::input::{Attribute, Feed};
use crate::registry::{self, Project};

/// The deployed model, as it was when the rows were read.
pub struct Rival {
    pub id: i64,
    /// The fit of it that has not seen the rows that its training held out; until a reader has it.
    target: Option<Resolved>,
}

impl Rival {
    /// That of a project, if it has one.
    pub fn find(project: Option<&Project>) -> Result<Option<Rival>> {
        let Some(project) = project else { return Ok(None) };
        let Some(id) = registry::deployed_model(project.id)? else { return Ok(None) };
        let target = match names::resolve(Key::Model(id), Privilege::Train).and_then(names::unseen) {
            Ok(target) => Some(target),
            // Deployed or deleted since the statement began.
            Err(Error::Report(_)) => return Ok(None),
            Err(caught) => return Err(caught),
        };
        Ok(Some(Rival { id, target }))
    }

    /// What reads the rows that a training of these labels reads.
    pub fn reader(&mut self, labels: &[String], columns: &[ResultColumn]) -> Result<Option<RivalReader>> {
        let Some(target) = self.target.take() else { return Ok(None) };
        let model = target.model.clone();
        let attributes: Vec<Attribute> =
            columns.iter().enumerate().map(|(at, column)| (at, column.name.clone(), column.type_oid)).collect();
        let (feeds, unreadable) = match Feed::by_name(&target, &attributes) {
            Ok(feeds) => (feeds, None),
            Err(error) => (Vec::new(), Some(error.message()?)),
        };
        // That of a file says nothing of the model, which may be the fit on all rows.
        let trained_here = registry::snapshot_of_model(self.id)?.is_some();
        let side =
            model.split.as_ref().filter(|_| trained_here).and_then(|rule| {
                SideReader::new((self.id, rule), model.task, &model.labels, Some(labels), columns).ok()
            });
        let lacks: Vec<&str> = (model.columns.iter().map(|column| column.name.as_str()))
            .filter(|name| !columns.iter().any(|column| column.name == *name))
            .collect();
        let is_kept = |name: &&str| {
            columns.iter().any(|column| column.origin.is_some_and(|(from, _)| registry::has_column(from, name)))
        };
        Ok(Some(RivalReader {
            left_out: !lacks.is_empty() && lacks.iter().all(is_kept),
            spool: Spool::create(model.width() + labels.len().saturating_sub(1), Owner::current()),
            target,
            feeds,
            sides: Sides::new(side),
            row: Vec::new(),
            unreadable,
            read: 0,
            refused: 0,
        }))
    }
}

/// A model that predicts all rows but fewer than one in so many is judged by those that it predicts.
const ONE_IN: u64 = 20;

/// Reads, of the rows that the training of the deployed model held out, what it predicts from.
pub struct RivalReader {
    target: Resolved,
    feeds: Vec<Feed>,
    sides: Sides,
    spool: Spool,
    row: Vec<f32>,
    unreadable: Option<String>,
    left_out: bool,
    /// Rows that were read, and those of them in which a value is missing without which the model does not predict.
    read: u64,
    refused: u64,
}

impl RivalReader {
    /// Takes a row with its labels, as the training reads them.
    pub fn take(&mut self, values: &[pg_sys::Datum], nulls: &[bool], label: f32, others: &[f32]) -> Result<()> {
        let held_out = self.sides.ask(values, nulls)?;
        // Of rows that it was trained on it is only asked whether it predicts them.
        let asked = self.unreadable.is_none() && (held_out || !self.target.model.takes_missing());
        let judges = asked && self.predicts(values, nulls)? && held_out;
        self.sides.push(judges)?;
        if judges {
            self.row.extend_from_slice(others);
            self.spool.push(&self.row, &[], label)?;
        }
        Ok(())
    }

    /// Reads a row, and says whether the model predicts it.
    fn predicts(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<bool> {
        if let Err(error) = self.read(values, nulls) {
            self.unreadable = Some(error.message()?);
            return Ok(false);
        }
        let takes = self.target.model.takes(&self.row)?;
        self.read += 1;
        self.refused += u64::from(!takes);
        Ok(takes)
    }

    fn read(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<()> {
        self.row.clear();
        self.row.resize(self.target.model.width(), f32::NAN);
        for feed in &self.feeds {
            let (Some(datum), Some(false)) = (values.get(feed.source()), nulls.get(feed.source())) else { continue };
            // SAFETY: the column is of the type that the feed was made for, and not NULL.
            unsafe { feed.read(*datum, &self.target, &mut self.row)? };
        }
        Ok(())
    }

    /// After the last row.
    pub fn finish(mut self) -> Result<RivalRows> {
        self.spool.finish()?;
        Ok(RivalRows {
            spool: self.spool,
            judges: self.sides.finish(),
            unreadable: self.unreadable,
            left_out: self.left_out,
            refuses: self.refused * ONE_IN > self.read,
        })
    }
}

/// The rows of a training as the deployed model reads them.
pub struct RivalRows {
    /// The features that the model takes, and the labels after the first, of the rows that its training held out.
    pub spool: Spool,
    /// Which rows those are, and which of them it was not trained on, as far as it predicts them.
    pub judges: Judges,
    /// Why it cannot read the rows, where it cannot.
    pub unreadable: Option<String>,
    /// Whether what it lacks was only left out by a query: the tables that the rows come from have it.
    pub left_out: bool,
    /// Whether in many rows a value is missing without which it does not predict.
    pub refuses: bool,
}

impl RivalRows {
    /// Which rows of the spool judge that a split holds out too.
    pub fn held_out_too(&self, split: &Split) -> Split {
        let known = |row: u64| self.judges.known.as_ref().is_some_and(|known| known.is_test(row)) && split.is_test(row);
        Split::marked((0..split.rows()).filter(|row| self.judges.all.is_test(*row)).map(known))
    }
}
