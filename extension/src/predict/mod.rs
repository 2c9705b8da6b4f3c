//! The SQL functions that predict.

mod aggregate;
mod batch;
mod call_site;
mod input;
mod point;
