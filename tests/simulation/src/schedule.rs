//! What happens, step by step: drawn by a seed, or read from the bytes of a fuzzer.

use std::time::Duration;

use crate::dice::Dice;
use crate::setup::{Quota, Setup};
use crate::world::{COPIES, MIXED, ORDERS, PREPARED, READ, READ_BY, SENTENCES, SHIFTING, USERS, World};

/// One thing that happens. Whose it is, `who`, is a client's place, or a server connection's among those that there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A client says a unit, in this form of the protocol, of statements by their number.
    Say { who: usize, form: usize, statements: Vec<usize> },
    /// So many bytes of what a client has said are sent.
    Send { who: usize, bytes: usize },
    /// A server works on so many messages.
    Work { who: usize, messages: usize },
    /// So many bytes of what a server has answered are told.
    Tell { who: usize, bytes: usize },
    /// What a server runs next fails in this way.
    Strike { who: usize, how: usize },
    /// A server connection dies.
    Kill { who: usize },
    /// A server goes down.
    Stop { who: usize },
    /// A server is there again.
    Start { who: usize },
    /// A standby becomes the primary.
    Promote { who: usize },
    /// A standby replays so many commits.
    Replay { who: usize, count: usize },
    /// The monitor asks a server what it is.
    Look { who: usize },
    /// A server is asked how far it has come, or says so.
    Ask { who: usize },
    /// Somebody changes the relation that shifts.
    Shift { to: usize },
    /// The servers give up all cached plans.
    GiveUpPlans,
    /// A client asks to cancel what it does.
    Cancel { who: usize },
    /// Cancel requests that have arrived at the server have their effect.
    TakeCancels,
    /// A client leaves, and another comes in its place.
    Leave { who: usize },
    /// A server says what nobody has asked for.
    Mutter { who: usize, what: usize },
    /// Somebody gives an order at the console.
    Order { what: usize },
    /// Time passes.
    Pass { time: Duration },
    /// A reload: the entry of the database gives this of some users, or none.
    Reload { user: usize },
    /// For a while all clients work without a pause, as these dice have it.
    Bustle { seed: u64 },
    /// All that has been said is answered.
    Settle,
    /// The pooler works until it has nothing to do.
    Turn,
}

/// Does a step.
pub fn take(world: &mut World, step: &Step) {
    match step {
        Step::Say { who, form, statements } => world.say(*who, *form, statements),
        Step::Send { who, bytes } => world.send(*who, *bytes),
        Step::Work { who, messages } => world.work(*who, *messages),
        Step::Tell { who, bytes } => world.answer(*who, *bytes),
        Step::Strike { who, how } => world.strike(*who, *how),
        Step::Kill { who } => world.kill(*who),
        Step::Stop { who } => world.stop(*who),
        Step::Start { who } => world.start(*who),
        Step::Promote { who } => world.promote(*who),
        Step::Replay { who, count } => world.replay(*who, *count),
        Step::Look { who } => world.look(*who),
        Step::Ask { who } => world.ask(*who),
        Step::Shift { to } => world.shift(*to),
        Step::GiveUpPlans => world.give_up_plans(),
        Step::Cancel { who } => world.cancel(*who),
        Step::TakeCancels => world.take_cancels(),
        Step::Leave { who } => world.leave(*who),
        Step::Mutter { who, what } => world.mutter(*who, *what),
        Step::Order { what } => world.order(*what),
        Step::Pass { time } => world.pass(*time),
        Step::Reload { user } => world.reload(*user),
        Step::Bustle { seed } => world.bustle(&mut Dice::new(*seed)),
        Step::Settle => world.settle(),
        Step::Turn => world.turn(),
    }
}

/// The schedule of a seed: how things are set up, and so many steps.
#[expect(clippy::too_many_lines, reason = "one draw after the other")]
pub fn of_seed(seed: u64, count: usize) -> (Setup, Vec<Step>) {
    let mut dice = Dice::new(seed);
    let mut setup = Setup {
        clients: dice.of(&[2, 3, 3, 4, 6]),
        pool_size: dice.of(&[1, 1, 2, 3]),
        workers: 1,
        members: 1,
        pipelining: dice.below(3) > 0,
        stall: dice.of(&[Duration::ZERO, Duration::from_millis(20)]),
        check_after: dice.of(&[None, Some(Duration::from_secs(2))]),
        lifetime: dice.of(&[3600, 20]),
        wait: dice.of(&[120, 5]),
        idle_in_transaction: dice.of(&[0, 0, 3]),
        reports_search_path: dice.below(2) > 0,
        session_mode: dice.below(8) == 0,
        queue_while_down: dice.below(4) > 0,
        servers: 1,
        ban: 0,
        replay_wait: 100,
        shared_listen: true,
        reports_standby: true,
        // No draw, so that seeds stay the schedules that they were.
        kept: if seed.is_multiple_of(3) { 2 } else { 200 },
        pools: 1,
        quota: Quota::default(),
    };
    // A worker serves a part of the database's clients where there are connections enough for that.
    if dice.below(3) == 0 {
        setup.workers = dice.of(&[2, 3]);
        setup.members = dice.below(setup.workers) + 1;
        setup.clients = setup.clients.max(4);
        setup.pool_size = setup.pool_size.max(4) + dice.below(3);
    }
    if dice.below(4) == 0 {
        (setup.servers, setup.ban) = (dice.of(&[2, 3]), dice.of(&[0, 1_000_000]));
        setup.replay_wait = dice.of(&[0, 10, 100, 3000]);
        setup.reports_standby = dice.below(4) > 0;
    }
    if setup.session_mode {
        // Else clients would wait for others to leave. Who comes while another leaves may be sent to a full worker, and the
        // database may be given all workers.
        setup.pool_size = setup.clients * setup.workers;
    }
    if seed % 8 == 3 && setup.servers == 1 && !setup.session_mode {
        share_limits(&mut dice, &mut setup);
    }
    let reloads = if seed % 8 == 7 || seed % 16 == 3 { dice.of(&[1, 3]) } else { 0 };
    if reloads > 0 {
        setup.pools = setup.pools.max(2);
    }
    // Many clients that never all rest, for one connection: nobody may be passed over for long.
    let crowded = setup.has_one_connection() && seed.is_multiple_of(5);
    if crowded {
        setup.clients = 12;
    }
    // Some schedules have much of what others have little of.
    let (deaths, hurry, orders) = (dice.of(&[0, 1, 6]), dice.of(&[10, 40, 80]), dice.of(&[0, 0, 3]));
    let restarts = dice.of(&[0, 0, 0, 4]);
    let (copies, talks) = (dice.of(&[0, 5, 30]), dice.below(3) == 0);
    setup.shared_listen = !talks || dice.below(6) > 0;
    let (tides, failovers) = if setup.servers > 1 { (40, dice.of(&[0, 2, 8])) } else { (0, 0) };
    // Without a draw, too.
    let shifts = if seed % 4 == 1 { dice.of(&[2, 6]) } else { 0 };
    // In some, clients change what their texts are read by, and run what they have prepared.
    let rereads = seed % 4 == 2;
    if rereads && !crowded && !setup.session_mode {
        setup.clients = 6;
    }
    // In some, units end by a Query.
    let mixes = seed % 8 == 4 || seed % 16 == 15;
    let losses = if rereads { dice.of(&[0, 1, 4]) } else { 0 };
    let count = if crowded { count * 4 } else { count };
    let mut steps = Vec::with_capacity(count * 2);
    while steps.len() < count {
        let who = dice.below(setup.clients);
        steps.push(
            match dice.below(100 + deaths + orders + restarts + tides + failovers + shifts + losses + reloads) {
                0..28 => {
                    let mut statements: Vec<usize> =
                        (0..=dice.below(3)).map(|_| statement(&mut dice, talks, setup.servers > 1)).collect();
                    if crowded && dice.below(4) > 0 {
                        statements = vec![READ];
                    }
                    if rereads && dice.below(2) == 0 {
                        statements[0] = dice.of(&READ_BY);
                    }
                    let copies = dice.below(100) < copies;
                    let form = match () {
                        () if shifts > 0 && dice.below(5) > 1 => SHIFTING,
                        () if rereads && dice.below(2) == 0 => {
                            // One that is prepared already, mostly.
                            statements.resize(dice.of(&[1, 3, 3, 3]), READ);
                            PREPARED
                        }
                        () if mixes && dice.below(3) == 0 => MIXED,
                        () if copies => COPIES + dice.below(SHIFTING - COPIES),
                        () => dice.below(COPIES),
                    };
                    Step::Say { who, form, statements }
                }
                28..34 => Step::Send { who, bytes: dice.below(64) },
                34..50 => Step::Send { who, bytes: usize::MAX },
                50..64 => Step::Work { who, messages: dice.below(4) + 1 },
                64..68 => Step::Tell { who, bytes: dice.below(40) },
                68..80 => Step::Tell { who, bytes: usize::MAX },
                80..83 => Step::Strike { who, how: dice.below(3) },
                83..86 => Step::Cancel { who },
                86..88 => Step::TakeCancels,
                88..90 => Step::Leave { who },
                90..92 => Step::Mutter { who, what: dice.below(3) },
                92..95 => {
                    Step::Pass { time: Duration::from_millis(dice.of(&[1, 15, 30, 120, 700, 2500, 6000, 25_000])) }
                }
                95..97 if !crowded => Step::Settle,
                95..100 => Step::Turn,
                kind if kind < 100 + deaths => Step::Kill { who },
                kind if kind < 100 + deaths + orders => Step::Order { what: dice.below(ORDERS.len()) },
                kind if kind < 100 + deaths + orders + restarts => match kind - 100 - deaths - orders {
                    0 => Step::Stop { who },
                    _ => Step::Start { who },
                },
                kind if kind < 100 + deaths + orders + restarts + tides => match dice.below(10) {
                    0..3 => Step::Replay { who, count: dice.below(4) + 1 },
                    3..6 => Step::Look { who },
                    _ => Step::Ask { who },
                },
                kind if kind < 100 + deaths + orders + restarts + tides + failovers => match dice.below(3) {
                    0 => Step::Promote { who },
                    1 => Step::Stop { who },
                    _ => Step::Start { who },
                },
                kind if kind < 100 + deaths + orders + restarts + tides + failovers + shifts => {
                    Step::Shift { to: dice.below(3) }
                }
                kind if kind < 100 + deaths + orders + restarts + tides + failovers + shifts + losses => {
                    Step::GiveUpPlans
                }
                _ => Step::Reload { user: dice.below(USERS.len()) },
            },
        );
        if crowded && matches!(steps.last(), Some(Step::Say { .. })) {
            steps.push(Step::Send { who, bytes: usize::MAX });
        }
        // What comes in one turn may have come at any time before.
        if dice.below(100) < hurry {
            steps.push(Step::Turn);
        }
    }
    if setup.pools > 2 && reloads == 0 {
        steps.push(Step::Bustle { seed });
    }
    (setup, steps)
}

/// Clients of several pools, which keep within limits that they share.
fn share_limits(dice: &mut Dice, setup: &mut Setup) {
    setup.pools = dice.of(&[3, 4, 4]);
    setup.clients = dice.of(&[4, 6, 8]);
    setup.wait = 120;
    let limit = |dice: &mut Dice| dice.of(&[0, 1, 1, 2, 3]);
    setup.quota = Quota { database: limit(dice), user: limit(dice) };
}

/// A statement by its number: some schedules are of clients that LISTEN and NOTIFY much, in others nobody does.
fn statement(dice: &mut Dice, talks: bool, spread: bool) -> usize {
    let number = dice.below(256);
    // What goes to one server, and what may go to others.
    if spread && dice.below(2) == 0 {
        return dice.of(&[26, READ]);
    }
    match number % SENTENCES {
        32..=38 if !talks => READ,
        _ if talks && dice.below(3) == 0 => 32 + dice.below(7),
        _ => number,
    }
}

/// The schedule that a fuzzer's bytes stand for.
pub fn of_bytes(bytes: &[u8]) -> (Setup, Vec<Step>) {
    let mut bytes = bytes.iter();
    let mut next = || bytes.next().map(|byte| usize::from(*byte));
    let choice = next().unwrap_or(0);
    let setup = Setup {
        pool_size: choice % 2 + 1,
        pipelining: choice / 2 % 2 == 1,
        reports_search_path: choice / 4 % 2 == 0,
        stall: Duration::from_millis(if choice & 16 == 0 { 0 } else { 20 }),
        ..Setup::default()
    };
    let mut steps = Vec::new();
    // What goes on for long shows no more than what goes on for a while.
    for _ in 0..200 {
        let Some(first) = next() else { break };
        let (who, what) = (first / 16 % setup.clients, first % 16);
        let mut below = |limit: usize| next().unwrap_or(0) % limit;
        steps.push(match what {
            0..=3 => {
                let statements = (0..=below(3)).map(|_| below(256)).collect();
                Step::Say { who, form: first / 16, statements }
            }
            4 => Step::Send { who, bytes: below(64) },
            5 => Step::Send { who, bytes: usize::MAX },
            6 => Step::Work { who, messages: below(4) + 1 },
            7 => Step::Tell { who, bytes: below(40) },
            8 => Step::Tell { who, bytes: usize::MAX },
            9 => Step::Strike { who, how: below(3) },
            10 => Step::Kill { who },
            11 => Step::Cancel { who },
            12 => Step::TakeCancels,
            13 => Step::Leave { who },
            14 => Step::Mutter { who, what: below(3) },
            _ if first & 128 != 0 => Step::Pass { time: Duration::from_millis(1 << below(15)) },
            _ => Step::Settle,
        });
        if first & 128 == 0 || what > 8 {
            steps.push(Step::Turn);
        }
    }
    (setup, steps)
}
