//! The worker of the queue of a database: it starts trainings in the order of the calls, and records the outcome of
//! trainings whose process could not do so itself. It runs only the extension's code.

use std::collections::{HashMap, HashSet};

use pgrx::pg_sys;

use super::process::{self, Worker};
use super::table::{self, Failure};
use super::{run, status};
use crate::error::Result;
use crate::{guc, lookup, usage};

/// Has the queue looked after where nobody does since the server started: what waited goes on, and what ran has failed. To
/// be called where the extension is used; it looks once in the life of the server.
pub fn go_on(snapshot: pg_sys::Snapshot) -> Result<()> {
    // SAFETY: reads the state of the server.
    if usage::is_first_use() && !unsafe { pg_sys::RecoveryInProgress() } && lookup::has_jobs(snapshot)? {
        process::start_queue();
    }
    Ok(())
}

/// Milliseconds between two looks, while trainings run or wait.
const EVERY: i64 = 200;

/// The main function of the worker.
#[pgrx::pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pgml_queue_main(_argument: pg_sys::Datum) {
    if let Err(error) = look_after() {
        error.raise();
    }
}

fn look_after() -> Result<()> {
    process::connect()?;
    let mut queue = Queue::default();
    if !process::transaction(|| Ok(table::lock().is_some_and(process::take_queue)))? {
        return Ok(());
    }
    loop {
        while process::transaction(|| queue.look())? == Look::Busy {
            process::sleep(EVERY);
            process::reload_if_asked();
        }
        // Whoever put something into the queue after that look found it looked after, so one more look is due once it is
        // not.
        let again = process::transaction(|| {
            let Some(table) = table::lock() else { return Ok(false) };
            process::leave_queue(table);
            Ok(!table::queued()?.is_empty() && process::take_queue(table))
        })?;
        if !again {
            return Ok(());
        }
    }
}

#[derive(PartialEq)]
enum Look {
    /// Something runs or waits.
    Busy,
    /// Nothing does, or the extension is gone.
    Done,
}

#[derive(Default)]
struct Queue {
    /// Workers that were started, by their jobs, until they have ended.
    workers: HashMap<i64, Worker>,
    /// Whether it was said that there are too few workers.
    said: bool,
}

impl Queue {
    fn look(&mut self) -> Result<Look> {
        if table::lock().is_none() {
            return Ok(Look::Done);
        }
        let ended: Vec<i64> = self.workers.iter().filter(|(_, worker)| worker.has_ended()).map(|(id, _)| *id).collect();
        for id in ended {
            self.workers.remove(&id);
            // It never came to begin.
            table::fail(id, status::QUEUED, &could_not_start())?;
        }
        let mut busy: HashSet<i64> = self.workers.keys().copied().collect();
        for (id, process) in table::running()? {
            if process.lives() {
                busy.insert(id);
            } else {
                table::fail(id, status::RUNNING, &killed())?;
            }
        }
        let waiting: Vec<_> = table::queued()?.into_iter().filter(|(id, _)| !busy.contains(id)).collect();
        if busy.is_empty() && waiting.is_empty() {
            table::forget(guc::keep_jobs())?;
            return Ok(Look::Done);
        }
        let room = guc::background_trainings().saturating_sub(busy.len());
        for (id, login) in waiting.into_iter().take(room) {
            match Worker::start(run::MAIN, c"pgml training", login, id) {
                Some(worker) => {
                    self.workers.insert(id, worker);
                    self.said = false;
                }
                None if self.said => break,
                None => {
                    pgrx::log!("training {id} waits for a free background worker (max_worker_processes)");
                    self.said = true;
                    break;
                }
            }
        }
        Ok(Look::Busy)
    }
}

fn could_not_start() -> Failure {
    Failure {
        sqlstate: "58000".to_owned(),
        message: "the background worker of the training could not start".to_owned(),
        detail: Some(
            "The role of the training may no longer be allowed to connect to the database, for example.".to_owned(),
        ),
        hint: Some("The server's log has the reason.".to_owned()),
    }
}

fn killed() -> Failure {
    Failure {
        sqlstate: "57P01".to_owned(),
        message: "the background worker ended before the training was complete".to_owned(),
        detail: Some("The worker was terminated or has crashed, or the server was stopped.".to_owned()),
        hint: None,
    }
}
