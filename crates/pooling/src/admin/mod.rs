//! The console: the databases `howdah`, `pgbouncer` and `pgcat`, which are no databases but answer commands.
//!
//! A command is asked of every worker ([`Order`]); when all have answered, the first worker, where console clients
//! live, puts the result together. PAUSE and its like are asked again until nothing is under way any more.

pub mod account;
pub mod ask;
pub mod command;
pub mod console;
pub mod extended;
pub mod obey;
pub mod order;
pub mod pools;
pub mod result;
pub mod run;
pub mod seen;
pub mod session;
pub mod show;
pub mod snapshot;

pub use command::Command;
pub use seen::{Part, PoolSeen, Snapshot, pool_parts, whole_pools};
