//! A client on its way to another pool, or another process, with its whole session.

use std::time::Instant;

use crate::model::statement::Carried;
use classify::Role;
use wire::startup::CancelKey;

use crate::assignment::Place;
use crate::client_permit::ClientPermit;
use crate::io::Io;
use crate::monitor::owed::Owed;

/// The counts of a client's work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Activity {
    /// Transactions.
    pub transactions: u64,
    /// Statements.
    pub queries: u64,
    /// Errors of the pooler's own that it was sent.
    pub errors: u64,
}

/// Settings as they move: the tracked values, and the other settings by SET.
pub type Settings = (Vec<Option<Box<str>>>, Vec<(String, String)>);

/// The destination of a client that leaves when nothing of it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The pool of this worker that serves it by the configuration.
    Pool,
    /// The process that has taken the sockets over.
    Successor,
}

/// The identity of a client that moves.
#[derive(Debug)]
pub struct CarriedIdentity {
    /// The permit by which the client is counted.
    pub permit: ClientPermit,
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

/// A session that moves with its client.
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
    /// The number of the shard that it has chosen.
    pub shard: Option<usize>,
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

/// A client on its way to another pool, or another process.
#[derive(Debug)]
pub struct Transfer {
    /// The socket.
    pub io: Io,
    /// The client's id on the console and in the log.
    pub id: u64,
    /// The identity of a client that moves.
    pub identity: CarriedIdentity,
    /// A session that moves with its client.
    pub session: CarriedSession,
    /// Prepared statements that travel with their client.
    pub prepared: CarriedStatements,
    /// The time at which it last became idle.
    pub request_since: Instant,
    /// The counts of its work.
    pub activity: Activity,
    /// The number of KILL commands that its last worker had carried out ([`crate::state::Lifecycle::kills`]).
    pub kills: u64,
}
