//! Pools: the checkout of server connections, their number, and their distribution among workers.

pub mod checkin;
pub mod checkout;
pub mod checks;
pub mod configure;
pub mod free;
pub mod grow;
pub mod limits;
pub mod order;
pub mod size;
pub mod upkeep;
pub mod waiting;
pub mod welcome;
