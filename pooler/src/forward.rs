//! What clients say, passed on to their servers.

use std::rc::Rc;
use std::sync::Arc;

use classify::{Kind, Verdict, Words};
use wire::backend::{self, Status};
use wire::frame::HEADER;
use wire::frontend::{self, Target, tag};
use wire::{Header, header};

use crate::after::After;
use crate::answer::NO_UNNAMED;
use crate::client::{Client, ClientKey, Discard, State};
use crate::config::PoolMode;
use crate::pool::PoolKey;
use crate::server::{Request, Server, State as ServerState};
use crate::shape::sets_under_way;
use crate::statement::{Lexing, Reading, Statement, UNCLEAR, reading};
use crate::worker::{Step, Worker};

/// A Query up to this size is looked at before it is passed on; of a longer one the beginning is.
const LOOKED_AT: usize = 65_536;
/// The longest name of a statement or portal.
const NAME: usize = 4096;

/// Whether one of the units that are under way on a server connection has a statement such that this may be.
fn may_be(server: &Server, holds: impl Fn(&Verdict) -> bool) -> bool {
    let holds = |verdict: Option<Arc<Verdict>>| verdict.is_none_or(|verdict| holds(&verdict));
    server.requests.iter().any(|request| match request {
        Request::Query(verdict, _) => holds(verdict.clone()),
        Request::Execute(statement) => holds(statement.as_ref().and_then(|statement| statement.verdict())),
        _ => false,
    })
}

/// Whether a statement may open a transaction block.
fn may_leave_open(verdict: &Verdict) -> bool {
    let ends = matches!(verdict.kind, Kind::Commit { chain: false } | Kind::Rollback { chain: false });
    verdict.transaction && !(ends && verdict.statements == 1)
}

impl Worker {
    /// Works on a client's input; how many bytes are done with.
    pub fn client_input(&mut self, key: ClientKey, input: &[u8]) -> usize {
        if let Some(pool) = self.clients.get(key.0).and_then(|c| c.pool).and_then(|key| self.pools.get_mut(key.0)) {
            pool.totals.received += input.len() as u64;
        }
        let mut at = 0;
        while let Some(left) = input.get(at..).filter(|left| !left.is_empty()) {
            let Some(client) = self.clients.get(key.0) else { return input.len() };
            let step = match client.state {
                State::Startup => self.startup_input(key, left),
                State::Login(..) => self.password_input(key, left),
                State::Proven(_) | State::Greeting => Step::Stop,
                State::Ready => self.ready_input(key, left),
                State::Relay => self.relay_to_server(key, left),
                State::Console => self.console_input(key, left),
                State::Closing | State::Cancels => Step::Took(left.len()),
            };
            match step {
                Step::Took(count) => at += count,
                Step::More | Step::Stop => break,
            }
        }
        at.min(input.len())
    }

    fn ready_input(&mut self, key: ClientKey, left: &[u8]) -> Step {
        let Some(client) = self.clients.get_mut(key.0) else { return Step::Took(left.len()) };
        if client.dropping > 0 {
            let count = client.dropping.min(left.len());
            client.dropping -= count;
            return Step::Took(count);
        }
        if client.passing > 0 {
            let server_key = client.server;
            let step = pass_on(client, server_key.and_then(|server| self.servers.get_mut(server.0)), left);
            if client.passing == 0 {
                self.long_query_ended(key);
                // The unit may have ended while its client was still within a message.
                if let Some(server) = server_key {
                    self.later(After::Free(server));
                }
            }
            return step;
        }
        if let Some(server) = client.server.and_then(|server| self.servers.get(server.0)) {
            if server.aligning.is_some() {
                return Step::Stop;
            }
            // What follows is void if what was named before has failed.
            if matches!(server.requests.back(), Some(Request::HiddenSync | Request::Restore { .. })) {
                client.behind_own = true;
                return Step::Stop;
            }
        }
        let head = match header(left) {
            Ok(Some(head)) => head,
            Ok(None) => return Step::More,
            Err(error) => {
                self.fatal(key, "08P01", &error.to_string());
                return Step::Took(left.len());
            }
        };
        // The data of a COPY belongs to what is under way.
        let copied = matches!(head.tag, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::TERMINATE);
        if !copied && self.must_follow(key) {
            if let Some(client) = self.clients.get_mut(key.0) {
                client.behind_own = true;
            }
            return Step::Stop;
        }
        let Some(client) = self.clients.get(key.0) else { return Step::Took(left.len()) };
        let whole = left.get(HEADER..head.total());
        let client_has_server = client.server.is_some();
        if let Some(step) = self.behind_names(key, head.tag) {
            return step;
        }
        let Some(client) = self.clients.get(key.0) else { return Step::Took(left.len()) };
        // What was judged is of this unit only: a later one may be as long, and of another client in the same place.
        self.judged = None;
        if !client_has_server
            && client.home.is_some()
            && matches!(
                head.tag,
                tag::QUERY | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE | tag::FUNCTION_CALL
            )
            && let Some(step) = self.find_server(key, head.tag, left)
        {
            return step;
        }
        let Some(client) = self.clients.get(key.0) else { return Step::Took(left.len()) };
        let may_be_read = matches!(head.tag, tag::QUERY | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE);
        if (may_be_read && !client.needs_own || client.lane.is_some())
            && head.tag != tag::TERMINATE
            && let Some(step) = self.take_lane(key, left)
        {
            return step;
        }
        let Some(client) = self.clients.get_mut(key.0) else { return Step::Took(left.len()) };
        match head.tag {
            tag::TERMINATE => {
                // What was sent before is the server's to do, though nobody waits for the answer.
                if let Some(server) = client.server {
                    self.flush_server(server);
                }
                self.close_client(key, "client close request");
                return Step::Took(left.len());
            }
            tag::QUERY | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE | tag::FUNCTION_CALL => (),
            // A Sync on its own needs no server, and neither does what belongs to a COPY that has ended.
            tag::SYNC if !client_has_server && client.discard == Discard::No && head.body == 0 => {
                client.unsynced = false;
                backend::write_ready_for_query(client.io.out(), Status::Idle);
                return Step::Took(HEADER);
            }
            tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL if !client_has_server => {
                client.dropping = head.body;
                return Step::Took(HEADER);
            }
            tag::SYNC | tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => (),
            other => {
                let message = format!("invalid frontend message type {other}");
                self.fatal(key, "08P01", &message);
                return Step::Took(left.len());
            }
        }
        if client.discard == Discard::Unit {
            client.dropping = head.body;
            // As in PostgreSQL, one that fails has ended the unnamed statement before it.
            if head.tag == tag::QUERY || head.tag == tag::PARSE && left.get(HEADER).is_none_or(|first| *first == 0) {
                client.unnamed = None;
            }
            if matches!(head.tag, tag::QUERY | tag::SYNC | tag::FUNCTION_CALL) {
                client.discard = Discard::No;
                client.unsynced = false;
                backend::write_ready_for_query(client.io.out(), Status::Idle);
            }
            return Step::Took(HEADER);
        }
        // What must be seen whole, or to a certain point, before it can be passed on.
        let wanted = match head.tag {
            tag::QUERY => head.body.min(LOOKED_AT),
            tag::PARSE | tag::SYNC | tag::FLUSH => head.body,
            tag::DESCRIBE | tag::CLOSE | tag::EXECUTE if head.body > NAME => {
                self.fatal(key, "08P01", "the name of a statement or portal is too long");
                return Step::Took(left.len());
            }
            tag::DESCRIBE | tag::CLOSE | tag::EXECUTE => head.body,
            _ => 0,
        };
        if left.len() < HEADER + wanted {
            return Step::More;
        }
        let names = if head.tag == tag::BIND {
            let come = whole.or_else(|| left.get(HEADER..)).unwrap_or_default();
            match frontend::bind(come) {
                Some(names) => Some(names),
                None if whole.is_none() && come.len() <= 2 * NAME => return Step::More,
                None => {
                    self.fatal(key, "08P01", "malformed Bind");
                    return Step::Took(left.len());
                }
            }
        } else {
            None
        };
        if matches!(head.tag, tag::QUERY | tag::EXECUTE) && self.awaits_hub(key, head, left) {
            return Step::Stop;
        }
        if !self.acquire(key, false) {
            return Step::Stop;
        }
        let taken = match (head.tag, names) {
            (tag::BIND, Some(names)) => self.pass_bind(key, head, names),
            _ => self.pass_message(key, head, left),
        };
        match taken {
            Ok(count) => Step::Took(count),
            Err(error) => {
                self.fatal(key, "08P01", &error.to_string());
                Step::Took(left.len())
            }
        }
    }

    /// Whether the next unit of a client may be sent only when those before it on the connection that it has have been
    /// answered: where these may open a transaction block, in statement pooling; and on a replica, since it may write where no
    /// transaction is open.
    fn must_follow(&self, key: ClientKey) -> bool {
        let Some(client) = self.clients.get(key.0) else { return false };
        let Some(server) = client.server.and_then(|server| self.servers.get(server.0)) else { return false };
        let Some(pool) = self.pools.get(server.pool.0) else { return false };
        if !server.requests.back().is_some_and(Request::ends_clients_unit) {
            return false;
        }
        let elsewhere = pool.home.is_some_and(|(home, id)| {
            let cluster = self.pools.get(home.0).and_then(|home| home.cluster);
            let view = cluster.and_then(|place| self.clusters.get(place));
            view.is_some_and(|view| view.view().primary() != Some(id))
        });
        match pool.mode {
            PoolMode::Session => false,
            PoolMode::Statement if may_be(server, may_leave_open) => true,
            // Within a transaction it belongs to that. Whether one is open the answer tells.
            _ => {
                let between = server.status == Status::Idle || may_be(server, |verdict| verdict.transaction);
                elsewhere && between && !client.pins.any()
            }
        }
    }

    pub fn pair(&mut self, key: ClientKey) -> Option<(&mut Client, &mut Server)> {
        let client = self.clients.get_mut(key.0)?;
        let server = self.servers.get_mut(client.server?.0)?;
        Some((client, server))
    }

    /// Messages that are passed on as they are.
    pub fn pass_plain(&mut self, key: ClientKey, head: Header, left: &[u8]) -> Result<usize, wire::Error> {
        let now = self.now;
        let Some((client, server)) = self.pair(key) else { return Ok(head.total()) };
        let whole = left.len() >= head.total();
        let verdict = match head.tag {
            // What goes down a lane is known to touch nothing.
            _ if matches!(server.state, ServerState::Lane) => None,
            tag::QUERY if whole => {
                let sql = left.get(HEADER..head.total()).unwrap_or_default();
                self.look_at(key, sql.strip_suffix(b"\0").unwrap_or(sql))
            }
            // Too long to be kept: the words that have come tell what it may do.
            tag::QUERY => self.look_at_part(key, left.get(HEADER..).unwrap_or_default()),
            tag::EXECUTE => {
                let bound = client.portal(frontend::portal(left.get(HEADER..).unwrap_or_default())).cloned();
                bound.and_then(|statement| self.look_at_statement(key, &statement))
            }
            _ => None,
        };
        if matches!(head.tag, tag::QUERY | tag::EXECUTE) {
            self.foresee_definition(key, verdict.as_deref());
        }
        let Some((client, server)) = self.pair(key) else { return Ok(head.total()) };
        server.writes |= match head.tag {
            tag::QUERY | tag::EXECUTE => !whole || verdict.as_deref().is_none_or(|verdict| !verdict.read_only),
            tag => tag == tag::FUNCTION_CALL,
        };
        match head.tag {
            tag::QUERY => {
                begin(client, server, now);
                // As in PostgreSQL, a Query ends the unnamed statement.
                let unnamed = client.unnamed.take();
                server.unnamed = None;
                server.requests.push_back(Request::Query(verdict, unnamed));
            }
            tag::FUNCTION_CALL => {
                begin(client, server, now);
                server.requests.push_back(Request::Call);
            }
            tag::EXECUTE => {
                begin(client, server, now);
                client.unsynced = true;
                let portal = frontend::portal(left.get(HEADER..).unwrap_or_default());
                server.requests.push_back(Request::Execute(client.portal(portal).cloned()));
            }
            // The server flushes at a Sync as well, and is free again: nothing has run in this unit yet.
            tag::FLUSH if left.len() == head.total() && only_names(client, server) => {
                frontend::write_sync(server.io.out());
                client.unsynced = false;
                server.requests.push_back(Request::HiddenSync);
                return Ok(head.total());
            }
            tag::SYNC
                // A server that takes in a COPY ignores it.
                if !server.copying => {
                    client.unsynced = false;
                    server.requests.push_back(Request::Sync);
                }
            tag::COPY_DONE | tag::COPY_FAIL => {
                server.copying = false;
                if !server.requests.is_empty() {
                    server.requests.push_back(Request::CopyEnd);
                }
            }
            _ => (),
        }
        let come = head.total().min(left.len());
        server.io.out().extend_from_slice(left.get(..come).unwrap_or_default());
        client.passing = head.total() - come;
        if head.tag == tag::QUERY && !whole {
            let mut words = Box::<Words>::default();
            words.read(left.get(HEADER..).unwrap_or_default());
            client.words = Some(words);
        }
        Ok(come)
    }

    /// Whether servers know a client's named statements by names of ours: where connections are shared, and where they
    /// were when the client prepared the first of those that it has.
    fn renames(&mut self, key: ClientKey) -> bool {
        let Some((client, server)) = self.pair(key) else { return false };
        let (kept, pool) = (client.renamed && !client.statements.is_empty(), server.pool);
        let renames = kept || self.pools.get(pool.0).is_some_and(|pool| pool.mode.lends());
        if let Some(client) = self.clients.get_mut(key.0) {
            client.renamed = renames;
        }
        renames
    }

    /// What is known of the text of a Query.
    pub fn look_at(&mut self, key: ClientKey, sql: &[u8]) -> Option<Arc<Verdict>> {
        let pool = self.clients.get(key.0)?.pool?;
        self.shape(key, pool, sql).ok().map(|shape| shape.verdict.clone())
    }

    /// The whole of a long Query has come: what its words allow is added to what its beginning allows, before the server
    /// has all of it.
    fn long_query_ended(&mut self, key: ClientKey) {
        let Some(words) = self.clients.get_mut(key.0).and_then(|client| client.words.take()) else { return };
        let Some((_, server)) = self.pair(key) else { return };
        let Some(Request::Query(Some(verdict), _)) = server.requests.back_mut() else { return };
        let verdict = Arc::make_mut(verdict);
        words.add_to(verdict);
        let verdict = verdict.clone();
        self.foresee_definition(key, Some(&verdict));
    }

    /// What the words at the beginning of a long Query allow.
    fn look_at_part(&mut self, key: ClientKey, sql: &[u8]) -> Option<Arc<Verdict>> {
        let pool = self.clients.get(key.0)?.pool?;
        self.shape_read(pool, sql, Lexing::Unclear).ok().map(|shape| shape.verdict.clone())
    }

    /// What is known of a prepared statement.
    pub fn look_at_statement(&mut self, key: ClientKey, statement: &Rc<Statement>) -> Option<Arc<Verdict>> {
        let pool = self.clients.get(key.0)?.pool?;
        self.shape_of_statement(pool, statement).ok().map(|shape| shape.verdict.clone())
    }

    /// How a client's session reads the text of statements now; unclear within a transaction that may have changed
    /// settings that the server does not tell, within one that has failed (whether it may be prepared is the server's to
    /// say), and where the client may have temporary tables, which others do not mean by the same names.
    fn reading(&mut self, key: ClientKey) -> Reading {
        let Some((client, server)) = self.pair(key) else { return UNCLEAR };
        let unclear =
            client.unclear || client.pins.any() || server.status == Status::Failed || sets_under_way(client, server);
        if !matches!(server.state, ServerState::Lane) && unclear {
            return UNCLEAR;
        }
        if let Some((vars, sets, reading)) = &client.reading
            && vars.is(&client.vars)
            && sets.is(&client.sets)
        {
            return *reading;
        }
        let Some(client) = self.clients.get_mut(key.0) else { return UNCLEAR };
        let reading = reading(&client.vars, &client.sets, &self.tracked);
        client.reading = Some((client.vars.clone(), client.sets.clone(), reading));
        reading
    }

    /// Sees to it that a statement which a server is to parse anew is read as the client's session reads now: sessions
    /// that read otherwise must not meet it.
    fn read_anew(&mut self, key: ClientKey, name: &[u8]) {
        let Some(client) = self.clients.get(key.0) else { return };
        let Some(statement) = client.statements.get(name).cloned() else { return };
        let Some(server) = client.server.and_then(|server| self.servers.get(server.0)) else { return };
        if server.known.has(&statement) {
            return;
        }
        let home = self.home_of(server.pool);
        let reading = self.reading(key);
        if statement.reading == reading && reading != UNCLEAR {
            return;
        }
        let lexing = self.lexing(key, statement.text());
        let (Some(client), Some(pool)) = (self.clients.get_mut(key.0), self.pools.get_mut(home.0)) else { return };
        let anew = pool.statements.share(&statement.definition, reading, lexing);
        client.statements.insert(name.into(), anew);
    }

    pub fn pass_parse(&mut self, key: ClientKey, body: &[u8]) -> Result<(), wire::Error> {
        let parse = frontend::parse(body)?;
        let now = self.now;
        let limit = self.config.settings.kept_statements();
        let renames = self.renames(key);
        let Some((_, server)) = self.pair(key) else { return Ok(()) };
        let member = server.pool;
        let home = self.home_of(member);
        let shared = renames && (!parse.name.is_empty() || self.keeps(key, home, parse.definition));
        let reading = if shared { self.reading(key) } else { UNCLEAR };
        let lexing = self.lexing(key, parse.query);
        let renewals = self.shapes_of(home).map(|shapes| shapes.knowledge().renewals());
        if let Some(pool) = self.pools.get_mut(member.0) {
            pool.totals.client_parses += 1;
        }
        // Statements are known by the same names on all servers of a cluster.
        let Some(pool) = self.pools.get_mut(home.0) else { return Ok(()) };
        pool.statements.renew(renewals);
        let mut statement = pool.statements.share(parse.definition, reading, lexing);
        if parse.name.is_empty() && statement.is_shared() {
            if self.may_keep(home, &statement) {
                self.pass_kept(key, statement, parse.definition);
                return Ok(());
            }
            let Some(pool) = self.pools.get_mut(home.0) else { return Ok(()) };
            statement = pool.statements.share(parse.definition, UNCLEAR, lexing);
        }
        let Some((client, server)) = self.pair(key) else { return Ok(()) };
        begin(client, server, now);
        client.unsynced = true;
        let name: Option<Box<[u8]>> = (!parse.name.is_empty()).then(|| parse.name.into());
        if name.is_none() || !renames {
            frontend::write_parse(server.io.out(), parse.name, parse.definition);
            let before = match &name {
                None => {
                    server.unnamed = Some(statement.clone());
                    client.unnamed.replace(statement.clone())
                }
                Some(name) => {
                    client.statements.insert(name.clone(), statement.clone());
                    None
                }
            };
            let unnamed = name.is_none();
            let statement = Some(statement);
            let parse = Request::Parse { statement, name, unnamed, hidden: false, taken: None, before };
            server.requests.push_back(parse);
            return Ok(());
        }
        let Some(name) = name else { return Ok(()) };
        if let Some(has) = client.statements.get(&name).cloned() {
            // It is the server's to refuse a name that is taken; the statement itself stays.
            prepare(server, &has, limit);
            frontend::write_parse(server.io.out(), &has.name(), parse.definition);
            let request = Request::Parse {
                statement: None,
                name: Some(name),
                unnamed: false,
                hidden: false,
                taken: Some(has),
                before: None,
            };
            server.requests.push_back(request);
        } else {
            client.statements.insert(name.clone(), statement.clone());
            if server.known.uses(&statement) {
                invent(client, server, backend::tag::PARSE_COMPLETE, Some(name), None);
            } else {
                frontend::write_parse(server.io.out(), &statement.name(), parse.definition);
                remember(server, &statement, limit, Some(name), false, None);
            }
        }
        Ok(())
    }

    /// Whether a text without a name has come so often that servers are to keep it. That is for pipelined connections alone:
    /// in a transaction, what stands before the text may change what it means.
    fn keeps(&mut self, key: ClientKey, home: PoolKey, definition: &[u8]) -> bool {
        let threshold = self.config.settings.prepare_threshold;
        let in_lane = self.pair(key).is_some_and(|(_, server)| matches!(server.state, ServerState::Lane));
        let Some(pool) = self.pools.get_mut(home.0).filter(|_| in_lane && threshold > 0) else { return false };
        pool.statements.unnamed.count(definition) as usize >= threshold
    }

    /// Whether nothing speaks against it that servers keep a statement that has no name.
    fn may_keep(&mut self, home: PoolKey, statement: &Rc<Statement>) -> bool {
        let now = self.now;
        self.shape_of_statement(home, statement).is_ok_and(|shape| shape.keeping.may_keep(now))
    }

    /// Passes on a Parse without a name of a statement that servers keep: one that knows it is not asked.
    fn pass_kept(&mut self, key: ClientKey, statement: Rc<Statement>, definition: &[u8]) {
        let (now, limit) = (self.now, self.config.settings.kept_statements());
        let Some((client, server)) = self.pair(key) else { return };
        begin(client, server, now);
        client.unsynced = true;
        let before = client.unnamed.replace(statement.clone());
        if server.known.uses(&statement) {
            invent(client, server, backend::tag::PARSE_COMPLETE, None, before);
        } else {
            frontend::write_parse(server.io.out(), &statement.name(), definition);
            remember(server, &statement, limit, None, false, before);
        }
    }

    pub fn pass_bind(&mut self, key: ClientKey, head: Header, names: frontend::Bind<'_>) -> Result<usize, wire::Error> {
        let now = self.now;
        let limit = self.config.settings.kept_statements();
        let renames = self.renames(key);
        let Some((_, server)) = self.pair(key) else { return Ok(head.total()) };
        let pool = server.pool;
        if let Some(pool) = self.pools.get_mut(pool.0) {
            pool.totals.binds += 1;
        }
        if renames {
            self.read_anew(key, names.statement);
        }
        let Some((client, server)) = self.pair(key) else { return Ok(head.total()) };
        begin(client, server, now);
        client.unsynced = true;
        let (statement, name) = name_on_server(client, server, names.statement, renames, limit);
        client.portals.insert(names.portal.into(), statement.clone());
        let consumed = names.portal.len() + 1 + names.statement.len() + 1;
        let rest = head.body.saturating_sub(consumed);
        let length = 4 + names.portal.len() + 1 + name.len() + 1 + rest;
        let out = server.io.out();
        out.push(tag::BIND);
        out.extend_from_slice(&i32::try_from(length).unwrap_or(-1).to_be_bytes());
        wire::frame::write_cstr(out, names.portal);
        wire::frame::write_cstr(out, &name);
        server.requests.push_back(Request::Bind(statement));
        client.passing = rest;
        Ok(HEADER + consumed)
    }

    pub fn pass_target(&mut self, key: ClientKey, tag: u8, body: &[u8]) -> Result<(), wire::Error> {
        let now = self.now;
        let Ok(target) = frontend::target(tag, body) else {
            // It is the server's to say what is wrong with it.
            let Some((client, server)) = self.pair(key) else { return Ok(()) };
            begin(client, server, now);
            client.unsynced = true;
            wire::frame::write(server.io.out(), tag, |out| out.extend_from_slice(body));
            server.requests.push_back(if tag == tag::CLOSE { Request::Close } else { Request::Describe(None) });
            return Ok(());
        };
        let limit = self.config.settings.kept_statements();
        let renames = self.renames(key);
        if let (Target::Statement(name), true) = (target, renames && tag == tag::DESCRIBE) {
            self.read_anew(key, name);
        }
        let Some((client, server)) = self.pair(key) else { return Ok(()) };
        begin(client, server, now);
        client.unsynced = true;
        let closes = tag == tag::CLOSE;
        if let (Target::Statement(name), true) = (target, closes) {
            // Others may use it on the server: only this client forgets it. The one without a name stays there too, since
            // a Close that is skipped behind an error has closed nothing.
            if name.is_empty() || renames {
                let name = (!name.is_empty()).then(|| name.into());
                let closed = match &name {
                    Some(name) => client.statements.remove(name),
                    None => client.unnamed.take(),
                };
                invent(client, server, backend::tag::CLOSE_COMPLETE, name, closed);
                return Ok(());
            }
            client.statements.remove(name);
        }
        if let (Target::Portal(name), true) = (target, closes) {
            client.portals.remove(name);
        }
        match target {
            Target::Statement(name) if !closes => {
                let (statement, name) = name_on_server(client, server, name, renames, limit);
                frontend::write_statement_target(server.io.out(), tag, &name);
                server.requests.push_back(Request::Describe(statement));
                return Ok(());
            }
            _ => wire::frame::write(server.io.out(), tag, |out| out.extend_from_slice(body)),
        }
        server.requests.push_back(if closes { Request::Close } else { Request::Describe(None) });
        Ok(())
    }
}

/// Whether a client that has sent a Flush has so far only named and described statements in its unit, outside a
/// transaction: then nothing depends on the connection that it has.
fn only_names(client: &Client, server: &Server) -> bool {
    let names = |request: &Request| {
        matches!(
            request,
            Request::Parse { .. }
                | Request::Describe(_)
                | Request::Close
                | Request::Evict(..)
                | Request::Invented { .. }
        )
    };
    client.unsynced
        && client.portals.is_empty()
        && !client.pins.any()
        && server.status == Status::Idle
        && !server.failed
        && !matches!(server.state, ServerState::Lane)
        && server.requests.iter().all(names)
}

/// Passes on what has come of a long message; without a server it is thrown away.
fn pass_on(client: &mut Client, server: Option<&mut Server>, left: &[u8]) -> Step {
    let count = client.passing.min(left.len());
    if let (Some(server), Some(part)) = (server, left.get(..count)) {
        server.io.out().extend_from_slice(part);
        if let Some(words) = &mut client.words {
            words.read(part);
        }
    }
    client.passing -= count;
    Step::Took(count)
}

/// Notes the time when a unit is begun.
fn begin(client: &mut Client, server: &mut Server, now: std::time::Instant) {
    if server.requests.is_empty() {
        client.request_since = now;
        server.state_since = now;
        server.answered = false;
    }
    client.transaction_since.get_or_insert(now);
}

/// Gives a client an answer that no server was asked for, in its turn.
fn invent(client: &mut Client, server: &mut Server, tag: u8, name: Option<Box<[u8]>>, closed: Option<Rc<Statement>>) {
    if server.requests.is_empty() && !server.failed {
        if let Some(out) = crate::answer::sink(server, Some(client)) {
            backend::write_empty(out, tag);
        }
    } else {
        server.requests.push_back(Request::Invented { tag, name, closed });
    }
}

/// Makes sure that a server knows a statement; the client does not see it.
fn prepare(server: &mut Server, statement: &Rc<Statement>, limit: usize) {
    if !server.known.uses(statement) {
        frontend::write_parse(server.io.out(), &statement.name(), &statement.definition);
        remember(server, statement, limit, None, true, None);
    }
}

fn remember(
    server: &mut Server,
    statement: &Rc<Statement>,
    limit: usize,
    name: Option<Box<[u8]>>,
    hidden: bool,
    before: Option<Rc<Statement>>,
) {
    let prepared = Some(statement.clone());
    let request = Request::Parse { statement: prepared, name, unnamed: false, hidden, taken: None, before };
    server.requests.push_back(request);
    for (oldest, generation) in server.known.add(statement, limit) {
        frontend::write_statement_target(server.io.out(), tag::CLOSE, &oldest.name_of(generation));
        server.requests.push_back(Request::Evict(oldest, generation));
    }
}

/// Whether the last Parse of the unnamed statement has been answered, or is of the same unit as what comes now. One of
/// a unit before may be cancelled yet, and leave the statement of somebody else.
fn parse_is_safe(server: &Server) -> bool {
    for request in server.requests.iter().rev() {
        match request {
            Request::Parse { unnamed: true, .. } => return true,
            request if request.ends_unit() => return false,
            _ => (),
        }
    }
    true
}

/// The statement that a client means, made known to the server, and its name there. A name that the client does not
/// have is passed on as it is, and the server's error is the right one.
fn name_on_server(
    client: &Client,
    server: &mut Server,
    name: &[u8],
    renames: bool,
    limit: usize,
) -> (Option<Rc<Statement>>, Vec<u8>) {
    if name.is_empty() {
        let Some(statement) = client.unnamed.clone() else {
            return (None, NO_UNNAMED.to_vec());
        };
        if statement.is_shared() && server.known.uses(&statement) {
            let name = statement.name();
            return (Some(statement), name);
        }
        let is_there = server.unnamed.as_ref().is_some_and(|unnamed| Rc::ptr_eq(unnamed, &statement));
        if !is_there || !parse_is_safe(server) {
            frontend::write_parse(server.io.out(), b"", &statement.definition);
            let statement = Some(statement.clone());
            server.unnamed = statement.clone();
            let request =
                Request::Parse { statement, name: None, unnamed: true, hidden: true, taken: None, before: None };
            server.requests.push_back(request);
        }
        return (Some(statement), Vec::new());
    }
    match client.statements.get(name).cloned() {
        Some(statement) if renames => {
            prepare(server, &statement, limit);
            let name = statement.name();
            (Some(statement), name)
        }
        known => (known, name.to_vec()),
    }
}
