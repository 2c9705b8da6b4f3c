//! The errors for the clients of a pool whose server cannot be reached.

use std::time::Duration;

use crate::model::keys::{ClientKey, PoolKey};

use crate::error::Error;
use crate::pools::{leave, reroute};
use crate::state::Core;
use crate::state::client::Client;

/// The time for which a client waits for one of the pool's connections when the server refuses another for a reason
/// that time does not mend.
const HOPE: Duration = Duration::from_secs(1);

/// Sends clients that wait in a pool whose server is down an error. Clients that have logged in may go on waiting, if
/// the configuration says so and time may mend it.
pub fn refuse_while_down(core: &mut Core, key: PoolKey, error: &Error) {
    let Some(pool) = core.pools.get_mut(key) else { return };
    if pool.cluster_of.home.is_some() {
        // Another server of the cluster may serve them.
        reroute::reroute(core, key);
        return;
    }
    let may_wait = core.config.settings.queue_while_down
        && pool.connections.failure.as_ref().is_some_and(|failure| failure.may_pass);
    let greeting = std::mem::take(&mut pool.queue.greeting);
    let mut refused = Vec::new();
    for queue in [&mut pool.queue.waiting, &mut pool.queue.sharing] {
        queue.retain(|&key| {
            let stays = may_wait && core.clients.get(key).is_some_and(Client::is_ready);
            if !stays {
                refused.push(key);
            }
            stays
        });
    }
    for client in greeting {
        leave::fatal(core, client, error);
    }
    for client in refused {
        leave::refuse(core, client, error);
    }
}

/// Sends clients that have waited for [`HOPE`] the reason why the server refuses the pool another connection, where
/// waiting does not help: after a change of the password, say, while all connections of the pool are busy. As long as
/// connections become free, they serve the clients in turn.
pub fn refuse_hopeless(core: &mut Core, key: PoolKey) {
    let Some(pool) = core.pools.get(key) else { return };
    let Some(failure) = pool.connections.failure.as_ref().filter(|failure| !failure.may_pass) else { return };
    // Another server of a cluster may serve them; in a pool that is paused or full the refusal is not why its clients
    // wait.
    if pool.cluster_of.home.is_some() || pool.limits.paused || pool.connections.servers.len() >= pool.limits.size {
        return;
    }
    if pool.queue.served.is_some_and(|served| core.now.saturating_duration_since(served) < HOPE) {
        return;
    }
    let known = failure.holds(core.now, core.config.settings.server_login_retry.0);
    let hopeless = |key: &&ClientKey| {
        let since = core.clients.get(**key).and_then(|client| client.checkout.waits().or(client.route.waiting_since));
        let long = |since| core.now.saturating_duration_since(since) >= HOPE && (known || failure.at >= since);
        since.is_some_and(long)
    };
    let queue = &pool.queue;
    let all = queue.greeting.iter().chain(&queue.waiting).chain(&queue.sharing);
    let refused: Vec<ClientKey> = all.filter(hopeless).copied().collect();
    let error = Error::CannotConnect(failure.cause.clone());
    for client in refused {
        leave::refuse(core, client, &error);
    }
}
