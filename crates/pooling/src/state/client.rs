//! A client's connection, as its worker sees it.

use std::rc::Rc;
use std::time::Instant;

use crate::model::channels::Ears;
use crate::model::checkout::Checkout;
use crate::model::client::{Discard, Input, Prepared, Session};
use crate::model::keys::PoolKey;
use crate::model::relay::Relay;
use balancer::Tried;
use classify::Role;
use wire::startup::CancelKey;

use crate::homes::Place;
use crate::io::{Io, Peer};
use crate::replay::Owed;
use crate::seat::Seat;
use crate::state::login::{Login, Phase, Proven};
use crate::state::traveller::{Bound, Deeds};

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
            peer: io.socket.peer(),
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
