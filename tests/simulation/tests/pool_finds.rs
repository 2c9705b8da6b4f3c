//! Schedules of several pools that a seed has found, shrunk by hand: see the head of `finds.rs`.

#![allow(clippy::panic, reason = "a test that fails panics")]

use std::time::Duration;

use simulation::schedule::Step::{
    self, Ask, Bustle, Cancel, Kill, Leave, Look, Order, Pass, Reload, Say, Send, Settle, Start, Stop, Strike, Tell,
    Turn, Work,
};
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

/// A read waits for a replica to replay its session's commits when the entry of the database gives another user. It goes to the
/// pool of that user, and does not choose in the former one for ever.
#[test]
fn a_read_that_waits_for_replay_goes_to_the_pool_of_the_new_user() {
    let setup = Setup {
        servers: 3,
        pool_size: 2,
        lifetime: 20,
        idle_in_transaction: 3,
        reports_search_path: false,
        queue_while_down: false,
        replay_wait: 3000,
        kept: 2,
        pools: 2,
        ..Setup::default()
    };
    let steps = [
        Ask { who: 0 },
        Say { who: 0, form: 2, statements: vec![99, 229, 28] },
        Ask { who: 0 },
        Settle,
        Say { who: 0, form: 3, statements: vec![28, 26, 28] },
        Ask { who: 2 },
        Ask { who: 2 },
        Send { who: 0, bytes: usize::MAX },
        Turn,
        Reload { user: 2 },
    ];
    holds(&setup, &steps);
}

/// A client whose wait for a server of a cluster was in vain is served as the new user when it asks again.
#[test]
fn who_has_waited_in_vain_is_served_as_the_new_user() {
    let setup = Setup { servers: 2, wait: 5, ban: 1_000_000, pools: 2, ..Setup::default() };
    let second = || Pass { time: Duration::from_millis(1200) };
    let steps = [
        Settle,
        Stop { who: 0 },
        Look { who: 0 },
        Turn,
        Say { who: 1, form: 0, statements: vec![26] },
        Send { who: 1, bytes: usize::MAX },
        Turn,
        Pass { time: Duration::from_secs(6) },
        Turn,
        Start { who: 0 },
        Look { who: 0 },
        Reload { user: 3 },
        Turn,
        second(),
        Turn,
        second(),
        Turn,
        Say { who: 1, form: 0, statements: vec![26] },
        Send { who: 1, bytes: usize::MAX },
        Turn,
    ];
    holds(&setup, &steps);
}

/// A client that listens stays in the pool of the former user, whose connections are closed each second: its read waits for a
/// replica no longer than it may.
#[test]
fn a_read_that_stays_in_the_former_pool_waits_for_replay_once() {
    let setup = Setup {
        clients: 6,
        servers: 3,
        check_after: Some(Duration::from_secs(2)),
        lifetime: 20,
        reports_search_path: false,
        replay_wait: 3000,
        stall: Duration::from_millis(20),
        pools: 2,
        ..Setup::default()
    };
    let say = |form, statements: &[usize]| Say { who: 5, form, statements: statements.to_vec() };
    let ask = |who| Ask { who };
    let steps = [
        Reload { user: 1 },
        say(4, &[33, 243]),
        ask(0),
        Send { who: 5, bytes: usize::MAX },
        Turn,
        ask(2),
        ask(3),
        say(0, &[125, 33]),
        ask(5),
        Reload { user: 2 },
    ];
    holds(&setup, &steps);
}

/// A COPY fails while its client is still within a line; behind the line comes a unit, in the same bytes: the unit is the new
/// user's.
#[test]
fn a_unit_behind_a_copy_that_has_failed_is_the_new_users() {
    let setup = Setup {
        pipelining: false,
        check_after: Some(Duration::from_secs(2)),
        reports_search_path: false,
        kept: 2,
        pools: 2,
        ..Setup::default()
    };
    let say = |form, statements: &[usize]| Say { who: 0, form, statements: statements.to_vec() };
    let later = || Pass { time: Duration::from_millis(700) };
    let steps = [
        say(7, &[28, 224]),
        Settle,
        Send { who: 0, bytes: 29 },
        Order { what: 2 },
        Turn,
        Strike { who: 1, how: 2 },
        Reload { user: 3 },
        later(),
        Turn,
        later(),
        Turn,
        later(),
        say(11, &[185, 30, 92]),
        Work { who: 1, messages: 2 },
        Tell { who: 0, bytes: usize::MAX },
        Turn,
    ];
    holds(&setup, &steps);
}

/// A server dies within a unit; its client ends the unit and begins the next in the same bytes: that is the new user's.
#[test]
fn a_unit_behind_one_whose_server_has_died_is_the_new_users() {
    let setup =
        Setup { pool_size: 3, stall: Duration::from_millis(20), wait: 5, kept: 2, pools: 2, ..Setup::default() };
    let say = |form, statements: &[usize]| Say { who: 2, form, statements: statements.to_vec() };
    let all = || Send { who: 2, bytes: usize::MAX };
    let steps = [
        Stop { who: 0 },
        all(),
        Turn,
        Start { who: 2 },
        Reload { user: 1 },
        all(),
        Turn,
        Work { who: 2, messages: 3 },
        say(9, &[119]),
        Tell { who: 2, bytes: usize::MAX },
        all(),
        Turn,
        Reload { user: 3 },
        Pass { time: Duration::from_secs(25) },
        Kill { who: 1 },
        Turn,
        Pass { time: Duration::from_secs(25) },
        say(0, &[28, 28]),
        Turn,
    ];
    holds(&setup, &steps);
}

/// A client whose LISTEN was cancelled while it waited stays in the pool of the former user until its next unit has ended. Neither
/// does that unit choose its server again each second, nor is the connection closed that is being opened for it.
#[test]
fn a_client_whose_listen_was_cancelled_is_served_as_the_former_user() {
    let setup = Setup {
        clients: 4,
        pool_size: 6,
        workers: 2,
        members: 2,
        servers: 2,
        idle_in_transaction: 3,
        reports_search_path: false,
        queue_while_down: false,
        replay_wait: 3000,
        shared_listen: false,
        reports_standby: false,
        pools: 2,
        ..Setup::default()
    };
    let say = |form, statements: &[usize]| Say { who: 0, form, statements: statements.to_vec() };
    let ask = |who| Ask { who };
    let steps = [
        ask(3),
        say(1, &[32, 28, 14]),
        Send { who: 0, bytes: usize::MAX },
        ask(1),
        say(0, &[26, 35]),
        Turn,
        ask(0),
        ask(3),
        ask(2),
        Order { what: 5 },
        ask(3),
        Cancel { who: 0 },
        say(2, &[163]),
        Turn,
        ask(3),
        ask(3),
        Reload { user: 2 },
        ask(3),
    ];
    holds(&setup, &steps);
}
