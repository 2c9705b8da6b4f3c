//! Reads what there is of functions, operators, types and relations in each database, by which statements are judged.
//!
//! One thread reads it for all workers ([`reader`]), over connections of the pooler's own: no client's settings reach it,
//! no pool waits for it, and what has not come whole is thrown away ([`question`]). It is posted as
//! [`pooling::catalog::Knowledge`]. `docs/design/2026-11-22-catalogs.md` tells the reasons.

mod question;
mod reader;
pub mod visit;

pub use reader::{WAKER, spawn};
