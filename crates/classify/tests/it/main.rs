//! Statements and what they are judged to be.

mod bounds;
#[cfg(test)]
mod catalog;
mod queries;
mod random;
mod session;
mod shapes;
mod sql;
