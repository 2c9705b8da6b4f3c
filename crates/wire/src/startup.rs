//! The packets that a client sends before its first message: a startup packet, or a request for TLS, GSSAPI or a
//! cancel.

use crate::Error;
use crate::frame::{Fields, write_cstr, write_length};

/// PostgreSQL refuses a longer startup packet (MAX_STARTUP_PACKET_LENGTH).
pub const MAX_PACKET: usize = 10_000;
/// The longest key of a cancel request in protocol 3.2.
pub const MAX_CANCEL_KEY: usize = 256;

const CANCEL: i32 = 80_877_102;
const SSL: i32 = 80_877_103;
const GSSENC: i32 = 80_877_104;

/// The first packet of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet<'a> {
    /// The client asks for TLS; the answer is one byte, `S` or `N`.
    SslRequest,
    /// The client asks for GSSAPI encryption; the answer is one byte, `G` or `N`.
    GssEncRequest,
    /// The client asks that another connection's statement be cancelled; there is no answer.
    Cancel(CancelKey),
    /// A session begins.
    Startup(Startup<'a>),
}

/// The key that names a session in a cancel request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CancelKey {
    /// The process id that the client was told.
    pub pid: i32,
    /// The secret beside it: four bytes in protocol 3.0, up to 256 in 3.2.
    pub secret: Vec<u8>,
}

/// A startup packet of protocol 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Startup<'a> {
    /// The minor version that the client asks for.
    pub minor: u16,
    /// The parameters in the order they came, `user` and `database` among them.
    pub parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Startup<'a> {
    /// The last value of a parameter, as PostgreSQL takes it.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// Reads the packet at the start of `bytes` and how many bytes it takes; `None` when it is not whole yet.
pub fn read(bytes: &[u8]) -> Result<Option<(Packet<'_>, usize)>, Error> {
    let Some((&[a, b, c, d], _)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let claimed = i32::from_be_bytes([a, b, c, d]);
    let length = usize::try_from(claimed)
        .ok()
        .filter(|length| (8..=MAX_PACKET).contains(length))
        .ok_or(Error::Length { tag: 0, length: i64::from(claimed) })?;
    let Some(body) = bytes.get(4..length) else { return Ok(None) };
    let mut fields = Fields::new(0, body);
    let packet = match fields.i32("the code")? {
        SSL if body.len() == 4 => Packet::SslRequest,
        GSSENC if body.len() == 4 => Packet::GssEncRequest,
        CANCEL => {
            let pid = fields.i32("the process id")?;
            if !(4..=MAX_CANCEL_KEY).contains(&fields.left().len()) {
                return Err(Error::Length { tag: 0, length: i64::from(claimed) });
            }
            Packet::Cancel(CancelKey { pid, secret: fields.left().to_vec() })
        }
        version => {
            let [a, b, c, d] = version.to_be_bytes();
            let (major, minor) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            if major != 3 {
                return Err(Error::Version { major, minor });
            }
            let mut parameters = Vec::new();
            loop {
                let name = fields.text("a parameter's name")?;
                if name.is_empty() {
                    break;
                }
                parameters.push((name, fields.text("a parameter's value")?));
            }
            Packet::Startup(Startup { minor, parameters })
        }
    };
    Ok(Some((packet, length)))
}

/// Appends a startup packet of protocol 3.0.
pub fn write_startup<'a>(out: &mut Vec<u8>, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) {
    write_length(out, |out| {
        out.extend_from_slice(&196_608_i32.to_be_bytes());
        for (name, value) in parameters {
            write_cstr(out, name.as_bytes());
            write_cstr(out, value.as_bytes());
        }
        out.push(0);
    });
}

/// Appends a request for TLS.
pub fn write_ssl_request(out: &mut Vec<u8>) {
    write_length(out, |out| out.extend_from_slice(&SSL.to_be_bytes()));
}

/// Appends a cancel request.
pub fn write_cancel(out: &mut Vec<u8>, key: &CancelKey) {
    write_length(out, |out| {
        out.extend_from_slice(&CANCEL.to_be_bytes());
        out.extend_from_slice(&key.pid.to_be_bytes());
        out.extend_from_slice(&key.secret);
    });
}
