//! A client, or a server connection, on its way to another worker, with its whole state.

use std::time::Instant;

use crate::model::keys::WorkerId;
use crate::model::known::Known;
use crate::model::statement::Carried;
use classify::Role;
use wire::startup::CancelKey;

use crate::berth::Berth;
use crate::common::Permit;
use crate::config::SslMode;
use crate::homes::Place;
use crate::io::Io;
use crate::monitor::address::Address;
use crate::replay::Owed;
use crate::seat::Seat;

/// The counts of a client's work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deeds {
    /// Transactions.
    pub transactions: u64,
    /// Statements.
    pub queries: u64,
    /// Errors of the pooler's own that it was sent.
    pub errors: u64,
}

/// The known state of the session on a connection that travels.
#[derive(Debug)]
pub struct CarriedBelief {
    /// The settings that the server has confirmed.
    pub sets: Vec<(String, String)>,
    /// The tracked values that the server has reported.
    pub vars: Vec<Option<Box<str>>>,
    /// Whether the pooler has made its transactions read-only.
    pub read_only: bool,
    /// The settings of `connect_query`.
    pub base: Box<str>,
    /// The parameters that the server reported at login, with their current values.
    pub parameters: Vec<(String, String)>,
    /// Whether the server reports that it is a standby.
    pub standby: Option<bool>,
    /// The mark of its database's catalog when it was cleaned last.
    pub mark: u64,
    /// The statements that the server knows: their names are the same for all workers.
    pub statements: Known,
}

/// A server connection on its way to another worker.
#[derive(Debug)]
pub struct Parcel {
    /// The socket.
    pub io: Io,
    /// The permit by which the connection is counted as one of its pool's.
    pub permit: Permit,
    /// Its place under the limits that pools share.
    pub berth: Berth,
    /// Its id on the console.
    pub id: u64,
    /// The host, the port and the address of its server.
    pub place: (String, u16, Address),
    /// The known state of the session on a connection that travels.
    pub known: CarriedBelief,
    /// The key by which its statements are cancelled.
    pub cancel_key: CancelKey,
    /// The time at which it was connected.
    pub since: Instant,
    /// The terms of TLS on it.
    pub sslmode: SslMode,
    /// Whether the connection has been idle for so long that it must be checked.
    pub unchecked: bool,
    /// The number of orders that its last worker had carried out ([`crate::state::Lifecycle::orders`]).
    pub orders: u64,
}

/// Settings as they travel: the tracked values, and the other settings by SET.
pub type Settings = (Vec<Option<Box<str>>>, Vec<(String, String)>);

/// The destination of a client that leaves when nothing of it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Another worker.
    Worker(WorkerId),
    /// The pool of this worker that serves it by the configuration.
    Pool,
    /// The process that has taken the sockets over.
    Successor,
}

/// The identity of a client that travels.
#[derive(Debug)]
pub struct CarriedIdentity {
    /// The seat by which the client is counted.
    pub seat: Seat,
    /// Its place among the clients of its database.
    pub place: Place,
    /// The user that it has logged in as.
    pub user: String,
    /// The database that it asked for.
    pub database: String,
    /// The user of its pool.
    pub served_as: String,
    /// The key that a cancel request for this client has.
    pub cancel_key: CancelKey,
    /// The minor version of the protocol.
    pub minor: u16,
    /// The time at which it connected.
    pub since: Instant,
    /// Whether the client may change things on the console.
    pub admin: bool,
}

/// A session that travels with its client.
#[derive(Debug)]
pub struct CarriedSession {
    /// Its settings.
    pub settings: Settings,
    /// The values that RESET restores.
    pub startup: Settings,
    /// The value of its SET SERVER ROLE.
    pub role: Option<Role>,
    /// The value of its SET PRIMARY READS.
    pub primary_reads: Option<bool>,
    /// The commits that its next read must see.
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
    /// The client's id on the console and in the log.
    pub id: u64,
    /// The identity of a client that travels.
    pub identity: CarriedIdentity,
    /// A session that travels with its client.
    pub session: CarriedSession,
    /// Prepared statements that travel with their client.
    pub prepared: CarriedStatements,
    /// The time at which it last became idle.
    pub request_since: Instant,
    /// The counts of its work.
    pub deeds: Deeds,
    /// The number of KILL commands that its last worker had carried out ([`crate::state::Lifecycle::kills`]).
    pub kills: u64,
}
