//! Schedules of several pools that a seed has found, shrunk by hand: see the head of `finds.rs`.

#![allow(clippy::panic)]

use std::time::Duration;

use simulation::schedule::Step::{self, Bustle, Cancel, Kill, Leave, Say, Send, Settle, Stop, Turn};
use simulation::search::run;
use simulation::setup::{Quota, Setup};

fn holds(setup: &Setup, steps: &[Step]) {
    if let Err(failure) = run(setup, steps) {
        panic!("after {} steps: {}", failure.after, failure.what);
    }
}

/// Two pools whose clients never pause fill the limit of a database and that of a user. The pool that needs a place under
/// both gets one, though they never become free at once.
#[test]
fn a_pool_under_two_limits_is_not_starved_by_two_others() {
    let setup = Setup { clients: 3, pools: 3, quota: Quota { database: 1, user: 1 }, ..Setup::default() };
    for seed in 0..10 {
        holds(&setup, &[Bustle { seed }]);
    }
}

/// The server was down when a pool asked for a connection. It is there again, and the pool is starved: that it has failed once
/// does not matter any more.
#[test]
fn a_pool_whose_last_login_failed_is_not_starved() {
    let setup = Setup {
        clients: 4,
        pool_size: 3,
        pipelining: false,
        stall: Duration::from_millis(20),
        check_after: Some(Duration::from_secs(2)),
        lifetime: 20,
        pools: 3,
        quota: Quota { database: 1, user: 0 },
        ..Setup::default()
    };
    let all = |who| Send { who, bytes: usize::MAX };
    let steps = [
        all(1),
        Turn,
        all(2),
        Say { who: 1, form: 5, statements: vec![101, 248, 150] },
        Turn,
        all(1),
        Stop { who: 0 },
        Turn,
        Leave { who: 1 },
        Settle,
        Bustle { seed: 1_002_155 },
    ];
    holds(&setup, &steps);
}

/// What was to give a client its settings was struck, and its later connections have them: it waits in line with others.
#[test]
fn who_was_struck_once_does_not_go_first_for_ever() {
    let setup = Setup {
        clients: 8,
        stall: Duration::from_millis(20),
        check_after: Some(Duration::from_secs(2)),
        lifetime: 20,
        idle_in_transaction: 3,
        queue_while_down: false,
        pools: 4,
        quota: Quota { database: 0, user: 1 },
        ..Setup::default()
    };
    let say = |who, form, statements: &[usize]| Say { who, form, statements: statements.to_vec() };
    let steps = [
        Settle,
        say(1, 0, &[28, 81]),
        say(5, 0, &[28, 28, 135]),
        say(3, 4, &[148, 28]),
        Send { who: 3, bytes: 52 },
        Kill { who: 5 },
        Cancel { who: 3 },
        Bustle { seed: 6779 },
    ];
    holds(&setup, &steps);
}
