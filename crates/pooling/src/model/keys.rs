//! The keys of clients, server connections, pools and workers: types of their own, so that none is taken for another.

use crate::model::slots::Slot;

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub Slot);

        impl From<Slot> for $name {
            fn from(slot: Slot) -> Self {
                Self(slot)
            }
        }

        impl From<$name> for Slot {
            fn from(key: $name) -> Self {
                key.0
            }
        }
    )+};
}

keys! {
    /// Names a client within its worker.
    ClientKey
    /// Names a pool within its worker.
    PoolKey
    /// Names a server connection within its worker.
    ServerKey
}

/// Names a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerId(pub usize);
