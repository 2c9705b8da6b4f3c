//! The page on which Prometheus reads what the workers have counted ([`pooling::metrics`]).

mod ask;
pub mod http;
mod page;
mod text;
