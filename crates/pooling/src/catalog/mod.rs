//! What is known of the functions, operators, types and relations of each database, by which statements are judged.
//!
//! A thread of the pooler reads it for all workers, and posts it as [`Knowledge`], which also counts the definitions
//! (CREATE, ALTER, DROP ...) that workers see: from the moment that one is seen until a catalog is there that was asked
//! for later, [`Knowledge::is_doubtful`] has every worker treat every statement as one of which nothing is known.
//! `docs/design/2026-11-22-catalogs.md` tells the reasons.

mod knowledge;

pub use knowledge::{Definition, Knowledge, Library, Place, Servers, Way};
