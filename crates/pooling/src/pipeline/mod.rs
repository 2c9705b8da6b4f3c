//! Pipelining across clients: units of several clients on one server connection.

pub mod connection;
pub mod receive;
pub mod retry;
pub mod room;
pub mod send;
pub mod spill;
pub mod stall;
