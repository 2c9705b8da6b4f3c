//! The statements that a client prepares in units whose answers do not reach the client as the server gives them.

use std::rc::Rc;

use crate::model::held::Held;
use crate::model::keys::ServerKey;
use crate::model::pipeline::Pipeline;
use crate::model::request::Request;
use crate::model::requests::Requests;
use wire::frontend::tag;

use crate::state::Core;
use crate::state::client::Client;
use crate::state::server::Server;

/// Takes back what a client has prepared in a unit of a pipelined connection whose answer it will not see: for the client
/// the unit ends with an error that comes before all that has not been passed on.
pub fn take_back(core: &mut Core, key: ServerKey, place: usize) {
    let Some(server) = core.servers.get_mut(key) else { return };
    let (Some(pipeline), exchange) = server.pipeline_and_exchange() else { return };
    let forwarded = place == 0 && pipeline.forwarded;
    let begun = begins_anew(pipeline, place);
    let Some(unit) = pipeline.units.get_mut(place) else { return };
    let Some(client) = unit.client.and_then(|client| core.clients.get_mut(client)) else { return };
    let unanswered = |is_of_kind: &dyn Fn(&Request) -> bool| unit_at(&exchange.requests, place).any(is_of_kind);
    for name in unit.names.drain(..) {
        let is_of_name = |request: &Request| matches!(request, Request::Parse { name: Some(of), .. } | Request::Invented { name: Some(of), .. } if *of == name);
        // The client has seen the answers that were passed on already.
        if !forwarded || unanswered(&is_of_name) {
            client.prepared.statements.remove(&name);
        }
    }
    if !forwarded || unanswered(&Request::is_about_unnamed) {
        // As in PostgreSQL, a failed Parse or Query has ended the statement before it too.
        let before = unit.unnamed.clone().filter(|_| forwarded || !begun);
        change_unnamed(server, client, Failed { place, gone: false }, before);
    }
}

/// The requests of the unit in this place that have not been answered.
fn unit_at(requests: &Requests, place: usize) -> impl Iterator<Item = &Request> {
    let mut units = 0;
    let place_of = move |request: &Request| {
        let of = units;
        units += usize::from(request.ends_unit());
        of
    };
    let placed = requests.iter().scan(place_of, |place_of, request| Some((place_of(request), request)));
    placed.filter(move |(unit, _)| *unit == place).map(|(_, request)| request)
}

/// Whether the unit in this place begins with a message that ends the statement without a name before it.
fn begins_anew(pipeline: &Pipeline, place: usize) -> bool {
    let start = pipeline.done + pipeline.units.iter().take(place).map(|unit| unit.size).sum::<usize>();
    match pipeline.history.get(start..) {
        Some([tag::QUERY, ..]) => true,
        Some([tag::PARSE, _, _, _, _, name, ..]) => *name == 0,
        _ => false,
    }
}

/// A unit of a pipelined connection that has failed for its client.
#[derive(Debug, Clone, Copy)]
pub struct Failed {
    /// Its place among the units.
    pub place: usize,
    /// Whether it stands at the head, and its requests are gone.
    pub gone: bool,
}

/// Gives a client another statement without a name behind a unit that has failed: as the one before its next request
/// about that, which is on its way, or as the one that it has.
pub fn change_unnamed(server: &mut Server, client: &mut Client, failed: Failed, before: Option<Rc<Held>>) {
    let (pipeline, exchange) = server.pipeline_and_exchange();
    let next = match pipeline {
        None => exchange.requests.replace_unnamed(&before, |_| true),
        Some(pipeline) => {
            let own = pipeline.units.get(failed.place).and_then(|unit| unit.client);
            let place_of = |unit: usize| unit + usize::from(failed.gone);
            let is_own = |unit: usize| {
                let place = place_of(unit);
                place > failed.place && pipeline.units.get(place).is_some_and(|unit| unit.client == own)
            };
            let next = exchange.requests.replace_unnamed(&before, is_own);
            // A unit that is retried begins with the statement that it notes.
            let met = pipeline.units.iter_mut().take(next.map_or(usize::MAX, |unit| place_of(unit) + 1));
            for unit in met.skip(failed.place + 1).filter(|unit| unit.client == own) {
                unit.unnamed.clone_from(&before);
            }
            next
        }
    };
    if next.is_none() {
        client.prepared.unnamed = before;
    }
}
