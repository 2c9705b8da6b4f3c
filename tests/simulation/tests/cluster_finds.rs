//! Schedules of several servers that the simulation has found faults by, cut down to the steps that matter.

#![allow(clippy::panic, reason = "a test that fails panics")]

use std::time::Duration;

use simulation::schedule::Step::{
    self, Ask, Look, Order, Pass, Promote, Replay, Say, Send, Settle, Shift, Start, Stop, Strike, Tell, Turn, Work,
};
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

/// A client commits, the primary is restarted as a standby that has less, and nobody has told the pooler but the new
/// connections: by a parameter of their logins, or when they are asked, before PostgreSQL 14.
fn reads_what_it_committed(reports_standby: bool) {
    let setup = Setup { servers: 3, pipelining: false, replay_wait: 3000, reports_standby, ..Setup::default() };
    let steps = [
        Say { who: 1, form: 2, statements: vec![40, 26, 0] },
        Settle,
        Say { who: 1, form: 3, statements: vec![27, 28] },
        Replay { who: 1, count: 2 },
        Promote { who: 1 },
        Start { who: 0 },
        Settle,
    ];
    holds(&setup, &steps);
}

#[test]
fn a_primary_that_comes_back_as_a_standby_is_not_read_as_the_primary() {
    reads_what_it_committed(true);
}

#[test]
fn a_primary_that_comes_back_as_a_standby_and_does_not_report_it_is_asked() {
    reads_what_it_committed(false);
}

/// A write gets a connection to a server that has just become a standby, and waits for its session to be brought in line
/// while the monitor asks: it goes to the new primary.
#[test]
fn a_write_that_has_a_connection_to_a_former_primary_goes_to_the_new_one() {
    let setup = Setup { clients: 6, pool_size: 4, workers: 3, members: 3, servers: 2, ..Setup::default() };
    let steps = [
        Say { who: 2, form: 8, statements: vec![141, 26] },
        Say { who: 2, form: 4, statements: vec![174, 26] },
        Send { who: 2, bytes: usize::MAX },
        Promote { who: 1 },
        Start { who: 0 },
        Turn,
    ];
    holds(&setup, &steps);
}

/// The question whether it is a standby fails: the server is not written to before it has been asked again.
#[test]
fn a_server_that_cannot_say_what_it_is_is_not_used() {
    let setup = Setup { servers: 3, pipelining: false, reports_standby: false, ..Setup::default() };
    let steps = [
        Promote { who: 2 },
        Start { who: 0 },
        Say { who: 2, form: 4, statements: vec![28, 26, 28] },
        Send { who: 0, bytes: usize::MAX },
        Turn,
        Strike { who: 2, how: 1 },
        Work { who: 0, messages: 3 },
        Tell { who: 2, bytes: usize::MAX },
        Send { who: 2, bytes: usize::MAX },
        Turn,
    ];
    holds(&setup, &steps);
}

/// A replica shows a session's commit, and is restarted, and shows it no longer: a read that waits for a connection to it
/// does not run there.
#[test]
fn a_read_that_waits_for_a_replica_that_was_restarted_chooses_again() {
    let setup = Setup { servers: 2, replay_wait: 10, ..Setup::default() };
    let steps = [
        Say { who: 1, form: 6, statements: vec![28, 187] },
        Settle,
        Say { who: 1, form: 2, statements: vec![28, 30, 182] },
        Replay { who: 1, count: 1 },
        Ask { who: 2 },
        Ask { who: 1 },
        Ask { who: 2 },
        Ask { who: 1 },
        Stop { who: 1 },
        Start { who: 1 },
        Settle,
    ];
    holds(&setup, &steps);
}

/// A read waits for room beside others on a replica, and proves to take long meanwhile: it gets a connection to itself. The
/// write behind it chooses a server of its own.
#[test]
fn a_write_behind_a_read_that_waited_to_share_goes_to_the_primary() {
    let setup = Setup { servers: 3, pool_size: 2, wait: 5, replay_wait: 0, ..Setup::default() };
    let all = usize::MAX;
    let steps = [
        Send { who: 0, bytes: all },
        Say { who: 2, form: 2, statements: vec![28] },
        Turn,
        Stop { who: 0 },
        Say { who: 2, form: 4, statements: vec![28, 28] },
        Say { who: 1, form: 2, statements: vec![28] },
        Settle,
        Say { who: 0, form: 1, statements: vec![28, 26, 26] },
        Say { who: 2, form: 1, statements: vec![28, 247, 60] },
        Say { who: 1, form: 0, statements: vec![28, 26, 28] },
        Say { who: 2, form: 1, statements: vec![26, 28] },
        Say { who: 1, form: 4, statements: vec![28] },
        Send { who: 1, bytes: all },
        Turn,
        Work { who: 0, messages: 4 },
        Pass { time: Duration::from_secs(25) },
    ];
    holds(&Setup { ban: 1_000_000, reports_search_path: false, ..setup }, &steps);
}

/// A read whose answer describes its statement runs again, and its client is not told that answer: it reads its rows by the
/// description before.
#[test]
fn what_is_not_passed_on_tells_nobody_of_columns() {
    let setup = Setup { clients: 4, pool_size: 3, wait: 5, queue_while_down: true, servers: 3, ..Setup::default() };
    let say = |who, statements: &[usize]| Say { who, form: 12, statements: statements.to_vec() };
    let steps = [
        say(0, &[26]),
        Ask { who: 3 },
        Settle,
        say(3, &[44, 187, 28]),
        say(0, &[28]),
        Settle,
        Ask { who: 2 },
        say(3, &[28]),
        Shift { to: 1 },
        Ask { who: 3 },
        Ask { who: 2 },
        say(0, &[82, 26]),
    ];
    holds(&setup, &steps);
}

/// A write ends with its connection on a server that was a standby when the pooler last heard of it: a read of its client
/// does not go to a replica that may lack the write.
#[test]
fn who_loses_a_promoted_standby_reads_its_write_or_nothing() {
    let setup = Setup {
        clients: 6,
        pool_size: 6,
        workers: 2,
        servers: 3,
        stall: Duration::from_millis(20),
        check_after: Some(Duration::from_secs(2)),
        lifetime: 20,
        ..Setup::default()
    };
    let say = |who, form, statements: &[usize]| Say { who, form, statements: statements.to_vec() };
    let steps = [
        say(2, 3, &[26]),
        say(1, 3, &[3]),
        say(0, 3, &[221, 28, 28]),
        say(4, 3, &[3, 174, 28]),
        Settle,
        Promote { who: 5 },
        Promote { who: 1 },
        say(1, 0, &[26, 28]),
        Look { who: 4 },
        Send { who: 1, bytes: usize::MAX },
        Turn,
        say(1, 3, &[224, 128, 101]),
        Start { who: 3 },
        Work { who: 5, messages: 1 },
        Stop { who: 4 },
        Look { who: 3 },
        Settle,
    ];
    holds(&setup, &steps);
}
