//! Clients: how they arrive, prove who they are, and what they send.

pub mod accept;
pub mod begun;
pub mod challenge;
pub mod copies;
pub mod deallocate;
pub mod enter;
pub mod hubless;
pub mod judgement;
pub mod login;
pub mod looked_up;
pub mod lookup;
pub mod messages;
pub mod order;
mod own;
pub mod replies;
pub mod shapes;
pub mod shards;
pub mod startup;
pub mod statements;
pub mod verify;
