//! Models that come and go as their libraries save them: what was trained in a notebook predicts here, and the other way
//! round.
//!
//! The way of a model in: `read` tells the format, reads the bytes by the readers of `crates/forest` and `crates/learn`, and
//! has the model describe itself by its `description` -> `sample` holds it to a prediction that is known -> `import` stores and
//! deploys it. `export` is the way out, and `expression` that of small trees as SQL. `postgresml` brings whole schemas of PostgresML's.

pub mod description;
mod export;
mod expression;
mod import;
mod postgresml;
mod read;
mod sample;

pub use import::deploys;
