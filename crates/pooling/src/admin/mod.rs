//! The console: the databases `howdah`, `pgbouncer` and `pgcat`, which hold no data and answer commands.
//!
//! A command goes to every worker as an [`Order`]. When all workers have answered, the first worker, which has the
//! clients of the console, puts the result together. PAUSE and similar commands go to the workers again and again until
//! no statement or transaction is under way.

pub mod ask;
pub mod command;
pub mod console;
pub mod extended;
pub mod measure;
pub mod measured;
pub mod obey;
pub mod order;
pub mod pools;
pub mod result;
pub mod run;
pub mod seen;
pub mod session;
pub mod show;
pub mod snapshot;
pub mod succeed;
pub mod suspend;

pub use command::Command;
pub use seen::{Part, PoolSeen, Snapshot, pool_parts, whole_pools};
