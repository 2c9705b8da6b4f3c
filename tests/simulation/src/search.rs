//! Runs schedules, and finds out which steps of one that fails matter.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::schedule::{self, Step};
use crate::setup::Setup;
use crate::world::World;

thread_local! {
    static RUNS: Cell<bool> = const { Cell::new(false) };
    static LAST_WORDS: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What did not hold, where, and after how many steps.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The judge's words, and the line that spoke.
    pub what: String,
    /// Steps that were done before.
    pub after: usize,
}

/// Does the steps and lets everything come to its end.
///
/// # Errors
/// What did not hold.
pub fn run(setup: &Setup, steps: &[Step]) -> Result<(), Failure> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| match RUNS.get() {
            true => LAST_WORDS.set(Some(info.to_string())),
            false => usual(info),
        }));
    });
    let mut after = 0;
    RUNS.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(setup);
        for step in steps {
            schedule::take(&mut world, step);
            after += 1;
        }
        world.end();
    }));
    RUNS.set(false);
    done.map_err(|_| Failure { what: LAST_WORDS.take().unwrap_or_default(), after })
}

/// The places of the steps without which the schedule does not fail any more, in the same way: found by leaving out
/// ever smaller pieces (delta debugging, Zeller and Hildebrandt 2002).
pub fn shrink(setup: &Setup, steps: &[Step], failure: &Failure) -> Vec<usize> {
    let chosen = |kept: &[usize]| kept.iter().map(|at| steps[*at].clone()).collect::<Vec<_>>();
    let fails = |kept: &[usize]| run(setup, &chosen(kept)).is_err_and(|found| place(&found) == place(failure));
    let mut kept: Vec<usize> = (0..steps.len()).collect();
    let mut piece = kept.len().div_ceil(2);
    loop {
        let mut at = 0;
        while at < kept.len() {
            let end = (at + piece).min(kept.len());
            let fewer = [&kept[..at], &kept[end..]].concat();
            if fails(&fewer) { kept = fewer } else { at = end }
        }
        if piece == 1 {
            return kept;
        }
        piece = piece.div_ceil(2);
    }
}

/// The line that found the fault: the numbers and names in its words may be others in a shorter schedule.
fn place(failure: &Failure) -> &str {
    failure.what.split_once(":\n").map_or(failure.what.as_str(), |(place, _)| place)
}
