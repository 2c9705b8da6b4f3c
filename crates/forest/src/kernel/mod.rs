//! What walks the trees of an image. Every kernel gives the same bits.

pub mod compact;
pub mod keys;
pub mod perfect;
pub mod scalar;
pub mod wide;
