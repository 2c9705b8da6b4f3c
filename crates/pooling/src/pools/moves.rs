//! Clients that go to another pool, or to the process that has taken the sockets over: each between two of its units, with
//! its whole session.

use std::rc::Rc;

use crate::model::held::Held;
use crate::model::keys::ClientKey;
use crate::model::session::Sets;
use crate::model::statement::Carried;
use crate::model::turn::Turn;
use crate::model::vars::Vars;

use crate::error::Error;
use crate::pools::{leave, upkeep, welcome};
use crate::router::fingerprints;
use crate::shared::Message;
use crate::state::client::{Client, State};
use crate::state::transfer::{CarriedIdentity, CarriedSession, CarriedStatements, Transfer};
use crate::state::{Core, size, sockets};
use crate::sync::lock;

/// Takes a client out of this worker, with its whole session.
pub fn pack(core: &mut Core, key: ClientKey) -> Option<Transfer> {
    let client = core.clients.get_mut(key)?;
    let (place, home) = (client.identity.place.take()?, client.route.home?);
    let client = core.clients.remove(key)?;
    sockets::unwatch(core, &client.io);
    let pool = core.pools.get_mut(home)?;
    pool.queue.clients = pool.queue.clients.saturating_sub(1);
    if pool.queue.clients == 0 {
        pool.queue.unused_since = Some(core.now);
    }
    let carried = |(name, held): (Box<[u8]>, Rc<Held>)| (name, held.carry());
    let Client { io, id, identity, route, session, prepared, times, activity, .. } = client;
    let identity = CarriedIdentity {
        permit: identity.permit,
        place,
        user: identity.user.to_string(),
        database: identity.database.to_string(),
        served_as: pool.name.user.to_string(),
        cancel_key: identity.cancel_key,
        minor: identity.minor,
        since: identity.since,
        admin: identity.admin,
    };
    let session = CarriedSession {
        settings: (session.vars.carry(), session.sets.carry()),
        startup: (session.startup.0.carry(), session.startup.1.carry()),
        role: route.role,
        primary_reads: route.primary_reads,
        shard: route.chosen,
        owed: route.owed,
    };
    let prepared = CarriedStatements {
        statements: prepared.statements.into_iter().map(carried).collect(),
        unnamed: prepared.unnamed.map(|held| held.carry()),
        renamed: prepared.renamed,
    };
    let (request_since, kills) = (times.request_since, core.lifecycle.kills);
    Some(Transfer { io, id, identity, session, prepared, request_since, activity, kills })
}

/// Gives a client that the other process does not take back to its worker.
pub fn give_back(core: &Core, transfer: Transfer) {
    core.shared.tell(transfer.identity.place.worker(), Message::Returned(Box::new(transfer)));
}

/// Takes in a client that comes from another pool, or another process.
pub fn settle_in(core: &mut Core, transfer: Transfer) -> Option<ClientKey> {
    let Transfer { mut io, id, identity, session, prepared, request_since, activity, kills } = transfer;
    let CarriedIdentity { permit, place, user, database, served_as, cancel_key, minor, since, admin } = identity;
    let CarriedSession { settings, startup, role, primary_reads, shard, owed } = session;
    let CarriedStatements { statements, unnamed, renamed } = prepared;
    let key = core.clients.vacant();
    if let Err(error) = sockets::watch_client(core, key, &mut io) {
        crate::warning!("cannot watch a client's socket: {error}");
        lock(&core.shared.cancels).remove(&cancel_key);
        return None;
    }
    io.readable = true;
    let (database, user): (Rc<str>, Rc<str>) = (database.as_str().into(), user.as_str().into());
    let pool_key = size::pool_of(core, &database, &served_as.as_str().into());
    welcome::take_welcome(core, pool_key);
    if core.pools.get_mut(pool_key).is_some_and(|pool| std::mem::take(&mut pool.name.unproven)) {
        size::size_pool(core, pool_key);
    }
    // Otherwise its statements would be taken for older than all that are prepared here, and not be shared.
    let renewals = fingerprints::fingerprints_of(&mut core.context(), pool_key)
        .map(|fingerprints| fingerprints.knowledge().renewals());
    let mut client = Client::new(io, permit, since, id);
    client.pass_to(State::Ready);
    (client.identity.user, client.identity.database, client.identity.place) = (user, database, Some(place));
    (client.route.pool, client.route.home) = (Some(pool_key), Some(pool_key));
    if let Some(pool) = core.pools.get_mut(pool_key) {
        pool.queue.clients += 1;
        pool.queue.unused_since = None;
        pool.statements.renew(renewals);
        client.session.vars = Vars::carried(settings.0, &pool.greetings.defaults);
        client.session.startup.0 = Vars::carried(startup.0, &client.session.vars);
        let mut adopt = |carried: Carried| {
            let shape = carried.shape();
            Held::told(pool.statements.adopt(carried), shape)
        };
        client.prepared.statements = statements.into_iter().map(|(name, carried)| (name, adopt(carried))).collect();
        client.prepared.unnamed = unnamed.map(adopt);
    }
    (client.session.sets, client.session.startup.1) = (Sets::carried(settings.1), Sets::carried(startup.1));
    (client.route.role, client.route.primary_reads, client.route.owed) = (role, primary_reads, owed);
    client.route.chosen = shard;
    (client.prepared.renamed, client.identity.minor, client.identity.admin) = (renamed, minor, admin);
    (client.activity, client.times.request_since) = (activity, request_since);
    // Where it comes from it may have been told more than the connection that listens here has read.
    client.session.listened_alone = true;
    client.input.suspended = core.is_suspended();
    lock(&core.shared.cancels).insert(cancel_key.clone(), (core.id, key));
    client.identity.cancel_key = cancel_key;
    core.clients.insert(client);
    let was_killed = core.pools.get(pool_key).is_some_and(|pool| pool.limits.paused) && kills < core.lifecycle.kills;
    if was_killed {
        leave::fatal(core, key, &Error::Killed);
        return None;
    }
    upkeep::place(core, key);
    core.schedule.give_turn(Turn::Client(key));
    Some(key)
}
