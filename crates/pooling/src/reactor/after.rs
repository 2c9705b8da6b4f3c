//! The work between two inputs.
//!
//! While the bytes of one connection are processed, no connection is opened, closed or given back: each of
//! these changes the owner of something, and the loop over the input would go on with outdated values. Such work is put
//! on a list and done after the input, and each piece of it first looks at the state at that time.

use crate::model::keys::PoolKey;
use crate::model::turn::After;

use crate::backend::{aligned, cancel, down, gone, logged_in, subscriber};
use crate::frontend::{enter, looked_up};
use crate::pools::{close, free, grow, leave, order, roles};
use crate::reactor::feed;
use crate::state::Core;

/// Does the work that was put off.
pub fn run_after(core: &mut Core) {
    // This work may handle inputs, which may put off more.
    if std::mem::replace(&mut core.schedule.in_after, true) {
        return;
    }
    while let Some(what) = core.schedule.after.pop_front() {
        match what {
            After::Gone(key) => {
                let why = core.servers.get_mut(key).and_then(|server| server.life.doomed.take());
                if let Some(why) = why {
                    gone::server_gone(core, key, &why);
                }
            }
            After::Close(key, why) => {
                let pool = core.servers.get(key).map(|server| server.pool);
                close::close_server(core, key, why);
                pool.into_iter().for_each(|pool| grow::grow(core, pool));
            }
            After::Free(key) => free::free(core, key),
            After::LoggedIn(key) => logged_in::logged_in(core, key),
            After::Standby(key) => roles::found_standby(core, key),
            After::Unaligned(key) => aligned::unaligned(core, key),
            After::Lookup(key) => looked_up::lookup(core, key),
            After::Verified(key) => aligned::startup_verified(core, key),
            After::Greet(key) => enter::greet(core, key),
            After::LookedUp(key) => looked_up::lookup_done(core, key),
            After::Stop(key) => cancel::stop_unwanted(core, key),
            After::Grow(key) => grow::grow(core, key),
            After::Widen(key) => grow::grow_by_one(core, key),
            After::Share(key) => serve_sharers(core, key),
            After::Subscriber(key) => subscriber::make_subscriber(core, key),
            After::Deaf(key) => subscriber::part_with_deaf(core, key),
            After::Expel(key, error) => leave::fatal(core, key, &error),
            After::Refuse(key, error) => down::refuse_while_down(core, key, &error),
            After::LookupRefused(key, why) => looked_up::lookup_failed(core, key, &why, false),
            After::SubscriberFailed(key, why) => subscriber::subscriber_failed(core, key, &why),
            After::Leave(key, why) => leave::close_client(core, key, &why),
        }
    }
    core.schedule.in_after = false;
}

/// Gives room in pipelined connections to the clients that wait for it, in order, while there is any.
fn serve_sharers(core: &mut Core, pool_key: PoolKey) {
    let mut turned_away = false;
    loop {
        let Some(pool) = core.pools.get(pool_key) else { return };
        let depth = pool.depth(&core.config.settings);
        let servers = &core.servers;
        let room = pool.connections.pipelined.iter().filter_map(|pipeline| servers.get(*pipeline)?.pipeline());
        if pool.limits.paused || !room.clone().any(|pipeline| !pipeline.closed && pipeline.units.len() < depth) {
            return;
        }
        let Some(key) = order::next_sharer(core, pool_key, turned_away) else { return };
        let Some(client) = core.clients.get_mut(key) else { continue };
        let Some(since) = client.checkout.stop_waiting() else { continue };
        let waited = core.now.saturating_duration_since(since);
        // If the client finds no room, it has waited since then all the same.
        client.route.waiting_since = Some(since);
        feed::feed_client(core, key, &[], Some(waited));
        if let (Some(client), Some(pool)) = (core.clients.get_mut(key), core.pools.get_mut(pool_key)) {
            if client.checkout.waits().is_none() {
                client.route.waiting_since = None;
            }
            if client.checkout.pipelined().is_some() {
                pool.counts.totals.wait_time += waited;
            }
        }
        // The client found no pipelined connection with its settings: clients behind it may.
        let waits_on = core.pools.get(pool_key).is_some_and(|pool| pool.queue.sharing.front() == Some(&key));
        if waits_on && std::mem::replace(&mut turned_away, true) {
            return;
        }
    }
}
