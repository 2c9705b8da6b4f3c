//! A connection to a PostgreSQL server.

use std::rc::Rc;
use std::time::Instant;

use crate::model::exchange::Exchange;
use crate::model::keys::{ClientKey, PoolKey, ServerKey, WorkerId};
use crate::model::known::Known;
use crate::model::pipeline::Pipeline;
use crate::model::session::{Confirmed, Target};
use crate::model::statement::Statement;
use wire::backend::Status;
use wire::login::Login;
use wire::startup::CancelKey;

use crate::catalog::Definition;
use crate::common::Permit;
use crate::config::SslMode;
use crate::error::Cause;
use crate::io::Io;
use crate::monitor::address::Address;

/// Where a server connection stands.
#[derive(Debug)]
pub enum State {
    /// The socket is being connected.
    Connecting,
    /// It is logging in.
    Login(Box<Login>),
    /// `connect_query` runs, or the session is being reset.
    Preparing,
    /// It waits in its pool.
    Idle,
    /// It is checked out to a client; to nobody, once that has left it and until what goes on there has ended.
    Active(Option<ClientKey>),
    /// It carries reads of several clients, or one read that may be asked again.
    Pipelined,
    /// It is the other side of a replication connection.
    Relay,
    /// It listens for all clients of its pool.
    Hub,
    /// A cancel request is being delivered over it.
    Cancelling,
}

/// What may be left on a server connection beside what is known of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Residue {
    /// Nothing.
    #[default]
    Nothing,
    /// Parameters.
    Settings,
    /// Also temporary objects, cursors, channels, locks: a function has run that may do anything.
    Anything,
    /// A client's whole session.
    Session,
}

/// What a server connection is made for that is no connection of its pool, and is checked out to nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apart {
    /// For a replication connection, of this client until it has left.
    Relay(Option<ClientKey>),
    /// To listen for all clients of the pool.
    Hub,
}

/// Where a server connection leads.
#[derive(Debug)]
pub struct Endpoint {
    /// The host it leads to.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Where that is, so that nothing has to be looked up to reach the same server again.
    pub address: Address,
    /// What TLS is to be on it.
    pub sslmode: SslMode,
    /// The place of its host and port in the statistics of its pool.
    pub place: usize,
}

/// What is known of the session on a server connection.
#[derive(Debug, Default)]
pub struct Session {
    /// Its session.
    pub session: Confirmed,
    /// What its session is being brought to: until the answer has come and was good, nothing of a client is sent.
    pub aligning: Option<Box<Target>>,
    /// What may be left on it that is to be undone before the next client.
    pub residue: Residue,
    /// What else of that, where a client's whole session is to be undone.
    pub session_residue: Residue,
    /// What its database was known by when that was undone last ([`crate::catalog::Knowledge::mark`]).
    pub mark: u64,
    /// A definition that has been sent and not been committed, as far as is known.
    pub definition: Option<Definition>,
    /// The server has other prepared statements than the pooler has made, or may have: they are dropped before the next
    /// client.
    pub lost_count: bool,
    /// The statements that it knows by names of ours.
    pub statements: Known,
    /// Its unnamed statement, when it is known whose.
    pub unnamed: Option<Rc<Statement>>,
    /// The parameters that it has told of in its login, as they are now.
    pub parameters: Vec<(String, String)>,
    /// Whether it says that it is a standby; none before PostgreSQL 14, which does not say.
    pub standby: Option<bool>,
    /// That it is one it has said when it was asked, since it does not tell; it may have become the primary since.
    pub was_standby: bool,
}

/// Cancel requests for what a server connection does, and the one that it brings itself.
#[derive(Debug)]
pub struct Cancels {
    /// By what its statements are cancelled.
    pub key: CancelKey,
    /// Cancel requests for it that are on their way.
    pub under_way: usize,
    /// It is free as soon as these have arrived.
    pub frees: bool,
    /// The connection that a cancel request on this one is about.
    pub target: Option<ServerKey>,
    /// Who asked for that, to be told when the server has it.
    pub asker: Option<(WorkerId, ClientKey)>,
    /// A cancel request may strike it at any time: it is closed when it is free.
    pub suspect: bool,
}

/// Since when a server connection is what it is, and how it ends.
#[derive(Debug)]
pub struct Life {
    /// When it was connected.
    pub since: Instant,
    /// When it was last checked out, given back, or began what it does.
    pub state_since: Instant,
    /// It shall be closed when it is given back.
    pub retire: bool,
    /// Why it is to be closed, once its input has been worked on.
    pub doomed: Option<String>,
    /// The error with which it said that it ends, or by which its login has failed.
    pub fatal_error: Option<Cause>,
    /// TLS could not be agreed on, which another attempt will not mend.
    pub refused: bool,
    /// A login that is tried once more over the connection that is being made.
    pub again: Option<Box<Login>>,
    /// Nothing is read from it: the pooler is suspended.
    pub suspended: bool,
}

/// A server connection.
#[derive(Debug)]
pub struct Server {
    /// Its id on the console: never another's.
    pub id: u64,
    /// The socket and the bytes in flight.
    pub io: Io,
    /// Where a server connection leads.
    pub at: Endpoint,
    /// Its pool.
    pub pool: PoolKey,
    /// Where it stands.
    pub state: State,
    /// What a server was asked, and how far it has answered.
    pub exchange: Exchange,
    /// The transaction status that it told last.
    pub status: Status,
    /// What is known of the session on a server connection.
    pub known: Session,
    /// Since when a server connection is what it is, and how it ends.
    pub life: Life,
    /// Cancel requests for what a server connection does, and the one that it brings itself.
    pub cancels: Cancels,
    /// What it needs to know as a pipelined connection; kept for the next time.
    pub pipeline: Option<Box<Pipeline>>,
    /// What it is made for, if it is no connection of its pool.
    pub apart: Option<Apart>,
    /// By what it is counted as one of its pool's.
    pub permit: Option<Permit>,
}

impl Server {
    /// The client whose answers come next: it has the connection to itself, or its unit is at the head of the pipelined
    /// connection. Nobody, once it has been answered otherwise or has left.
    pub fn client(&self) -> Option<ClientKey> {
        match (&self.state, &self.pipeline) {
            (State::Pipelined, Some(pipeline)) => pipeline.head(),
            _ => self.holder(),
        }
    }

    /// The client that it is checked out to, or whose replication connection it is. Whose answers come is
    /// [`Server::client`].
    pub fn holder(&self) -> Option<ClientKey> {
        match (&self.state, &self.apart) {
            (State::Active(holder), _) | (_, Some(Apart::Relay(holder))) => *holder,
            _ => None,
        }
    }

    /// Nobody has it any more; who has had it.
    pub fn let_go(&mut self) -> Option<ClientKey> {
        match (&mut self.state, &mut self.apart) {
            (State::Active(holder), _) | (_, Some(Apart::Relay(holder))) => holder.take(),
            _ => None,
        }
    }

    /// It is checked out to a client.
    pub fn check_out(&mut self, client: ClientKey, now: Instant) {
        debug_assert!(self.is_free(), "a server connection is checked out that is not free: {:?}", self.state);
        self.stand(State::Active(Some(client)), now);
    }

    /// It carries units of several clients, or of one that had it checked out and whose unit may be asked again.
    pub fn begin_pipeline(&mut self, now: Instant) {
        let checked_out = matches!(self.state, State::Active(Some(_)));
        debug_assert!(self.is_free() || checked_out, "a connection is pipelined that is not free: {:?}", self.state);
        self.stand(State::Pipelined, now);
    }

    /// It carries no units of several clients any more.
    pub fn end_pipeline(&mut self) {
        debug_assert!(matches!(self.state, State::Pipelined), "no pipelined connection ends: {:?}", self.state);
        self.state = State::Active(None);
    }

    /// Statements of the pooler's own run on it, or a cancel request is waited for.
    pub fn prepare(&mut self, now: Instant) {
        let logged_in = matches!(self.state, State::Login(_) | State::Preparing | State::Connecting);
        debug_assert!(self.is_free() || logged_in, "a connection is prepared that is not free: {:?}", self.state);
        self.stand(State::Preparing, now);
    }

    /// It is free for whoever comes next.
    pub fn rest(&mut self, now: Instant) {
        let comes_back = matches!(self.state, State::Active(None) | State::Preparing);
        debug_assert!(comes_back, "a connection is given back that is not its pool's: {:?}", self.state);
        self.stand(State::Idle, now);
    }

    /// Whether no client has it and it is done with what it was made for.
    fn is_free(&self) -> bool {
        self.apart.is_none() && matches!(self.state, State::Idle | State::Active(None))
    }

    fn stand(&mut self, state: State, now: Instant) {
        self.state = state;
        self.life.state_since = now;
    }

    /// All that was asked is answered, perhaps: a definition has been committed, or is in a transaction that is open.
    pub fn settle_definition(&mut self) {
        if !self.exchange.requests.is_empty() {
            return;
        }
        match &mut self.known.definition {
            Some(definition) if self.status != Status::Idle => definition.wait(),
            definition => *definition = None,
        }
    }

    /// Takes note of a parameter that tells whether the server is a standby.
    pub fn note_standby(&mut self, name: &str, value: &str) {
        if name == "in_hot_standby" {
            self.known.standby = Some(value == "on");
        }
    }

    /// Whether a server that does not let us in may do so later: it cannot be reached, it is starting or stopping
    /// (57P0x), or it is full (53xxx).
    pub fn may_come_back(&self) -> bool {
        match &self.life.fatal_error {
            Some(Cause { sqlstate, .. }) => sqlstate.starts_with("57P0") || sqlstate.starts_with("53"),
            None => !self.life.refused,
        }
    }

    /// Takes note of the value of a parameter that the server has told of.
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
            pipeline: None,
            exchange: Exchange::default(),
            status: Status::Idle,
            known: Session::default(),
            cancels: Cancels {
                key: CancelKey { pid: 0, secret: Vec::new() },
                under_way: 0,
                frees: false,
                target: None,
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
    use crate::model::slots::Slot;

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
        server.prepare(now);
        server.rest(now);
        assert_eq!(server.holder(), None);
        server.check_out(client(1), now);
        assert_eq!((server.holder(), server.client()), (Some(client(1)), Some(client(1))));
        assert_eq!(server.let_go(), Some(client(1)));
        assert_eq!((server.holder(), server.let_go()), (None, None));
        server.check_out(client(2), now);
        server.begin_pipeline(now);
        assert_eq!(server.holder(), None, "its units are the pipelined connection's");
        server.end_pipeline();
        server.rest(now);
        assert!(matches!(server.state, State::Idle));
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
        server.prepare(now);
        server.rest(now);
        server.check_out(client(1), now);
        server.check_out(client(2), now);
    }

    #[test]
    #[should_panic(expected = "that is not its pool's")]
    #[cfg(debug_assertions)]
    fn a_connection_that_a_client_has_is_not_given_back() {
        let (mut server, now) = server();
        server.prepare(now);
        server.rest(now);
        server.check_out(client(1), now);
        server.rest(now);
    }
}
