//! Server connections that are handed from one worker to another, where clients have waited longer.
//!
//! [`crate::model::Ledger`] decides which connection is handed over, and when. It must be free: no request unanswered,
//! no transaction open, no cancel request on its way, no session state of the client before. The known settings of the
//! session go with it, and the list of its prepared statements, which have the same names on all workers.

use std::rc::Rc;

use crate::model::keys::{PoolKey, ServerKey, WorkerId};
use crate::model::session::{Confirmed, Sets};
use crate::model::turn::{After, Turn};
use crate::model::vars::Vars;
use crate::model::{Standing, Step};

use crate::pools::neighbours::{self, may_travel};
use crate::pools::{checks, size, welcome};
use crate::reactor::{sockets, turns};
use crate::router::members;
use crate::shared::Message;
use crate::state::Core;
use crate::state::server::Server;
use crate::state::traveller::{CarriedBelief, Parcel};

/// Reports the state of a pool here to its other workers, and does what follows from that.
pub fn balance(core: &mut Core, key: PoolKey) {
    while let Some(pool) = core.pools.get(key.0).filter(|pool| pool.common.is_shared()) {
        let idle = pool.connections.idle.iter().find(|idle| core.servers.get(idle.0).is_some_and(may_travel)).copied();
        let (oldest, waiting) = (neighbours::hunger(core, pool), neighbours::waiting_for_more(core, key));
        let standing = Standing { idle: idle.is_some(), oldest, waiting, stuck: pool.connections.failure.is_some() };
        match pool.common.report(standing, pool.limits.size) {
            Step::Nothing => return,
            Step::Ask(other) => return neighbours::tell_member(core, key, WorkerId(other), Message::Wanted),
            Step::Give(other) => match idle {
                Some(idle) => send_over(core, idle, WorkerId(other)),
                None => return,
            },
        }
    }
}

/// Hands a connection that has become free to another worker, if that worker's turn has come.
pub fn gives_away(core: &mut Core, key: ServerKey) -> bool {
    let Some(server) = core.servers.get(key.0).filter(|server| may_travel(server)) else { return false };
    let Some(pool) = core.pools.get(server.pool.0).filter(|pool| pool.common.is_shared()) else { return false };
    let waiting = neighbours::waiting_for_more(core, server.pool);
    let next =
        pool.next_oldest(&core.clients).filter(|_| !pool.limits.paused).map(|since| neighbours::micros(core, since));
    let heir = pool.common.heir(
        (neighbours::hunger(core, pool), next),
        waiting,
        neighbours::micros(core, core.now),
        pool.limits.size,
    );
    if let Some(heir) = heir {
        send_over(core, key, heir);
    }
    heir.is_some()
}

/// Sends a free connection to another worker.
fn send_over(core: &mut Core, key: ServerKey, to: WorkerId) {
    let unchecked = core.servers.get(key.0).is_some_and(|server| checks::is_to_be_checked(core, server));
    let Some(mut server) = core.servers.remove(key.0) else { return };
    sockets::unwatch(core, &server.io);
    let Some(pool) = core.pools.get_mut(server.pool.0) else { return };
    pool.connections.servers.retain(|other| *other != key);
    pool.connections.idle.retain(|other| *other != key);
    pool.counts.totals.moved.connections += 1;
    pool.connections.owes = false;
    let (Some(mut permit), Some(mut berth)) = (server.permit.take(), server.berth.take()) else { return };
    permit.hand_over(to);
    berth.hand_over(to);
    let Server { io, id, at, known, cancels, life, .. } = server;
    let Confirmed { sets, vars, read_only, base } = known.session;
    let carried = CarriedBelief {
        sets: sets.carry(),
        vars: vars.carry(),
        read_only,
        base: (&*base).into(),
        parameters: known.parameters,
        standby: known.standby,
        mark: known.mark,
        statements: known.statements,
    };
    let parcel = Parcel {
        io,
        permit,
        berth,
        id,
        place: (at.host, at.port, at.address),
        known: carried,
        cancel_key: cancels.key,
        since: life.since,
        sslmode: at.sslmode,
        unchecked,
        orders: core.lifecycle.orders,
    };
    core.shared.tell(to, Message::HandedOver(Box::new(parcel)));
}

/// Takes a connection from another worker; gives the pool that has it now.
pub fn take_over_server(core: &mut Core, parcel: Parcel) -> Option<PoolKey> {
    let Parcel { mut io, permit, id, place: (host, port, address), known, .. } = parcel;
    let Parcel { berth, cancel_key, since, sslmode, unchecked, orders, .. } = parcel;
    let CarriedBelief { sets, vars, read_only, base, parameters, standby, mark, statements } = known;
    let key = size::pool_named(core, permit.name());
    let slot = ServerKey(core.servers.vacant());
    let watched = sockets::watch_taken(core, slot, &mut io);
    let pool = key.and_then(|key| Some((key, core.pools.get_mut(key.0)?)));
    let (Some((pool_key, pool)), Ok(())) = (pool, watched) else {
        // The pool was given up here meanwhile. The server's process ends with its connection.
        sockets::unwatch(core, &io);
        return None;
    };
    let mut server = Server::new(io, host, port, address, pool_key, core.now, id);
    server.at.place = pool.counts.stats.place(&server.at.host, port);
    pool.connections.servers.push(slot);
    let vars = Vars::carried(vars, &pool.greetings.defaults);
    server.known.session = Confirmed { sets: Sets::carried(sets), vars, read_only, base: Rc::from(base) };
    (server.permit, server.berth, server.known.parameters) = (Some(permit), Some(berth), parameters);
    (server.cancels.key, server.life.since, server.known.standby) = (cancel_key, since, standby);
    (server.at.sslmode, server.known.mark, server.known.statements) = (sslmode, mark, statements.arrived());
    // Later orders have not reached the connection: it may be of the configuration before.
    server.life.retire = orders < core.lifecycle.orders;
    server.life.suspended = core.is_suspended();
    server.prepare(None, core.now);
    server.io.readable = true;
    core.servers.insert(server);
    if unchecked {
        checks::run_check(core, slot);
    } else {
        turns::later(core, After::Free(slot));
    }
    welcome::take_welcome(core, members::home_of(core, pool_key));
    turns::give_turn(core, Turn::Server(slot));
    Some(pool_key)
}
