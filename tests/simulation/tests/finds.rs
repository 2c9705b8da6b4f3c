//! Schedules that the simulation has found faults by, cut down to the steps that matter.

#![allow(clippy::panic, reason = "a test that fails panics")]

use std::time::Duration;

use simulation::schedule::Step::{
    self, Cancel, Kill, Leave, Order, Pass, Say, Send, Settle, Shift, Strike, TakeCancels, Tell, Turn, Work,
};
use simulation::search::run;
use simulation::setup::Setup;

const ALL: usize = usize::MAX;

fn holds(setup: &Setup, steps: &[Step]) {
    if let Err(failure) = run(setup, steps) {
        panic!("after {} steps: {}", failure.after, failure.what);
    }
}

fn say(who: usize, form: usize, statements: &[usize]) -> Step {
    Say { who, form, statements: statements.to_vec() }
}

/// A client that is given its turn to share a pipelined connection of other settings waits on in its place.
#[test]
fn who_finds_no_room_to_share_has_waited_all_the_same() {
    let setup = Setup {
        clients: 12,
        stall: Duration::from_millis(20),
        check_after: Some(Duration::from_secs(2)),
        reports_search_path: false,
        shared_listen: false,
        kept: 2,
        ..Setup::default()
    };
    let all = |who| Send { who, bytes: ALL };
    let tell = |who| Tell { who, bytes: ALL };
    let work = |who, messages| Work { who, messages };
    let steps = [
        say(0, 1, &[28]),
        all(0),
        Turn,
        say(11, 2, &[33]),
        say(5, 0, &[28]),
        say(8, 2, &[28]),
        say(9, 1, &[28]),
        all(9),
        say(5, 0, &[28]),
        all(5),
        work(8, 1),
        tell(3),
        Turn,
        work(2, 4),
        tell(8),
        Turn,
        say(6, 6, &[28]),
        all(6),
        work(11, 3),
        say(8, 2, &[28]),
        all(8),
        Turn,
        tell(11),
        Cancel { who: 5 },
        say(5, 6, &[39, 33]),
        Cancel { who: 8 },
        Turn,
        say(3, 6, &[33, 156, 234]),
        say(1, 0, &[28]),
    ];
    holds(&setup, &steps);
}

/// A client that keeps its connection hears what comes while the pooler asks something of its own there.
#[test]
fn a_notification_that_comes_during_an_alignment_is_told() {
    let setup = Setup { clients: 4, pool_size: 4, pipelining: false, session_mode: true, ..Setup::default() };
    let steps = [
        say(2, 4, &[32, 0, 38]),
        say(1, 1, &[101]),
        say(2, 2, &[57, 49, 44]),
        Settle,
        say(2, 3, &[37]),
        say(1, 1, &[36]),
    ];
    holds(&setup, &steps);
}

/// Its listening connection is lost while a client waits for a connection, and it waits in vain: it is told all the same.
#[test]
fn who_is_refused_long_after_its_listening_connection_was_lost_is_told() {
    let setup = Setup {
        clients: 6,
        pipelining: false,
        stall: Duration::from_millis(20),
        check_after: Some(Duration::from_secs(2)),
        lifetime: 20,
        wait: 5,
        reports_search_path: false,
        ..Setup::default()
    };
    let pause = Pass { time: Duration::from_secs(25) };
    let steps = [
        say(4, 5, &[34, 32, 37]),
        Settle,
        pause.clone(),
        say(5, 0, &[230, 38, 34]),
        Turn,
        Send { who: 5, bytes: ALL },
        say(5, 1, &[233, 174]),
        Kill { who: 2 },
        say(4, 6, &[111]),
        Settle,
        pause,
        say(5, 6, &[36, 37, 199]),
    ];
    holds(&setup, &steps);
}

/// A LISTEN that was sent to the client's own connection stays there, though the shared one can be had again before it has
/// finished: what a client hears over two connections is not in order.
#[test]
fn who_listens_by_its_own_connection_hears_in_order() {
    let setup = Setup {
        clients: 6,
        pool_size: 6,
        workers: 3,
        members: 2,
        stall: Duration::from_millis(20),
        idle_in_transaction: 3,
        reports_search_path: false,
        queue_while_down: false,
        ..Setup::default()
    };
    let steps = [
        say(3, 9, &[192]),
        Send { who: 0, bytes: ALL },
        Turn,
        Send { who: 4, bytes: ALL },
        say(5, 2, &[14, 23, 37]),
        say(2, 4, &[8]),
        say(0, 10, &[34]),
        Turn,
        say(4, 5, &[7, 34, 33]),
        Settle,
        say(1, 5, &[32, 153]),
        Send { who: 1, bytes: ALL },
        Kill { who: 5 },
        Kill { who: 1 },
        say(1, 8, &[185, 37, 32]),
        Turn,
        say(2, 6, &[234, 37, 78]),
        Work { who: 2, messages: 2 },
        Tell { who: 2, bytes: ALL },
        Turn,
        Pass { time: Duration::from_secs(25) },
    ];
    holds(&setup, &steps);
}

/// Two connections have been idle for long, and two clients come at once: each gets one when it has been checked, though the
/// first keeps its own.
#[test]
fn clients_that_come_while_a_connection_is_checked_get_the_other_idle_ones() {
    let setup = Setup {
        clients: 2,
        pool_size: 2,
        pipelining: false,
        session_mode: true,
        check_after: Some(Duration::from_secs(2)),
        ..Setup::default()
    };
    let steps = [
        say(0, 1, &[28]),
        say(1, 1, &[28]),
        Settle,
        Leave { who: 0 },
        Leave { who: 1 },
        Settle,
        Pass { time: Duration::from_secs(6) },
        say(0, 1, &[28]),
        say(1, 1, &[28]),
        Send { who: 0, bytes: ALL },
        Send { who: 1, bytes: ALL },
        Settle,
    ];
    holds(&setup, &steps);
}

/// A client listens by the shared connection, and to another channel while a PAUSE waits for its unit: by the shared one
/// too, which PAUSE leaves alone.
#[test]
fn who_listens_to_more_during_a_pause_hears_in_order() {
    let steps = [
        say(2, 4, &[229, 38, 33]),
        Settle,
        say(2, 0, &[37]),
        Send { who: 2, bytes: ALL },
        Turn,
        Order { what: 0 },
        Turn,
        say(2, 2, &[36, 33, 32]),
    ];
    holds(&Setup { idle_in_transaction: 3, ..Setup::default() }, &steps);
}

/// The shared connection is lost while a LISTEN waits for it, so that goes by the client's own; the next LISTEN comes while
/// that one is under way, and the shared connection can be had again.
#[test]
fn who_has_waited_for_the_shared_connection_in_vain_hears_in_order() {
    let setup = Setup { clients: 6, pool_size: 3, check_after: Some(Duration::from_secs(2)), ..Setup::default() };
    let steps = [
        say(3, 1, &[38, 33]),
        say(0, 8, &[32]),
        Send { who: 4, bytes: ALL },
        Send { who: 3, bytes: ALL },
        say(5, 1, &[35]),
        Turn,
        Send { who: 5, bytes: ALL },
        Kill { who: 4 },
        Send { who: 0, bytes: ALL },
        say(0, 6, &[33, 199]),
        Turn,
        Kill { who: 2 },
        Turn,
        Pass { time: Duration::from_secs(25) },
        say(1, 2, &[37, 38]),
    ];
    holds(&setup, &steps);
}

/// A LISTEN by the shared connection is undone by a failure that leaves its client pinned, and the client does not come to
/// rest: the next LISTENs go by its own connection, all of them.
#[test]
fn a_listen_that_was_undone_does_not_take_the_next_one_along() {
    let setup = Setup { clients: 4, pool_size: 1, pipelining: false, reports_search_path: false, ..Setup::default() };
    let steps = [
        say(0, 4, &[36, 33, 61]),
        say(0, 7, &[15]),
        Settle,
        say(0, 5, &[32]),
        say(0, 6, &[193, 37]),
        say(0, 5, &[36, 33, 37]),
    ];
    holds(&setup, &steps);
}

/// A client that has listened by its own connection listens by the shared one, which has not read yet what the client was
/// told there: it hears that once.
#[test]
fn what_the_own_connection_has_told_is_not_told_again_by_the_shared_one() {
    let setup = Setup {
        clients: 2,
        pool_size: 1,
        pipelining: false,
        check_after: Some(Duration::from_secs(2)),
        lifetime: 20,
        wait: 5,
        idle_in_transaction: 0,
        reports_search_path: false,
        ..Setup::default()
    };
    let steps = [
        Send { who: 0, bytes: ALL },
        Turn,
        say(0, 2, &[33, 63, 32]),
        say(1, 6, &[32]),
        Send { who: 0, bytes: ALL },
        say(1, 1, &[33, 204, 34]),
        Turn,
        Strike { who: 1, how: 0 },
        Settle,
        Pass { time: Duration::from_secs(25) },
        say(0, 1, &[37, 6, 106]),
        say(0, 2, &[184, 201]),
        Turn,
        say(0, 0, &[33, 27]),
        Work { who: 1, messages: 3 },
        Send { who: 0, bytes: ALL },
        Turn,
        Work { who: 0, messages: 3 },
        Work { who: 0, messages: 2 },
        Tell { who: 0, bytes: ALL },
    ];
    holds(&setup, &steps);
}

/// A client's next unit waits for a cancel request that the pooler has repeated, and its connection is taken back meanwhile:
/// the unit gets another connection.
#[test]
fn who_waits_for_a_repeated_cancel_request_goes_on_without_its_connection() {
    let setup = Setup {
        clients: 3,
        pool_size: 1,
        stall: Duration::ZERO,
        check_after: None,
        lifetime: 20,
        wait: 120,
        idle_in_transaction: 3,
        reports_search_path: false,
        queue_while_down: false,
        ..Setup::default()
    };
    let steps = [
        say(0, 1, &[138]),
        say(1, 11, &[28]),
        Send { who: 0, bytes: ALL },
        Turn,
        say(0, 7, &[28, 54]),
        Work { who: 2, messages: 3 },
        Send { who: 0, bytes: ALL },
        Strike { who: 0, how: 1 },
        Turn,
        Work { who: 0, messages: 2 },
        Send { who: 1, bytes: ALL },
        Tell { who: 0, bytes: ALL },
        Turn,
        say(0, 9, &[248, 119, 90]),
        Work { who: 1, messages: 4 },
        Tell { who: 1, bytes: ALL },
        Turn,
        Work { who: 0, messages: 4 },
        Tell { who: 2, bytes: ALL },
        Turn,
        Work { who: 0, messages: 4 },
        Send { who: 0, bytes: ALL },
        Tell { who: 2, bytes: ALL },
        Turn,
        Send { who: 1, bytes: 28 },
        Turn,
        Work { who: 0, messages: 4 },
        Tell { who: 2, bytes: ALL },
        Turn,
        Work { who: 2, messages: 4 },
        Tell { who: 2, bytes: ALL },
        Cancel { who: 0 },
        Turn,
        TakeCancels,
        Work { who: 2, messages: 4 },
        Turn,
        Pass { time: Duration::from_millis(700) },
        Turn,
        Tell { who: 0, bytes: ALL },
        Turn,
        say(0, 5, &[201]),
        Send { who: 0, bytes: ALL },
        Turn,
        Work { who: 0, messages: 1 },
        Tell { who: 0, bytes: 20 },
    ];
    holds(&setup, &steps);
}

/// A LISTEN goes by a connection that its client gets at once, and the next one while that is under way: by the same.
#[test]
fn the_next_listen_follows_one_that_was_sent_at_once() {
    let setup = Setup {
        clients: 4,
        pool_size: 5,
        workers: 2,
        members: 2,
        stall: Duration::from_millis(20),
        check_after: Some(Duration::from_secs(2)),
        lifetime: 3600,
        wait: 5,
        idle_in_transaction: 3,
        queue_while_down: false,
        ..Setup::default()
    };
    let steps = [
        say(3, 5, &[193, 116]),
        Send { who: 1, bytes: ALL },
        Send { who: 3, bytes: ALL },
        Turn,
        Kill { who: 0 },
        Kill { who: 1 },
        Turn,
        Pass { time: Duration::from_millis(15) },
        say(2, 6, &[167, 126]),
        say(2, 4, &[33, 94, 32]),
        say(2, 4, &[243, 38]),
        say(2, 4, &[13, 36, 15]),
        say(2, 6, &[182, 132, 32]),
    ];
    holds(&setup, &steps);
}

/// A client has its statement described again in the unit that binds it, on a connection that has just prepared the statement
/// with a parameter of another type: its value was written before it was told of that.
#[test]
fn values_are_of_the_type_that_their_client_was_told_before_it_wrote_them() {
    let setup = Setup { pool_size: 2, wait: 5, kept: 2, ..Setup::default() };
    let steps = [
        Shift { to: 1 },
        say(1, 12, &[102]),
        Settle,
        Kill { who: 2 },
        say(1, 12, &[105, 35, 67]),
        Shift { to: 0 },
        Leave { who: 0 },
    ];
    holds(&setup, &steps);
}

/// A client is told of two types of a parameter, since it has its statement described again, and writes its values in the
/// second: no copy may read them in the first.
#[test]
fn who_was_told_two_types_of_a_parameter_prepares_again() {
    let setup = Setup {
        clients: 4,
        check_after: Some(Duration::from_secs(2)),
        lifetime: 20,
        reports_search_path: false,
        ..Setup::default()
    };
    let all = |who| Send { who, bytes: ALL };
    let steps = [
        say(0, 12, &[223, 44]),
        Settle,
        say(1, 12, &[28]),
        say(0, 4, &[106]),
        all(1),
        Shift { to: 1 },
        Leave { who: 1 },
        Turn,
        Pass { time: Duration::from_secs(25) },
        all(0),
        Turn,
        Work { who: 0, messages: 1 },
        Tell { who: 2, bytes: ALL },
        Turn,
        say(0, 12, &[175, 184, 104]),
        Settle,
        Strike { who: 1, how: 0 },
        say(1, 3, &[84, 0]),
        Settle,
        say(0, 12, &[214, 28, 131]),
        Shift { to: 2 },
    ];
    holds(&setup, &steps);
}

/// A unit is thrown away since its server has died, and of its Parse only the header has come: the statement without a
/// name stays, whatever name the rest gives.
#[test]
fn a_parse_that_is_thrown_away_ends_the_statement_that_it_names() {
    let setup = Setup { clients: 2, lifetime: 3600, kept: 2, ..Setup::default() };
    let steps = [
        say(1, 12, &[0, 48]),
        Settle,
        say(1, 12, &[134, 7]),
        Send { who: 1, bytes: 16 },
        Turn,
        Kill { who: 0 },
        Settle,
        say(1, 12, &[147]),
    ];
    holds(&setup, &steps);
}

/// The line of a COPY comes before the unit in front of it has ended, and then the server dies.
#[test]
fn who_has_sent_lines_behind_another_unit_is_told_of_the_death_once() {
    let setup = Setup {
        clients: 4,
        pool_size: 6,
        workers: 3,
        members: 2,
        stall: Duration::from_millis(20),
        idle_in_transaction: 3,
        reports_search_path: false,
        queue_while_down: false,
        ..Setup::default()
    };
    let all = |who| Send { who, bytes: ALL };
    let steps = [
        say(0, 4, &[212, 220, 140]),
        say(2, 12, &[246, 107, 107]),
        say(0, 10, &[215]),
        all(1),
        all(0),
        Turn,
        all(2),
        Turn,
        Work { who: 3, messages: 4 },
        Tell { who: 0, bytes: ALL },
        Kill { who: 3 },
    ];
    holds(&setup, &steps);
}

/// A cancel request that comes during a SUSPEND, of more than `client_login_timeout`, is not over before it has arrived: its
/// client would be struck in what it says next.
#[test]
fn a_cancel_request_is_over_when_it_has_arrived() {
    let setup = Setup { clients: 12, stall: Duration::from_millis(20), lifetime: 20, ..Setup::default() };
    let pass = |milliseconds| Pass { time: Duration::from_millis(milliseconds) };
    let work = |who, messages| Work { who, messages };
    let steps = [
        say(9, 5, &[44, 119, 125]),
        Send { who: 9, bytes: ALL },
        Turn,
        Order { what: 5 },
        Cancel { who: 9 },
        work(0, 3),
        Turn,
        pass(2500),
        pass(25_000),
        say(9, 11, &[28]),
        pass(2500),
        pass(25_000),
        Send { who: 9, bytes: ALL },
        work(11, 2),
        work(8, 1),
        pass(6000),
        work(4, 4),
        work(9, 3),
        Strike { who: 5, how: 0 },
        Order { what: 6 },
        Turn,
        pass(120),
        work(2, 3),
        Tell { who: 0, bytes: ALL },
        Turn,
        say(9, 2, &[28]),
        work(6, 4),
    ];
    holds(&setup, &steps);
}
