//! The shard of a client's next unit, for databases that are distributed over shards.
//!
//! A unit that is proved to be of one shard ([`sharding`]) goes to the database of that shard, with its own servers; any
//! other read goes to the hub, and any other write of sharded tables is refused. A transaction belongs to the first
//! server that its statements go to: so the pooler answers a BEGIN itself, and sends it before the first statement. It
//! judges by the hub's map, and waits while none is in force ([`shard_map`](crate::catalog::shard_map)).

use std::rc::Rc;
use std::sync::Arc;

use classify::Kind;
use classify::verdict::Isolation;
use sharding::{Parameters, Proved, Reason};
use wire::backend::{self, Status};
use wire::frame::HEADER;
use wire::frontend::{self, Target as Named, tag};
use wire::sqlstate;

use crate::catalog::hubless::Hubless;
use crate::catalog::shard_map::Version;
use crate::error::Error;
use crate::frontend::begun::{begins_with_savepoints, steer};
use crate::frontend::judgement::{Answer, Decision, Held, Judgement, Refusal, Target, refuse};
use crate::frontend::{hubless, messages, own};
use crate::model::client::Discard;
use crate::model::extent::{self, Message, Said, Unit, Unread, judged};
use crate::model::fingerprint::Fingerprint;
use crate::model::held;
use crate::model::keys::{ClientKey, PoolKey};
use crate::model::lexing::{Lexing, UNCLEAR};
use crate::model::request::Request;
use crate::model::turn::{Step, Turn};
use crate::pools::leave;
use crate::router::fingerprints::{self, fingerprints_of};
use crate::router::{members, unit};
use crate::state::client::Client;
use crate::state::server::Server;
use crate::state::{Core, Pair, served, size};

/// A message longer than this is not waited for until it can be judged.
const LONGEST: usize = 16 * 1024 * 1024;

/// The parameters of a Bind of this statement.
struct Bound<'a> {
    /// The body of the Bind.
    body: &'a [u8],
    /// The text of the statement and the types of its parameters, as they stand in its Parse.
    definition: &'a [u8],
    is_utf8: bool,
}

impl Parameters for Bound<'_> {
    fn declared(&self, number: usize) -> u32 {
        let end = memchr::memchr(0, self.definition).unwrap_or(self.definition.len());
        // Behind the text stands the number of types.
        let at = end + 3 + 4 * number.saturating_sub(1);
        let oid = self.definition.get(at..at + 4).and_then(|oid| oid.try_into().ok());
        oid.map_or(0, u32::from_be_bytes)
    }

    fn value(&self, number: usize) -> Option<(bool, Option<&[u8]>)> {
        frontend::parameter(self.body, number).ok()
    }

    fn is_utf8(&self) -> bool {
        self.is_utf8
    }
}

/// Chooses the hub or a shard for the unit at the front of a client's input, if its database has shards. The next step
/// for the input, if the unit cannot be sent there now.
pub fn find_shard(core: &mut Core, key: ClientKey, tag: u8, input: &[u8]) -> Option<Step> {
    let client = core.clients.get(key)?;
    let home = client.route.home?;
    if core.pools.get(home)?.cluster_of.shards.is_empty() || client.input.discard != Discard::No {
        return None;
    }
    let rule = core.pools.get(home)?.cluster_of.hubless.clone();
    let step = awaits_rest(core, key, (tag, input));
    let show = |core: &mut Core, shown: &str| show_route(core, key, home, shown);
    if let Some(step) = step.or_else(|| own::answer(core, key, (home, rule.as_deref()), (tag, input), &show)) {
        return Some(step);
    }
    let client = core.clients.get(key)?;
    // Within a transaction each message is judged by itself, since its statements may be known only by then.
    let has_own = client.checkout.server().is_some();
    // Outside of one a unit is sent as a whole, also on a connection that its client has waited for.
    let server = client.checkout.server().and_then(|server| core.servers.get(server));
    let is_between = server.is_none_or(|server| is_between(client, server));
    // What has run outside of a transaction is answered before anything else runs in it.
    if client.route.begun.as_ref().is_some_and(|begun| begun.outside) && !is_between && !client.input.unsynced {
        return Some(Step::Stop);
    }
    let unit = match judged(input) {
        Ok(unit) if !has_own || is_between => Some(unit),
        Err(Unread::More) if !has_own => return Some(Step::More),
        _ => extent::first(input),
    };
    let Some(version) = map_of(core, key, home) else { return Some(awaits_map(core, key)) };
    let lends = core.pools.get(home)?.limits.mode.lends() && !has_own;
    if let Some(unit) = unit.as_ref().filter(|_| lends)
        && let Some(step) = answer_ourselves(core, key, home, unit)
    {
        return Some(step);
    }
    let bound = unit.as_ref().map_or(usize::MAX, bound);
    if let Some(unit) = unit.as_ref().filter(|_| lends && matches!(tag, tag::PARSE | tag::BIND))
        // Of the messages before a Flush only the first is read.
        && (bound == 1 || unit.messages.len() == 1 || leaves_begin(core, key, (home, rule.as_deref()), unit, &version))
        && let Some(step) = answer_begin(core, key, home, input)
    {
        return Some(step);
    }
    let runs = bound > 0 || tag == tag::EXECUTE;
    let held = held_by(core, key, home);
    let judge = |unit: &Unit<'_>| judge(core, key, (home, held), unit, (&version, rule.as_deref()));
    let judgement = unit.as_ref().map_or_else(Judgement::default, judge);
    // A slot that is about to move is for transactions that its shard has already.
    if judgement.closes && (!has_own || is_between) && version.is_closing(core.now) {
        core.router.awaiting_map.push(key);
        return Some(Step::Stop);
    }
    // Without a hub the first statement decides where its transaction is.
    let outside = runs && rule.is_none() && runs_outside(core, key, home, unit.as_ref(), &judgement);
    let (uses, runs) = (runs, runs && !outside);
    if has_failed(core, key, home, unit.as_ref()) {
        return Some(refuse(core, key, (tag, input), Error::TransactionFailed));
    }
    note_due(core, key, runs)?;
    let decision = match &rule {
        Some(rule) => hubless::decide(core, key, rule, judgement, has_own && !is_between),
        None => decide(judgement, core.pools.get(home)?.cluster_of.multi_shard_writes),
    };
    match decision {
        Ok(decision) if has_own => stays(core, key, (home, &version), &decision, runs, (tag, input)),
        Ok(decision) => goes(core, key, (home, &version), &decision, uses),
        Err(refusal) => Some(refuse_unproved(core, key, home, (tag, input), refusal)),
    }
}

/// Notes whether the server that a client gets has to be told of its transaction, as what runs there next is in it.
fn note_due(core: &mut Core, key: ClientKey, runs: bool) -> Option<()> {
    let client = core.clients.get_mut(key)?;
    let has_own = client.checkout.server().is_some();
    if let Some(begun) = client.route.begun.as_mut().filter(|_| !has_own) {
        begun.is_due = runs;
    }
    Some(())
}

/// How many statements a unit runs, or portals it makes.
fn bound(unit: &Unit<'_>) -> usize {
    unit.messages.iter().filter(|message| matches!(message.said, Said::Query(_) | Said::Bind(_))).count()
}

/// Decides where a unit goes whose database has a hub.
fn decide(judgement: Judgement, may: bool) -> Result<Decision, Refusal> {
    let (target, writes) = judgement.target(may).map_err(|reason| (Error::unsharded(&reason), reason.name()))?;
    Ok(Decision { writes, rule: target.rule(), why: target.why(), target })
}

/// Whether a BEGIN at the front of a unit is answered here, though others stand behind it.
fn leaves_begin(
    core: &mut Core,
    key: ClientKey,
    (home, rule): (PoolKey, Option<&Hubless>),
    unit: &Unit<'_>,
    version: &Version,
) -> bool {
    core.clients.get(key).is_some_and(|client| own::is_in(client, rule, unit))
        || only_steers(core, key, home, unit, version)
}

/// Whether a unit runs statements that begin and steer a transaction, and reads that do not decide where it is.
fn only_steers(core: &mut Core, key: ClientKey, home: PoolKey, unit: &Unit<'_>, version: &Version) -> bool {
    let judgement = judge(core, key, (home, Held::Not), unit, (version, None));
    if judgement.writes || judgement.shard.is_some() {
        return false;
    }
    let steers = |kind: &Kind| {
        matches!(kind, Kind::Begin(_) | Kind::Savepoint(_) | Kind::Release(_) | Kind::RollbackTo(_) | Kind::Read)
    };
    let runs = unit::runs(core, key, home, unit);
    runs.is_ok_and(|runs| runs.iter().all(|fingerprint| steers(&fingerprint.verdict.kind)))
}

/// Whether a unit is refused since its transaction, which no server has, has failed: if it is not to prepare what ends that.
fn has_failed(core: &mut Core, key: ClientKey, home: PoolKey, unit: Option<&Unit<'_>>) -> bool {
    let begun = core.clients.get(key).and_then(|client| client.route.begun.as_ref());
    if !begun.is_some_and(|begun| begun.has_failed) {
        return false;
    }
    let ends = |fingerprint: &Rc<Fingerprint>| {
        matches!(fingerprint.verdict.kind, Kind::Commit { .. } | Kind::Rollback { .. } | Kind::RollbackTo(_))
    };
    let prepares =
        |unit: &Unit<'_>| !unit.messages.iter().any(|message| matches!(message.said, Said::Query(_) | Said::Bind(_)));
    !unit
        .is_some_and(|unit| prepares(unit) && unit::runs(core, key, home, unit).is_ok_and(|runs| runs.iter().all(ends)))
}

/// Whether a unit runs outside of the client's transaction, which no server has yet; its later messages do so, too.
fn runs_outside(
    core: &mut Core,
    key: ClientKey,
    home: PoolKey,
    unit: Option<&Unit<'_>>,
    judgement: &Judgement,
) -> bool {
    let outside = unit.is_some_and(|unit| is_free(core, key, home, unit, judgement));
    if let Some(begun) = core.clients.get_mut(key).and_then(|client| client.route.begun.as_mut()) {
        begun.outside = outside;
    }
    outside
}

/// Whether a unit is a read of the hub that has the same answer outside of the client's transaction, which no server has
/// yet: so it does not decide where that is.
fn is_free(core: &mut Core, key: ClientKey, home: PoolKey, unit: &Unit<'_>, judgement: &Judgement) -> bool {
    let Some(client) = core.clients.get(key) else { return false };
    let reads_committed = |isolation: Option<Isolation>| match isolation {
        None => client.session.sets.get("default_transaction_isolation").is_none(),
        Some(level) => matches!(level, Isolation::ReadCommitted | Isolation::ReadUncommitted),
    };
    let free = client.route.begun.as_ref().is_some_and(|begun| !begun.sets && reads_committed(begun.modes.isolation));
    let is_whole = matches!(unit.messages.last().map(|message| message.said), Some(Said::Query(_) | Said::Sync));
    // The messages of a unit come one by one when its first has been sent.
    if client.input.unsynced && client.route.begun.as_ref().is_some_and(|begun| begun.outside) {
        return true;
    }
    if !free || !is_whole || judgement.is_bound || judgement.writes || judgement.shard.is_some() {
        return false;
    }
    // A portal that is read by parts, or later, is there for as long as the transaction.
    let portals = unit.messages.iter().filter(|message| matches!(message.said, Said::Bind(_))).count();
    let emptied = unit.messages.iter().filter(|message| empties_portal(message)).count();
    if portals != emptied {
        return false;
    }
    let is_read = |fingerprint: &Rc<Fingerprint>| match fingerprint.verdict.kind {
        Kind::Read => fingerprint.is_read() && !fingerprint.verdict.pins.any() && !fingerprint.verdict.opaque,
        Kind::Deallocate(_) => true,
        _ => false,
    };
    unit::runs(core, key, home, unit).is_ok_and(|runs| runs.iter().all(is_read))
}

/// Whether a message runs the unnamed portal to its end.
fn empties_portal(message: &Message<'_>) -> bool {
    // The portal's name is empty, and the number of rows is 0.
    matches!(message.said, Said::Execute) && message.bytes.get(HEADER..).is_some_and(|body| body == [0; 5])
}

/// Where the client's transaction is.
fn held_by(core: &Core, key: ClientKey, home: PoolKey) -> Held {
    let server = core.clients.get(key).and_then(|client| client.checkout.server());
    let held = server.and_then(|server| core.servers.get(server)).map(|server| {
        match members::home_of(&core.pools, server.pool) == home {
            true if server.status == Status::Idle => Held::Not,
            true => Held::OnHub,
            false => Held::OnShard,
        }
    });
    held.unwrap_or(Held::Not)
}

/// Waits for the rest of a message that is judged, and refuses one that is too long for that.
fn awaits_rest(core: &mut Core, key: ClientKey, (tag, input): (u8, &[u8])) -> Option<Step> {
    let whole = wire::header(input).ok()??.total();
    if !matches!(tag, tag::QUERY | tag::PARSE | tag::BIND) || input.len() >= whole {
        return None;
    }
    let too_long = whole > LONGEST;
    Some(if too_long { refuse(core, key, (tag, input), Error::unsharded(&Reason::Unread)) } else { Step::More })
}

/// Counts a unit that goes to this target, and tells its client if it wants to know.
fn tell_route(core: &mut Core, key: ClientKey, home: PoolKey, version: &Version, decision: &Decision) {
    let Some((client, pool)) = core.clients.get_mut(key).zip(core.pools.get(home)) else { return };
    // A client that waits for a connection was judged before.
    if client.checkout.waits().is_some() {
        return;
    }
    let Decision { target, rule, why, .. } = decision;
    let route = target.kind();
    *core.lifecycle.routes.entry((pool.name.database.clone(), route, *rule)).or_default() += 1;
    // Between the parts of answers that are under way there is no room for a notice.
    if client.route.notices && client.has_no_server() {
        let text = format!("route: {} ({why})", name_of(version, target));
        backend::write_notice(client.io.out(), "NOTICE", sqlstate::SUCCESSFUL_COMPLETION, &text);
    }
}

/// The map of the shards of a client's database, if it is in force.
fn map_of(core: &mut Core, key: ClientKey, home: PoolKey) -> Option<Arc<Version>> {
    let version = version_of(core, home);
    if let Some(client) = core.clients.get_mut(key).filter(|_| version.is_some()) {
        client.route.unmapped_since = None;
    }
    version
}

/// The map of the shards of a database, if it is in force.
fn version_of(core: &mut Core, home: PoolKey) -> Option<Arc<Version>> {
    if let Some(rule) = core.pools.get(home)?.cluster_of.hubless.as_ref().filter(|rule| !rule.is_automatic) {
        return Some(rule.names.clone());
    }
    let now = core.now;
    let mut context = core.context();
    let fingerprints = fingerprints_of(&mut context, home)?;
    fingerprints.refresh(now);
    fingerprints.shard_map(now)
}

/// Whether a client that has a connection is between two units there, outside of a transaction.
fn is_between(client: &Client, server: &Server) -> bool {
    let between = !client.input.unsynced && client.input.passing == 0;
    between && server.status == Status::Idle && server.exchange.requests.is_empty()
}

/// Whether the server that was chosen for a client's unit is still that of the map: it may have waited for room there.
pub fn is_still_there(core: &mut Core, key: ClientKey) -> bool {
    let Some((home, mapped)) = core.clients.get(key).and_then(|client| Some((client.route.home?, client.route.mapped)))
    else {
        return true;
    };
    if core.pools.get(home).is_none_or(|pool| pool.cluster_of.shards.is_empty()) {
        return true;
    }
    version_of(core, home).is_some_and(|version| version.number == mapped)
}

/// Has a client wait for a map, if it has not waited for too long.
fn awaits_map(core: &mut Core, key: ClientKey) -> Step {
    let Some(client) = core.clients.get_mut(key) else { return Step::Stop };
    let since = *client.route.unmapped_since.get_or_insert(core.now);
    let (user, database) = (client.identity.user.clone(), client.identity.database.clone());
    let limit = core.config.query_wait(&user, &database);
    if limit.is_some_and(|limit| core.now.saturating_duration_since(since) >= limit) {
        leave::refuse(core, key, &Error::NoShardMap(database.to_string()));
    } else {
        core.router.awaiting_map.push(key);
    }
    Step::Stop
}

/// Lets the clients that wait for a map try again.
pub fn look_for_map(core: &mut Core) {
    for key in std::mem::take(&mut core.router.awaiting_map) {
        if core.clients.get(key).is_some_and(|client| client.is_ready()) {
            core.schedule.give_turn(Turn::Client(key));
        }
    }
}

/// What the statements that a unit runs need.
fn judge(
    core: &mut Core,
    key: ClientKey,
    (home, held): (PoolKey, Held),
    unit: &Unit<'_>,
    (version, rule): (&Version, Option<&Hubless>),
) -> Judgement {
    let mut judgement = Judgement::default();
    let is_utf8 = is_utf8(core, key);
    let mut prepared: Vec<(&[u8], &[u8])> = Vec::new();
    for message in &unit.messages {
        match message.said {
            Said::Query(sql) => {
                if judgement.words.say_all(rule, sql) {
                    continue;
                }
                let proved = prove(core, key, home, sql, version);
                judgement.add(&proved, sql, &sharding::Literals { is_utf8 });
            }
            Said::Parse(parse) => {
                prepared.push((parse.name, parse.definition));
                if held != Held::Not && rule.is_none() {
                    let proved = prove(core, key, home, parse.query, version);
                    judgement.prepare(&proved.proof, held);
                }
            }
            Said::Bind(bind) => {
                let body = message.bytes.get(HEADER..).unwrap_or_default();
                let here = prepared.iter().rev().find(|(name, _)| *name == bind.statement);
                let held = core.clients.get(key).and_then(|client| client.prepared.held(bind.statement));
                let statement = held.filter(|_| here.is_none()).map(|held| held.statement().clone());
                let definition = here.map(|(_, definition)| *definition);
                let Some(definition) = definition.or(statement.as_ref().map(|statement| &*statement.definition)) else {
                    continue;
                };
                let text = definition.split(|&byte| byte == 0).next().unwrap_or_default();
                if judgement.words.say_all(rule, text) {
                    continue;
                }
                let known = statement.as_ref().and_then(|statement| statement.proof_by(version.number));
                let proved = known.unwrap_or_else(|| Rc::new(prove(core, key, home, text, version)));
                if let Some(statement) = &statement {
                    statement.remember_proof(version.number, proved.clone());
                }
                judgement.add(&proved, text, &Bound { body, definition, is_utf8 });
            }
            _ => (),
        }
    }
    judgement
}

/// Proves what a text of this client needs. A text that the parser would read otherwise than the servers is not proved.
pub(super) fn prove(core: &mut Core, key: ClientKey, home: PoolKey, sql: &[u8], version: &Version) -> Proved {
    let (clients, servers, mut context) = core.split();
    let lexing = served(clients, servers, key).map_or(Lexing::Unclear, |(client, server)| {
        fingerprints::lexing(context.parameters, client, server.as_deref(), sql)
    });
    let text = std::str::from_utf8(sql).ok().filter(|_| lexing == Lexing::Conforming);
    match (text, fingerprints_of(&mut context, home)) {
        (Some(text), Some(fingerprints)) => fingerprints.prove(text, version),
        _ => Proved::unread(sql, &version.map),
    }
}

/// The fingerprint of a text of this client.
fn fingerprint(core: &mut Core, key: ClientKey, home: PoolKey, sql: &[u8]) -> Option<Rc<Fingerprint>> {
    let (clients, servers, mut context) = core.split();
    let (client, server) = served(clients, servers, key)?;
    fingerprints::fingerprint(&mut context, (client, server.as_deref()), home, sql).ok()
}

/// Whether the client's text comes as the servers store it.
pub(super) fn is_utf8(core: &Core, key: ClientKey) -> bool {
    let (_, encoding) = core.parameters.lexed_by;
    let client = core.clients.get(key);
    client.and_then(|client| client.session.vars.get(encoding)).is_some_and(|name| name.eq_ignore_ascii_case("utf8"))
}

/// Answers a BEGIN, which the server gets with the first statement, and the end of a transaction without a statement.
fn answer_ourselves(core: &mut Core, key: ClientKey, home: PoolKey, unit: &Unit<'_>) -> Option<Step> {
    let Some(Said::Query(sql)) = unit.messages.first().map(|message| message.said) else { return None };
    let fingerprint = fingerprint(core, key, home, sql)?;
    let client = core.clients.get_mut(key)?;
    if !client.has_no_server() {
        return None;
    }
    let savepoints = begins_with_savepoints(&fingerprint.verdict);
    if fingerprint.verdict.statements != 1 && savepoints.is_none() {
        return None;
    }
    let word = steer(client, &fingerprint.verdict, sql, (core.now, &core.parameters.tracked))?;
    // As in PostgreSQL, a Query ends the unnamed statement.
    client.prepared.unnamed = None;
    backend::write_command_complete(client.io.out(), word);
    for _ in savepoints.iter().flatten() {
        backend::write_command_complete(client.io.out(), "SAVEPOINT");
    }
    let status = client.route.status();
    backend::write_ready_for_query(client.io.out(), status);
    core.schedule.unflushed.push(Turn::Client(key));
    Some(Step::Took(unit.bytes.len()))
}

/// Answers a SHOW ROUTE: where the statement would go, why, and what helps. None while no map is in force.
fn show_route(core: &mut Core, key: ClientKey, home: PoolKey, shown: &str) -> Option<Answer> {
    let version = map_of(core, key, home)?;
    let proved = prove(core, key, home, shown.as_bytes(), &version);
    let mut judgement = Judgement::default();
    judgement.add(&proved, shown.as_bytes(), &sharding::Literals { is_utf8: is_utf8(core, key) });
    let rule = core.pools.get(home).and_then(|pool| pool.cluster_of.hubless.clone());
    let may = core.pools.get(home).is_some_and(|pool| pool.cluster_of.multi_shard_writes);
    let (route, why, hint) = match rule {
        Some(rule) => hubless::route(core, key, &rule, shown.as_bytes(), judgement),
        None => match judgement.target(may) {
            Ok((target, _)) => (name_of(&version, &target).to_owned(), target.why(), target.hint()),
            Err(reason) => ("refused".to_owned(), reason.to_string(), Some(reason.hint())),
        },
    };
    Some(Answer { row: vec![Some(route), Some(why), hint.map(str::to_owned)], tag: "SHOW" })
}

/// Answers a statement of the extended protocol that steers a transaction which no server has: a BEGIN also where it stands
/// before statements which the unit only prepares, or before a Flush. Where they run is known later.
fn answer_begin(core: &mut Core, key: ClientKey, home: PoolKey, input: &[u8]) -> Option<Step> {
    let client = core.clients.get(key)?;
    if !client.has_no_server() {
        return None;
    }
    let (mut at, mut sql, mut parsed, mut described, mut bound) = (0, None, None, false, false);
    loop {
        let message = extent::first(input.get(at..)?)?;
        at += message.bytes.len();
        match message.messages.first()?.said {
            Said::Parse(parse) if sql.is_none() && !client.prepared.statements.contains_key(parse.name) => {
                (sql, parsed) = (Some(parse.query.to_vec()), Some((parse.name, parse.definition)));
            }
            Said::Bind(bind) if !bound && parsed.is_some_and(|(name, _)| name == bind.statement) => bound = true,
            Said::Bind(bind) if sql.is_none() => {
                (sql, bound) = (Some(client.prepared.held(bind.statement)?.statement().text().to_vec()), true);
            }
            Said::Describe(Named::Portal(_)) if bound => described = true,
            Said::Execute if bound => break,
            _ => return None,
        }
    }
    let sql = sql?;
    let fingerprint = fingerprint(core, key, home, &sql)?;
    let client = core.clients.get_mut(key)?;
    if fingerprint.verdict.statements != 1 {
        return None;
    }
    let word = steer(client, &fingerprint.verdict, &sql, (core.now, &core.parameters.tracked))?;
    if let Some(begun) = &mut client.route.begun {
        begun.outside = false;
    }
    client.input.unsynced = true;
    match parsed {
        None => {}
        Some(([], _)) => client.prepared.unnamed = None,
        Some((name, definition)) => {
            let statement = core.pools.get_mut(home)?.statements.share(definition, UNCLEAR, Lexing::Conforming);
            client.prepared.statements.insert(name.into(), held::Held::new(statement));
        }
    }
    let out = client.io.out();
    for tag in [
        parsed.map(|_| backend::tag::PARSE_COMPLETE),
        Some(backend::tag::BIND_COMPLETE),
        described.then_some(backend::tag::NO_DATA),
    ] {
        tag.into_iter().for_each(|tag| backend::write_empty(out, tag));
    }
    backend::write_command_complete(out, word);
    core.schedule.unflushed.push(Turn::Client(key));
    Some(Step::Took(at))
}

/// The pool that serves a client's statements on a shard, or on the hub.
fn pool_for(core: &mut Core, key: ClientKey, home: PoolKey, version: &Version, target: &Target) -> Option<PoolKey> {
    let Target::Shard(shard) = target else { return Some(home) };
    let name: Rc<str> = (**version.map.shards.get(*shard)?).into();
    let user = core.clients.get(key)?.identity.user.clone();
    if !core.pools.get(home)?.cluster_of.shards.contains(&name) {
        return None;
    }
    let served_as: Rc<str> = core.config.pool_user(&name, &user).into();
    Some(size::pool_of(core, &name, &served_as))
}

/// Sends a client without a connection to the hub or a shard.
fn goes(
    core: &mut Core,
    key: ClientKey,
    (home, version): (PoolKey, &Version),
    decision: &Decision,
    runs: bool,
) -> Option<Step> {
    let target = &decision.target;
    let Some(pool) = pool_for(core, key, home, version, target) else {
        leave::refuse(core, key, &Error::NoShardEntry(name_of(version, target).to_owned()));
        return Some(Step::Stop);
    };
    let there = core.clients.get(key)?.route.pool.map(|pool| members::home_of(&core.pools, pool));
    let client = core.clients.get_mut(key)?;
    client.route.mapped = version.number;
    if there != Some(pool) {
        // Its units in flight are answered first.
        if let Some(step) = client.checkout.wait_for_own() {
            return Some(step);
        }
        client.route.pool = Some(pool);
        client.route.shard = (pool != home).then_some(pool);
    }
    if runs && client.route.begun.is_some() {
        client.checkout.needs_own = true;
        if let Some(step) = client.checkout.wait_for_own() {
            return Some(step);
        }
    }
    tell_route(core, key, home, version, decision);
    None
}

/// Sees to it that the statements of a client with a connection run where that leads.
fn stays(
    core: &mut Core,
    key: ClientKey,
    (home, version): (PoolKey, &Version),
    Decision { target, writes, .. }: &Decision,
    runs: bool,
    message: (u8, &[u8]),
) -> Option<Step> {
    let server = core.clients.get(key)?.checkout.server()?;
    let here = members::home_of(&core.pools, core.servers.get(server)?.pool);
    let hub_writes = core.pools.get(home)?.cluster_of.multi_shard_writes;
    let there = pool_for(core, key, home, version, target);
    let is_fine = match target {
        Target::Anywhere => true,
        // The hub sees all shards.
        Target::Shard(_) => there == Some(here) || here == home && (!writes || hub_writes),
        Target::Hub(_) => here == home,
    };
    let lends = core.pools.get(here)?.limits.mode.lends();
    let Pair { client, server, .. } = core.pair(key)?;
    let begins = runs && client.route.begun.as_ref().is_some_and(|begun| !begun.is_due);
    if is_fine && !begins {
        return None;
    }
    // The client has waited for the connection while the map has changed, and nothing is under way.
    let is_fresh = lends && !client.session.pins.any() && is_between(client, server);
    // So far the unit has only prepared statements: it goes on elsewhere, when it is known that they can be.
    if is_fresh || messages::only_names(client, server) {
        frontend::write_sync(server.io.out());
        client.input.unsynced = false;
        client.checkout.behind_own = true;
        server.exchange.requests.push_back(Request::HiddenSync);
        return Some(Step::Stop);
    }
    let name = |pool: PoolKey| core.pools.get(pool).map_or_else(String::new, |pool| pool.name.database.to_string());
    let why = match target {
        Target::Hub(reason) => format!("the transaction is on shard \"{}\", and {reason}", name(here)),
        _ => format!(
            "the transaction is on \"{}\", and the statement belongs to shard \"{}\"",
            name(here),
            name_of(version, target)
        ),
    };
    let is_same_map = core.clients.get(key).is_some_and(|client| client.route.mapped == version.number);
    let error = if is_same_map { Error::OtherShard(why) } else { Error::MapChanged(why) };
    Some(refuse(core, key, message, error))
}

/// Refuses and counts a unit that is not proved to be of one shard.
fn refuse_unproved(core: &mut Core, key: ClientKey, home: PoolKey, front: (u8, &[u8]), (error, name): Refusal) -> Step {
    if let Some(pool) = core.pools.get(home) {
        *core.lifecycle.routes.entry((pool.name.database.clone(), "refused", name)).or_default() += 1;
    }
    refuse(core, key, front, error)
}

/// The name of a target.
fn name_of<'a>(version: &'a Version, target: &Target) -> &'a str {
    match target {
        Target::Shard(shard) => version.map.shards.get(*shard).map_or("", |name| name),
        _ => "hub",
    }
}
