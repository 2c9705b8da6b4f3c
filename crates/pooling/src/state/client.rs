//! A client's connection, as its worker sees it.

use std::fmt;
use std::rc::Rc;
use std::time::Instant;

use classify::verdict::Modes;

use crate::model::channels::Subscriptions;
use crate::model::checkout::Checkout;
use crate::model::client::{Discard, Input, Prepared, Session};
use crate::model::keys::PoolKey;
use crate::model::relay::Relay;
use crate::model::session::Unfollowed;
use balancer::Tried;
use classify::Role;
use wire::backend::Status;
use wire::startup::CancelKey;

use crate::assignment::Place;
use crate::client_permit::ClientPermit;
use crate::error::Error;
use crate::io::{Io, Peer};
use crate::monitor::owed::Owed;
use crate::state::login::{Login, Phase, Proven};
use crate::state::transfer::{Activity, Bound};

/// The state of a client.
pub enum State {
    /// The startup packet has not come whole.
    Startup,
    /// The client has brought a cancel request, and is closed when the server has received it.
    Cancels,
    /// The client is logging in.
    Login(Box<Login>, Box<Phase>),
    /// The client has proven its identity, and has no place at its database yet.
    Proven(Box<Proven>),
    /// The client waits until a server has reported the parameters with which the pool greets clients.
    Greeting,
    /// The client has been greeted. The other fields say whether it waits, talks to a server or is idle.
    Ready,
    /// The client is a replication connection, and talks to its server.
    Relay,
    /// The client talks to the console.
    Console,
    /// The remaining output is being sent, then the client is closed.
    Closing,
}

impl fmt::Debug for State {
    /// The name of the state: its contents are secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Startup => "startup",
            Self::Cancels => "cancels",
            Self::Login(..) => "login",
            Self::Proven(_) => "proven",
            Self::Greeting => "greeting",
            Self::Ready => "ready",
            Self::Relay => "relay",
            Self::Console => "console",
            Self::Closing => "closing",
        })
    }
}

/// The client's user and database, and its address.
#[derive(Debug)]
pub struct Identity {
    /// The address of the client.
    pub peer: Peer,
    /// The user that the client claims to be.
    pub user: Rc<str>,
    /// The database that it asked for.
    pub database: Rc<str>,
    /// The minor version of the protocol.
    pub minor: u16,
    /// The key that a cancel request for this client has.
    pub cancel_key: CancelKey,
    /// The time at which it connected, or in `Closing`, at which that began.
    pub since: Instant,
    /// Whether the client may change things on the console.
    pub admin: bool,
    /// The permit by which the client is counted.
    pub permit: ClientPermit,
    /// Its place among the clients of its database.
    pub place: Option<Place>,
}

/// The server that a client's units go to.
#[derive(Debug, Default)]
pub struct Route {
    /// The pool that serves the client, once it is known: in a cluster, that of the server that was chosen last.
    pub pool: Option<PoolKey>,
    /// The pool that the client belongs to.
    pub home: Option<PoolKey>,
    /// The servers of its cluster that have failed its unit.
    pub tried: Tried,
    /// The time since when the client waits, over several choices of a server.
    pub waiting_since: Option<Instant>,
    /// The time since when it waits for a map of shards.
    pub unmapped_since: Option<Instant>,
    /// The value of its SET SERVER ROLE.
    pub role: Option<Role>,
    /// The value of its SET PRIMARY READS.
    pub primary_reads: Option<bool>,
    /// The commits that its next read must see.
    pub owed: Owed,
    /// For a database with shards: the pool of the shard that its unit goes to; none if that is the hub.
    pub shard: Option<PoolKey>,
    /// For a database with hubless shards: the number of the one that its session has chosen.
    pub chosen: Option<usize>,
    /// The version of the map by which its unit goes there.
    pub mapped: u64,
    /// Whether the client is told where its statements go.
    pub notices: bool,
    /// The transaction that the client has begun and no server has.
    pub begun: Option<Begun>,
    /// The error of a statement that the server is made to refuse.
    pub refusal: Option<Box<Error>>,
}

/// A transaction of which no server knows yet: the pooler has answered its BEGIN.
#[derive(Debug)]
pub struct Begun {
    /// The BEGIN, and what steers the transaction and was answered since.
    pub sql: String,
    /// The modes that it names.
    pub modes: Modes,
    /// Its savepoints.
    pub savepoints: Vec<String>,
    /// Whether it has settings of its own.
    pub sets: bool,
    /// Whether the server gets it when the connection is brought in line.
    pub is_due: bool,
    /// Whether the unit under way only reads, and runs outside of it.
    pub outside: bool,
    /// Whether a statement in it was refused, so that the transaction has failed.
    pub has_failed: bool,
}

impl Route {
    /// The status of the client's transaction while it has no connection.
    pub fn status(&self) -> Status {
        match &self.begun {
            None => Status::Idle,
            Some(begun) if begun.has_failed => Status::Failed,
            Some(_) => Status::Transaction,
        }
    }

    /// Notes an error in a transaction that no server has: it has failed, as on a server.
    pub fn fail_begun(&mut self) {
        if let Some(begun) = &mut self.begun {
            begun.has_failed = true;
        }
    }

    /// The pool whose servers serve the client's next unit.
    pub fn serving(&self) -> Option<PoolKey> {
        self.shard.or(self.home)
    }
}

/// The times at which a client's unit and transaction began.
#[derive(Debug)]
pub struct Times {
    /// The time at which the unit in flight began, or at which the client became idle.
    pub request_since: Instant,
    /// The time at which its transaction began.
    pub transaction_since: Option<Instant>,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its id on the console, which no other connection has or had.
    pub id: u64,
    /// The socket and the bytes in flight.
    pub io: Io,
    /// The client's user and database, and its address.
    pub identity: Identity,
    /// The state of the client.
    state: State,
    /// The server that the client's units go to.
    pub route: Route,
    /// The server connection that a client has, or waits for.
    pub checkout: Checkout,
    /// The progress of the work on the client's input.
    pub input: Input,
    /// A client's session, wherever its units run.
    pub session: Session,
    /// The statements that a client has prepared.
    pub prepared: Prepared,
    /// The times at which the client's unit and transaction began.
    pub times: Times,
    /// The channels to which the client listens by the subscriber of its pool, if it does.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Its state as a replication connection, if the client is one.
    pub relay: Option<Box<Relay>>,
    /// The destination of the client, for which it leaves when nothing of it is under way.
    pub moves_to: Option<Bound>,
    /// The counts of its work.
    pub activity: Activity,
}

impl Client {
    /// A client that has just connected.
    pub fn new(io: Io, permit: ClientPermit, since: Instant, id: u64) -> Self {
        let identity = Identity {
            peer: io.socket.peer(),
            user: "".into(),
            database: "".into(),
            minor: 0,
            cancel_key: CancelKey { pid: 0, secret: Vec::new() },
            since,
            admin: false,
            permit,
            place: None,
        };
        Self {
            id,
            io,
            state: State::Startup,
            identity,
            route: Route::default(),
            checkout: Checkout::default(),
            input: Input::default(),
            session: Session::default(),
            prepared: Prepared::default(),
            times: Times { request_since: since, transaction_since: None },
            subscriptions: None,
            relay: None,
            moves_to: None,
            activity: Activity::default(),
        }
    }

    /// The state of the client.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Changes the state. A client whose login or proof was taken is in `Startup` until the caller has put it into
    /// another state.
    pub fn pass_to(&mut self, next: State) {
        let may = match (&self.state, &next) {
            (_, State::Closing) => true,
            (State::Startup, State::Relay | State::Startup) => false,
            (State::Startup, _) => true,
            (State::Login(..), State::Login(..)) => true,
            (State::Greeting, State::Ready | State::Relay) => true,
            _ => false,
        };
        debug_assert!(may, "a client goes from {:?} to {next:?}", self.state);
        self.state = next;
    }

    /// Takes the proven identity of the client; the caller must put the client into another state.
    pub fn take_proof(&mut self) -> Option<Box<Proven>> {
        match std::mem::replace(&mut self.state, State::Startup) {
            State::Proven(proven) => Some(proven),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// The phase of its login.
    pub fn login_phase(&self) -> Option<&Phase> {
        if let State::Login(_, phase) = &self.state { Some(phase) } else { None }
    }

    /// The phase of its login, to change.
    pub fn login_phase_mut(&mut self) -> Option<&mut Phase> {
        if let State::Login(_, phase) = &mut self.state { Some(phase) } else { None }
    }

    /// Takes its login and the phase of that; the caller must put the client into another state.
    pub fn leave_login(&mut self) -> Option<(Box<Login>, Phase)> {
        match std::mem::replace(&mut self.state, State::Startup) {
            State::Login(login, phase) => Some((login, *phase)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Puts the client into a phase of its login.
    pub fn enter_login(&mut self, login: Box<Login>, phase: Phase) {
        self.pass_to(State::Login(login, Box::new(phase)));
    }

    /// Whether the client has logged in.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    /// Whether the client talks to the console.
    pub fn is_on_console(&self) -> bool {
        matches!(self.state, State::Console)
    }

    /// Whether the client has not been greeted yet, and is not being closed.
    pub fn is_logging_in(&self) -> bool {
        matches!(self.state, State::Startup | State::Cancels | State::Login(..) | State::Proven(_) | State::Greeting)
    }

    /// Whether the next step is the client's: its startup packet, an answer to a challenge, or to receive the rest
    /// before it is closed.
    pub fn is_awaited(&self) -> bool {
        match &self.state {
            State::Startup | State::Closing => true,
            State::Login(_, phase) => phase.awaits_client(),
            _ => false,
        }
    }

    /// Sends the client the notifications that were kept for it and are certain.
    pub fn take_news(&mut self) {
        if let Some(subscriptions) = &mut self.subscriptions {
            subscriptions.tell(self.io.out());
        }
    }

    /// Whether nothing of the client is under way.
    pub fn is_idle(&self) -> bool {
        self.asks_nothing() && self.io.rest.is_empty()
    }

    /// Whether nothing of the client is under way but a message that has not been worked on.
    pub fn asks_nothing(&self) -> bool {
        self.has_no_server() && self.checkout.waits().is_none() && self.input.discard == Discard::No
    }

    /// Whether nothing of the client's is under way, and it may leave this process.
    pub fn may_leave_process(&self) -> bool {
        self.may_change_pool()
            && self.io.rest.is_empty()
            && self.io.pending() == 0
            && self.route.waiting_since.is_none()
            && self.route.unmapped_since.is_none()
            && !self.io.hangup
    }

    /// Whether nothing of the client's is under way, and it may go to another pool of its worker, with what it has sent
    /// and nobody has worked on.
    pub fn may_change_pool(&self) -> bool {
        self.checkout.waits().is_none() && self.is_movable()
    }

    /// Whether nothing but its wait for a server connection keeps the client in its pool.
    pub fn is_movable(&self) -> bool {
        self.is_ready()
            && self.has_no_server()
            && self.input.discard == Discard::No
            && !self.checkout.behind_own
            && self.input.is_between_units()
            && !self.input.suspended
            && self.session.unfollowed == Unfollowed::Nothing
            && !self.session.pins.any()
            && self.input.words.is_none()
            && self.subscriptions.is_none()
            && self.relay.is_none()
            && self.route.begun.is_none()
            && self.session.pending.is_empty()
            && self.input.console_waits.is_none()
    }

    /// Whether no server works for the client.
    pub fn has_no_server(&self) -> bool {
        self.checkout.server().is_none() && self.checkout.pipelined().is_none()
    }
}
