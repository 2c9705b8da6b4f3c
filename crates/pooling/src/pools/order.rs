//! The order of the clients that wait in a pool: first come, first served, but for sessions with the settings of a
//! connection.
//!
//! Bringing a session in line costs about as much as a statement. If each connection went to the client that has waited
//! longest, sessions of a few different settings would have every connection brought in line for every statement, and
//! no connection would keep to one kind of session. So clients for which nothing must be brought in line may go before
//! the first client, a bounded number of times: then the first client gets the next connection whatever its settings.

use crate::model::keys::{ClientKey, PoolKey, ServerKey};

use crate::pools::{align, room};
use crate::state::Core;

/// The number of waiting clients that are looked at, of each queue.
const LOOKED_AT: usize = 64;

/// Takes the client off the queues that a free server connection goes to: the one that has waited longest, or one
/// behind it that needs no alignment.
pub fn next(core: &mut Core, pool_key: PoolKey, server: ServerKey) -> Option<ClientKey> {
    let first = core.pools.get(pool_key)?.first_waiting(&core.clients)?;
    let chosen = if suits(core, server, first) || !may_be_passed(core, first) {
        first
    } else {
        let queue = &core.pools.get(pool_key)?.queue;
        let looked_at = queue.waiting.iter().take(LOOKED_AT).chain(queue.sharing.iter().take(LOOKED_AT));
        looked_at.copied().find(|key| suits(core, server, *key)).unwrap_or(first)
    };
    take(core, pool_key, first, chosen);
    Some(chosen)
}

/// Takes a client off the queue of those that share: the first one, or, behind a first one that was `turned_away`, one
/// whose settings a pipelined connection with room has.
pub fn next_sharer(core: &mut Core, pool_key: PoolKey, turned_away: bool) -> Option<ClientKey> {
    let pool = core.pools.get(pool_key)?;
    let first = pool.queue.sharing.front().copied()?;
    let mut chosen = first;
    if turned_away {
        if !may_be_passed(core, first) {
            return None;
        }
        let mut others = pool.queue.sharing.iter().skip(1).take(LOOKED_AT).copied();
        let shares = |client| room::emptiest(core, pool, client).is_some();
        chosen = others.find(|key| core.clients.get(*key).is_some_and(shares))?;
    }
    take(core, pool_key, first, chosen);
    Some(chosen)
}

/// Whether a session on a server connection has the settings of a waiting client. Whether the connection is for reads
/// alone does not count: a write would wait behind all reads.
fn suits(core: &Core, server: ServerKey, key: ClientKey) -> bool {
    let pair = core.servers.get(server).zip(core.clients.get(key));
    pair.is_some_and(|(server, client)| server.known.session.has_settings(&align::target(client, &core.pools)))
}

/// Whether others may go before this client, which is the first.
fn may_be_passed(core: &Core, first: ClientKey) -> bool {
    core.clients.get(first).is_some_and(|client| client.checkout.may_be_passed())
}

/// Takes a client off the queues; the first one is noted to be passed, if it is another.
fn take(core: &mut Core, pool_key: PoolKey, first: ClientKey, chosen: ClientKey) {
    if let Some(passed) = core.clients.get_mut(first).filter(|_| first != chosen) {
        passed.checkout.pass();
    }
    let Some(queue) = core.pools.get_mut(pool_key).map(|pool| &mut pool.queue) else { return };
    for queue in [&mut queue.waiting, &mut queue.sharing] {
        if let Some(place) = queue.iter().take(LOOKED_AT + 1).position(|waiting| *waiting == chosen) {
            queue.remove(place);
            return;
        }
    }
}
