//! Pools: who checks out which server connection, how many there are, and which worker has them.

pub mod checkin;
pub mod checkout;
pub mod checks;
pub mod configure;
pub mod free;
pub mod grow;
pub mod handover;
pub mod limits;
pub mod neighbours;
pub mod size;
pub mod upkeep;
pub mod welcome;
