//! Server connections: how they are made, brought in line with a client, read, cancelled and lost.

pub mod aligned;
pub mod answer;
pub mod cancel;
pub mod down;
pub mod effects;
pub mod errors;
pub mod gone;
pub mod logged_in;
pub mod ready;
pub mod subscriber;
pub mod subscriber_asks;
