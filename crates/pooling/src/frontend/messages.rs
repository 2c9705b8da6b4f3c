//! The messages of clients, passed on to their server connection. Where connections are shared, the pooler puts its own
//! names of prepared statements in place of the client's, and first prepares a statement on a server that does not have
//! it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::model::exchange::Copying;
use crate::model::extent::{Message, Said};
use crate::model::held::Held;
use crate::model::lexing::{Lexing, UNCLEAR};
use crate::model::portals::Portal;
use crate::model::request::Request;
use crate::model::statement::Statement;
use crate::model::turn::Step;
use classify::configure::Argument;
use classify::{Reasons, Verdict, Words};
use wire::Header;
use wire::backend::{self, Status};
use wire::frame::HEADER;
use wire::frontend::{self, Parse, Target, tag};

use crate::frontend::shapes;
use crate::frontend::statements::{There, begin, on_server, prepare, read_anew, renames, send_parse, session_reading};
use crate::router::{fingerprints, members};
use crate::state::client::Client;
use crate::state::server::Server;
use crate::state::{Context, Pair};

/// Messages that are passed on as they are.
fn pass_plain(pair: &mut Pair<'_>, head: Header, left: &[u8]) -> usize {
    let whole = left.len() >= head.total();
    let verdict = verdict_of(pair, head, left);
    if matches!(head.tag, tag::QUERY | tag::EXECUTE) {
        fingerprints::foresee_definition(pair, verdict.as_deref());
    }
    let Pair { client, server, context, .. } = pair;
    server.exchange.writes |= match head.tag {
        tag::QUERY | tag::EXECUTE => !whole || verdict.as_deref().is_none_or(|verdict| !verdict.read_only),
        tag => tag == tag::FUNCTION_CALL,
    };
    // The server flushes at a Sync as well, and is free again: nothing has run in this unit yet.
    if head.tag == tag::FLUSH && left.len() == head.total() && only_names(client, server) {
        frontend::write_sync(server.io.out());
        client.input.unsynced = false;
        server.exchange.requests.push_back(Request::HiddenSync);
        return head.total();
    }
    if head.tag == tag::EXECUTE && shapes::refuses(client, server, left.get(HEADER..).unwrap_or_default()) {
        begin(client, server, context.now);
        client.input.unsynced = true;
        return head.total();
    }
    note(client, server, head, left, verdict, context.now);
    let come = head.total().min(left.len());
    server.io.out().extend_from_slice(left.get(..come).unwrap_or_default());
    client.input.passing = head.total() - come;
    if head.tag == tag::QUERY && !whole {
        let mut words = Box::<Words>::default();
        words.read(left.get(HEADER..).unwrap_or_default());
        client.input.words = Some(words);
    }
    come
}

/// The class of the statement that a message runs, if known.
fn verdict_of(pair: &mut Pair<'_>, head: Header, left: &[u8]) -> Option<Arc<Verdict>> {
    let Pair { client, server, context, .. } = pair;
    // A unit on a pipelined connection is known to touch nothing.
    if server.is_pipelined() {
        return None;
    }
    let body = left.get(HEADER..head.total()).or_else(|| left.get(HEADER..)).unwrap_or_default();
    match head.tag {
        tag::QUERY if left.len() >= head.total() => {
            look_at(context, client, Some(server), body.strip_suffix(b"\0").unwrap_or(body))
        }
        // The Query is too long to be kept: its words so far show what it may do.
        tag::QUERY => {
            let read = fingerprints::fingerprint_read(context, client.route.pool?, body, Lexing::Unclear);
            read.ok().map(|fingerprint| fingerprint.verdict.clone())
        }
        tag::EXECUTE => look_at_statement(context, client, client.prepared.portals.statement(frontend::portal(body))?),
        _ => None,
    }
}

/// Notes the request that a message makes of the server.
fn note(
    client: &mut Client,
    server: &mut Server,
    head: Header,
    left: &[u8],
    verdict: Option<Arc<Verdict>>,
    now: Instant,
) {
    if matches!(head.tag, tag::QUERY | tag::FUNCTION_CALL) {
        // It is a unit of its own where the server has got nothing before it: what the client says next is another one.
        client.input.unsynced &= server.exchange.requests.are_within_unit();
    }
    match head.tag {
        tag::QUERY => {
            begin(client, server, now);
            // As in PostgreSQL, a Query ends the unnamed statement.
            let unnamed = client.prepared.unnamed.take();
            server.known.unnamed = None;
            server.exchange.requests.push_back(Request::Query(verdict, unnamed));
        }
        tag::FUNCTION_CALL => {
            begin(client, server, now);
            let large_objects = is_of_large_objects(left.get(HEADER..HEADER + 4));
            server.exchange.requests.push_back(Request::Call { large_objects });
        }
        tag::EXECUTE => {
            begin(client, server, now);
            client.input.unsynced = true;
            let portal = frontend::portal(left.get(HEADER..).unwrap_or_default());
            server.exchange.requests.push_back(Request::Execute(client.prepared.portals.statement(portal).cloned()));
        }
        tag::SYNC => {
            client.input.unsynced = false;
            guard_block(server);
            server.exchange.requests.push_back(Request::Sync);
        }
        tag::COPY_DATA => server.exchange.copying = Copying::Open { syncs: 0, early: false },
        tag::COPY_DONE | tag::COPY_FAIL => server.exchange.end_copy(),
        _ => (),
    }
}

/// Keeps a transaction block from being lost: PostgreSQL 18 opens one at a Query behind an Execute without a Sync, and at
/// a Sync that follows at once commits nothing of it and says nothing. It commits behind any other message.
fn guard_block(server: &mut Server) {
    let begins_nothing =
        |request: &Request| matches!(request, Request::Close | Request::Evict(_) | Request::Invented { .. });
    if server.status == Status::Transaction && server.exchange.requests.iter().all(begins_nothing) {
        frontend::write_parse(server.io.out(), b"", b"\0\0\0");
        server.known.unnamed = None;
        server.exchange.requests.push_back(Request::guard());
    }
}

/// Whether a FunctionCall of this OID works on large objects and does nothing else to its session: these have had the
/// same OIDs in all releases, since drivers know them by heart.
fn is_of_large_objects(oid: Option<&[u8]>) -> bool {
    // lo_create, lo_open, lo_close, loread, lowrite, lo_lseek, lo_creat, lo_tell, lo_unlink, lo_truncate, lo_lseek64,
    // lo_tell64, lo_truncate64
    const OIDS: [u32; 13] = [715, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171, 3172];
    oid.and_then(|oid| oid.try_into().ok()).map(u32::from_be_bytes).is_some_and(|oid| OIDS.contains(&oid))
}

/// The class of the text of a Query, if known.
pub fn look_at(
    context: &mut Context<'_>,
    client: &Client,
    server: Option<&Server>,
    sql: &[u8],
) -> Option<Arc<Verdict>> {
    let found = fingerprints::fingerprint(context, (client, server), client.route.pool?, sql);
    found.ok().map(|fingerprint| fingerprint.verdict.clone())
}

/// Notes the end of a long Query: the effects that its words allow are added to those that its beginning allows, before
/// the server has all of it.
pub fn long_query_ended(pair: &mut Pair<'_>, words: Words) {
    let amended = pair.server.exchange.requests.amend_query(|verdict| words.add_to(verdict));
    if let Some(verdict) = amended {
        fingerprints::foresee_definition(pair, Some(&verdict));
    }
}

/// The class of a prepared statement, if known.
pub fn look_at_statement(context: &mut Context<'_>, client: &Client, statement: &Statement) -> Option<Arc<Verdict>> {
    let found = fingerprints::fingerprint_of_statement(context, client.route.pool?, statement);
    found.ok().map(|fingerprint| fingerprint.verdict.clone())
}

fn pass_parse(pair: &mut Pair<'_>, parse: Parse<'_>) {
    let renames = renames(pair);
    let Some(statement) = statement_of(pair, &parse, renames) else { return };
    if renames {
        read_anew(pair, parse.name);
    }
    let Pair { client, server, context, .. } = pair;
    let limit = context.config.settings.kept_statements();
    begin(client, server, context.now);
    client.input.unsynced = true;
    let name: Option<Box<[u8]>> = (!parse.name.is_empty()).then(|| parse.name.into());
    let Some(name) = name.clone().filter(|_| renames) else {
        frontend::write_parse(server.io.out(), parse.name, parse.definition);
        let (unnamed, mut before) = (name.is_none(), None);
        match &name {
            None => {
                server.known.unnamed = Some((statement.clone(), server.known.statements.new_copy()));
                before = client.prepared.unnamed.replace(Held::new(statement.clone()));
            }
            Some(name) => drop(client.prepared.statements.insert(name.clone(), Held::new(statement.clone()))),
        }
        let statement = Some(statement);
        let request = Request::Parse { statement, name, copy: 0, unnamed, hidden: false, taken: None, before };
        server.exchange.requests.push_back(request);
        return;
    };
    if let Some(has) = client.prepared.statements.get(&name).map(|held| held.there()) {
        // The server has to refuse a name that is taken; the statement itself stays.
        prepare(server, &has, limit);
        frontend::write_parse(server.io.out(), &has.name(), parse.definition);
        let (name, taken) = (Some(name), Some(has));
        let request =
            Request::Parse { statement: None, name, copy: 0, unnamed: false, hidden: false, taken, before: None };
        server.exchange.requests.push_back(request);
        return;
    }
    client.prepared.statements.insert(name.clone(), Held::new(statement.clone()));
    server.known.statements.renew_reread(&statement);
    if server.known.statements.uses(&statement).is_some() {
        invent(client, server, backend::tag::PARSE_COMPLETE, Some(name), None);
    } else {
        send_parse(server, &statement, limit, Some(name), false);
    }
}

/// The statement of a Parse; one with a name is shared with all clients that mean the same.
fn statement_of(pair: &mut Pair<'_>, parse: &Parse<'_>, renames: bool) -> Option<Rc<Statement>> {
    let reading = if renames && !parse.name.is_empty() { session_reading(pair) } else { UNCLEAR };
    let Pair { client, server, context, .. } = pair;
    let home = members::home_of(context.pools, server.pool);
    let lexing = fingerprints::lexing(context.parameters, client, Some(server), parse.query);
    let renewals = fingerprints::fingerprints_of(context, home).map(|fingerprints| fingerprints.knowledge().renewals());
    if let Some(pool) = context.pools.get_mut(server.pool) {
        pool.counts.totals.prepared.client_parses += 1;
    }
    // Statements are known by the same names on all servers of a cluster.
    let pool = context.pools.get_mut(home)?;
    pool.statements.renew(renewals);
    Some(pool.statements.share(parse.definition, reading, lexing))
}

fn pass_bind(pair: &mut Pair<'_>, head: Header, names: frontend::Bind<'_>) -> usize {
    let renames = renames(pair);
    if renames {
        read_anew(pair, names.statement);
    }
    let Pair { client, server, context, .. } = pair;
    if let Some(pool) = context.pools.get_mut(server.pool) {
        pool.counts.totals.prepared.binds += 1;
    }
    let limit = context.config.settings.kept_statements();
    begin(client, server, context.now);
    client.input.unsynced = true;
    let mut there = on_server(client, server, names.statement, renames, limit);
    let request = shapes::before_bind(server, &mut there, renames);
    let There { of, name, fit, copy } = there;
    let consumed = names.portal.len() + 1 + names.statement.len() + 1;
    let rest = head.body.saturating_sub(consumed);
    let length = 4 + names.portal.len() + 1 + name.len() + 1 + rest;
    let out = server.io.out();
    out.push(tag::BIND);
    out.extend_from_slice(&i32::try_from(length).unwrap_or(-1).to_be_bytes());
    wire::frame::write_cstr(out, names.portal);
    wire::frame::write_cstr(out, &name);
    let binds = matches!(request, Request::Bind(_));
    server.exchange.requests.push_back(request);
    if binds {
        let bound = server.exchange.requests.bound();
        client.prepared.portals.insert(names.portal, Portal { of, fit, copy, bound });
    }
    client.input.passing = rest;
    HEADER + consumed
}

fn pass_target(pair: &mut Pair<'_>, tag: u8, body: &[u8], target: Option<Target<'_>>) {
    let renames = target.is_some() && renames(pair);
    if let (Some(Target::Statement(name)), true) = (target, renames && tag == tag::DESCRIBE) {
        read_anew(pair, name);
    }
    let Pair { client, server, context, .. } = pair;
    let limit = context.config.settings.kept_statements();
    begin(client, server, context.now);
    client.input.unsynced = true;
    let Some(target) = target else {
        // The server has to say what is wrong with the message.
        wire::frame::write(server.io.out(), tag, |out| out.extend_from_slice(body));
        server.exchange.requests.push_back(if tag == tag::CLOSE { Request::Close } else { Request::Describe(None) });
        return;
    };
    let closes = tag == tag::CLOSE;
    if let (Target::Statement(name), true) = (target, closes) {
        // Other clients may use the statement on the server: only this client forgets it. A statement without a name
        // stays there too, since a Close that is skipped behind an error has closed nothing.
        // A statement of SQL's PREPARE, with its connection, is the client's alone, and has the client's name.
        let by_sql = client.session.pins.any() && !client.prepared.statements.contains_key(name);
        if name.is_empty() || renames && !by_sql {
            let name = (!name.is_empty()).then(|| name.into());
            let closed = match &name {
                Some(name) => client.prepared.statements.remove(name),
                None => client.prepared.unnamed.take(),
            };
            invent(client, server, backend::tag::CLOSE_COMPLETE, name, closed);
            return;
        }
        client.prepared.statements.remove(name);
    }
    if let (Target::Portal(name), true) = (target, closes) {
        client.prepared.portals.close(name);
    }
    match target {
        Target::Statement(name) if !closes => {
            let there = on_server(client, server, name, renames, limit);
            frontend::write_statement_target(server.io.out(), tag, &there.name);
            server.exchange.requests.push_back(Request::Describe(there.described()));
            return;
        }
        Target::Portal(name) if !closes => {
            wire::frame::write(server.io.out(), tag, |out| out.extend_from_slice(body));
            let described = client.prepared.portals.get_mut(name).and_then(shapes::taught_by);
            server.exchange.requests.push_back(Request::Describe(described));
            return;
        }
        _ => wire::frame::write(server.io.out(), tag, |out| out.extend_from_slice(body)),
    }
    server.exchange.requests.push_back(if closes { Request::Close } else { Request::Describe(None) });
}

/// Whether a client that has sent a Flush has so far only named and described statements in its unit, outside a
/// transaction: then nothing depends on its connection.
pub fn only_names(client: &Client, server: &Server) -> bool {
    client.input.unsynced
        && client.prepared.portals.is_empty()
        && !client.session.pins.any()
        && server.status == Status::Idle
        && !server.exchange.failed
        && !server.is_pipelined()
        && server.exchange.requests.only_name()
        && !server.exchange.requests.have_acted()
}

/// Passes on the next part of a long message; without a server it is thrown away.
pub fn pass_on(client: &mut Client, server: Option<&mut Server>, left: &[u8]) -> Step {
    let count = client.input.passing.min(left.len());
    if let (Some(server), Some(part)) = (server, left.get(..count)) {
        server.io.out().extend_from_slice(part);
        if let Some(words) = &mut client.input.words {
            words.read(part);
        }
    }
    client.input.passing -= count;
    Step::Took(count)
}

/// Gives a client an answer of the pooler's own, in its turn.
fn invent(client: &mut Client, server: &mut Server, tag: u8, name: Option<Box<[u8]>>, closed: Option<Rc<Held>>) {
    if server.exchange.requests.is_empty() && !server.exchange.failed {
        if let Some(out) = crate::frontend::replies::sink(server, Some(client)) {
            backend::write_empty(out, tag);
        }
    } else {
        server.exchange.requests.push_back(Request::Invented { tag, name, closed });
    }
}

/// Passes on a message to the client's server, as much of it as has come.
pub fn pass_message(pair: &mut Pair<'_>, head: Header, left: &[u8]) -> Result<usize, wire::Error> {
    match (head.tag, left.get(HEADER..head.total())) {
        (tag::PARSE, Some(body)) => pass_parse(pair, frontend::parse(body)?),
        (tag::DESCRIBE | tag::CLOSE, Some(body)) => {
            pass_target(pair, head.tag, body, frontend::target(head.tag, body).ok());
        }
        (tag::BIND, _) => {
            let names = frontend::bind(left.get(HEADER..).unwrap_or_default());
            let names = names.ok_or(wire::Error::Short { tag: tag::BIND, field: "the names" })?;
            return Ok(pass_whole_bind(pair, head, left, names));
        }
        _ => return Ok(pass_plain(pair, head, left)),
    }
    Ok(head.total())
}

/// Passes on a message that has been read.
pub fn pass_said(pair: &mut Pair<'_>, message: &Message<'_>) {
    match message.said {
        Said::Parse(parse) => pass_parse(pair, parse),
        Said::Bind(names) => _ = pass_whole_bind(pair, message.head, message.bytes, names),
        Said::Describe(target) => {
            pass_target(pair, message.head.tag, message.bytes.get(HEADER..).unwrap_or_default(), Some(target));
        }
        Said::Query(_) | Said::Execute | Said::Close | Said::Sync => {
            _ = pass_plain(pair, message.head, message.bytes);
        }
    }
}

/// Notes the parameters that a statement will set by calls of `set_config` that are told their names by this Bind.
fn note_configured(pair: &mut Pair<'_>, head: Header, left: &[u8], names: frontend::Bind<'_>) {
    let Pair { client, server, context, .. } = pair;
    let Some(held) = client.prepared.held(names.statement).filter(|_| !server.is_pipelined()) else { return };
    let Some(verdict) = look_at_statement(context, client, &held.there()) else { return };
    let body = left.get(HEADER..head.total());
    for call in &verdict.configures {
        let Argument::Parameter(number) = call.name else { continue };
        let local = match call.local {
            Argument::Parameter(number) => body.and_then(|body| switch(body, number)),
            _ => Some(false),
        };
        let name = body.and_then(|body| frontend::parameter(body, number).ok()?.1);
        match (local, name.map(str::from_utf8)) {
            (Some(true), _) => (),
            (Some(false), Some(Ok(name))) => client.session.configures(name),
            _ => client.session.pins.hold(Reasons::SETTING),
        }
    }
}

/// A boolean among the parameters of a Bind.
fn switch(body: &[u8], number: usize) -> Option<bool> {
    match frontend::parameter(body, number).ok()? {
        (true, Some(value)) => Some(value != [0]),
        (false, Some(text)) => Argument::Text(str::from_utf8(text).ok()?.to_owned()).as_boolean(),
        (_, None) => None,
    }
}

/// Passes on a Bind with the part of its parameters that has come; gives the number of bytes.
fn pass_whole_bind(pair: &mut Pair<'_>, head: Header, left: &[u8], names: frontend::Bind<'_>) -> usize {
    note_configured(pair, head, left, names);
    let taken = pass_bind(pair, head, names);
    let end = head.total().min(left.len());
    let Some(rest) = left.get(taken..end).filter(|rest| !rest.is_empty()) else { return taken };
    pair.server.io.out().extend_from_slice(rest);
    let passing = &mut pair.client.input.passing;
    *passing = passing.saturating_sub(rest.len());
    end
}
