//! What is known of the servers of every database that has several: who is the primary, who may serve reads.
//!
//! What the monitor hears of a server goes to a `balancer::Cluster` on the [`Board`]. A decision that changes is posted
//! there for all threads, and the workers are woken. A worker holds a [`ClusterView`] for each cluster: it looks at one
//! atomic number to see whether its copy is still the last, and chooses a server for a statement without a lock. What a
//! worker meets in its own connections (a refusal, a server that dies, a write that meets a replica) it tells by
//! [`crate::shared::Shared::met`], and the server is asked at once.

pub mod address;
mod board;
mod view;

pub use address::Address;
pub use board::{Board, Met, Note, ServerSeen};
pub use view::{ClusterView, Refreshed};
