//! The choice of the server for a query: decisions only. No sockets, no threads, and no clock: the caller passes the
//! time in.
//!
//! A [`Cluster`] is a primary and its replicas. The caller asks the servers at intervals, and passes their answers on
//! to the cluster ([`Cluster::observe`]), or the lack of an answer ([`Cluster::fail`]). From these the cluster decides
//!
//! - which server is the **primary** (`election`): of those that are not in recovery the one on the highest timeline,
//!   and never one that has been deposed, until it has been seen as a replica or on a newer timeline;
//! - which **replicas serve reads**: alive, of the same cluster, not diverged, not lagging (`lag`), not banned (`ban`).
//!
//! [`Replay`] tells which commits each replica has replayed, for reads that must see them.
//!
//! The outcome is a [`View`]: plain, immutable, small, made to be handed to other threads. [`View::choose`] picks a
//! server for one statement in some tens of nanoseconds.

mod ban;
mod choose;
mod cluster;
mod election;
mod lag;
mod replay;
mod server;
mod time;
mod view;

pub use ban::{Ban, BanReason};
pub use choose::{Reason, Strategy, Tried, Turn, Unavailable, Want};
pub use cluster::{Cluster, ServerReport};
pub use lag::Lag;
pub use replay::Replay;
pub use server::{Configured, Failure, FailureKind, Limits, Observation, ServerId, Setup};
pub use time::Moment;
pub use view::{Listed, Standing, View};

/// Servers of one cluster at most.
pub const MAX_SERVERS: usize = 64;
