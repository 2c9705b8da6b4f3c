//! Which rows of a relation a function looks at: all of them, those that the training of the model held out, or those that it
//! was trained on. What a model says of rows that it was trained on, it says from memory.

use std::cell::RefCell;
use std::rc::Rc;

use learn::side::Rule;
use pgrx::{IntoDatum, PgLogLevel, PgSqlErrorCode, PgTupleDesc, pg_sys};

use super::rows::Relation;
use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::names::{self, Resolved};
use crate::registry;
use crate::sql::{Call, LONGEST_NAME};
use crate::train::cursor::{Receiver, ResultColumn};
use crate::train::label::left_out;
use crate::train::sides::{self, SideReader};

crate::sql_function!(pgml_held_out, held_out);

/// Rows of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    All,
    HeldOut,
    Trained,
}

impl Wanted {
    /// The argument `rows`, of that number; `None` where nothing is asked for.
    pub fn read(call: &Call, argument: usize) -> Result<Option<Wanted>> {
        let Some(name) = call.text(argument, "rows", LONGEST_NAME)? else { return Ok(None) };
        match name.as_str() {
            "all" => Ok(Some(Wanted::All)),
            "held_out" => Ok(Some(Wanted::HeldOut)),
            "trained" => Ok(Some(Wanted::Trained)),
            _ => Err(Error::invalid(format!("rows cannot be \"{name}\"")).hint(
                "Use 'all', 'held_out' or 'trained', or NULL for those held out of the training's own relation.",
            )),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Wanted::All => "all",
            Wanted::HeldOut => "held_out",
            Wanted::Trained => "trained",
        }
    }
}

/// What tells the rows that are looked at from others.
pub struct Sided {
    pub wanted: Wanted,
    /// Of each of the models; a row is looked at that all of them held out, or were trained on.
    readers: Vec<SideReader>,
    /// Whether rows that a model was trained on are looked at without having been asked for.
    unknown: bool,
    /// Whether the relation is another than the training's, and the rows that this held out could be told.
    other: bool,
    /// Whether the held-out rows are of the training's own relation.
    is_own: bool,
    /// Of several models, those of which it is not known what they were trained on.
    pub untold: Vec<i64>,
    seen: u64,
    taken: u64,
    /// Rows without a label, which are left out before it is looked which rows they are.
    unlabelled: u64,
}

impl Sided {
    /// As the call asks, of one model: gives the fit of it that has not seen the held-out rows where these are looked at.
    pub fn of(
        call: &Call,
        argument: usize,
        target: Resolved,
        relation: &Relation,
        labels: Option<&[String]>,
    ) -> Result<(Resolved, Sided)> {
        let asked = Wanted::read(call, argument)?;
        let model = names::id_of(&target)?;
        let sided = Sided::new(asked, &[(model, &target.model)], relation, labels)?;
        let target = if sided.wanted == Wanted::HeldOut { names::unseen(target)? } else { target };
        Ok((target, sided))
    }

    /// As is asked, of several models.
    pub fn new(
        asked: Option<Wanted>,
        models: &[(i64, &Model)],
        relation: &Relation,
        labels: Option<&[String]>,
    ) -> Result<Sided> {
        let mut sided = Sided {
            wanted: asked.unwrap_or(Wanted::All),
            readers: Vec::new(),
            unknown: false,
            other: false,
            is_own: false,
            untold: Vec::new(),
            seen: 0,
            taken: 0,
            unlabelled: 0,
        };
        if asked == Some(Wanted::All) {
            return Ok(sided);
        }
        let reader = |id: i64, model: &Model| -> Result<SideReader> {
            SideReader::new((id, rule_of(id, model)?), model.task, &model.labels, labels, relation.columns())
        };
        let is_own = |id: i64| -> Result<bool> {
            Ok(registry::data_of_model(id)?.is_some_and(|(data, name)| relation.is(&name, data)))
        };
        if let Some(wanted) = asked {
            sided.readers = models.iter().map(|(id, model)| reader(*id, model)).collect::<Result<_>>()?;
            let own = models.iter().map(|(id, _)| is_own(*id)).collect::<Result<Vec<bool>>>()?;
            sided.is_own = wanted == Wanted::HeldOut && own.contains(&true);
            return Ok(sided);
        }
        let mut others = Vec::new();
        for (id, model) in models {
            let own = is_own(*id)?;
            let reader = match reader(*id, model) {
                Ok(reader) if model.split.as_ref().is_some_and(Rule::has_tests) => Some(reader),
                Ok(_) | Err(Error::Report(_)) => None,
                Err(caught) => return Err(caught),
            };
            match reader {
                Some(reader) if own => sided.readers.push(reader),
                Some(reader) => others.push(reader),
                None => {
                    sided.unknown |= own;
                    sided.untold.push(*id);
                }
            }
        }
        sided.other = !others.is_empty();
        if !sided.readers.is_empty() {
            // Of the others, too: they may have been trained on a query of the relation.
            sided.readers.append(&mut others);
            sided.wanted = Wanted::HeldOut;
            sided.is_own = true;
        }
        Ok(sided)
    }

    /// The rows that a model was not trained on, as far as these can be told by their columns, wherever they come from;
    /// all rows where they cannot. Equal rows that no key tells apart are counted only where `whole` is set, of the training's
    /// own relation.
    pub fn untrained(id: i64, model: &Model, relation: &Relation, whole: bool) -> Result<Sided> {
        let mut sided = Sided::new(Some(Wanted::All), &[], relation, None)?;
        let Some(rule) = rule_of(id, model).ok().filter(|rule| rule.has_tests()) else { return Ok(sided) };
        let is_own = registry::data_of_model(id)?.is_some_and(|(data, name)| relation.is(&name, data));
        match SideReader::new((id, rule), model.task, &model.labels, None, relation.columns()) {
            Ok(reader) if reader.only_counts() && !(whole && is_own) => Ok(sided),
            Ok(reader) => {
                sided.readers.push(reader);
                sided.wanted = Wanted::HeldOut;
                sided.is_own = is_own;
                Ok(sided)
            }
            Err(Error::Report(_)) => Ok(sided),
            Err(caught) => Err(caught),
        }
    }

    /// How many rows with labels there were.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// How many rows without a label were left out.
    pub fn unlabelled(&self) -> u64 {
        self.unlabelled
    }

    /// Which rows were looked at, by [`Sided::untrained`], of those that are `what`.
    pub fn described(&self, what: &str) -> String {
        match self.wanted {
            Wanted::HeldOut => {
                let which = match self.doubt() {
                    None => "those that the model was not trained on".to_owned(),
                    Some(doubt) => format!("on some of which the model may have been trained: {doubt}"),
                };
                format!("{} of {} {what}, {which}", self.taken, self.seen)
            }
            _ => format!("{} {what}, on some of which the model may have been trained", self.seen),
        }
    }

    fn takes(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<bool> {
        self.seen += 1;
        let wanted = self.wanted == Wanted::HeldOut;
        // All are asked: equal rows may be counted.
        let mut takes = true;
        for reader in &mut self.readers {
            takes &= reader.is_held_out(values, nulls)? == wanted;
        }
        self.taken += u64::from(takes);
        Ok(takes)
    }

    /// Gives the rows that are looked at, and says how many are left out for lack of a label.
    pub fn read(&mut self, relation: &Relation, judge: &mut dyn Judge) -> Result<()> {
        if self.is_own && self.readers.iter().any(SideReader::may_doubt) {
            relation.read(&mut Between { sided: self, judge: &mut Nobody(judge) })?;
            self.readers.iter_mut().for_each(SideReader::settle);
            (self.seen, self.taken, self.unlabelled) = (0, 0, 0);
        }
        relation.read(&mut Between { sided: self, judge })?;
        if self.unlabelled > 0 {
            notice(left_out(self.unlabelled));
        }
        Ok(())
    }

    /// Why the model may have been trained on the rows that were looked at as held out ones, if it may.
    pub fn doubt(&self) -> Option<String> {
        self.readers.iter().find_map(SideReader::doubt).filter(|_| self.is_own)
    }

    /// Why only those held-out rows were looked at that are as they were in the training, if that is so.
    pub fn narrowed(&self) -> Option<&str> {
        self.readers.iter().find_map(SideReader::narrowed)
    }

    /// Says which rows were looked at, where these may be others than the caller thinks.
    pub fn tell(&self) {
        let (taken, seen) = (self.taken, learn::count(self.seen, "row"));
        let are = |number: u64| if number == 1 { "is" } else { "are" };
        let all = format!("{} {}", learn::all(self.seen, "row"), are(self.seen));
        let are = are(taken);
        let text = match self.wanted {
            Wanted::HeldOut => format!("the {taken} of {seen} that the training held out {are} used"),
            Wanted::Trained => format!("the {taken} of {seen} that the model was trained on {are} used"),
            Wanted::All if self.unknown => {
                format!("{all} used, and the model was trained on some of them")
            }
            Wanted::All if self.other => {
                format!("{all} used; if the model was trained on some of them, rows => 'held_out' leaves these out")
            }
            Wanted::All => return,
        };
        let text = match (self.doubt(), self.narrowed()) {
            (Some(doubt), _) => format!("{text}; the model may have been trained on them: {doubt}"),
            (None, Some(why)) => format!("{text}, which are as they were then: {why}"),
            (None, None) => text,
        };
        notice(text);
    }
}

fn notice(text: String) {
    pgrx::ereport!(PgLogLevel::NOTICE, PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, text);
}

/// What judges a model by rows.
pub trait Judge: Receiver {
    /// Whether the row lacks the label that it would be judged by.
    fn lacks_label(&self, values: &[pg_sys::Datum], nulls: &[bool]) -> bool;
}

/// In place of a judge, which is to be given the rows later.
struct Nobody<'a>(&'a dyn Judge);

impl Judge for Nobody<'_> {
    fn lacks_label(&self, values: &[pg_sys::Datum], nulls: &[bool]) -> bool {
        self.0.lacks_label(values, nulls)
    }
}

impl Receiver for Nobody<'_> {
    fn row(&mut self, _: &[pg_sys::Datum], _: &[bool]) -> Result<()> {
        Ok(())
    }
}

struct Between<'a> {
    sided: &'a mut Sided,
    judge: &'a mut dyn Judge,
}

impl Receiver for Between<'_> {
    fn row(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<()> {
        if self.judge.lacks_label(values, nulls) {
            self.sided.unlabelled += 1;
            return Ok(());
        }
        if self.sided.takes(values, nulls)? { self.judge.row(values, nulls) } else { Ok(()) }
    }
}

/// The rule by which the training of a model held rows out. A model from a file is the fit on all rows, perhaps, whose rule
/// says nothing of it.
fn rule_of(id: i64, model: &Model) -> Result<&Rule> {
    let imported = registry::snapshot_of_model(id)?.is_none();
    model.split.as_ref().filter(|_| !imported).ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "it is not known which rows the training of the model held out",
        )
        .hint("The model was trained by an older version of pgml, or elsewhere: train it again.")
    })
}

/// What a call site asked last: rows of one type, of one model.
struct Kept {
    model: Rc<Model>,
    /// Of the type, as it is now.
    identifier: u64,
    reader: SideReader,
}

thread_local!(static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) });

/// `pgml.held_out(project or model, row) RETURNS boolean`.
fn held_out(call: &Call) -> Result<pg_sys::Datum> {
    let target = super::target(call, Privilege::Predict)?;
    let Some(row) = call.datum(1) else { return Ok(call.null()) };
    // SAFETY: a composite value, as declared: a varlena with a tuple header that says its type. Its attributes are read by the
    // descriptor of that type, which is pinned until it is released.
    let (descriptor, values, nulls, identifier) = unsafe {
        let header: pg_sys::HeapTupleHeader = pg_sys::pg_detoast_datum(row.cast_mut_ptr()).cast();
        let type_oid = (*header).t_choice.t_datum.datum_typeid;
        let typmod = (*header).t_choice.t_datum.datum_typmod;
        let identifier = pg_sys::assign_record_type_identifier(type_oid, typmod);
        let descriptor = PgTupleDesc::from_pg(pg_sys::lookup_rowtype_tupdesc(type_oid, typmod));
        let mut values = vec![pg_sys::Datum::from(0); descriptor.len()];
        let mut nulls = vec![true; descriptor.len()];
        let mut tuple = pg_sys::HeapTupleData {
            t_len: (*header).t_choice.t_datum.datum_len_ as u32 >> 2,
            t_data: header,
            ..Default::default()
        };
        pg_sys::heap_deform_tuple(&mut tuple, descriptor.as_ptr(), values.as_mut_ptr(), nulls.as_mut_ptr());
        (descriptor, values, nulls, identifier)
    };
    let mut kept = KEPT.take();
    if !kept.as_ref().is_some_and(|kept| Rc::ptr_eq(&kept.model, &target.model) && kept.identifier == identifier) {
        let reader = reader_of(names::id_of(&target)?, &target.model, &descriptor)?;
        kept = Some(Kept { reader, model: target.model.clone(), identifier });
    }
    let Some(mut kept) = kept else { return Ok(call.null()) };
    let answer = kept.reader.is_held_out(&values, &nulls)?;
    KEPT.set(Some(kept));
    Ok(answer.into_datum().unwrap_or(pg_sys::Datum::from(0)))
}

fn reader_of(id: i64, model: &Model, descriptor: &PgTupleDesc<'_>) -> Result<SideReader> {
    let rule = rule_of(id, model)?;
    if rule.counted {
        return Err(sides::unknown("one by one among equal rows, of which there are many")
            .hint("pgml.evaluate(..., rows => 'held_out') counts them."));
    }
    let columns: Vec<ResultColumn> = descriptor
        .iter()
        .map(|attribute| ResultColumn {
            name: match attribute.attisdropped {
                true => String::new(),
                false => {
                    // SAFETY: the catalog's names end with a zero byte.
                    let name = unsafe { std::ffi::CStr::from_ptr(attribute.attname.data.as_ptr()) };
                    name.to_string_lossy().into_owned()
                }
            },
            type_oid: attribute.atttypid,
            origin: None,
        })
        .collect();
    SideReader::new((id, rule), model.task, &model.labels, None, &columns)
}
