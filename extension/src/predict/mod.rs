//! The SQL functions that predict, and explain predictions.

mod aggregate;
pub mod batch;
pub mod call_site;
mod explain;
pub mod input;
mod interval;
mod parameter;
mod point;
mod variants;
