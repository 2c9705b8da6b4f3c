//! The errors in the messages of a peer.

/// A violation of the protocol, or a failed password exchange. Always the peer's fault; never worth a retry on the
/// same connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A length that no message can have.
    #[error("message '{}' claims a length of {length} bytes", printable(*tag))]
    Length {
        /// The type byte; 0 for a startup packet.
        tag: u8,
        /// The length as it stood in the header, itself included.
        length: i64,
    },
    /// A message whose fields do not fit its length.
    #[error("message '{}' ends in the middle of {field}", printable(*tag))]
    Short {
        /// The type byte; 0 for a startup packet.
        tag: u8,
        /// The field that was being read.
        field: &'static str,
    },
    /// A name or value that is not UTF-8 where it must be.
    #[error("message '{}' holds {field} that is not UTF-8", printable(*tag))]
    Text {
        /// The type byte; 0 for a startup packet.
        tag: u8,
        /// The field that was being read.
        field: &'static str,
    },
    /// A startup packet of a protocol that is not 3.x.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2")]
    Version {
        /// The upper half of the version asked for.
        major: u16,
        /// The lower half.
        minor: u16,
    },
    /// A SASL message that breaks RFC 5802.
    #[error("malformed SCRAM message: {0}")]
    Scram(&'static str),
    /// The proof or the signature of the other side does not fit the password.
    #[error("SCRAM verification failed")]
    Verification,
    /// The operating system gave no random bytes.
    #[error("the operating system gives no random bytes")]
    Random,
}

fn printable(tag: u8) -> String {
    match tag {
        0 => "startup".to_owned(),
        b'!'..=b'~' => char::from(tag).to_string(),
        _ => format!("\\x{tag:02x}"),
    }
}
