//! Clients: how they arrive, prove who they are, and what they send.

pub mod accept;
pub mod challenge;
pub mod deallocate;
pub mod enter;
pub mod forward;
pub mod leave;
pub mod login;
pub mod looked_up;
pub mod lookup;
pub mod messages;
pub mod order;
pub mod prepared;
pub mod shapes;
pub mod startup;
pub mod statements;
