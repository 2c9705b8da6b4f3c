//! Pipelining across clients: units of several clients on one server connection.

pub mod receive;
pub mod send;
