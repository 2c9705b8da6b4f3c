//! Schedules of several servers that the simulation has found faults by, cut down to the steps that matter.

#![allow(clippy::panic)]

use simulation::schedule::Step::{self, Look, Order, Promote, Say, Send, Start, Stop, Turn};
use simulation::search::run;
use simulation::setup::Setup;

fn holds(setup: &Setup, steps: &[Step]) {
    if let Err(failure) = run(setup, steps) {
        panic!("after {} steps: {}", failure.after, failure.what);
    }
}

/// Two replicas that let nobody in are banned and forgiven in turn; each is tried again after a while, not at once.
#[test]
fn replicas_that_let_nobody_in_are_tried_with_pauses() {
    let setup = Setup { servers: 3, ban: 1_000_000, ..Setup::default() };
    let steps = [Promote { who: 1 }, Stop { who: 1 }, Send { who: 2, bytes: usize::MAX }, Stop { who: 2 }, Turn];
    holds(&setup, &steps);
}

/// A write that waits while the database is paused goes to the primary that there is then.
#[test]
fn a_write_that_waits_follows_the_primary() {
    let setup = Setup { servers: 3, wait: 5, queue_while_down: false, ..Setup::default() };
    let steps = [
        Order { what: 0 },
        Say { who: 1, form: 2, statements: vec![26] },
        Send { who: 1, bytes: usize::MAX },
        Turn,
        Promote { who: 1 },
        Start { who: 0 },
        Look { who: 0 },
        Look { who: 1 },
        Turn,
        Order { what: 1 },
    ];
    holds(&setup, &steps);
}
