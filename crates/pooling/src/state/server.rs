//! A connection to a PostgreSQL server.

use std::fmt;
use std::rc::Rc;
use std::time::Instant;

use crate::model::exchange::Exchange;
use crate::model::keys::{ClientKey, PoolKey, ServerKey, WorkerId};
use crate::model::known::{Known, ServerCopy};
use crate::model::pipeline::Pipeline;
use crate::model::session::{Confirmed, Target};
use crate::model::statement::Statement;
use wire::backend::Status;
use wire::login::Login;
use wire::startup::CancelKey;

use crate::catalog::Definition;
use crate::config::SslMode;
use crate::error::Cause;
use crate::io::Io;
use crate::monitor::address::Address;
use crate::permit::Permit;

/// The state of a server connection.
pub enum State {
    /// The socket is being connected.
    Connecting,
    /// The login is under way.
    Login(Box<Login>),
    /// Statements of the pooler's own run, as `connect_query` or a reset of the session to this target, or a cancel
    /// request is awaited.
    Preparing(Option<Box<Target>>),
    /// The connection waits in its pool.
    Idle,
    /// The connection is checked out to this client; to none, once the client has left it and until its requests have
    /// ended.
    Active(Option<ClientKey>),
    /// The connection is checked out likewise, and its session is being brought to this target: until the server has
    /// answered without an error, nothing of the client is sent.
    Aligning(Option<ClientKey>, Box<Target>),
    /// The connection carries these units: reads of several clients, or one read that may be retried.
    Pipelined(Box<Pipeline>),
    /// The connection is the other side of a replication connection.
    Relay,
    /// The connection listens for all clients of its pool.
    Subscriber,
    /// The connection delivers a cancel request.
    Cancelling,
}

impl fmt::Debug for State {
    /// The name of the state: its contents are the clients'.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connecting => "connecting",
            Self::Login(_) => "login",
            Self::Preparing(_) => "preparing",
            Self::Idle => "idle",
            Self::Active(_) => "active",
            Self::Aligning(..) => "aligning",
            Self::Pipelined(_) => "pipelined",
            Self::Relay => "relay",
            Self::Subscriber => "subscriber",
            Self::Cancelling => "cancelling",
        })
    }
}

/// Session state that may be left on a server connection beside the known settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Residue {
    /// No state is left.
    #[default]
    Nothing,
    /// Parameters may be left.
    Settings,
    /// Temporary objects, cursors, channels and locks may be left too: a function has run that may do anything.
    Anything,
    /// A client's whole session is left.
    Session,
}

/// The purpose of a server connection that does not belong to its pool and is checked out to no client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apart {
    /// For a replication connection, of this client until it has left.
    Relay(Option<ClientKey>),
    /// To listen for all clients of the pool.
    Subscriber,
}

/// The other end of a server connection.
#[derive(Debug)]
pub struct Endpoint {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address, so that no name has to be looked up to reach the same server again.
    pub address: Address,
    /// The terms of TLS on it.
    pub sslmode: SslMode,
    /// The place of its host and port in the statistics of its pool.
    pub place: usize,
}

/// The known state of the session on a server connection.
#[derive(Debug, Default)]
pub struct Session {
    /// The settings of the session that the server has confirmed.
    pub session: Confirmed,
    /// State that may be left on it and must be undone before the next client.
    pub residue: Residue,
    /// The residue apart from the client's whole session, while `residue` is [`Residue::Session`].
    pub session_residue: Residue,
    /// The mark of its database's catalog when that was undone last ([`crate::catalog::Knowledge::mark`]).
    pub mark: u64,
    /// A definition that has been sent and not been committed, as far as is known.
    pub definition: Option<Definition>,
    /// Whether the server has other prepared statements than the pooler has made, or may have: they are dropped before
    /// the next client.
    pub lost_count: bool,
    /// The statements that the server knows by names of the pooler's.
    pub statements: Known,
    /// The unnamed statement of the session, if it is known, and the server's copy.
    pub unnamed: Option<(Rc<Statement>, ServerCopy)>,
    /// The parameters that the server reported at login, with their current values.
    pub parameters: Vec<(String, String)>,
    /// Whether the server reports that it is a standby; none before PostgreSQL 14, which does not report it.
    pub standby: Option<bool>,
    /// Whether a server that does not report it has answered that it is a standby; it may have become the primary
    /// since.
    pub was_standby: bool,
}

/// Cancel requests for the statements of a server connection, and the cancel request that the connection itself
/// delivers.
#[derive(Debug)]
pub struct Cancels {
    /// The key by which its statements are cancelled.
    pub key: CancelKey,
    /// The number of cancel requests for it that are on their way.
    pub under_way: usize,
    /// Whether one of these repeats another: the client has not asked for it, and it must not strike a later statement.
    pub repeats: bool,
    /// Whether the connection is free as soon as these have arrived.
    pub frees: bool,
    /// The connection that the cancel request on this one is for.
    pub target: Option<ServerKey>,
    /// The number of the statement there that it is for ([`begun`](Exchange::begun)), if the server had not begun to
    /// answer.
    pub early: Option<u64>,
    /// The client that asked for it, which is told when the server has received it.
    pub asker: Option<(WorkerId, ClientKey)>,
    /// Whether a cancel request may strike the connection at any time: then it is closed when it is free.
    pub suspect: bool,
}

/// The age of a server connection and of its state, and its end.
#[derive(Debug)]
pub struct Life {
    /// The time at which it was connected.
    pub since: Instant,
    /// The time at which it was last checked out or checked in, or began its present unit or other work.
    pub state_since: Instant,
    /// Whether the connection is closed when it is given back.
    pub retire: bool,
    /// The reason why it is closed once its input has been worked on, if it is.
    pub doomed: Option<String>,
    /// The error with which the server ended the connection, or by which its login has failed.
    pub fatal_error: Option<Cause>,
    /// Whether no TLS could be agreed on, which another attempt will not mend.
    pub refused: bool,
    /// A login that is tried once more over the connection that is being made.
    pub again: Option<Box<Login>>,
    /// Whether SUSPEND keeps the connection from being read.
    pub suspended: bool,
}

/// A server connection.
#[derive(Debug)]
pub struct Server {
    /// Its id on the console, which no other connection has or had.
    pub id: u64,
    /// The socket and the bytes in flight.
    pub io: Io,
    /// The host, the port and the terms of the connection.
    pub at: Endpoint,
    /// Its pool.
    pub pool: PoolKey,
    /// The state of the connection; changed by the methods here alone.
    state: State,
    /// The buffers of its last time as a pipelined connection, for the next time.
    spare: Option<Box<Pipeline>>,
    /// The requests that were sent to the server, and how far it has answered them.
    pub exchange: Exchange,
    /// The transaction status that the server reported last.
    pub status: Status,
    /// The known state of the session on a server connection.
    pub known: Session,
    /// The age of the server connection and of its state, and its end.
    pub life: Life,
    /// Cancel requests for its statements, and the cancel request that the connection itself delivers.
    pub cancels: Cancels,
    /// Its purpose, if it does not belong to its pool.
    pub apart: Option<Apart>,
    /// Its place under the limits that pools share; none, if it only delivers a cancel request.
    pub permit: Option<Permit>,
}

impl Server {
    /// The client whose answers come next: it has the connection to itself, or its unit is at the head of the pipelined
    /// connection. None, once the client has been answered otherwise or has left.
    pub fn client(&self) -> Option<ClientKey> {
        match &self.state {
            State::Pipelined(pipeline) => pipeline.head(),
            _ => self.holder(),
        }
    }

    /// The state of the connection.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The units in flight on it as a pipelined connection, if it is one.
    pub fn pipeline(&self) -> Option<&Pipeline> {
        if let State::Pipelined(pipeline) = &self.state { Some(pipeline) } else { None }
    }

    /// The units in flight on it as a pipelined connection, if it is one.
    pub fn pipeline_mut(&mut self) -> Option<&mut Pipeline> {
        self.pipeline_and_exchange().0
    }

    /// The units in flight on it as a pipelined connection, if it is one, and their requests.
    pub fn pipeline_and_exchange(&mut self) -> (Option<&mut Pipeline>, &mut Exchange) {
        let pipeline = if let State::Pipelined(pipeline) = &mut self.state { Some(&mut **pipeline) } else { None };
        (pipeline, &mut self.exchange)
    }

    /// Whether the connection is a pipelined connection.
    pub fn is_pipelined(&self) -> bool {
        matches!(self.state, State::Pipelined(_))
    }

    /// Whether the connection is checked out and its session is being brought in line.
    pub fn is_aligning(&self) -> bool {
        matches!(self.state, State::Aligning(..))
    }

    /// The login that is under way, with its connection and the host that it leads to.
    pub fn login(&mut self) -> Option<(&mut Login, &mut Io, &str)> {
        if let State::Login(login) = &mut self.state { Some((login, &mut self.io, &self.at.host)) } else { None }
    }

    /// The client that the connection is checked out to, or whose replication connection it is. The client of the next
    /// answers is [`Server::client`].
    pub fn holder(&self) -> Option<ClientKey> {
        match (&self.state, &self.apart) {
            (State::Active(holder) | State::Aligning(holder, _), _) | (_, Some(Apart::Relay(holder))) => *holder,
            _ => None,
        }
    }

    /// Takes the connection from its client; gives the client.
    pub fn let_go(&mut self) -> Option<ClientKey> {
        match (&mut self.state, &mut self.apart) {
            (State::Active(holder) | State::Aligning(holder, _), _) | (_, Some(Apart::Relay(holder))) => holder.take(),
            _ => None,
        }
    }

    /// Checks the connection out to a client.
    pub fn check_out(&mut self, client: ClientKey, now: Instant) {
        debug_assert!(self.is_free(), "a server connection is checked out that is not free: {:?}", self.state);
        self.stand(State::Active(Some(client)), now);
    }

    /// Makes the connection carry units of several clients, or of one that had it checked out and whose unit may be
    /// retried.
    pub fn begin_pipeline(&mut self, alone: bool, now: Instant) {
        let checked_out = matches!(self.state, State::Active(Some(_)));
        debug_assert!(self.is_free() || checked_out, "a connection is pipelined that is not free: {:?}", self.state);
        let mut pipeline = self.spare.take().unwrap_or_else(|| Box::new(Pipeline::new(now)));
        pipeline.restart(now, alone);
        self.stand(State::Pipelined(pipeline), now);
    }

    /// Makes the connection carry units of several clients no longer.
    pub fn end_pipeline(&mut self) {
        debug_assert!(self.is_pipelined(), "no pipelined connection ends: {:?}", self.state);
        if let State::Pipelined(pipeline) = std::mem::replace(&mut self.state, State::Active(None)) {
            self.spare = Some(pipeline);
        }
    }

    /// Begins to bring the session to this target, for the client that the connection is checked out to.
    pub fn begin_alignment(&mut self, target: Target, now: Instant) {
        let checked_out = matches!(self.state, State::Active(Some(_)));
        debug_assert!(checked_out, "a session is brought in line that no client waits for: {:?}", self.state);
        self.stand(State::Aligning(self.holder(), Box::new(target)), now);
    }

    /// Ends the alignment of the session, for better or worse; gives its target.
    pub fn end_alignment(&mut self) -> Option<Target> {
        if !self.is_aligning() {
            return None;
        }
        let active = State::Active(self.holder());
        let State::Aligning(_, target) = std::mem::replace(&mut self.state, active) else { return None };
        Some(*target)
    }

    /// Runs statements of the pooler's own, which bring the session to this target if there is one, or waits for a
    /// cancel request.
    pub fn prepare(&mut self, target: Option<Target>, now: Instant) {
        let logged_in = matches!(self.state, State::Login(_) | State::Preparing(_) | State::Connecting);
        debug_assert!(self.is_free() || logged_in, "a connection is prepared that is not free: {:?}", self.state);
        self.stand(State::Preparing(target.map(Box::new)), now);
    }

    /// The session after the pooler's own statements, once they have ended.
    pub fn end_reset(&mut self) -> Option<Target> {
        if let State::Preparing(target) = &mut self.state { target.take().map(|target| *target) } else { None }
    }

    /// Begins the login of a connection that has been made, or its cancel request.
    pub fn begin_login(&mut self, login: Box<Login>) {
        debug_assert!(matches!(self.state, State::Connecting), "a login begins otherwise than first: {:?}", self.state);
        self.state = State::Login(login);
    }

    /// The cancel request that the connection is for has been sent.
    pub fn has_brought(&mut self) {
        debug_assert!(matches!(self.state, State::Login(_)), "a cancel request goes out otherwise: {:?}", self.state);
        self.state = State::Cancelling;
    }

    /// Begins the login once more, over another socket; gives the one before.
    pub fn connect_again(&mut self, io: Io) -> Io {
        if let State::Login(login) = std::mem::replace(&mut self.state, State::Connecting) {
            self.life.again = Some(login);
        }
        std::mem::replace(&mut self.io, io)
    }

    /// Sets the connection apart, now that it is ready for replication or for listening.
    pub fn begin_apart(&mut self, now: Instant) {
        let prepared = matches!(self.state, State::Preparing(_));
        debug_assert!(prepared && self.apart.is_some(), "a connection of its pool is set apart: {:?}", self.state);
        self.stand(if matches!(self.apart, Some(Apart::Subscriber)) { State::Subscriber } else { State::Relay }, now);
    }

    /// Puts the connection into its pool, free for the next client.
    pub fn rest(&mut self, now: Instant) {
        let comes_back = matches!(self.state, State::Active(None) | State::Preparing(_));
        debug_assert!(comes_back, "a connection is given back that is not its pool's: {:?}", self.state);
        self.stand(State::Idle, now);
    }

    /// Whether no client has the connection and its purpose is fulfilled.
    fn is_free(&self) -> bool {
        self.apart.is_none() && matches!(self.state, State::Idle | State::Active(None))
    }

    fn stand(&mut self, state: State, now: Instant) {
        self.state = state;
        self.life.state_since = now;
    }

    /// Settles a definition when all requests are answered: it has been committed, or is in a transaction that is open.
    pub fn settle_definition(&mut self) {
        if !self.exchange.requests.is_empty() {
            return;
        }
        match &mut self.known.definition {
            Some(definition) if self.status != Status::Idle => definition.wait(),
            definition => *definition = None,
        }
    }

    /// Notes a reported parameter that says whether the server is a standby.
    pub fn note_standby(&mut self, name: &str, value: &str) {
        if name == "in_hot_standby" {
            self.known.standby = Some(value == "on");
        }
    }

    /// Whether a server that refuses the pooler may accept it later: it cannot be reached, it is starting or stopping
    /// (57P0x), or it is full (53xxx).
    pub fn may_come_back(&self) -> bool {
        match &self.life.fatal_error {
            Some(Cause { sqlstate, .. }) => sqlstate.starts_with("57P0") || sqlstate.starts_with("53"),
            None => !self.life.refused,
        }
    }

    /// Notes the value of a parameter that the server has reported.
    pub fn note_told(&mut self, name: &str, value: &str) {
        if let Some((_, told)) = self.known.parameters.iter_mut().find(|(of, _)| of == name)
            && told != value
        {
            value.clone_into(told);
        }
    }

    /// A connection being made.
    pub fn new(io: Io, host: String, port: u16, address: Address, pool: PoolKey, now: Instant, id: u64) -> Self {
        Self {
            id,
            io,
            at: Endpoint { host, port, address, sslmode: SslMode::Disable, place: 0 },
            pool,
            state: State::Connecting,
            spare: None,
            exchange: Exchange::default(),
            status: Status::Idle,
            known: Session::default(),
            cancels: Cancels {
                key: CancelKey { pid: 0, secret: Vec::new() },
                under_way: 0,
                repeats: false,
                frees: false,
                target: None,
                early: None,
                asker: None,
                suspect: false,
            },
            life: Life {
                since: now,
                state_since: now,
                retire: false,
                doomed: None,
                fatal_error: None,
                refused: false,
                again: None,
                suspended: false,
            },
            apart: None,
            permit: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::memory::Memory;
    use crate::model::session::Sets;
    use crate::model::slots::Slot;
    use crate::model::vars::Vars;

    fn client(number: usize) -> ClientKey {
        ClientKey(Slot::of_token(number << 2).0)
    }

    fn server() -> (Server, Instant) {
        let (memory, path) = (Memory::default(), Path::new("/server"));
        let _listener = memory.listen(path);
        let (io, now) = (Io::new(Box::new(memory.connect(path).unwrap())), Instant::now());
        let address = Address::Unix(path.to_owned());
        (Server::new(io, "host".to_owned(), 5432, address, PoolKey(Slot::of_token(0).0), now, 1), now)
    }

    #[test]
    fn a_connection_is_of_one_client_at_a_time() {
        let (mut server, now) = server();
        server.prepare(None, now);
        server.rest(now);
        assert_eq!(server.holder(), None);
        server.check_out(client(1), now);
        assert_eq!((server.holder(), server.client()), (Some(client(1)), Some(client(1))));
        assert_eq!(server.let_go(), Some(client(1)));
        assert_eq!((server.holder(), server.let_go()), (None, None));
        server.check_out(client(2), now);
        server.begin_pipeline(false, now);
        assert_eq!(server.holder(), None, "its units are the pipelined connection's");
        server.end_pipeline();
        server.rest(now);
        assert!(matches!(server.state, State::Idle));
    }

    #[test]
    fn a_session_is_brought_in_line_for_whoever_has_the_connection_then() {
        let (mut server, now) = server();
        let target = || Target { sets: Sets::default(), vars: Vars::default(), read_only: true };
        server.prepare(Some(target()), now);
        assert!(server.end_reset().is_some_and(|target| target.read_only) && server.end_reset().is_none());
        server.rest(now);
        server.check_out(client(1), now);
        assert!(server.end_alignment().is_none());
        server.begin_alignment(target(), now);
        assert_eq!((server.holder(), server.is_aligning()), (Some(client(1)), true));
        assert_eq!(server.let_go(), Some(client(1)), "a client that leaves does not end it");
        assert!(server.end_alignment().is_some_and(|target| target.read_only));
        assert_eq!((server.holder(), server.is_aligning()), (None, false));
        server.rest(now);
    }

    #[test]
    #[should_panic(expected = "that no client waits for")]
    #[cfg(debug_assertions)]
    fn a_session_is_brought_in_line_for_a_client() {
        let (mut server, now) = server();
        server.prepare(None, now);
        server.begin_alignment(Target { sets: Sets::default(), vars: Vars::default(), read_only: true }, now);
    }

    #[test]
    fn a_replication_client_has_its_connection_until_it_leaves() {
        let (mut server, _) = server();
        server.apart = Some(Apart::Relay(Some(client(3))));
        assert_eq!(server.holder(), Some(client(3)));
        assert_eq!((server.let_go(), server.holder()), (Some(client(3)), None));
    }

    #[test]
    #[should_panic(expected = "that is not free")]
    #[cfg(debug_assertions)]
    fn a_connection_is_not_checked_out_twice() {
        let (mut server, now) = server();
        server.prepare(None, now);
        server.rest(now);
        server.check_out(client(1), now);
        server.check_out(client(2), now);
    }

    #[test]
    #[should_panic(expected = "that is not its pool's")]
    #[cfg(debug_assertions)]
    fn a_connection_that_a_client_has_is_not_given_back() {
        let (mut server, now) = server();
        server.prepare(None, now);
        server.rest(now);
        server.check_out(client(1), now);
        server.rest(now);
    }
}
