//! PostgreSQL's frontend/backend protocol, version 3, without I/O: bytes in, messages out.
//!
//! [`frame`] cuts a stream into messages without copying and refuses impossible lengths before anything is allocated;
//! [`startup`] reads the packets before the first message; [`frontend`] and [`backend`] read and write the messages of
//! the two sides; [`scram`] and [`md5`] are the password exchanges of both sides, [`login`] is the whole of a client's
//! login to a server. [`certificate`] has the hash that SCRAM binds to. A reading function takes a slice and returns
//! the length of the first message, or that it needs more bytes: so a stream may be cut anywhere.

pub mod backend;
pub mod certificate;
pub mod error;
pub mod frame;
pub mod frontend;
pub mod login;
pub mod md5;
pub mod scram;
pub mod sqlstate;
pub mod startup;

pub use error::Error;
pub use frame::{Header, header};
