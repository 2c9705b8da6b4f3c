//! What a worker does when it is given an order from the console, and the answers that come back.

use std::time::Duration;

use crate::model::keys::{PoolKey, ServerKey};

use crate::admin::command::Command;
use crate::admin::order::{Answer, Look, Order};
use crate::admin::seen::Snapshot;
use crate::admin::{measure, pools, result, snapshot, suspend};
use crate::error::Error;
use crate::pause::{is_paused, names};
use crate::pools::{close, configure, free, grow, leave, welcome};
use crate::shared::Message;
use crate::state::client::{Client, State as ClientState};
use crate::state::server::{Server, State};
use crate::state::{Core, sockets};
use crate::sync::lock;

/// The time between two looks of a PAUSE.
const AGAIN: Duration = Duration::from_millis(50);

/// Works on a worker's answer to a question of this one.
pub fn console_answer(core: &mut Core, number: u64, answer: Answer) {
    let Some(asked) = core.lifecycle.console.asked.get_mut(&number) else { return };
    asked.answers.push(answer);
    asked.missing = asked.missing.saturating_sub(1);
    if asked.missing > 0 {
        return;
    }
    let left: usize = asked.answers.iter().map(|answer| if let Answer::Left(left) = answer { *left } else { 0 }).sum();
    if left > 0 && asked.command.waits() {
        asked.again = Some(core.now + AGAIN);
        return;
    }
    let Some(asked) = core.lifecycle.console.asked.remove(&number) else { return };
    // The client may have gone, or have been killed by its own command.
    let waits = |client: &&mut Client| {
        client.input.console_waits == Some(number) && matches!(client.state(), ClientState::Console)
    };
    let Some(client) = core.clients.get_mut(asked.client).filter(waits) else { return };
    client.input.console_waits = None;
    let resumed =
        |name: &Option<String>| !lock(&core.shared.orders.paused).contains(name.as_deref().unwrap_or_default());
    match &asked.command {
        Command::Pause(name) if resumed(name) => {
            result::refused(core, asked.client, &Error::PauseEnded);
        }
        command => result::result(core, asked.client, command, asked.answers),
    }
    sockets::flush_client(core, asked.client);
    core.schedule.give_turn(crate::model::turn::Turn::Client(asked.client));
}

/// Asks the questions again that are not finished.
pub fn console_tick(core: &mut Core) {
    let now = core.now;
    let due: Vec<u64> = core
        .lifecycle
        .console
        .asked
        .iter()
        .filter(|(_, asked)| asked.again.is_some_and(|again| now >= again))
        .map(|(&number, _)| number)
        .collect();
    for number in due {
        let Some(asked) = core.lifecycle.console.asked.get_mut(&number) else { continue };
        if core.clients.get(asked.client).is_none_or(|client| client.input.console_waits != Some(number)) {
            core.lifecycle.console.asked.remove(&number);
            continue;
        }
        asked.again = None;
        asked.answers.clear();
        asked.missing = core.shared.mailboxes.len();
        if let Some(order) = asked.command.order() {
            core.shared.tell_all(|| Message::Order(core.id, number, order.clone()));
        }
    }
}

/// Carries out an order of the console on this worker.
pub fn obey(core: &mut Core, order: &Order) -> Answer {
    match order {
        Order::Look(look) => Answer::Seen(match look {
            Look::Whole => snapshot::snapshot(core),
            Look::Pools => Snapshot { pools: pools::pools_seen(core), ..Snapshot::default() },
            Look::Shapes => Snapshot { shapes: measure::shapes(core), ..Snapshot::default() },
        }),
        Order::Pause(database) => Answer::Left(pause(core, database.as_deref())),
        Order::Suspend => Answer::Left(suspend::suspend(core)),
        Order::Resume(database) => {
            suspend::end_suspension(core);
            for key in pools_of(core, database.as_deref()) {
                configure::resize_pool(core, key);
                free::serve_queue(core, key);
            }
            Answer::Left(0)
        }
        Order::Reconnect(database) => {
            let pools = pools_of(core, database.as_deref());
            let servers = servers_of(core, &pools);
            close::retire(core, &servers);
            for key in pools {
                close::retire_subscriber(core, key);
                welcome::forget(core, key);
                grow::grow(core, key);
            }
            Answer::Left(0)
        }
        Order::WaitClose(database) => {
            let pools = pools_of(core, database.as_deref());
            let servers = servers_of(core, &pools);
            let left = servers.iter().filter(|key| core.servers.get(**key).is_some_and(|server| server.life.retire));
            Answer::Left(left.count())
        }
        Order::Kill(database) => {
            kill(core, database.as_deref());
            Answer::Left(0)
        }
        Order::KillClient(id) => Answer::Found(kill_client(core, *id)),
    }
}

/// Pauses pools and closes the connections that are not lent; gives the number of the others.
fn pause(core: &mut Core, database: Option<&str>) -> usize {
    let mut pools = pools_of(core, database);
    // A PAUSE that waits asks again and again, and RESUME may have come meanwhile.
    pools.retain(|key| {
        let Some(pool) = core.pools.get_mut(*key) else { return false };
        pool.limits.paused = is_paused(&core.shared, &pool.name.database, &pool.name.user);
        pool.limits.paused
    });
    for key in &pools {
        if let Some(pool) = core.pools.get(*key) {
            let idle: Vec<ServerKey> = pool.connections.idle.iter().copied().collect();
            for server in idle {
                close::close_server(core, server, "PAUSE");
            }
        }
    }
    servers_of(core, &pools).len()
}

/// Closes the clients and the server connections of pools, which are paused from then on.
fn kill(core: &mut Core, database: Option<&str>) {
    core.lifecycle.kills += 1;
    let pools = pools_of(core, database);
    for client in core.clients.keys_of(|client| client.route.pool.is_some_and(|pool| pools.contains(&pool))) {
        leave::fatal(core, client, &Error::Killed);
    }
    for server in servers_of(core, &pools) {
        close::close_server(core, server, "KILL");
    }
    for key in pools {
        close::retire_subscriber(core, key);
        if let Some(pool) = core.pools.get_mut(key) {
            pool.limits.paused = true;
        }
    }
}

/// Closes a client; whether it is here.
fn kill_client(core: &mut Core, id: u64) -> bool {
    let is_it = |client: &Client| client.id == id && !matches!(client.state(), ClientState::Closing);
    let found = core.clients.iter().find(|(_, client)| is_it(client)).map(|(key, _)| key);
    if let Some(key) = found {
        leave::fatal(core, key, &Error::KilledClient);
    }
    found.is_some()
}

fn pools_of(core: &Core, named: Option<&str>) -> Vec<PoolKey> {
    core.pools.keys_of(|pool| named.is_none_or(|named| names(named, &pool.name.database, &pool.name.user)))
}

fn servers_of(core: &Core, pools: &[PoolKey]) -> Vec<ServerKey> {
    // A connection beside the pool stays for as long as its clients do.
    let is_of_pool = |server: &Server| {
        server.cancels.target.is_none() && !matches!(server.state(), State::Cancelling) && server.apart.is_none()
    };
    core.servers.keys_of(|server| pools.contains(&server.pool) && is_of_pool(server))
}
