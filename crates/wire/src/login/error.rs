//! Why logins fail.

use crate::backend::Report;
use crate::sqlstate;

/// Why a login has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are no message of PostgreSQL.
    #[error("this is not a PostgreSQL server")]
    Stranger,
    /// Bytes that somebody may have put before those of TLS.
    #[error("data came with the answer to a request for encryption")]
    Injected,
    /// The server speaks no TLS, and it must.
    #[error("the server does not support TLS")]
    NoTls,
    /// TLS cannot be begun.
    #[error("TLS: {0}")]
    Tls(String),
    /// Something was to be said in the clear that must not be.
    #[error("the connection is not encrypted and must be")]
    Unencrypted,
    /// The server has said why it does not let us in.
    #[error("{}", .0.message)]
    Refused(Box<Report>),
    /// The server asks for something that is not spoken here.
    #[error("the server asks for authentication by {}, which is not supported", method(*.0))]
    Method(i32),
    /// The server offers none of the SASL mechanisms that are spoken here.
    #[error("the server offers only the SASL mechanisms {0}")]
    Mechanisms(String),
    /// The server cannot be bound to the TLS connection, and must be.
    #[error("channel binding is required, but {0}")]
    Unbound(&'static str),
    /// The password that the server asks for is not known, or not in the form that it takes.
    #[error("no password is known for user \"{0}\" on the server")]
    NoPassword(String),
    /// The password is known as an MD5 hash.
    #[error("an MD5 password cannot log in by SCRAM (user \"{0}\")")]
    OnlyMd5(String),
    /// The password is known as a SCRAM secret, the client's key is not.
    #[error("the SCRAM secret of user \"{0}\" cannot be used before a client has logged in by SCRAM")]
    OnlySecret(String),
    /// The server has let us in without a proof that it began.
    #[error("the server ended SCRAM without proving that it knows the secret")]
    Unproven,
    /// A message that has no place in a login, or not there.
    #[error("the server sent a message '{}' out of turn in its login", char::from(*.0))]
    Order(u8),
    /// More than any login takes.
    #[error("the server's login does not come to an end")]
    TooLong,
    /// A message, or the proof in it, is wrong.
    #[error(transparent)]
    Wire(#[from] crate::Error),
}

/// Whose fault it is that a login has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server, or who answers in its place, breaks the protocol or cannot show who it is.
    Server,
    /// The server does not let us in, by its own word.
    Refusal,
    /// What we were told to log in with, or on what terms, does not fit the server.
    Settings,
    /// This machine.
    Machine,
}

impl Error {
    /// The SQLSTATE for the client that waits for the connection.
    pub fn sqlstate(&self) -> &str {
        match self {
            Self::Refused(report) => &report.code,
            Self::Stranger | Self::Injected | Self::Order(_) | Self::TooLong => sqlstate::PROTOCOL_VIOLATION,
            Self::NoTls | Self::Tls(_) | Self::Unencrypted => sqlstate::SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
            Self::Method(_) | Self::Mechanisms(_) => sqlstate::FEATURE_NOT_SUPPORTED,
            Self::Unbound(_) | Self::Unproven | Self::Wire(crate::Error::Verification) => {
                sqlstate::INVALID_AUTHORIZATION_SPECIFICATION
            }
            Self::NoPassword(_) | Self::OnlyMd5(_) | Self::OnlySecret(_) => sqlstate::INVALID_PASSWORD,
            Self::Wire(crate::Error::Random) => sqlstate::SYSTEM_ERROR,
            Self::Wire(_) => sqlstate::PROTOCOL_VIOLATION,
        }
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Refused(_) => Fault::Refusal,
            Self::Method(_)
            | Self::Mechanisms(_)
            | Self::Unbound(_)
            | Self::NoPassword(_)
            | Self::OnlyMd5(_)
            | Self::OnlySecret(_) => Fault::Settings,
            Self::Unencrypted | Self::Wire(crate::Error::Random) => Fault::Machine,
            Self::Stranger
            | Self::Injected
            | Self::NoTls
            | Self::Tls(_)
            | Self::Unproven
            | Self::Order(_)
            | Self::TooLong
            | Self::Wire(_) => Fault::Server,
        }
    }
}

/// PostgreSQL's name of an authentication method.
fn method(number: i32) -> String {
    match number {
        2 => "Kerberos".to_owned(),
        7 | 8 => "GSSAPI".to_owned(),
        9 => "SSPI".to_owned(),
        other => format!("method {other}"),
    }
}
