//! Running trainings, for `pgml.activity` and `pgml.cancel`.
//!
//! A training reports by the server's own means for the progress of commands: numbers in the entry of its process in
//! shared memory, which anybody can read while it runs, and which go with the transaction, or the process, however that
//! ends. The server's progress views ask for commands of theirs, so they do not show ours. As they are, all is empty
//! where `track_activities` is off.

use std::cell::RefCell;

use pgrx::{IntoDatum, pg_sys};

use crate::access::{self, Privilege};
use crate::backends::{self, Process};
use crate::error::Result;
use crate::sql::{Call, text_datum};
use crate::{lookup, names};

crate::sql_function!(pgml_running_trainings, running_trainings);

/// Our command among those of the server, which are numbered from 0.
const COMMAND: pg_sys::ProgressCommandType::Type = 0x706d_6c67;

/// What a number of an entry is.
mod at {
    pub const ID: usize = 0;
    pub const ROLE: usize = 1;
    /// 0 where the project is new.
    pub const PROJECT: usize = 2;
    pub const ALGORITHM: usize = 3;
    pub const PHASE: usize = 4;
    pub const ROUNDS: usize = 5;
    pub const ROUNDS_TOTAL: usize = 6;
    pub const ROWS: usize = 7;
    pub const STARTED: usize = 8;
    /// When the last round ended, and how many microseconds all took until then.
    pub const ROUND_ENDED: usize = 9;
    pub const ROUNDS_TOOK: usize = 10;
    /// The name of a new project, as many bytes as there is room for.
    pub const NAME: usize = 11;
    pub const END: usize = 20;
}

const NAME_BYTES: usize = (at::END - at::NAME) * 8;

type Numbers = [i64; at::END];

/// What a training is at.
#[derive(Clone, Copy)]
pub enum Phase {
    Checking,
    Copying,
    Reading,
    Training,
    Scoring,
    Storing,
    Refitting,
}

impl Phase {
    const ALL: [Phase; 7] = [
        Phase::Checking,
        Phase::Copying,
        Phase::Reading,
        Phase::Training,
        Phase::Scoring,
        Phase::Storing,
        Phase::Refitting,
    ];

    fn name(self) -> &'static str {
        match self {
            Phase::Checking => "checking arguments",
            Phase::Copying => "copying rows to a snapshot",
            Phase::Reading => "reading rows",
            Phase::Training => "training",
            Phase::Scoring => "measuring on test rows",
            Phase::Storing => "storing the model",
            Phase::Refitting => "refitting on all rows",
        }
    }
}

thread_local! {
    /// Of the training that runs here; of the innermost, where the query of one trains too.
    static OWN: RefCell<Option<Numbers>> = const { RefCell::new(None) };
}

/// A training that is shown while this lives.
pub struct Shown {
    outer: Option<Numbers>,
}

impl Shown {
    pub fn begin(id: i64, project: Option<i64>, name: &str, algorithm: usize) -> Shown {
        let mut numbers = [0; at::END];
        numbers[at::ID] = id;
        numbers[at::ROLE] = i64::from(access::user().to_u32());
        numbers[at::PROJECT] = project.unwrap_or(0);
        numbers[at::ALGORITHM] = algorithm as i64;
        // SAFETY: reads the clock.
        numbers[at::STARTED] = unsafe { pg_sys::GetCurrentTimestamp() };
        let name = crate::error::shorten(name, 63);
        let mut bytes = [0; NAME_BYTES];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        for (to, from) in numbers[at::NAME..].iter_mut().zip(bytes.as_chunks::<8>().0) {
            *to = i64::from_le_bytes(*from);
        }
        let outer = OWN.replace(Some(numbers));
        publish(&numbers, true);
        Shown { outer }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        OWN.replace(self.outer);
        // While an ERROR unwinds, the end of the (sub)transaction does this.
        if !std::thread::panicking() {
            match &self.outer {
                Some(outer) => publish(outer, true),
                // SAFETY: writes to the entry of this process.
                None => unsafe { pg_sys::pgstat_progress_end_command() },
            }
        }
    }
}

/// Says what the training of this process is at.
pub fn phase(phase: Phase) {
    change(|numbers| numbers[at::PHASE] = phase as i64 | numbers[at::PHASE] & KEEPS_BEST);
}

/// Set beside the phase while a search has something to keep if it is told to end.
const KEEPS_BEST: i64 = 1 << 8;

/// The phase then, in words.
const SEARCHING: &str = "searching, with a best so far";

/// Says whether a search would keep the best so far if it were told to end.
pub fn keeps_best(keeps: bool) {
    change(|numbers| {
        let phase = numbers[at::PHASE] & !KEEPS_BEST;
        numbers[at::PHASE] = phase | if keeps { KEEPS_BEST } else { 0 };
    });
}

/// Says how many rows were read.
pub fn rows(rows: u64) {
    change(|numbers| numbers[at::ROWS] = rows.cast_signed());
}

/// Says how many rounds are done, of how many, and how long they took.
pub fn rounds(done: u32, total: u32, took: std::time::Duration) {
    change(|numbers| {
        numbers[at::ROUNDS] = i64::from(done);
        numbers[at::ROUNDS_TOTAL] = i64::from(total);
        numbers[at::ROUNDS_TOOK] = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        // SAFETY: reads the clock.
        numbers[at::ROUND_ENDED] = unsafe { pg_sys::GetCurrentTimestamp() };
    });
}

fn change(change: impl FnOnce(&mut Numbers)) {
    let numbers = OWN.with_borrow_mut(|own| {
        let numbers = own.as_mut()?;
        change(numbers);
        Some(*numbers)
    });
    if let Some(numbers) = numbers {
        publish(&numbers, false);
    }
}

fn publish(numbers: &Numbers, anew: bool) {
    let mut indexes: [i32; at::END] = std::array::from_fn(|index| index as i32);
    let mut values = *numbers;
    // SAFETY: the entry of this process, and arrays as long as is said. What runs within a training, as CREATE INDEX in a
    // function of its query, reports there too, and a failed subtransaction clears it: then it is begun again.
    unsafe {
        #[cfg(not(feature = "pg13"))]
        let lost = pg_sys::MyBEEntry.as_ref().is_none_or(|entry| entry.st_progress_command != COMMAND);
        #[cfg(feature = "pg13")]
        let lost = false;
        if anew || lost {
            pg_sys::pgstat_progress_start_command(COMMAND, pg_sys::InvalidOid);
        }
        pg_sys::pgstat_progress_update_multi_param(at::END as i32, indexes.as_mut_ptr(), values.as_mut_ptr());
    }
}

/// A training, as its process says.
pub struct Training {
    pub process: Process,
    pub role: pg_sys::Oid,
    numbers: Numbers,
}

impl Training {
    pub fn id(&self) -> i64 {
        self.numbers[at::ID]
    }

    /// Whether it is a search that keeps the best so far if it is told to end.
    pub fn keeps_best(&self) -> bool {
        self.numbers[at::PHASE] & KEEPS_BEST != 0
    }

    /// The name of its project, if the current role may see it, or is the one that trains.
    fn project(&self, snapshot: pg_sys::Snapshot) -> Result<Option<String>> {
        let own = access::acts_as(self.role);
        let number = self.numbers[at::PROJECT];
        if number == 0 {
            return Ok(own.then(|| self.new_name()));
        }
        let Some(project) = lookup::project(number, snapshot)? else { return Ok(own.then(|| self.new_name())) };
        let sees = own || access::may(&project, Privilege::See, snapshot)?;
        sees.then(|| lookup::project_name(number, snapshot)).transpose()
    }

    fn new_name(&self) -> String {
        let bytes: Vec<u8> = self.numbers[at::NAME..].iter().flat_map(|number| number.to_le_bytes()).collect();
        String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
    }

    /// By the time that the rounds so far took; `None` before the first.
    fn seconds_left(&self, now: pg_sys::TimestampTz) -> Option<f64> {
        let [done, total, took, ended] =
            [at::ROUNDS, at::ROUNDS_TOTAL, at::ROUNDS_TOOK, at::ROUND_ENDED].map(|index| self.numbers[index] as f64);
        (done > 0.0).then(|| ((took / done * (total - done) - (now as f64 - ended)) / 1e6).max(0.0))
    }
}

/// The trainings of this database, as they are when the transaction first looks.
pub fn trainings() -> Vec<Training> {
    // SAFETY: set when the backend connects.
    let database = unsafe { pg_sys::MyDatabaseId };
    let ours = backends::all().filter(|entry| entry.st_databaseid == database && entry.st_progress_command == COMMAND);
    ours.map(|entry| Training {
        process: Process::of(entry),
        role: pg_sys::Oid::from(entry.st_progress_param[at::ROLE] as u32),
        numbers: entry.st_progress_param,
    })
    .collect()
}

/// `pgml.running_trainings()`: those that the current role may see.
fn running_trainings(call: &Call) -> Result<pg_sys::Datum> {
    let snapshot = names::snapshot();
    // SAFETY: reads the clock.
    let now = unsafe { pg_sys::GetCurrentTimestamp() };
    let mut rows = Vec::new();
    for training in trainings() {
        let Some(project) = training.project(snapshot.get())? else { continue };
        let number = |index: usize| training.numbers[index];
        let known = |index: usize| (number(index) > 0).then_some(pg_sys::Datum::from(number(index)));
        let named = |names: &[&str], index: usize| {
            usize::try_from(number(index)).ok().and_then(|index| names.get(index)).map(|name| text_datum(name))
        };
        rows.push([
            Some(pg_sys::Datum::from(number(at::ID))),
            Some(pg_sys::Datum::from(training.process.pid)),
            Some(pg_sys::Datum::from(training.role)),
            Some(text_datum(&project)),
            named(&crate::train::ALGORITHMS, at::ALGORITHM),
            match training.keeps_best() {
                true => Some(text_datum(SEARCHING)),
                false => named(&Phase::ALL.map(Phase::name), at::PHASE),
            },
            Some(pg_sys::Datum::from(number(at::ROUNDS))),
            known(at::ROUNDS_TOTAL),
            Some(pg_sys::Datum::from(number(at::ROWS))),
            Some(pg_sys::Datum::from(number(at::STARTED))),
            training.seconds_left(now).into_datum(),
        ]);
    }
    call.rows(rows)
}
