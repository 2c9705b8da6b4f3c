//! Errors of the pooler's own, as clients are told of them.

use crate::model::exchange::Passing;
use crate::model::keys::ClientKey;
use crate::model::relay::Relay;

use crate::error::{Error, Severity};
use crate::state::Core;
use crate::state::client::State as ClientState;

/// Whether a client has got the beginning of a message of its server, and not the end.
pub fn is_within_message(core: &Core, key: ClientKey) -> bool {
    let Some(client) = core.clients.get(key) else { return false };
    let within = |relay: &Relay| !relay.is_between_messages();
    if matches!(client.state(), ClientState::Relay) {
        return client.relay.as_deref().is_some_and(within);
    }
    let Some(server) = client.checkout.connection().and_then(|server| core.servers.get(server)) else { return false };
    match server.pipeline() {
        Some(pipeline) => server.exchange.passing.0 > 0 && pipeline.forwarded && pipeline.head() == Some(key),
        None => matches!(server.exchange.passing, (1.., Some(Passing::On))),
    }
}

/// Sends a client an error of the pooler's own.
pub fn error(core: &mut Core, key: ClientKey, error: &Error, severity: Severity) {
    let Some(client) = core.clients.get_mut(key) else { return };
    error.write(client.io.out(), severity);
    note(core, key, error);
}

/// Counts and logs an error of the pooler's own.
pub fn note(core: &mut Core, key: ClientKey, error: &Error) {
    *core.lifecycle.errors.entry((error.sqlstate().to_owned(), error.blame())).or_default() += 1;
    if core.config.settings.log_pooler_errors {
        crate::warning!(of core.name_client(key); "{} {error}", error.sqlstate());
    }
}
