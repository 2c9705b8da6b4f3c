//! The choice of the server for a unit, and the classification of its statements.

pub mod choose;
pub mod fingerprints;
pub mod freshness;
pub mod members;
pub mod route;
pub mod unit;
