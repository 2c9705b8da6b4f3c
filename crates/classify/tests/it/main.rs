//! Statements and what they are judged to be.

mod bounds;
#[cfg(test)]
mod catalog;
mod queries;
mod random;
mod server_state;
mod session;
mod set_config;
mod shapes;
mod sql;
