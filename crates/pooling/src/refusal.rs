//! Why a client is not let in, in its words and by its SQLSTATE.
//!
//! What is told before a client has proven who it is must not depend on whether the user or the database exists.

use thiserror::Error;

/// Why a client is not let in.
#[derive(Debug, Error)]
pub enum Refusal {
    /// What it sent is not the protocol.
    #[error("{0}")]
    Protocol(String),
    /// It named no user.
    #[error("no PostgreSQL user name specified in startup packet")]
    NoUser,
    /// A name is longer than any that exists.
    #[error("the name of the {what} is longer than {most} bytes")]
    LongName {
        /// Of what.
        what: &'static str,
        /// How long it may be.
        most: usize,
    },
    /// A startup parameter cannot be had.
    #[error("unsupported startup parameter{place}: {name}")]
    Parameter {
        /// Where it stood, beside the packet itself.
        place: &'static str,
        /// Its name.
        name: String,
    },
    /// It asked for a kind of replication connection that there is not.
    #[error("invalid value for parameter \"replication\": \"{0}\": expected database or a Boolean")]
    Replication(String),
    /// It asked for a replication connection to the console.
    #[error("the console takes no replication connections")]
    ReplicationOfConsole,
    /// It asked for a physical replication connection, which names no database, and no entry says where that leads.
    #[error(
        "no such database: {0}: connections of physical replication need an entry of this name under the databases, or *, \
         which says where they lead"
    )]
    NoReplication(String),
    /// It came without TLS.
    #[error("SSL required")]
    TlsRequired,
    /// The HBA file keeps it out.
    #[error("no line of the HBA file lets user \"{user}\" in to \"{database}\" from here")]
    Hba {
        /// Who wants to come in.
        user: String,
        /// To which database.
        database: String,
    },
    /// It has not proven who it is.
    #[error("password authentication failed for user \"{0}\"")]
    Password(String),
    /// It has shown no certificate that proves it.
    #[error("certificate authentication failed for user \"{0}\"")]
    Certificate(String),
    /// The account at the other end of the Unix socket is not that of its user.
    #[error("peer authentication failed for user \"{0}\"")]
    Peer(String),
    /// Its password could not be looked up.
    #[error("the password cannot be looked up at present, the pooler's log says why")]
    LookupFailed,
    /// Passwords are being looked up in too many databases that are not known to exist.
    #[error("too many logins to databases that have not been used lately")]
    LookupsFull,
    /// The pooler ends.
    #[error("the pooler is shutting down")]
    Ending,
    /// There are `max_client_conn` clients.
    #[error("no more connections allowed (max_client_conn)")]
    Full,
    /// There are `max_user_client_connections` of the user.
    #[error("client connections exceeded (max_user_client_connections)")]
    FullForUser,
    /// There are `max_db_client_connections` of the database.
    #[error("client connections exceeded (max_db_client_connections)")]
    FullForDatabase,
    /// There is no such database.
    #[error("no such database: {0}")]
    NoDatabase(String),
    /// The database was closed by DISABLE.
    #[error("database \"{0}\" is disabled")]
    Disabled(String),
    /// The console is not for this user.
    #[error("not allowed: user \"{0}\" is in neither admin_users nor stats_users")]
    NotOnConsole(String),
    /// The operating system gives no random bytes.
    #[error("no random bytes from the operating system")]
    Random,
}

impl Refusal {
    /// Its SQLSTATE.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Protocol(_) | Self::LongName { .. } | Self::Parameter { .. } => "08P01",
            Self::NoUser | Self::TlsRequired | Self::Hba { .. } | Self::Certificate(_) | Self::Peer(_) => "28000",
            Self::Password(_) => "28P01",
            Self::Replication(_) => "22023",
            Self::ReplicationOfConsole => "0A000",
            Self::LookupFailed => "08006",
            Self::Ending => "57P01",
            Self::LookupsFull | Self::Full | Self::FullForUser | Self::FullForDatabase => "53300",
            Self::NoDatabase(_) | Self::NoReplication(_) => "3D000",
            Self::Disabled(_) => "57P03",
            Self::NotOnConsole(_) => "42501",
            Self::Random => "58000",
        }
    }
}

impl From<wire::Error> for Refusal {
    fn from(error: wire::Error) -> Self {
        match error {
            wire::Error::Random => Self::Random,
            other => Self::Protocol(other.to_string()),
        }
    }
}
