//! The destinations of answers, and the notes about a sent request that an error undoes.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::model::request::Request;
use crate::model::requests::{Undone, undone};
use wire::backend::{self, tag};
use wire::frame::HEADER;
use wire::sqlstate;

use crate::pools::prepared::{self, Failed};
use crate::state::client::Client;
use crate::state::server::{Residue, Server};

/// The name of a statement on the server that an error shows, and the name that its client gets instead.
pub fn shown_name(requests: &VecDeque<Request>, client: &Client, code: &str) -> Option<(Vec<u8>, Box<[u8]>)> {
    let statement = match (code, requests.front()?) {
        // A Bind that does not fit its statement is a violation of the protocol.
        (sqlstate::INVALID_SQL_STATEMENT_NAME | sqlstate::PROTOCOL_VIOLATION, Request::Bind(Some(statement))) => {
            statement
        }
        (
            sqlstate::INVALID_SQL_STATEMENT_NAME | sqlstate::PROTOCOL_VIOLATION,
            Request::Describe(Some(described)) | Request::Check(described),
        ) => &described.statement,
        (sqlstate::INVALID_SQL_STATEMENT_NAME, Request::Bind(None) | Request::Describe(None)) => {
            let internal = [b"prepared statement \"", NO_UNNAMED, b"\""].concat();
            return Some((internal, b"unnamed prepared statement".as_slice().into()));
        }
        (sqlstate::DUPLICATE_PSTATEMENT, Request::Parse { name: Some(name), taken: Some(statement), .. }) => {
            return Some((statement.name().to_vec(), name.clone()));
        }
        _ => return None,
    };
    // A Close behind it in its unit has taken the name from the client already.
    let closed = requests.iter().filter_map(|request| match request {
        Request::Invented { name: Some(name), closed: Some(closed), .. } => Some((name, closed)),
        _ => None,
    });
    let named = client.prepared.statements.iter().chain(closed).find(|(_, held)| held.is(statement));
    named.map(|(name, _)| (statement.name().to_vec(), name.clone()))
}

/// The name that is bound on the server for a client that has no unnamed statement: the server may have another
/// client's, which must not be bound.
pub const NO_UNNAMED: &[u8] = b"howdah has no unnamed statement";

/// The name of a statement, or of a portal, that no server has.
pub const NO_STATEMENT: &[u8] = b"howdah has no statement of this shape";

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

/// Gives the client the pooler's own answers that were waiting for earlier ones.
pub fn emit_invented(server: &mut Server, client: Option<&mut Client>) {
    let mut client = client;
    while !server.exchange.failed {
        let Some(&Request::Invented { tag, .. }) = server.exchange.requests.front() else { return };
        let is_muted = server.pipeline().is_some_and(|pipeline| pipeline.muted);
        match sink(server, client.as_deref_mut()) {
            Some(out) => backend::write_empty(out, tag),
            None if is_muted => (),
            None => return,
        }
        server.exchange.requests.pop_front();
    }
}

/// The destination of a server's answers: the client that it is checked out to, or in a pipelined connection the stage,
/// unless the rest of the answer is for nobody.
pub fn sink<'a>(server: &'a mut Server, client: Option<&'a mut Client>) -> Option<&'a mut Vec<u8>> {
    match server.pipeline_mut() {
        Some(pipeline) => (!pipeline.muted).then_some(&mut pipeline.stage),
        None => client.map(|client| client.io.out()),
    }
}

/// Undoes the effects of requests that were not run, since an error came first: the last of them first, since each has
/// begun with the effects of those before it. `skips`: the error came before all of them; else the first has failed.
pub fn undo(
    server: &mut Server,
    skips: bool,
    mut client: Option<&mut Client>,
    requests: impl IntoIterator<Item = Request>,
) {
    // Later units prepare and close another statement by the same name, or rely on one of these requests.
    let unsure = server.is_pipelined() && !server.exchange.requests.is_empty();
    let requests: SmallVec<[(Undone, Request); 4]> = undone(requests, skips).collect();
    let mut unnamed = None;
    for (undone, mut request) in requests.into_iter().rev() {
        if unsure && request.changes_prepared() {
            (server.known.residue, server.known.lost_count) = (Residue::Anything, true);
        }
        // As in PostgreSQL, a failed Parse or Query has ended the statement before it too.
        let stays = undone.skipped || matches!(request, Request::Invented { .. });
        if let Some(before) = request.unnamed_before() {
            unnamed = Some(before.take().filter(|_| stays));
        }
        undo_one(server, client.as_deref_mut(), request);
    }
    if let Some((client, before)) = client.zip(unnamed) {
        // The unit at the head of a pipelined connection is the one that has failed; its requests are gone.
        prepared::change_unnamed(server, client, Failed { place: 0, gone: true }, before);
    }
}

fn undo_one(server: &mut Server, client: Option<&mut Client>, request: Request) {
    match request {
        Request::Parse { statement, name, unnamed, .. } => {
            if let Some(statement) = &statement {
                if unnamed {
                    server.known.unnamed = None;
                } else {
                    server.known.statements.remove(statement);
                }
            }
            if let (Some(client), Some(name)) = (client, name) {
                // A statement that was bound meanwhile may be read anew: it is another statement of the same
                // definition.
                let theirs = client.prepared.statements.get(&name);
                if theirs.zip(statement).is_some_and(|(theirs, ours)| theirs.definition == ours.definition) {
                    client.prepared.statements.remove(&name);
                }
            }
        }
        Request::Bind(_) => {
            if let Some(client) = client {
                client.prepared.portals.bind_failed(server.exchange.requests.bound_and_answered());
            }
        }
        // The statement was not closed after all.
        Request::Evict(prepared) => server.known.statements.restore(prepared),
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
