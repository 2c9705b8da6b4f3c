//! Bringing the session on a server connection in line with a client's, and undoing what clients have left there.
//!
//! Nothing of a client is sent before the answer to its alignment has come and was good. An alignment that a limit, a
//! cancel request or a death has struck is nobody's fault: the client's statement has not been sent, and gets another
//! connection. One that the server refuses is the client's own fault (a value that does not hold, a role that was
//! dropped), and the client is told.

use std::fmt::Write;
use std::rc::Rc;

use wire::backend::{self, Status};
use wire::frontend;

use crate::after::After;
use crate::client::{Client, ClientKey, State as ClientState};
use crate::config::PoolMode;
use crate::pool::Verified;
use crate::server::{Request, Residue, Server, ServerKey, State};
use crate::session::{Alignment, Pending, Sets, Target};
use crate::vars::{Tracked, Vars, assigned};
use crate::worker::{Turn, Worker};

/// How often a statement that could not be sent gets another server connection.
const STRIKES: u8 = 20;

/// Undoes what a function may have left beside settings. DISCARD ALL would also drop the prepared statements, and cannot
/// stand beside others.
/// What it counts, the prepared statements of SQL and those of the protocol, says whether `DEALLOCATE ALL` must follow.
const UNDO_ANYTHING: &str = "CLOSE ALL;UNLISTEN *;SELECT pg_catalog.pg_advisory_unlock_all();DISCARD TEMP;DISCARD SEQUENCES;\
     SELECT pg_catalog.count(*) FILTER (WHERE from_sql), pg_catalog.count(*) FILTER (WHERE NOT from_sql) \
     FROM pg_catalog.pg_prepared_statements;";

/// Whether an error comes from a limit, a cancel request or the server's end, and not from what was asked.
fn is_strike(code: &str) -> bool {
    // query_canceled, lock_not_available, transaction_timeout, deadlock_detected, serialization_failure; operator
    // intervention, insufficient resources and lost connections as classes.
    matches!(code, "55P03" | "25P04" | "40P01" | "40001")
        || ["57", "53", "08", "58", "XX"].iter().any(|class| code.starts_with(class))
}

/// Asks a server something of ours.
pub fn ask(server: &mut Server, sql: &str, request: Request) {
    frontend::write_query(server.io.out(), sql);
    server.requests.push_back(request);
    // As in PostgreSQL, a Query ends the unnamed statement.
    server.unnamed = None;
}

fn ask_all(server: &mut Server, alignment: &Alignment, request: Request) {
    if !alignment.first.is_empty() {
        ask(server, &alignment.first, Request::Prelude);
    }
    ask(server, &alignment.rest, request);
}

/// Forgets all prepared statements.
const DEALLOCATE: &str = "DEALLOCATE ALL";

impl Worker {
    /// What a session shall be for a client: for one that is logging in, as the pool's own.
    pub fn target(&self, key: ClientKey) -> Option<Target> {
        let client = self.clients.get(key.0)?;
        if !matches!(client.state, ClientState::Login(..)) {
            let (sets, vars) = (client.sets.clone(), client.vars.clone());
            return Some(Target { sets, vars, read_only: client.reads_only });
        }
        let vars = client.home.and_then(|home| self.pools.get(home.0)).map(|pool| pool.defaults.clone());
        Some(Target { sets: Sets::default(), vars: vars.unwrap_or_default(), read_only: false })
    }

    /// Whether a client's statement may be sent on the connection that it has: between units the session is brought in
    /// line first, and the client waits.
    pub fn align(&mut self, server_key: ServerKey, key: ClientKey) -> bool {
        let (Some(server), Some(client)) = (self.servers.get(server_key.0), self.clients.get(key.0)) else {
            return false;
        };
        if server.aligning.is_some() {
            return false;
        }
        let within = !server.requests.is_empty() || server.status != Status::Idle || client.unsynced;
        if within || client.passing > 0 {
            return true;
        }
        let Some(mut target) = self.target(key) else { return false };
        target.read_only |= self.is_only_read(server);
        let Some(server) = self.servers.get_mut(server_key.0) else { return false };
        if server.session.meets(&target) {
            return true;
        }
        let alignment = server.session.alignment(&target, &self.tracked);
        if alignment.rest.is_empty() {
            server.session.sets = target.sets;
            return true;
        }
        // A cancel request of the client's for what it did before is still on its way, and would strike the alignment.
        if server.held > 0 {
            return false;
        }
        ask_all(server, &alignment, Request::Align);
        server.aligning = Some(Box::new(target));
        server.state_since = self.now;
        self.flush_server(server_key);
        false
    }

    /// The server has answered an alignment, or what was asked to undo another's.
    pub fn aligned(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        if server.own_error.is_some() || server.status != Status::Idle {
            self.later(After::Unaligned(key));
            return;
        }
        let Some(target) = server.aligning.take() else { return };
        (server.session.sets, server.session.read_only) = (target.sets, target.read_only);
        server.answered = false;
        let Some(client_key) = server.client() else {
            self.later(After::Free(key));
            return;
        };
        let Some(client) = self.clients.get_mut(client_key.0) else { return };
        if !client.is_ready() {
            let greets = matches!(client.state, ClientState::Greeting);
            self.later(if greets { After::Verified(client_key) } else { After::Lookup(client_key) });
            return;
        }
        client.strikes = 0;
        client.request_since = self.now;
        // The server has its own way to write some values.
        for (place, name) in self.tracked.names().enumerate() {
            if let (Some(own), Some(theirs)) = (client.vars.get(place), server.session.vars.get(place))
                && own != theirs
            {
                backend::write_parameter_status(client.io.out(), name, theirs);
                client.vars.set(place, theirs);
            }
        }
        self.give_turn(Turn::Client(client_key));
    }

    /// Whether a client has left on its connection what no other has: it must not be given another in silence.
    pub fn is_tied(&self, key: ClientKey) -> bool {
        let Some(client) = self.clients.get(key.0) else { return false };
        let mode = client.pool.and_then(|pool| self.pools.get(pool.0)).map(|pool| pool.mode);
        client.pins.any() || client.deeds.queries > 0 && mode == Some(PoolMode::Session)
    }

    /// An alignment has failed.
    pub fn unaligned(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        server.aligning = None;
        let report = server.own_error.take().unwrap_or_default();
        let (client, pool) = (server.client(), server.pool);
        let tied = client.is_some_and(|client| self.is_tied(client));
        self.detach(key);
        if is_strike(&report.code) || report.code.is_empty() {
            let why = format!("bringing its session in line has failed: {}", report.message);
            self.close_server(key, &why);
            match client {
                Some(client) if tied => self.fatal(client, "08006", &format!("server connection closed: {why}")),
                Some(client) => self.ask_elsewhere(client, &report.code, &report.message),
                None => (),
            }
            self.later(After::Grow(pool));
            return;
        }
        if let Some(key) = client {
            let text = format!("cannot set a client's parameters on a server: {}", report.message);
            match self.clients.get(key.0).map(|client| &client.state) {
                Some(ClientState::Login(..)) => self.lookup_failed(key, &text, false),
                // At login it is told what a server would say itself.
                Some(ClientState::Greeting) => self.fatal(key, &report.code, &report.message),
                _ => self.fatal(key, &report.code, &text),
            }
        }
        // The server has undone it all; that a part was done before is not worth to be told apart.
        if let Some(server) = self.servers.get_mut(key.0) {
            server.residue = Residue::Anything;
            self.free(key);
        }
    }

    /// A client's statement, none of which has been sent, gets another server connection.
    pub fn ask_elsewhere(&mut self, key: ClientKey, code: &str, why: &str) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        client.strikes = client.strikes.saturating_add(1);
        if client.strikes > STRIKES {
            client.strikes = 0;
            let code = if code.is_empty() { "08006" } else { code }.to_owned();
            self.refuse(
                key,
                &code,
                &format!("the statement was not sent, no server connection could be prepared: {why}"),
            );
            return;
        }
        client.waiting_since.get_or_insert(client.request_since);
        match client.state {
            ClientState::Greeting => self.greet(key),
            ClientState::Login(..) => drop(self.acquire(key, false)),
            _ => self.give_turn(Turn::Client(key)),
        }
    }

    /// Undoes on a free server connection what may be left of its client; whether there was anything to undo.
    pub fn clean_up(&mut self, key: ServerKey) -> bool {
        let settings = &self.config.settings;
        let Some(server) = self.servers.get_mut(key.0) else { return false };
        let residue = std::mem::take(&mut server.residue);
        let custom = if residue == Residue::Session { settings.server_reset_query.as_str() } else { "" };
        let words = custom.to_ascii_uppercase();
        let discards = words.contains("DISCARD ALL");
        let left = if residue == Residue::Session { server.session_residue } else { residue };
        let mut undo = server.session.reset();
        if left == Residue::Anything {
            undo.rest.push_str(UNDO_ANYTHING);
        }
        // What a query of the users' own undoes is not known; all is, when it is undone once more.
        let undoes = !discards && (left > Residue::Nothing || !custom.is_empty());
        if custom.is_empty() && !undoes {
            return false;
        }
        server.session_residue = Residue::Nothing;
        server.state = State::Preparing;
        server.state_since = self.now;
        if !undo.first.is_empty() {
            ask(server, &undo.first, Request::Prelude);
        }
        if !custom.is_empty() {
            ask(server, custom, Request::Clean);
            if !undoes && !server.session.base.is_empty() {
                let base = server.session.base.clone();
                ask(server, &base, Request::Clean);
            }
        }
        if undoes {
            ask(server, &undo.rest, Request::Clean);
        }
        if discards || words.contains("DEALLOCATE") {
            server.known.clear();
        }
        server.aligning = Some(Box::new(Target { sets: Sets::default(), vars: Vars::default(), read_only: false }));
        self.flush_server(key);
        true
    }

    /// Runs a query of the configuration on a server connection that nobody has, in the pool's own session.
    pub fn run_own(&mut self, key: ServerKey, sql: &str) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        server.state = State::Preparing;
        server.state_since = self.now;
        let target = Target { sets: Sets::default(), vars: Vars::default(), read_only: false };
        if !server.session.meets(&target) {
            let reset = server.session.reset();
            ask_all(server, &reset, Request::Clean);
            server.aligning = Some(Box::new(target));
        }
        ask(server, sql, Request::Clean);
        self.flush_server(key);
    }

    /// Has a server that nobody has forget the statements that were prepared there.
    pub fn forget_prepared(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        server.known.clear();
        // It runs under no limit of a client's.
        if !server.session.lift_limits().is_empty() {
            return self.run_own(key, DEALLOCATE);
        }
        ask(server, DEALLOCATE, Request::Clean);
        self.flush_server(key);
    }

    /// Takes a server connection from its client; what is to be undone on it is noted.
    pub fn detach(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(client_key) = server.lent.take() else { return };
        let mode = self.pools.get(server.pool.0).map_or(PoolMode::Session, |pool| pool.mode);
        let mut session = mode == PoolMode::Session || self.config.settings.server_reset_query_always;
        if let Some(client) = self.clients.get_mut(client_key.0) {
            client.server = None;
            client.needs_own = false;
            client.transaction_since = None;
            client.request_since = self.now;
            client.portals.clear();
            client.unclear = false;
            client.pending = Pending::default();
            if std::mem::take(&mut client.pins).any() {
                session = true;
                server.residue = Residue::Anything;
            }
        }
        if session {
            server.session_residue = server.residue;
            server.residue = Residue::Session;
        }
    }

    /// A server connection may be free: it is taken from its client, cleaned, and offered to the next.
    pub fn free(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key.0) else { return };
        let used = !matches!(server.state, State::Preparing);
        match server.state {
            State::Lane if server.lane.as_ref().is_some_and(|lane| lane.units.is_empty()) => self.end_lane(key),
            State::Active if server.client().is_none() => (),
            State::Active if self.may_be_given_back(key) => self.detach(key),
            State::Preparing => (),
            _ => return,
        }
        if used {
            self.doubt_session(key);
        }
        let Some(server) = self.servers.get_mut(key.0) else { return };
        if !server.requests.is_empty() {
            return;
        }
        // A cancel request that is on its way must hit nothing that comes next.
        if server.held > 0 {
            server.state = State::Preparing;
            server.parked = true;
            return;
        }
        if server.status != Status::Idle || server.own_error.is_some() {
            self.close_server(key, "a statement of the pooler's own has failed, or left a transaction open");
            return;
        }
        if !self.clean_up(key) {
            self.offer(key);
        }
    }
    /// Has a server look at what a client asked for in its startup packet, before the client is greeted, if that is
    /// not known to hold and a server connection is free. Whether the client waits for that.
    pub fn verify_startup(&mut self, key: ClientKey) -> bool {
        let Some(client) = self.clients.get_mut(key.0) else { return false };
        if client.verified.is_some() {
            return false;
        }
        // What servers do not tell is carried as other SETs are.
        for &place in self.tracked.silent() {
            if let (Some(value), Some(name)) = (client.vars.take(place), self.tracked.names().nth(place)) {
                client.sets.set(&name.to_lowercase(), format!("SET {name} = {}", assigned(name, &value)));
            }
        }
        client.startup = (client.vars.clone(), client.sets.clone());
        let (Some(home), Some(asked)) = (client.home, asked(client, &self.tracked)) else { return false };
        let Some(pool) = self.pools.get(home.0) else { return false };
        if let Some(verified) = pool.verified.get(asked.as_str()).cloned() {
            client.take_verified(verified);
            return false;
        }
        if client.strikes > 0 || pool.paused || pool.cluster.is_some() || !pool.is_unwanted() {
            return false;
        }
        let Some(server) = self.take_idle(home, key) else { return false };
        self.lend(server, key);
        true
    }

    /// A server has accepted what a client asked for in its startup packet: the client is greeted with the server's own
    /// way to write it.
    pub fn startup_verified(&mut self, key: ClientKey) {
        let Some(client) = self.clients.get(key.0) else { return };
        let (Some(server_key), Some(home)) = (client.server, client.home) else { return };
        let asked = asked(client, &self.tracked);
        let Some(server) = self.servers.get_mut(server_key.0) else { return };
        let told = server.welcome.clone();
        let mut canonical = Vars::default();
        for place in 0..self.tracked.names().count() {
            if let (Some(_), Some(theirs)) = (client.startup.0.get(place), server.session.vars.get(place))
                && Some(place) != self.tracked.place("application_name")
            {
                canonical.set(place, theirs);
            }
        }
        let verified = Rc::new(Verified { vars: canonical, told });
        if let Some(client) = self.clients.get_mut(key.0) {
            client.take_verified(verified.clone());
        }
        if let (Some(asked), Some(pool)) = (asked, self.pools.get_mut(home.0)) {
            if pool.verified.len() >= MOST_VERIFIED {
                pool.verified.clear();
            }
            pool.verified.insert(asked.into(), verified);
        }
        self.detach(server_key);
        self.free(server_key);
        self.greet(key);
    }
}

/// Startup packets whose settings are remembered to hold, in one pool.
const MOST_VERIFIED: usize = 1000;

/// What a client asked for in its startup packet, as a text; none for what every server accepts.
fn asked(client: &Client, tracked: &Tracked) -> Option<String> {
    let mut text = String::new();
    for (place, name) in tracked.names().enumerate() {
        if let Some(value) = client.startup.0.get(place).filter(|_| name != "application_name") {
            let _ = write!(text, "{name}={value}\0");
        }
    }
    client.startup.1.write(&mut text);
    (!text.is_empty()).then_some(text)
}
