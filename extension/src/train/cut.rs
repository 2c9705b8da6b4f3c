//! A search that is told to end keeps the best combination so far: `pgml.cancel` of a training in the background.
//!
//! A cancel of PostgreSQL's raises an ERROR, and what a transaction that fails has found is lost. So the worker is told by a
//! signal of its own, SIGUSR2, which only sets a flag: the training of the combination at hand ends as one that was
//! interrupted does, the search chooses among those that it has scores of, and the transaction goes on. The entry of the
//! process in shared memory says whether there is something to keep; where there is not, `pgml.cancel` cancels.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use learn::rows::Stop;

use super::interrupts::Interrupted;
use crate::activity;

/// Set by the signal.
static ASKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this process is a worker, which knows the signal.
    static HEARS: Cell<bool> = const { Cell::new(false) };
    /// Whether a search has a score to choose by.
    static KEEPS: Cell<bool> = const { Cell::new(false) };
    /// When the training at hand is to end.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The handler of the signal.
pub unsafe extern "C-unwind" fn told(_signal: std::ffi::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// The signal reaches this process from now on.
pub fn hear() {
    HEARS.set(true);
}

/// Whether the training at hand is to end, and the search of this process goes on with what it has.
pub fn asked() -> bool {
    told_to_end() || UNTIL.get().is_some_and(|until| Instant::now() >= until)
}

/// Whether the search of this process is to end with what it has.
pub fn told_to_end() -> bool {
    KEEPS.get() && ASKED.load(Ordering::Relaxed)
}

/// Ends what is trained while this lives at that time.
pub struct Limit(());

impl Limit {
    pub fn until(time: Option<Instant>) -> Limit {
        UNTIL.set(time);
        Limit(())
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        UNTIL.set(None);
    }
}

/// Ends a training within a search that is to end.
pub fn check() -> Result<(), Stop> {
    if asked() { Err(Box::new(Interrupted)) } else { Ok(()) }
}

/// A search that may be told to end, from its first score until this is dropped.
pub struct Keeping(());

impl Keeping {
    /// What the signal said before was about another search.
    pub fn begin() -> Keeping {
        ASKED.store(false, Ordering::Relaxed);
        Keeping(())
    }

    /// There is a score to choose by.
    pub fn scored(&self) {
        if HEARS.get() && !KEEPS.replace(true) {
            activity::keeps_best(true);
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        // While an ERROR unwinds, the end of the transaction clears the entry.
        if KEEPS.replace(false) && !std::thread::panicking() {
            activity::keeps_best(false);
        }
    }
}
