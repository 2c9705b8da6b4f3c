//! Reads the functions, operators, types and relations of each database, by which statements are classified.
//!
//! One thread reads the catalog for all workers ([`reader`]), over connections of the pooler's own: no client's
//! settings reach it, no pool waits for it, and an incomplete answer is thrown away ([`question`]). The catalog is
//! posted as [`pooling::catalog::Knowledge`]. `docs/design/statements.md` has the reasons.

mod question;
mod reader;
pub mod visit;

pub use reader::{WAKER, spawn};
