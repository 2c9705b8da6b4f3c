//! Statements whose shape may have changed since their clients were told of it ([`shape`](crate::model::shape)): a copy
//! that a server has just prepared is described before a client's values are bound to it.
//!
//! On a connection of its own a client waits for the description, so nothing runs that its client would misread: a
//! write can not be undone. In a pipelined connection the unit is sent with the question, since nothing shows before
//! its answer is complete; a read whose copy differs is then sent again on a connection of its client's own. There the
//! message that would run the statement is replaced by one that the server refuses, so the client's unit and
//! transaction fail as they do in PostgreSQL, and the client gets PostgreSQL's error for it ([`CHANGED`]).

use std::rc::Rc;

use crate::backend::replies::NO_STATEMENT;
use crate::error::Error;
use crate::frontend::messages::{self, There};
use crate::model::extent::{Said, Unit};
use crate::model::keys::{ClientKey, ServerKey};
use crate::model::portals::Portal;
use crate::model::request::Request;
use crate::model::shape::{Fit, Held, Shape};
use crate::reactor::turns;
use crate::state::Core;
use crate::state::client::Client;
use crate::state::server::Server;
use wire::frame::HEADER;
use wire::frontend::{self, tag};

/// The error for a client whose statement has another shape than it was told.
pub const CHANGED: Error = Error::StatementChanged;

/// Whether a client on a connection of its own has to wait at a Bind until the server has described its copy of the
/// statement.
pub fn awaits_shape(core: &mut Core, key: ClientKey, left: &[u8]) -> bool {
    let Some(names) = frontend::bind(left.get(HEADER..).unwrap_or_default()) else { return false };
    let Some(client) = core.clients.get(key.0) else { return false };
    let told = match names.statement {
        [] => client.prepared.unnamed.as_ref(),
        name => client.prepared.statements.get(name),
    };
    if !told.is_some_and(|held| held.shape().is_known()) || !messages::renames(core, key) {
        return false;
    }
    messages::read_anew(core, key, names.statement);
    let (now, limit) = (core.now, core.config.settings.kept_statements());
    let Some((client, server)) = core.pair(key) else { return false };
    // Behind an error the server answers nothing of the unit any more.
    if server.exchange.skips_to_sync() {
        return false;
    }
    let asked = |request: &Request| matches!(request, Request::Check(_));
    if !server.exchange.requests.iter().any(asked) {
        messages::begin(client, server, now);
        let there = messages::on_server(client, server, names.statement, true, limit);
        let (Fit::Unknown, Some(held)) = (there.fit, there.held) else { return false };
        client.input.unsynced = true;
        ask(server, held, &there.name);
        wire::frame::write(server.io.out(), tag::FLUSH, |_| ());
    }
    client.checkout.behind_own = true;
    true
}

/// Asks a server to describe its copy of a statement.
fn ask(server: &mut Server, held: Rc<Held>, name: &[u8]) {
    frontend::write_statement_target(server.io.out(), tag::DESCRIBE, name);
    server.exchange.requests.push_back(Request::Check(held));
}

/// The request that a Bind makes of a server. In a pipelined connection a copy that is not known to fit is described
/// first. On a connection of the client's own, values are not bound to parameters of other types: then the server gets
/// a name that it refuses.
pub fn before_bind(server: &mut Server, there: &mut There, renames: bool) -> Request {
    let Some(held) = there.held.clone().filter(|_| renames && there.fit != Fit::Same) else {
        return Request::Bind(there.held.as_ref().map(|held| held.statement.clone()));
    };
    let statement = Some(held.statement.clone());
    if server.is_pipelined() {
        ask(server, held, &there.name);
    } else if there.fit == Fit::Parameters {
        there.name = NO_STATEMENT.into();
        return Request::Refuse;
    }
    Request::Bind(statement)
}

/// The statement of a portal that is described to its client, if the client learns anything by that.
pub fn taught_by(portal: &mut Portal) -> Option<Rc<Held>> {
    let differs = std::mem::take(&mut portal.differs);
    portal.held.clone().filter(|held| differs || held.shape().columns.is_none())
}

/// Whether an Execute would give its client rows that the client would misread; then the server gets one that it
/// refuses.
pub fn refuses(client: &mut Client, server: &mut Server, body: &[u8]) -> bool {
    let portal = client.prepared.portals.get_mut(frontend::portal(body));
    if server.is_pipelined() || !portal.is_some_and(|portal| portal.differs) {
        return false;
    }
    frontend::write_execute(server.io.out(), NO_STATEMENT);
    server.exchange.requests.push_back(Request::Refuse);
    true
}

/// Whether a write is not known to fit the copies of its statements on the server that its client has: it must not run
/// before that is known.
pub fn is_unsure(core: &mut Core, key: ClientKey, unit: &Unit<'_>) -> bool {
    let Some((client, server)) = core.pair(key) else { return false };
    unit.messages.iter().any(|message| {
        let Said::Bind(names) = &message.said else { return false };
        let held = match names.statement {
            [] => client.prepared.unnamed.as_ref(),
            name => client.prepared.statements.get(name),
        };
        held.is_some_and(|held| held.shape().is_known() && held.shape().fit(copy(server, held)) != Fit::Same)
    })
}

/// The known shape of a server's copy of a statement.
fn copy(server: &mut Server, held: &Held) -> Shape {
    let unnamed = || server.known.unnamed.as_ref().filter(|(of, _)| Rc::ptr_eq(of, held)).map(|(_, shape)| *shape);
    server.known.statements.uses(held).or_else(unnamed).unwrap_or_default()
}

/// Notes a description by a server: what a client is told of its statement, and the shape of the server's copy.
pub fn described(core: &mut Core, key: ServerKey, tag: u8, body: &[u8]) -> Result<(), wire::Error> {
    let Some(server) = core.servers.get_mut(key.0) else { return Ok(()) };
    let (held, is_check) = match server.exchange.requests.front() {
        Some(Request::Describe(Some(held))) => (held.clone(), false),
        Some(Request::Check(held)) => (held.clone(), true),
        _ => return Ok(()),
    };
    let shape = Shape::told(tag, body)?;
    if !is_check {
        held.tell(shape);
    }
    // If the server is to prepare the statement once more, this is the shape of the copy before.
    let again = |request: &Request| matches!(request, Request::Parse { statement: Some(later), .. } if Rc::ptr_eq(later, &held));
    if !server.exchange.requests.iter().any(again) {
        if let Some((_, copy)) = server.known.unnamed.as_mut().filter(|(of, _)| Rc::ptr_eq(of, &held)) {
            *copy = copy.with(shape);
        }
        server.known.statements.described(&held, shape);
    }
    if is_check && held.shape().differs(shape) && is_misread(server, &held, shape) {
        repeat_on_own(core, key);
    }
    Ok(())
}

/// Whether a unit of a pipelined connection would be misread by its client: its values, or rows that are not described
/// to the client anew.
fn is_misread(server: &Server, held: &Rc<Held>, copy: Shape) -> bool {
    let columns = Shape { parameters: None, ..held.shape() };
    let mut unit = server.exchange.requests.iter().take_while(|request| !request.ends_unit());
    let is_told = |request: &Request| matches!(request, Request::Describe(Some(told)) if Rc::ptr_eq(told, held));
    server.is_pipelined() && !(columns.differs(copy) && unit.any(is_told))
}

/// Makes the unit at the head of a pipelined connection run again, on a connection of its client's own.
fn repeat_on_own(core: &mut Core, key: ServerKey) {
    let Some(pipeline) = core.servers.get_mut(key.0).and_then(|server| server.pipeline_mut()) else { return };
    if pipeline.forwarded || pipeline.failed {
        return turns::doom(core, key, "the tables of a statement have changed within a unit of several statements");
    }
    pipeline.again = true;
    let head = pipeline.head();
    if let Some(client) = head.and_then(|head| core.clients.get_mut(head.0)) {
        client.checkout.needs_own = true;
    }
}
