//! A server connection is taken from its client.

use crate::model::keys::{ClientKey, ServerKey};
use crate::model::session::{Pending, Unfollowed};
use crate::model::turn::Turn;

use crate::config::PoolMode;
use crate::state::server::Residue;
use crate::state::{Core, answering};

/// Whether a client has left state on its connection that no other has: it must not get another one unnoticed.
pub fn is_tied(core: &Core, key: ClientKey) -> bool {
    let Some(client) = core.clients.get(key) else { return false };
    let mode = client.route.pool.and_then(|pool| core.pools.get(pool)).map(|pool| pool.limits.mode);
    client.session.pins.any() || client.activity.queries > 0 && mode == Some(PoolMode::Session)
}

/// Takes a server connection from its client; notes the state that must be undone on it.
pub fn detach(core: &mut Core, key: ServerKey) {
    let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) else { return };
    let Some(client_key) = server.let_go() else { return };
    let mode = core.pools.get(server.pool).map_or(PoolMode::Session, |pool| pool.limits.mode);
    let mut session = mode == PoolMode::Session || core.config.settings.server_reset_query_always;
    if let Some(client) = client {
        client.checkout.give_back();
        client.checkout.needs_own = false;
        client.times.transaction_since = None;
        client.times.request_since = core.now;
        client.prepared.portals.clear();
        client.session.unfollowed = Unfollowed::Nothing;
        client.session.pending = Pending::default();
        // Statements that it prepared by its own names, before its pool's mode was changed, must not meet other
        // clients'; they are prepared elsewhere by names of the pooler's.
        let own_names = !client.prepared.renamed && !client.prepared.statements.is_empty();
        session |= own_names;
        client.prepared.renamed |= own_names;
        if std::mem::take(&mut client.session.pins).any() {
            session = true;
            server.known.residue = Residue::Anything;
        }
        if std::mem::take(&mut client.checkout.behind_own) {
            core.schedule.give_turn(Turn::Client(client_key));
        }
    }
    if session {
        server.known.session_residue = server.known.residue;
        server.known.residue = Residue::Session;
    }
}
