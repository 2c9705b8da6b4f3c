//! The servers of every database that has several: which of them is the primary, and which may serve reads.
//!
//! The monitor's reports about a server go to a `balancer::Cluster` on the [`Board`]. A changed decision is posted
//! there for all threads, and the workers are woken. A worker holds a [`ClusterView`] for each cluster: it reads one
//! atomic number to see whether its copy is current, and chooses a server for a statement without a lock. A worker
//! reports the events of its own connections (a refusal, a server that dies, a write that reaches a replica) by
//! [`crate::shared::Shared::met`], and the monitor asks that server at once.

pub mod address;
mod board;
pub mod owed;
pub mod replay;
mod view;

pub use address::Address;
pub use board::{Board, Incident, Note, ServerSeen};
pub use view::{ClusterView, Refreshed};
