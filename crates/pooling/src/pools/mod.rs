//! Pools: the checkout of server connections, their number, and their distribution among workers.

pub mod addresses;
pub mod align;
pub mod checkin;
pub mod checkout;
pub mod checks;
pub mod close;
pub mod configure;
pub mod connect;
pub mod counts;
pub mod depart;
pub mod free;
pub mod grow;
pub mod leave;
pub mod limits;
pub mod moves;
pub mod order;
pub mod pipelines;
pub mod reroute;
pub mod roles;
pub mod room;
pub mod settle;
pub mod upkeep;
pub mod waiting;
pub mod welcome;
