//! Statements whose shape may have changed since their clients were told of it ([`shape`](crate::model::shape)): a copy
//! that a server has just prepared is described before a client's values are bound to it.
//!
//! On a connection of its own a client waits for the description, so nothing runs that its client would misread: a
//! write cannot be undone. In a pipelined connection the unit is sent with the question, since nothing shows before
//! its answer is complete; a read whose copy differs is then sent again on a connection of its client's own. (Behind an
//! answer that was too long to be kept, the client gets the error at once.)
//!
//! There the message that would run the statement is replaced by one that the server refuses, so the client's unit and
//! transaction fail as they do in PostgreSQL, and the client gets PostgreSQL's error for it ([`CHANGED`]).

use std::rc::Rc;

use crate::error::{Error, Severity};
use crate::frontend::replies::NO_STATEMENT;
use crate::frontend::statements::{self, There};
use crate::model::extent::{Said, Unit};
use crate::model::held::Held;
use crate::model::keys::ServerKey;
use crate::model::mark::Mark;
use crate::model::portals::Portal;
use crate::model::request::{Described, Request};
use crate::model::shape::{Fit, Shape};
use crate::pools::prepared;
use crate::state::client::Client;
use crate::state::server::Server;
use crate::state::{Core, Pair};
use wire::Header;
use wire::backend::Report;
use wire::frame::HEADER;
use wire::frontend::{self, Bind, Target, tag};
use wire::sqlstate;

/// The error for a client whose statement has another shape than it was told.
pub const CHANGED: Error = Error::StatementChanged;

/// Whether a client on a connection of its own has to wait at a Bind or a Describe until the server has described its copy
/// of the statement. (At a Describe, since values by the types that the client knows may stand behind it already.)
pub fn awaits_shape(pair: &mut Pair<'_>, head: Header, left: &[u8]) -> bool {
    let body = left.get(HEADER..head.total()).or_else(|| left.get(HEADER..)).unwrap_or_default();
    let name = match head.tag {
        tag::BIND => frontend::bind(body).map(|names| names.statement),
        tag::DESCRIBE => match frontend::target(head.tag, body) {
            Ok(Target::Statement(name)) => Some(name),
            _ => None,
        },
        _ => None,
    };
    name.is_some_and(|name| is_to_be_described(pair, name))
}

fn is_to_be_described(pair: &mut Pair<'_>, name: &[u8]) -> bool {
    let held = pair.client.prepared.held(name);
    if !held.is_some_and(|held| held.shape().is_known()) || !statements::renames(pair) {
        return false;
    }
    statements::read_anew(pair, name);
    let Pair { client, server, context, .. } = pair;
    let (now, limit) = (context.now, context.config.settings.kept_statements());
    // Behind an error the server answers nothing of the unit any more.
    if server.exchange.skips_to_sync() {
        return false;
    }
    statements::begin(client, server, now);
    client.input.unsynced = true;
    let there = statements::on_server(client, server, name, true, limit);
    if there.fit != Fit::Unknown {
        return there.fit == Fit::Parameters && statements::keep_types(pair, name) && is_to_be_described(pair, name);
    }
    if !server.exchange.requests.has(Mark::Check) {
        ask(server, &there);
        wire::frame::write(server.io.out(), tag::FLUSH, |_| ());
    }
    client.checkout.behind_own = true;
    true
}

/// Asks a server to describe its copy of a statement.
fn ask(server: &mut Server, there: &There) {
    frontend::write_statement_target(server.io.out(), tag::DESCRIBE, &there.name);
    server.exchange.requests.extend(there.described().map(Request::Check));
}

/// The request that a Bind makes of a server. In a pipelined connection a copy that is not known to fit is described
/// first. On a connection of the client's own, values are not bound to parameters of other types: then the server gets
/// a name that it refuses.
pub fn before_bind(server: &mut Server, there: &mut There, renames: bool) -> Request {
    if renames && there.fit != Fit::Same {
        if server.is_pipelined() {
            ask(server, there);
        } else if there.fit == Fit::Parameters {
            there.name = NO_STATEMENT.into();
            return Request::Refuse;
        }
    }
    Request::Bind(there.of.as_ref().map(|(_, statement)| statement.clone()))
}

/// Whether a server has refused a Bind since it asks for the formats of other columns than the statement has by now, by
/// what its client was told: PostgreSQL would have refused the statement itself.
pub fn is_of_other_columns(server: &Server, client: &Client, report: &Report) -> bool {
    let Some(Request::Bind(Some(statement))) = server.exchange.requests.front() else { return false };
    let was_told = |held: &Rc<Held>| held.is(statement) && held.shape().columns.is_some();
    report.code == sqlstate::PROTOCOL_VIOLATION
        && report.routine == "PortalSetResultFormat"
        && client.prepared.statements.iter().any(|(_, held)| was_told(held))
}

/// The statement of a portal that is described to its client, if the client learns anything by that.
pub fn taught_by(portal: &mut Portal) -> Option<Described> {
    let fit = std::mem::replace(&mut portal.fit, Fit::Same);
    let of = portal.of.clone().filter(|(held, _)| fit != Fit::Same || held.shape().columns.is_none());
    of.map(|(held, statement)| Described { held, statement, copy: portal.copy })
}

/// Whether an Execute would give its client rows that the client would misread; then the server gets one that it
/// refuses.
pub fn refuses(client: &mut Client, server: &mut Server, body: &[u8]) -> bool {
    if server.is_pipelined() || !client.prepared.portals.may_be_misread(frontend::portal(body)) {
        return false;
    }
    frontend::write_execute(server.io.out(), NO_STATEMENT);
    server.exchange.requests.push_back(Request::Refuse);
    true
}

/// Whether a write is not known to fit the copies of its statements on the server that its client has: it must not run
/// before that is known.
pub fn is_unsure(pair: &mut Pair<'_>, unit: &Unit<'_>) -> bool {
    unit.messages.iter().enumerate().any(|(place, message)| {
        let Said::Bind(Bind { statement: name, .. }) = message.said else { return false };
        // Of what the unit itself prepares the client was told nothing.
        let before = || unit.messages.iter().take(place);
        let mut parses = before();
        // What it prepares or binds before may take the place of this statement's copy.
        let places = before().filter(|message| matches!(message.said, Said::Parse(_) | Said::Bind(_))).count();
        !parses.any(|message| matches!(&message.said, Said::Parse(parse) if parse.name == name))
            && is_bound_unsurely(pair, name, places)
    })
}

/// Whether the server that a client has is not known to have a copy of a statement that fits the client, also when it has
/// prepared as many statements more as `places`.
fn is_bound_unsurely(pair: &mut Pair<'_>, name: &[u8], places: usize) -> bool {
    if !pair.client.prepared.held(name).is_some_and(|held| held.shape().is_known()) {
        return false;
    }
    statements::read_anew(pair, name);
    let Pair { client, server, context, .. } = pair;
    let limit = context.config.settings.kept_statements();
    let Some(held) = client.prepared.held(name) else { return false };
    if server.known.statements.len() + places > limit.max(1) && places > 0 {
        return true;
    }
    let unnamed = server.known.unnamed.as_ref().filter(|(of, _)| Rc::ptr_eq(of, held)).map(|(_, copy)| *copy);
    let copy = server.known.statements.uses(&held.there()).or(unnamed).unwrap_or_default();
    held.shape().fit(copy.shape) != Fit::Same
}

/// Notes a description by a server: what a client is told of its statement, and the shape of the server's copy.
pub fn described(core: &mut Core, key: ServerKey, tag: u8, body: &[u8]) -> Result<(), wire::Error> {
    let Some(server) = core.servers.get_mut(key) else { return Ok(()) };
    let (Described { held, statement, copy: number }, is_check) = match server.exchange.requests.front() {
        Some(Request::Describe(Some(described))) => (described.clone(), false),
        Some(Request::Check(described)) => (described.clone(), true),
        _ => return Ok(()),
    };
    let shape = Shape::told(tag, body)?;
    if let Some(hash) = shape.parameters {
        held.is_of_parameters(hash, body);
    }
    match server.pipeline_mut() {
        _ if is_check => (),
        // A description that is kept from the client tells it nothing.
        Some(pipeline) if pipeline.muted => (),
        Some(pipeline) => pipeline.told.push((held.clone(), shape)),
        None => held.tell(shape),
    }
    if let Some((_, copy)) = server.known.unnamed.as_mut().filter(|(_, copy)| copy.number == number) {
        copy.shape = copy.shape.with(shape);
    }
    server.known.statements.described(&statement, number, shape);
    if is_check && is_misread(server, &held, shape) {
        refuse_unit(core, key);
    }
    Ok(())
}

/// Whether what a unit of a pipelined connection binds behind the question at its head would be misread by its client: the
/// values, or rows that are not described to the client anew. Other rows of the unit have a question of their own.
fn is_misread(server: &Server, held: &Rc<Held>, copy: Shape) -> bool {
    let Some(told) = server.pipeline().map(|pipeline| pipeline.shape_told(held)) else { return false };
    let columns = Shape { parameters: None, ..told };
    let behind_bind = server.exchange.requests.get(2);
    let is_told = matches!(behind_bind, Some(Request::Describe(Some(told))) if Rc::ptr_eq(&told.held, held));
    told.differs(copy) && !(columns.differs(copy) && is_told)
}

/// Keeps the rest of the answer to the unit at the head of a pipelined connection from its client. The unit runs again,
/// on a connection of the client's own; if part of the answer has been passed on, the client gets the error now.
fn refuse_unit(core: &mut Core, key: ServerKey) {
    let Some(pipeline) = core.servers.get_mut(key).and_then(|server| server.pipeline_mut()) else { return };
    if pipeline.again || pipeline.muted {
        return;
    }
    let head = pipeline.head();
    // A write is sent only where its copy is known to fit ([`is_unsure`]); it is never run twice.
    let writes = pipeline.units.front().is_some_and(|unit| unit.writes);
    debug_assert!(!writes, "a write was sent whose copy was not known to fit");
    if !pipeline.forwarded && !writes {
        pipeline.again = true;
        if let Some(client) = head.and_then(|head| core.clients.get_mut(head)) {
            client.checkout.needs_own = true;
        }
        return;
    }
    CHANGED.write(&mut pipeline.stage, Severity::Error);
    (pipeline.failed, pipeline.muted) = (true, true);
    // Behind an error the server would have skipped what the unit prepares.
    prepared::take_back(core, key, 0);
}
