//! A client's connection, as its worker sees it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use balancer::Tried;
use classify::{Role, Words};
use wire::startup::CancelKey;

use crate::channels::Ears;
use crate::homes::Place;
use crate::net::{Io, Peer};
use crate::pins::Pins;
use crate::replay::Owed;
use crate::seat::Seat;
use crate::session::{Pending, Sets};
use crate::state::keys::{PoolKey, ServerKey};
use crate::state::lexing::Reading;
use crate::state::login::{Login, Phase, Proven, Verified};
use crate::state::relay::Relay;
use crate::state::traveller::{Bound, Deeds};
use crate::statement::Statement;
use crate::vars::Vars;

/// Where a client stands.
#[derive(Debug)]
pub enum State {
    /// Its startup packet has not come whole.
    Startup,
    /// It has asked to cancel somebody's statement, and is closed when the server has been told.
    Cancels,
    /// It proves who it is.
    Login(Box<Login>, Box<Phase>),
    /// It is who it says it is, and has no place at its database yet.
    Proven(Box<Proven>),
    /// It waits until a server has told the pool what to greet it with.
    Greeting,
    /// It has been greeted. Whether it waits, talks to a server or is idle, its other fields say.
    Ready,
    /// It is a replication connection, and talks to its server.
    Relay,
    /// It talks to the console.
    Console,
    /// What is left to be sent is being sent, then it is closed.
    Closing,
}

/// Why a client's messages are being thrown away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Discard {
    /// They are not.
    #[default]
    No,
    /// A statement was refused before a server had it: the rest of it goes, and a ReadyForQuery ends it.
    Unit,
}

/// Who a client says it is, and where it comes from.
#[derive(Debug)]
pub struct Identity {
    /// The address of the client.
    pub peer: Peer,
    /// The user that it says it is.
    pub user: Rc<str>,
    /// The database that it asked for.
    pub database: Rc<str>,
    /// The minor version of the protocol.
    pub minor: u16,
    /// By what it names itself in a cancel request.
    pub cancel_key: CancelKey,
    /// When it connected.
    pub since: Instant,
    /// Whether it may change things on the console.
    pub admin: bool,
    /// How it is counted.
    pub seat: Seat,
    /// Its place among the clients of its database.
    pub place: Option<Place>,
}

/// Which server a client's units go to.
#[derive(Debug, Default)]
pub struct Route {
    /// The pool that it is served by, once it is known: of the server that was chosen last, in a cluster.
    pub pool: Option<PoolKey>,
    /// The pool that it belongs to.
    pub home: Option<PoolKey>,
    /// The servers of its cluster that have failed its unit.
    pub tried: Tried,
    /// Since when it waits, over several choices of a server.
    pub waiting_since: Option<Instant>,
    /// What it has SET SERVER ROLE to.
    pub role: Option<Role>,
    /// What it has SET PRIMARY READS to.
    pub primary_reads: Option<bool>,
    /// What its next read must see.
    pub owed: Owed,
}

/// What a client has of the server connections of its pool: one of these at a time.
#[derive(Debug, Clone, Copy, Default)]
enum Hold {
    /// It has none, and wants none.
    #[default]
    Nothing,
    /// It waits in its pool's queue since then.
    Waits(Instant),
    /// A connection is checked out to it.
    Own(ServerKey),
    /// Units of its own are in flight on a pipelined connection: how many.
    Pipelined(ServerKey, usize),
}

/// The server connection that a client has, or waits for.
#[derive(Debug, Default)]
pub struct Checkout {
    /// What it has.
    hold: Hold,
    /// Whether it was told that it waits.
    pub told_to_wait: bool,
    /// What it sent last cannot follow its units that are in flight: it waits until they are answered.
    pub behind_own: bool,
    /// It has waited for room in a pipelined connection, and it is its turn.
    pub may_share: bool,
    /// The unit at the front of its input needs a connection to itself.
    pub needs_own: bool,
    /// Whether the statement that it waits to send is to run in a read-only transaction.
    pub reads_only: bool,
    /// How often its unit was at the head of a pipelined connection whose server died.
    pub attempts: u8,
    /// How often its unit was asked again on account of its neighbours in a pipelined connection.
    pub retries: u8,
    /// How often a server connection was lost, or could not be aligned, before its statement could be sent.
    pub strikes: u8,
}

impl Checkout {
    /// The connection that is checked out to it.
    pub fn server(&self) -> Option<ServerKey> {
        if let Hold::Own(server) = self.hold { Some(server) } else { None }
    }

    /// The pipelined connection that its units are in flight on, and how many of them.
    pub fn pipelined(&self) -> Option<(ServerKey, usize)> {
        if let Hold::Pipelined(server, units) = self.hold { Some((server, units)) } else { None }
    }

    /// The connection that has its units, its own or a pipelined one.
    pub fn connection(&self) -> Option<ServerKey> {
        match self.hold {
            Hold::Own(server) | Hold::Pipelined(server, _) => Some(server),
            Hold::Nothing | Hold::Waits(_) => None,
        }
    }

    /// Since when it waits for a connection.
    pub fn waits(&self) -> Option<Instant> {
        if let Hold::Waits(since) = self.hold { Some(since) } else { None }
    }

    /// It waits, since then.
    pub fn wait(&mut self, since: Instant) {
        debug_assert!(self.connection().is_none(), "a client waits that has a connection: {:?}", self.hold);
        self.hold = Hold::Waits(since);
    }

    /// It waits no longer; since when it has.
    pub fn stop_waiting(&mut self) -> Option<Instant> {
        let since = self.waits()?;
        self.hold = Hold::Nothing;
        Some(since)
    }

    /// A connection is checked out to it; since when it has waited.
    pub fn take(&mut self, server: ServerKey) -> Option<Instant> {
        debug_assert!(self.connection().is_none(), "a client gets a second connection: {:?}", self.hold);
        let since = self.waits();
        self.hold = Hold::Own(server);
        since
    }

    /// It gives its own connection back.
    pub fn give_back(&mut self) -> Option<ServerKey> {
        let server = self.server()?;
        self.hold = Hold::Nothing;
        Some(server)
    }

    /// One more of its units goes down this pipelined connection.
    pub fn send(&mut self, server: ServerKey) {
        let before = self.pipelined().filter(|(same, _)| *same == server).map_or(0, |(_, units)| units);
        debug_assert!(self.connection().is_none_or(|_| before > 0), "units on two connections: {:?}", self.hold);
        self.hold = Hold::Pipelined(server, before + 1);
    }

    /// Some of its units that were in flight are so no longer.
    pub fn answered(&mut self, units: usize) {
        if let Hold::Pipelined(server, before) = self.hold {
            self.hold = if before > units { Hold::Pipelined(server, before - units) } else { Hold::Nothing };
        }
    }

    /// Nobody waits for its units in flight any more; the connection that they are on.
    pub fn leave_pipeline(&mut self) -> Option<ServerKey> {
        let (server, _) = self.pipelined()?;
        self.hold = Hold::Nothing;
        Some(server)
    }
}

/// How far a client's input has been worked on.
#[derive(Debug, Default)]
pub struct Input {
    /// Bytes of a message that are still to be passed on.
    pub passing: usize,
    /// Bytes of a message that are still to be thrown away.
    pub dropping: usize,
    /// The words of a long Query whose end has not come.
    pub words: Option<Box<Words>>,
    /// Whether it has sent messages of the extended protocol since its last Sync.
    pub unsynced: bool,
    /// Whether its messages are thrown away.
    pub discard: Discard,
    /// Nothing is read from it: the pooler is suspended.
    pub suspended: bool,
    /// Answers of other workers that the console waits for.
    pub console_waits: Option<u64>,
}

/// A client's session, wherever its units run.
#[derive(Debug, Default)]
pub struct Session {
    /// The values of tracked parameters that it has.
    pub vars: Vars,
    /// What else it has SET.
    pub sets: Sets,
    /// What it has told its session to change in the transaction that is open.
    pub pending: Pending,
    /// What it asked for when it connected: what RESET leads back to.
    pub startup: (Vars, Sets),
    /// What a server has made of that, until the client is greeted.
    pub verified: Option<Rc<Verified>>,
    /// What in its session cannot be carried elsewhere.
    pub pins: Pins,
    /// Its transaction may have changed settings in a way that is not followed.
    pub unclear: bool,
    /// How its session reads statements, and the settings for which that was found.
    pub reading: Option<(Vars, Sets, Reading)>,
}

/// The statements that a client has prepared.
#[derive(Debug, Default)]
pub struct Prepared {
    /// Its named statements.
    pub statements: BTreeMap<Box<[u8]>, Rc<Statement>>,
    /// Servers know its named statements by names of ours, which they keep while there are any, whatever the pool's
    /// mode becomes.
    pub renamed: bool,
    /// Its unnamed statement.
    pub unnamed: Option<Rc<Statement>>,
    /// Its portals in the transaction that is open, and the statements that they are of.
    pub portals: BTreeMap<Box<[u8]>, Option<Rc<Statement>>>,
}

/// When what a client does was begun.
#[derive(Debug)]
pub struct Times {
    /// When the unit in flight was begun, or it last was idle.
    pub request_since: Instant,
    /// When its transaction was begun.
    pub transaction_since: Option<Instant>,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its id on the console: never another's.
    pub id: u64,
    /// The socket and the bytes in flight.
    pub io: Io,
    /// Who a client says it is, and where it comes from.
    pub identity: Identity,
    /// Where it stands.
    pub state: State,
    /// Which server a client's units go to.
    pub route: Route,
    /// The server connection that a client has, or waits for.
    pub checkout: Checkout,
    /// How far a client's input has been worked on.
    pub input: Input,
    /// A client's session, wherever its units run.
    pub session: Session,
    /// The statements that a client has prepared.
    pub prepared: Prepared,
    /// When what a client does was begun.
    pub times: Times,
    /// What it listens to by the hub of its pool, if it does.
    pub ears: Option<Box<Ears>>,
    /// What it is as a replication connection, if it is one.
    pub relay: Option<Box<Relay>>,
    /// Where it is to go when nothing of it is under way.
    pub moves_to: Option<Bound>,
    /// What it has done.
    pub deeds: Deeds,
}

impl Client {
    /// A client that has just connected.
    pub fn new(io: Io, seat: Seat, since: Instant, id: u64) -> Self {
        let identity = Identity {
            peer: io.stream.peer(),
            user: "".into(),
            database: "".into(),
            minor: 0,
            cancel_key: CancelKey { pid: 0, secret: Vec::new() },
            since,
            admin: false,
            seat,
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
            ears: None,
            relay: None,
            moves_to: None,
            deeds: Deeds::default(),
        }
    }

    /// How far its login has come.
    pub fn login_phase(&self) -> Option<&Phase> {
        if let State::Login(_, phase) = &self.state { Some(phase) } else { None }
    }

    /// How far its login has come, to change.
    pub fn login_phase_mut(&mut self) -> Option<&mut Phase> {
        if let State::Login(_, phase) = &mut self.state { Some(phase) } else { None }
    }

    /// Takes its login up where it is; what becomes of it is for the caller to say.
    pub fn leave_login(&mut self) -> Option<(Box<Login>, Phase)> {
        match std::mem::replace(&mut self.state, State::Startup) {
            State::Login(login, phase) => Some((login, *phase)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Puts it into a phase of its login.
    pub fn enter_login(&mut self, login: Box<Login>, phase: Phase) {
        self.state = State::Login(login, Box::new(phase));
    }

    /// Whether it has logged in.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    /// Whether it talks to the console.
    pub fn is_on_console(&self) -> bool {
        matches!(self.state, State::Console)
    }

    /// Whether it has connected and not been let in.
    pub fn is_logging_in(&self) -> bool {
        matches!(self.state, State::Startup | State::Cancels | State::Login(..) | State::Proven(_) | State::Greeting)
    }

    /// Whether it has not been let in, and it is on it to say or do something for that.
    pub fn is_awaited(&self) -> bool {
        match &self.state {
            State::Startup | State::Closing => true,
            State::Login(_, phase) => phase.awaits_client(),
            _ => false,
        }
    }

    /// The statement that a portal is of, if that is known.
    pub fn portal(&self, name: &[u8]) -> Option<&Rc<Statement>> {
        self.prepared.portals.get(name)?.as_ref()
    }

    /// Whether what it creates may be temporary by what it asked for when it connected: a `search_path` that begins with
    /// the session's schema for temporary objects. (A SET of such a path pins by itself.)
    pub fn creates_temporary(&self) -> bool {
        let path = self.session.startup.1.get("search_path");
        self.session.startup.0.mention("pg_temp") || path.is_some_and(|statement| statement.contains("pg_temp"))
    }

    /// Takes over what a server has made of the settings in its startup packet.
    pub fn take_verified(&mut self, verified: Rc<Verified>) {
        self.session.vars.take_over(&verified.vars);
        self.session.startup.0.take_over(&verified.vars);
        self.session.verified = Some(verified);
    }

    /// Sends it the notifications that were kept for it and are certain.
    pub fn take_news(&mut self) {
        if let Some(ears) = &mut self.ears {
            ears.tell(self.io.out());
        }
    }

    /// Whether nothing of it is under way.
    pub fn is_idle(&self) -> bool {
        self.checkout.server().is_none()
            && self.checkout.pipelined().is_none()
            && self.checkout.waits().is_none()
            && self.io.rest.is_empty()
            && self.input.discard == Discard::No
    }
}
