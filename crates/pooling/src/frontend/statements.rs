//! The prepared statements that clients mean, on their servers: by which name a server has a statement, how the text is
//! read there, and what must be sent first.

use std::rc::Rc;
use std::time::Instant;

use crate::model::held::Held;
use crate::model::known::ServerCopy;
use crate::model::lexing::{Reading, UNCLEAR};
use crate::model::request::{Described, Request};
use crate::model::session::Unfollowed;
use crate::model::shape::Fit;
use crate::model::statement::{Name, Statement, reading, reads_alike};
use wire::backend::Status;
use wire::frontend::{self, tag};

use crate::frontend::replies::NO_UNNAMED;
use crate::router::{fingerprints, members};
use crate::state::Pair;
use crate::state::client::Client;
use crate::state::server::Server;

/// Whether servers know a client's named statements by names of the pooler's: where connections are shared, and where
/// they were when the client prepared the first of the statements that it has.
pub fn renames(pair: &mut Pair<'_>) -> bool {
    let prepared = &mut pair.client.prepared;
    let kept = prepared.renamed && !prepared.statements.is_empty();
    prepared.renamed = kept || pair.context.pools.get(pair.server.pool).is_some_and(|pool| pool.limits.mode.lends());
    prepared.renamed
}

/// Chooses the statement that a server gets for a client's: if the server has it as it was read when the client prepared
/// it, that; else it is parsed anew, and read as the client's session reads now. Sessions that read otherwise must not
/// share it. A message that is skipped behind an error changes nothing for good.
pub fn read_anew(pair: &mut Pair<'_>, name: &[u8]) {
    let Some(held) = pair.client.prepared.held(name).filter(|_| !name.is_empty()).cloned() else { return };
    if may_use(pair, &held) && pair.server.known.statements.has(&held) {
        return held.goes_as(held.statement().clone());
    }
    let there = held.there();
    // Nobody shares it, so the server has read it as this session read then.
    if !there.is_shared() && pair.server.known.statements.has(&there) {
        return;
    }
    let reading = session_reading(pair);
    let known_as = [held.statement(), &there].into_iter().find(|of| of.reading == reading && of.is_shared());
    let Some(chosen) = known_as.cloned().or_else(|| share(pair, held.text(), &held.definition, reading)) else {
        return;
    };
    pair.server.known.statements.renew_reread(&chosen);
    held.goes_as(chosen);
}

/// The statement of this definition for all sessions that read it so, as the client's session takes it apart now.
fn share(pair: &mut Pair<'_>, text: &[u8], definition: &[u8], reading: Reading) -> Option<Rc<Statement>> {
    let lexing = fingerprints::lexing(pair.context.parameters, pair.client, Some(pair.server), text);
    let home = members::home_of(pair.context.pools, pair.server.pool);
    Some(pair.context.pools.get_mut(home)?.statements.share(definition, reading, lexing))
}

/// Has the types of parameters named that a client was told, since a server has found others: PostgreSQL keeps those of
/// the client's own Parse. Whether this makes another statement of it.
pub fn keep_types(pair: &mut Pair<'_>, name: &[u8]) -> bool {
    let Some(held) = pair.client.prepared.held(name) else { return false };
    let typed = held.shape().parameters.and_then(|parameters| held.with_parameters(parameters));
    let home = members::home_of(pair.context.pools, pair.server.pool);
    let Some((typed, pool)) = typed.zip(pair.context.pools.get_mut(home)) else { return false };
    held.keeps_types(pool.statements.share(&typed, held.reading, held.lexing))
}

/// Whether a client may use the server's copy of a statement as it was read when the client prepared it. What PostgreSQL
/// reads anew under this session's settings must not be another's.
fn may_use(pair: &mut Pair<'_>, held: &Held) -> bool {
    if !held.is_shared() {
        return true;
    }
    let alike = reads_alike(reported_reading(pair), held.reading);
    if !alike || fingerprints::reads_otherwise(pair.client, pair.server) {
        return pair.server.known.statements.may_reread(held, pair.key);
    }
    pair.server.known.statements.renew_reread(held);
    true
}

/// Notes the time when a unit is begun.
pub fn begin(client: &mut Client, server: &mut Server, now: Instant) {
    if server.exchange.requests.is_empty() {
        client.times.request_since = now;
        server.life.state_since = now;
        server.exchange.answered = false;
        server.exchange.begun += 1;
    }
    client.times.transaction_since.get_or_insert(now);
}

/// Makes sure that a server knows a statement; the client does not see it. Gives the server's copy.
pub fn prepare(server: &mut Server, statement: &Rc<Statement>, limit: usize) -> ServerCopy {
    server.known.statements.uses(statement).unwrap_or_else(|| send_parse(server, statement, limit, None, true))
}

/// Makes a server prepare a statement by its name of the pooler's, after closing the statements that make room for it.
/// Gives the copy.
pub fn send_parse(
    server: &mut Server,
    statement: &Rc<Statement>,
    limit: usize,
    name: Option<Box<[u8]>>,
    hidden: bool,
) -> ServerCopy {
    let (copy, closed) = server.known.statements.add(statement, limit);
    for closed in closed {
        frontend::write_statement_target(server.io.out(), tag::CLOSE, &closed.name());
        server.exchange.requests.push_back(Request::Evict(closed));
    }
    frontend::write_parse(server.io.out(), &statement.name(), &statement.definition);
    let prepared = Some(statement.clone());
    let request = Request::Parse {
        statement: prepared,
        name,
        copy: copy.number,
        unnamed: false,
        hidden,
        taken: None,
        before: None,
    };
    server.exchange.requests.push_back(request);
    copy
}

/// Whether the last Parse of the unnamed statement has been answered, or is of the same unit as the next message. The
/// Parse of an earlier unit may still be cancelled, and leave another client's statement.
fn parse_is_safe(server: &Server) -> bool {
    server.exchange.requests.has_own_unnamed()
}

/// A statement that a client means, on a server.
pub struct There {
    /// The statement as the client has it, and as the server has it; `None` if the client has none of that name.
    pub of: Option<(Rc<Held>, Rc<Statement>)>,
    /// Its name on the server.
    pub name: Name,
    /// Whether the server's copy has the shape that the client was told.
    pub fit: Fit,
    /// The number of that copy.
    pub copy: u64,
}

impl There {
    fn new(held: Rc<Held>, statement: Rc<Statement>, name: Name, copy: ServerCopy) -> Self {
        let fit = held.shape().fit(copy.shape);
        Self { of: Some((held, statement)), name, fit, copy: copy.number }
    }

    /// The statement, to be described.
    pub fn described(&self) -> Option<Described> {
        let (held, statement) = self.of.clone()?;
        Some(Described { held, statement, copy: self.copy })
    }
}

/// The statement that a client means, made known to the server. A name that the client does not have is passed on as it
/// is, and the server's error is the right one.
pub fn on_server(client: &Client, server: &mut Server, name: &[u8], renames: bool, limit: usize) -> There {
    if name.is_empty() {
        let Some((held, statement)) =
            client.prepared.unnamed.as_ref().map(|held| (held.clone(), held.statement().clone()))
        else {
            return There { of: None, name: NO_UNNAMED.into(), fit: Fit::Same, copy: 0 };
        };
        let there = server.known.unnamed.as_ref().filter(|(unnamed, _)| Rc::ptr_eq(unnamed, &held));
        let Some(&(_, copy)) = there.filter(|_| parse_is_safe(server)) else {
            frontend::write_parse(server.io.out(), b"", &held.definition);
            let copy = server.known.statements.new_copy();
            server.known.unnamed = Some((held.statement().clone(), copy));
            let prepared = Some(statement.clone());
            let request = Request::Parse {
                statement: prepared,
                name: None,
                copy: 0,
                unnamed: true,
                hidden: true,
                taken: None,
                before: None,
            };
            server.exchange.requests.push_back(request);
            return There::new(held, statement, name.into(), copy);
        };
        return There::new(held, statement, name.into(), copy);
    }
    match client.prepared.statements.get(name).cloned() {
        Some(held) if renames => {
            let statement = held.there();
            let copy = prepare(server, &statement, limit);
            let name = statement.name();
            There::new(held, statement, name, copy)
        }
        held => {
            let of = held.map(|held| (held.clone(), held.statement().clone()));
            There { of, name: name.into(), fit: Fit::Same, copy: 0 }
        }
    }
}

/// The way in which a client's session reads the text of statements now; unclear within a transaction that may have
/// changed settings which the server does not report, within one that has failed (whether it may be prepared is the
/// server's to say), and if the client may have temporary tables, which other clients do not mean by the same names.
pub fn session_reading(pair: &mut Pair<'_>) -> Reading {
    let Pair { client, server, .. } = pair;
    let unclear = client.session.unfollowed > Unfollowed::Nothing
        || client.session.pins.any()
        || server.status == Status::Failed
        || fingerprints::sets_under_way(client, server);
    if !server.is_pipelined() && unclear { UNCLEAR } else { reported_reading(pair) }
}

/// The same by the settings that are known, whatever else may have been changed.
fn reported_reading(pair: &mut Pair<'_>) -> Reading {
    let session = &mut pair.client.session;
    if let Some((vars, sets, reading)) = &session.reading
        && vars.is(&session.vars)
        && sets.is(&session.sets)
    {
        return *reading;
    }
    let reading = reading(&session.vars, &session.sets, &pair.context.parameters.tracked);
    session.reading = Some((session.vars.clone(), session.sets.clone(), reading));
    reading
}
