//! The keys of clients, server connections, pools and workers: types of their own, so that none is taken for another.

use crate::model::slots::Slot;

/// Names a client within its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientKey(pub Slot);

/// Names a pool within its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolKey(pub Slot);

/// Names a server connection within its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerKey(pub Slot);

/// Names a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerId(pub usize);
