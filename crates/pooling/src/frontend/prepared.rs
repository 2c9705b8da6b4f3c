//! The names that a client gave in a pipelined unit whose answer does not reach the client.

use crate::model::keys::ServerKey;
use crate::model::request::Request;

use crate::state::Core;

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
