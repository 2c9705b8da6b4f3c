//! Fingerprints: statements that differ only in their literals have the same. A statement is classified once for its
//! fingerprint, and the durations of executions are kept with it.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::model::fingerprint::{Fingerprint, NotPipelined};
use crate::model::keys::{PoolKey, ServerKey};
use crate::model::lexing::Lexing;
use crate::model::mark::Mark;
use crate::model::session::Unfollowed;
use crate::model::statement::{Statement, has_users_types};
use classify::{Kind, Verdict};
use wire::backend::Status;
use wire::frontend::Parse;

use crate::catalog::{Definition, Destination, Knowledge, Place};
use crate::state::client::Client;
use crate::state::fingerprints::Fingerprints;
use crate::state::pool::Pool;
use crate::state::server::{Residue, Server};
use crate::state::{Context, Core, Pair, Parameters, Router};
use crate::sync::lock;

/// The fingerprints of the statements of a pool's database.
pub fn fingerprints_of<'a>(context: &'a mut Context<'_>, pool: PoolKey) -> Option<&'a mut Fingerprints> {
    let database = &context.pools.get(pool)?.name.database;
    if !context.router.fingerprints.contains_key(database) {
        let place = Place::of(context.config, database)?;
        let knowledge = context.shared.library.knowledge(place);
        context.router.fingerprints.insert(database.clone(), Fingerprints::new(knowledge));
    }
    context.router.fingerprints.get_mut(database)
}

/// The knowledge of all workers about a pool's database.
fn knowledge<'a>(router: &'a Router, pool: &Pool) -> Option<&'a Arc<Knowledge>> {
    router.fingerprints.get(&pool.name.database).map(Fingerprints::knowledge)
}

/// Whether the knowledge about the statements of a pool's database cannot be relied on.
pub fn is_doubtful(router: &Router, pool: &Pool, now: Instant) -> bool {
    knowledge(router, pool).is_some_and(|knowledge| knowledge.is_doubtful(now))
}

/// Notes that a pool has logged in to a server: the catalog can be read in the same way.
pub fn note_way(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get(key) else { return };
    let Some(pool) = core.pools.get(server.pool).filter(|pool| pool.limits.mode.lends()) else {
        return;
    };
    let Some(entry) = core.config.database(&pool.name.database) else { return };
    let account = lock(&core.shared.learnt).account(&core.config, &pool.name.database, entry, &pool.name.user);
    let (host, port, address) = (server.at.host.clone(), server.at.port, server.at.address.clone());
    let way = Destination { host, port, address, account, database: (*pool.name.database).into() };
    let (pool, now) = (server.pool, core.now);
    let known = fingerprints_of(&mut core.context(), pool).map(|fingerprints| fingerprints.knowledge().clone());
    let Some(knowledge) = known else { return };
    knowledge.reached(way, now);
    if let Some(server) = core.servers.get_mut(key) {
        server.known.mark = knowledge.mark();
    }
}

/// Has the connections that read the catalogs of a server's databases closed, since the server has no room for a
/// connection of this pool. Whether one of them was not asked before.
pub fn leave_room(core: &Core, pool: PoolKey) -> bool {
    let own = core.pools.get(pool).and_then(|pool| Place::of(&core.config, &pool.name.database));
    let Some(Place { servers, .. }) = own else { return false };
    let beside = core.shared.library.all().into_iter().filter(|other| other.place.servers == servers);
    // All of them are asked.
    beside.filter(|other| other.leave_room()).count() > 0
}

/// Notes that a statement is about to be sent on its client's connection: a definition counts from now on, one in a
/// transaction from when that may be committed, since no other session sees it before.
pub fn foresee_definition(pair: &mut Pair<'_>, verdict: Option<&Verdict>) {
    let defines = verdict.is_none_or(|verdict| verdict.is_ddl);
    let commits = verdict.is_none_or(|verdict| verdict.transaction);
    let Pair { server, context, .. } = pair;
    // Of the units of a pipelined connection only those that are alone in it define anything: their verdict is given.
    if !defines && !commits || server.is_pipelined() && verdict.is_none() {
        return;
    }
    if defines && server.known.definition.is_none() {
        let Some(fingerprints) = fingerprints_of(context, server.pool) else { return };
        let definition = server.known.definition.insert(Definition::new(fingerprints.knowledge().clone()));
        if server.status == Status::Transaction && server.exchange.requests.is_empty() {
            definition.wait();
        }
    }
    let renews = |verdict: &Verdict| {
        verdict.is_ddl
            && !verdict.pins.any()
            && (verdict.kind == Kind::Utility || verdict.each.contains(&Kind::Utility))
    };
    let Some(definition) = &mut server.known.definition else { return };
    if verdict.is_none_or(renews) {
        definition.renew();
    }
    if commits {
        definition.commit();
    }
}

/// Notes that statements on a server connection may have been misjudged, if a definition was run since or another
/// catalog has come: then they may have left anything there.
pub fn doubt_session(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key) else { return };
    let pool = core.pools.get(server.pool);
    let Some(knowledge) = pool.and_then(|pool| knowledge(&core.router, pool)) else { return };
    let (mark, doubtful) = (knowledge.mark(), knowledge.is_doubtful(core.now));
    let before = std::mem::replace(&mut server.known.mark, mark);
    if before != mark || doubtful {
        let residue = if server.known.residue == Residue::Session {
            &mut server.known.session_residue
        } else {
            &mut server.known.residue
        };
        *residue = (*residue).max(Residue::Anything);
    }
}

/// Forgets the fingerprints of databases that have no pool any more, or that lead elsewhere since the configuration was
/// read again.
pub fn forget_unused(core: &mut Core) {
    let used: HashSet<&Rc<str>> = core.pools.values().map(|pool| &pool.name.database).collect();
    let config = &core.config;
    core.router.fingerprints.retain(|database, fingerprints| {
        used.contains(database)
            && Place::of(config, database).is_some_and(|place| place == fingerprints.knowledge().place)
    });
}

/// The fingerprint of a statement by the way in which a client's session reads it now.
pub fn fingerprint(
    context: &mut Context<'_>,
    (client, server): (&Client, Option<&Server>),
    pool: PoolKey,
    sql: &[u8],
) -> Result<Rc<Fingerprint>, NotPipelined> {
    let lexing = lexing(context.parameters, client, server, sql);
    fingerprint_read(context, pool, sql, lexing)
}

/// The fingerprint of a statement that a client prepares.
pub fn fingerprint_of_parse(
    context: &mut Context<'_>,
    (client, server): (&Client, Option<&Server>),
    pool: PoolKey,
    parse: &Parse<'_>,
) -> Result<Rc<Fingerprint>, NotPipelined> {
    let lexing = lexing(context.parameters, client, server, parse.query);
    fingerprint_typed(context, pool, parse.query, lexing, has_users_types(parse.definition))
}

/// The fingerprint of a statement for a session that takes it apart in this way.
pub fn fingerprint_read(
    context: &mut Context<'_>,
    pool: PoolKey,
    sql: &[u8],
    lexing: Lexing,
) -> Result<Rc<Fingerprint>, NotPipelined> {
    fingerprint_typed(context, pool, sql, lexing, false)
}

fn fingerprint_typed(
    context: &mut Context<'_>,
    pool: PoolKey,
    sql: &[u8],
    lexing: Lexing,
    typed: bool,
) -> Result<Rc<Fingerprint>, NotPipelined> {
    let now = context.now;
    let fingerprints = fingerprints_of(context, pool).ok_or(NotPipelined::Catalog)?;
    fingerprints.refresh(now);
    Ok(fingerprints.fingerprint(sql, lexing, typed))
}

/// The way in which a client's session takes this text apart now.
pub fn lexing(parameters: &Parameters, client: &Client, server: Option<&Server>, sql: &[u8]) -> Lexing {
    let escapes = memchr::memchr(b'\\', sql).is_some();
    if !escapes && sql.is_ascii() {
        return Lexing::Conforming;
    }
    // Units on a pipelined connection set nothing.
    if server.is_some_and(|server| !server.is_pipelined() && sets_under_way(client, server)) {
        return Lexing::Unclear;
    }
    let (conforming, encoding) = parameters.lexed_by;
    if !sql.is_ascii() && !client.session.vars.get(encoding).is_some_and(classify::lexable_encoding) {
        Lexing::Unclear
    } else if escapes && client.session.vars.get(conforming) == Some("off") {
        Lexing::Escaping
    } else {
        Lexing::Conforming
    }
}

/// The fingerprint of a statement that a client has prepared.
pub fn fingerprint_of_prepared(
    context: &mut Context<'_>,
    client: &Client,
    pool: PoolKey,
    name: &[u8],
) -> Result<Rc<Fingerprint>, NotPipelined> {
    let statement = client.prepared.held(name).ok_or(NotPipelined::Protocol)?.statement().clone();
    fingerprint_of_statement(context, pool, &statement)
}

/// The fingerprint of a known statement.
pub fn fingerprint_of_statement(
    context: &mut Context<'_>,
    pool: PoolKey,
    statement: &Statement,
) -> Result<Rc<Fingerprint>, NotPipelined> {
    let now = context.now;
    let fingerprints = fingerprints_of(context, pool).ok_or(NotPipelined::Catalog)?;
    fingerprints.refresh(now);
    let generation = fingerprints.generation();
    if let Some(fingerprint) = &*statement.fingerprint.borrow()
        && fingerprint.verdict.generation == generation
    {
        return Ok(fingerprint.clone());
    }
    let typed = has_users_types(&statement.definition);
    let fingerprint = fingerprint_typed(context, pool, statement.text(), statement.lexing, typed)?;
    *statement.fingerprint.borrow_mut() = Some(fingerprint.clone());
    Ok(fingerprint)
}

/// Whether settings of a client's session may be changing: by a statement that has not been answered, or by the end of
/// a transaction that has changed them.
pub fn sets_under_way(client: &Client, server: &Server) -> bool {
    server.exchange.has_set
        || server.exchange.requests.has(Mark::MaySet)
        || !server.exchange.requests.is_empty()
            && (client.session.unfollowed > Unfollowed::Nothing || !client.session.pending.is_empty())
}

/// Whether a client's transaction, or a statement that has not been answered, may have changed how its session reads
/// statements. On a pipelined connection none does.
pub fn reads_otherwise(client: &Client, server: &Server) -> bool {
    let in_transaction = client.session.unfollowed == Unfollowed::Reading;
    !server.is_pipelined() && (in_transaction || server.exchange.requests.has(Mark::SetsReading))
}
