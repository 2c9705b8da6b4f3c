//! Which server a unit goes to, and what is known of its statements.

pub mod choose;
pub mod fingerprints;
pub mod freshness;
pub mod members;
pub mod reroute;
pub mod roles;
pub mod route;
pub mod unit;
