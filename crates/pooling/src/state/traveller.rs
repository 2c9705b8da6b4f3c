//! A client, or a server connection, on its way to another worker, with all that belongs to it.

use std::time::Instant;

use crate::model::keys::WorkerId;
use crate::model::known::Known;
use crate::model::statement::Carried;
use classify::Role;
use wire::startup::CancelKey;

use crate::common::Permit;
use crate::config::SslMode;
use crate::homes::Place;
use crate::io::Io;
use crate::monitor::address::Address;
use crate::replay::Owed;
use crate::seat::Seat;

/// What a client has done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deeds {
    /// Transactions.
    pub transactions: u64,
    /// Statements.
    pub queries: u64,
    /// Errors that the pooler itself told it.
    pub errors: u64,
}

/// What is known of the session on a connection that travels.
#[derive(Debug)]
pub struct CarriedBelief {
    /// What the server has confirmed to be SET.
    pub sets: Vec<(String, String)>,
    /// The tracked values that it has told.
    pub vars: Vec<Option<Box<str>>>,
    /// Whether the pooler has made its transactions read-only.
    pub read_only: bool,
    /// What `connect_query` sets.
    pub base: Box<str>,
    /// The parameters that it has told of, as they are now.
    pub parameters: Vec<(String, String)>,
    /// Whether it says that it is a standby.
    pub standby: Option<bool>,
    /// What its database was known by when it was cleaned last.
    pub mark: u64,
    /// The statements that it knows: their names are the same for all workers.
    pub statements: Known,
}

/// A server connection on its way to another worker.
#[derive(Debug)]
pub struct Parcel {
    /// The socket.
    pub io: Io,
    /// By what it is counted.
    pub permit: Permit,
    /// Its id on the console.
    pub id: u64,
    /// The host and port it leads to, and where that is.
    pub place: (String, u16, Address),
    /// What is known of the session on a connection that travels.
    pub known: CarriedBelief,
    /// By what its statements are cancelled.
    pub cancel_key: CancelKey,
    /// When it was connected.
    pub since: Instant,
    /// What TLS is to be on it.
    pub sslmode: SslMode,
    /// It has been idle for so long that it is to be checked.
    pub unchecked: bool,
    /// The orders that had been carried out where it comes from ([`crate::state::Lifecycle::orders`]).
    pub orders: u64,
}

/// Settings as they travel: the tracked values, and what else was SET.
pub type Settings = (Vec<Option<Box<str>>>, Vec<(String, String)>);

/// Where a client is to go when nothing of it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// To another worker.
    Worker(WorkerId),
    /// To the process that has taken the sockets over.
    Successor,
}

/// Who a client is that travels.
#[derive(Debug)]
pub struct CarriedIdentity {
    /// How it is counted.
    pub seat: Seat,
    /// Its place among the clients of its database.
    pub place: Place,
    /// The user that it has logged in as.
    pub user: String,
    /// The database that it asked for.
    pub database: String,
    /// The user of its pool.
    pub served_as: String,
    /// By what it names itself in a cancel request.
    pub cancel_key: CancelKey,
    /// The minor version of the protocol.
    pub minor: u16,
    /// When it connected.
    pub since: Instant,
    /// Whether it may change things on the console.
    pub admin: bool,
}

/// A session that travels with its client.
#[derive(Debug)]
pub struct CarriedSession {
    /// Its settings.
    pub settings: Settings,
    /// What RESET leads back to.
    pub startup: Settings,
    /// What it has SET SERVER ROLE to.
    pub role: Option<Role>,
    /// What it has SET PRIMARY READS to.
    pub primary_reads: Option<bool>,
    /// What its next read must see.
    pub owed: Owed,
}

/// Prepared statements that travel with their client.
#[derive(Debug)]
pub struct CarriedStatements {
    /// Its named statements.
    pub statements: Vec<(Box<[u8]>, Carried)>,
    /// Its statement without a name.
    pub unnamed: Option<Carried>,
    /// Whether servers know its statements by names of the pooler's.
    pub renamed: bool,
}

/// A client on its way to another worker, or another process.
#[derive(Debug)]
pub struct Traveller {
    /// The socket.
    pub io: Io,
    /// By what people name it.
    pub id: u64,
    /// Who a client is that travels.
    pub identity: CarriedIdentity,
    /// A session that travels with its client.
    pub session: CarriedSession,
    /// Prepared statements that travel with their client.
    pub prepared: CarriedStatements,
    /// When it last was idle.
    pub request_since: Instant,
    /// What it has done.
    pub deeds: Deeds,
    /// How often KILL had been carried out where it comes from ([`crate::state::Lifecycle::kills`]).
    pub kills: u64,
}
