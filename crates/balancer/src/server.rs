//! A server: its configuration, its reports, its failures.

use crate::Moment;

/// Names a server within its cluster; a server keeps its name for as long as it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub(crate) u8);

impl ServerId {
    /// A small number, below [`crate::MAX_SERVERS`]: the place for what is counted by server.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What the configuration says of a server's role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Configured {
    /// It is what it says it is.
    #[default]
    Auto,
    /// The same, but preferred where two have equal claims, and taken for the primary when it cannot be asked.
    Primary,
    /// Never written to, whatever it says; when it is not in recovery (a logical replica) it serves reads nonetheless.
    Replica,
}

/// A server as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Name, address, or the folder of a Unix socket.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What the configuration says of its role.
    pub role: Configured,
    /// Its share of reads under [`crate::Strategy::Weighted`], beside the others' weights.
    pub weight: u32,
}

/// What a cluster is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A replica that is more bytes of WAL behind leaves; it comes back at half of that.
    pub lag_bytes: Option<u64>,
    /// A replica that is more milliseconds behind leaves; it comes back at half of that.
    pub lag_millis: Option<u64>,
    /// How long an automatic ban lasts, in milliseconds.
    pub ban_millis: u64,
    /// How long, in milliseconds, the first choice of a primary waits for servers that have not been heard of: so that
    /// an old primary that answers first is not written to.
    pub patience_millis: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lag_bytes: None, lag_millis: None, ban_millis: 10_000, patience_millis: 1000 }
    }
}

/// What a server answered when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// When the answer came.
    pub at: Moment,
    /// Whether it is a standby.
    pub in_recovery: bool,
    /// Where its WAL ends: written on a primary, replayed on a standby; in bytes.
    pub lsn: u64,
    /// Where the WAL ends that a standby has received.
    pub received: Option<u64>,
    /// Milliseconds since the commit of the transaction that a standby replayed last, by the servers' own clocks.
    pub replay_age: Option<u64>,
    /// The timeline that it is on, if it could be found out.
    pub timeline: Option<u32>,
    /// The identifier that all servers of a cluster share, if it could be found out.
    pub system: Option<u64>,
    /// Milliseconds from question to answer.
    pub latency: u64,
}

/// Why a server could not be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Nobody listens there.
    Refused,
    /// Its name has no address, or there is no way to it.
    Unreachable,
    /// It did not answer in time.
    TimedOut,
    /// It closed the connection, again after a fresh one was made.
    Closed,
    /// It is starting or stopping.
    NotReady,
    /// It lives but lets nobody in who could ask it: a wrong password, too many connections.
    NotAllowed,
    /// It lives, and nobody is known yet in whose name it could be asked.
    NoUser,
    /// It answers something that makes no sense.
    Nonsense,
}

impl FailureKind {
    /// A word for it, as it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Refused => "connection refused",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed out",
            Self::Closed => "connection closed",
            Self::NotReady => "starting or stopping",
            Self::NotAllowed => "login refused",
            Self::NoUser => "no user to log in as",
            Self::Nonsense => "answer not understood",
        }
    }
}

/// A server could not be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// When that was known.
    pub at: Moment,
    /// Why.
    pub kind: FailureKind,
}
