//! The SQL functions that predict, and explain predictions.

mod aggregate;
mod batch;
mod call_site;
mod explain;
mod input;
mod point;
