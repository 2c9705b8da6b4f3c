//! The departure of clients to another pool, or to the process that has taken over the sockets.

use crate::model::keys::ClientKey;

use crate::pools::moves;
use crate::pools::{leave, upkeep};
use crate::state::Core;
use crate::state::adopted::{Described, Row};
use crate::state::client::Client;
use crate::state::transfer::{Bound, CarriedIdentity, Transfer};
use crate::sync::lock;

/// Sends a client to its destination, if it can leave now.
pub fn moves_away(core: &mut Core, key: ClientKey) -> bool {
    let Some(client) = core.clients.get(key) else { return false };
    match client.moves_to {
        Some(Bound::Pool) if client.may_change_pool() => change_pool(core, key),
        _ if !client.may_leave_process() => false,
        Some(Bound::Successor) => leave_for_successor(core, key),
        _ => false,
    }
}

/// Sends a client to the pool that serves it by the configuration, or closes the client: it logged in to be another user
/// here, which it may not be any longer.
fn change_pool(core: &mut Core, key: ClientKey) -> bool {
    if let Some(error) = upkeep::no_longer_served(core, key) {
        leave::fatal(core, key, &error);
        return true;
    }
    let since = core.clients.get(key).and_then(|client| client.route.waiting_since);
    let Some(mut transfer) = moves::pack(core, key) else { return false };
    let CarriedIdentity { database, user, served_as, .. } = &mut transfer.identity;
    *served_as = core.config.pool_user(database, user).to_owned();
    if let Some(client) = moves::settle_in(core, transfer).and_then(|key| core.clients.get_mut(key)) {
        client.route.waiting_since = since;
    }
    true
}

/// Marks all clients that can go to the process that has taken the sockets over, and sends those off that have nothing
/// under way. Those that are to go to another pool do that first, since it is not certain that the process takes them.
pub fn mark_leaving(core: &mut Core) {
    if !core.shared.takeover.has_successor() {
        return;
    }
    let goes = |client: &Client| client.is_ready() && client.io.tls().is_none();
    let mut ready = Vec::new();
    for (key, client) in core.clients.iter_mut().filter(|(_, client)| goes(client)) {
        if client.moves_to != Some(Bound::Pool) {
            client.moves_to = Some(Bound::Successor);
        }
        ready.push(key);
    }
    for key in ready {
        moves_away(core, key);
    }
}

/// Puts a client among those that the other process takes next.
fn leave_for_successor(core: &mut Core, key: ClientKey) -> bool {
    // A client that is not taken at once is still served here.
    if !core.shared.takeover.has_successor() || !core.shared.takeover.has_room(core.now) {
        return false;
    }
    let Some(transfer) = moves::pack(core, key) else { return false };
    lock(&core.shared.cancels).remove(&transfer.identity.cancel_key);
    match core.shared.takeover.leaves(transfer) {
        Ok(()) => (),
        // The other process has ended at this moment.
        Err(transfer) => drop(moves::settle_in(core, *transfer)),
    }
    true
}

/// The rows and sockets of the clients that go next, which this console client takes over.
pub fn next_leaving(core: &mut Core, key: ClientKey) -> Vec<Transfer> {
    core.shared.takeover.inherit(key, core.now)
}

/// The rows that describe a client that goes.
pub fn describe(core: &Core, transfer: &Transfer) -> Vec<Row> {
    let learnt = lock(&core.shared.learnt).recall(&core.config, &transfer.identity.database, &transfer.identity.user);
    Described::of(transfer, &core.parameters.tracked, learnt).rows()
}
