//! Cancel requests: their clients, and the requests to repeat.

use crate::model::keys::{ClientKey, ServerKey, WorkerId};

/// The connection that brought a cancel request: its worker and its client.
pub type Asker = (WorkerId, ClientKey);

/// A cancel request that a server has got, and perhaps before the statement that it is for: PostgreSQL ignores one that
/// comes while the session waits for a statement.
#[derive(Debug)]
pub struct Repeat {
    /// The connection on which the statement was sent.
    pub server: ServerKey,
    /// The number of the statement on that connection ([`begun`](super::exchange::Exchange::begun)).
    pub number: u64,
    /// The asker, which is told when nothing more is sent.
    pub asker: Option<Asker>,
}
