//! What is known of the functions, operators, types and relations of each database, by which statements are judged.
//!
//! One thread reads it for all workers ([`reader`]), over connections of the pooler's own: no client's settings reach it,
//! no pool waits for it, and what has not come whole is thrown away ([`question`]). It is posted as [`Knowledge`], which
//! also counts the definitions (CREATE, ALTER, DROP ...) that workers see: from the moment that one is seen until a
//! catalog is there that was asked for later, [`Knowledge::is_doubtful`] has every worker treat every statement as one of
//! which nothing is known. `docs/design/2026-11-22-catalogs.md` tells the reasons.

mod knowledge;
mod question;
mod reader;
pub mod visit;

pub use knowledge::{Definition, Knowledge, Library, Place, Servers, Way};
pub use reader::{WAKER, spawn};
