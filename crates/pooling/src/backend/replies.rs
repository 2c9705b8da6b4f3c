//! Where answers go, and what an error undoes of what was noted when a request was sent.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::model::request::Request;
use wire::backend::{self, tag};
use wire::frame::HEADER;

use crate::state::client::Client;
use crate::state::server::{Residue, Server, State};

/// What an error shows of a statement's name on the server, and what its client is shown instead.
pub fn shown_name(requests: &VecDeque<Request>, client: &Client, code: &str) -> Option<(Vec<u8>, Box<[u8]>)> {
    let statement = match (code, requests.front()?) {
        // That a Bind does not fit its statement is a violation of the protocol.
        ("26000" | "08P01", Request::Bind(Some(statement)) | Request::Describe(Some(statement))) => statement,
        ("26000", Request::Bind(None) | Request::Describe(None)) => {
            let internal = [b"prepared statement \"", NO_UNNAMED, b"\""].concat();
            return Some((internal, b"unnamed prepared statement".as_slice().into()));
        }
        ("42P05", Request::Parse { name: Some(name), taken: Some(statement), .. }) => {
            return Some((statement.name(), name.clone()));
        }
        _ => return None,
    };
    // A Close behind it in its unit has taken the name from the client already.
    let closed = requests.iter().filter_map(|request| match request {
        Request::Invented { name: Some(name), closed: Some(closed), .. } => Some((name, closed)),
        _ => None,
    });
    let named = client.prepared.statements.iter().chain(closed).find(|(_, known)| Rc::ptr_eq(known, statement));
    let name = named.map(|(name, _)| name.clone());
    // One that servers keep without a name has none for its client either.
    (name.is_some() || statement.is_shared()).then(|| (statement.name(), name.unwrap_or_default()))
}

/// What is bound on the server for a client that has no unnamed statement: the server may have another client's, so it
/// must not be asked for that.
pub const NO_UNNAMED: &[u8] = b"howdah has no unnamed statement";

/// Appends a message in which one name stands for another.
pub fn write_renamed(out: &mut Vec<u8>, message: &[u8], internal: &[u8], shown: &[u8]) {
    let body = message.get(HEADER..).unwrap_or_default();
    let Some(at) = memchr::memmem::find(body, internal) else {
        out.extend_from_slice(message);
        return;
    };
    let (before, after) = (body.get(..at).unwrap_or_default(), body.get(at + internal.len()..).unwrap_or_default());
    wire::frame::write(out, tag::ERROR_RESPONSE, |out| {
        out.extend_from_slice(before);
        out.extend_from_slice(shown);
        out.extend_from_slice(after);
    });
}

/// Gives the client the answers that were waiting for those before them.
pub fn emit_invented(server: &mut Server, client: Option<&mut Client>) {
    let mut client = client;
    while !server.exchange.failed {
        let Some(&Request::Invented { tag, .. }) = server.exchange.requests.front() else { return };
        let Some(out) = sink(server, client.as_deref_mut()) else { return };
        backend::write_empty(out, tag);
        server.exchange.requests.pop_front();
    }
}

/// Where what a server answers goes: to the client that it is checked out to, or in a pipelined connection to the stage.
pub fn sink<'a>(server: &'a mut Server, client: Option<&'a mut Client>) -> Option<&'a mut Vec<u8>> {
    match (&server.state, &mut server.pipeline) {
        (State::Pipelined, Some(pipeline)) => Some(&mut pipeline.stage),
        _ => client.map(|client| client.io.out()),
    }
}

/// Forgets what requests would have done, had an error not come first: the last of them first, since each has begun with
/// what those before it had done. The first is the one that has failed; the others were skipped. What units behind them
/// have made of the client's statement without a name stays.
pub fn undo(
    server: &mut Server,
    mut client: Option<&mut Client>,
    requests: impl DoubleEndedIterator<Item = Request> + ExactSizeIterator,
) {
    let replaced = match server.state {
        State::Pipelined => {
            client.as_ref().is_some_and(|client| client.checkout.pipelined().is_some_and(|(_, units)| units > 1))
        }
        _ => server.exchange.requests.iter().any(Request::is_about_unnamed),
    };
    // What units behind them prepare and close is another statement by the same name, or went by what has not been done.
    let unsure = matches!(server.state, State::Pipelined) && !server.exchange.requests.is_empty();
    for (place, request) in requests.enumerate().rev() {
        let skipped = place > 0;
        if unsure && request.changes_prepared() {
            (server.known.residue, server.known.lost_count) = (Residue::Anything, true);
        }
        undo_one(server, client.as_deref_mut(), request, skipped, replaced);
    }
}

fn undo_one(server: &mut Server, mut client: Option<&mut Client>, request: Request, skipped: bool, replaced: bool) {
    match request {
        Request::Parse { statement, name, unnamed, hidden, before, .. } => {
            if let Some(statement) = &statement {
                if unnamed {
                    server.known.unnamed = None;
                } else {
                    server.known.statements.remove(statement);
                }
            }
            if let Some(client) = client.as_deref_mut().filter(|_| name.is_none() && !hidden)
                && client
                    .prepared
                    .unnamed
                    .as_ref()
                    .zip(statement.as_ref())
                    .is_some_and(|(theirs, ours)| Rc::ptr_eq(theirs, ours))
            {
                // As in PostgreSQL, one that fails has ended the one before it too.
                client.prepared.unnamed = before.filter(|_| skipped);
            }
            if let (Some(client), Some(name)) = (client, name) {
                // What was bound meanwhile may be read anew: it is another statement of the same definition.
                let theirs = client.prepared.statements.get(&name);
                if theirs.zip(statement).is_some_and(|(theirs, ours)| theirs.definition == ours.definition) {
                    client.prepared.statements.remove(&name);
                }
            }
        }
        Request::Query(_, unnamed) if skipped => {
            if let Some(client) = client.filter(|_| !replaced) {
                client.prepared.unnamed = unnamed;
            }
        }
        // It was not closed after all.
        Request::Evict(prepared) => server.known.statements.restore(prepared),
        Request::Invented { name: None, closed, .. } => {
            if let Some(client) = client.filter(|_| !replaced) {
                client.prepared.unnamed = closed;
            }
        }
        Request::Invented { name: Some(name), closed, .. } => {
            if let Some(client) = client {
                match closed {
                    Some(statement) => client.prepared.statements.insert(name, statement),
                    None => client.prepared.statements.remove(&name),
                };
            }
        }
        _ => (),
    }
}
