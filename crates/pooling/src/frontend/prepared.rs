//! The names that a client gave in a pipelined unit whose answer does not reach the client.

use crate::model::keys::ServerKey;
use crate::model::request::Request;

use crate::state::Core;

/// Gives the client of the unit at the head of a pipelined connection the statement without a name that it had before,
/// if the Parse of another is still to be answered: the client will take that for skipped.
pub fn restore_unnamed(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let (Some(pipeline), exchange) = server.pipeline_and_exchange() else { return };
    let Some(unit) = pipeline.units.front() else { return };
    let Some(client) = unit.client.and_then(|client| core.clients.get_mut(client.0)) else { return };
    let unanswered = exchange.requests.iter().take_while(|request| !request.ends_unit());
    let parses = unanswered.filter_map(|request| match request {
        Request::Parse { statement: Some(statement), name: None, hidden: false, .. } => Some(statement),
        _ => None,
    });
    let theirs = client.prepared.unnamed.clone();
    // A later unit may have prepared another one.
    if theirs.is_some_and(|theirs| parses.into_iter().any(|parsed| theirs.is(parsed))) {
        client.prepared.unnamed = unit.unnamed.clone();
    }
}

/// Forgets the names that a client gave in a unit of a pipelined connection whose answer it will not see.
pub fn forget_names(core: &mut Core, key: ServerKey, place: usize) {
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let (Some(pipeline), exchange) = server.pipeline_and_exchange() else { return };
    let forwarded = place == 0 && pipeline.forwarded;
    let Some(unit) = pipeline.units.get_mut(place) else { return };
    let Some(client) = unit.client.and_then(|client| core.clients.get_mut(client.0)) else { return };
    for name in unit.names.drain(..) {
        // The client has seen the answers that were passed on already.
        let answered = forwarded
            && !exchange.requests.iter().take_while(|request| !request.ends_unit()).any(|request| {
                matches!(request, Request::Parse { name: Some(of), .. } | Request::Invented { name: Some(of), .. } if *of == name)
            });
        if !answered {
            client.prepared.statements.remove(&name);
        }
    }
}
