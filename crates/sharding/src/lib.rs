//! The shard of a statement.
//!
//! A statement is *proved* to belong to one shard when every sharded table in it is restricted to one value of its key
//! (or to several of one shard), wherever the statement reads or writes it, and when nothing else in it can differ from
//! server to server. Then the shard has all rows that the statement can touch, and its answer is the answer. All other
//! reads go to the hub, where PostgreSQL plans them over all shards; all other writes of sharded tables are refused.
//!
//! What is proved does not depend on a statement's literals but for the values of keys, and those are read by
//! [`Source::shard`] at each execution: so a proof of a prepared statement is made once.

mod arrays;
pub mod automatic;
mod hash;
pub mod map;
mod memory;
pub mod proof;
mod prover;
pub mod value;

pub use automatic::Automatic;
pub use hash::Function;
pub use map::{Entry, KeyType, Malformed, Map, Table};
pub use memory::{Memory, Proved};
pub use proof::{Need, Proof, Reason};
pub use prover::prove;
pub use value::{Literals, Parameters, Source};
