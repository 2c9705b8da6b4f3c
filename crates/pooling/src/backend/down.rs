//! What the clients of a pool are told whose server cannot be reached.

use crate::model::keys::PoolKey;

use crate::error::Error;
use crate::frontend::leave;
use crate::router::reroute;
use crate::state::Core;
use crate::state::client::Client;

/// Tells those who wait in a pool whose server is down that there is none. Those who have logged in may go on waiting,
/// if the configuration says so and time may mend it.
pub fn refuse_while_down(core: &mut Core, key: PoolKey, error: &Error) {
    let Some(pool) = core.pools.get_mut(key.0) else { return };
    if pool.cluster_of.home.is_some() {
        // Another server of the cluster may do.
        reroute::reroute(core, key);
        return;
    }
    let may_wait = core.config.settings.queue_while_down
        && pool.connections.failure.as_ref().is_some_and(|failure| failure.may_pass);
    let greeting = std::mem::take(&mut pool.queue.greeting);
    let mut refused = Vec::new();
    for queue in [&mut pool.queue.waiting, &mut pool.queue.sharing] {
        queue.retain(|&key| {
            let stays = may_wait && core.clients.get(key.0).is_some_and(Client::is_ready);
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
