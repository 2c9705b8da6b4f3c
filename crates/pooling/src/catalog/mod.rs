//! The functions, operators, types and relations of each database, by which statements are classified.
//!
//! A thread of the pooler reads the catalog for all workers and posts it as [`Knowledge`], which also counts the
//! definitions (CREATE, ALTER, DROP ...) that workers see. From the moment that a worker sees a definition until a
//! catalog has been read that was requested later, [`Knowledge::is_doubtful`] is true, and every worker treats every
//! statement as unknown. `docs/design/statements.md` has the reasons.

pub mod hubless;
mod knowledge;
pub mod shard_map;

pub use knowledge::{Definition, Destination, Knowledge, Library, Place, Servers};
