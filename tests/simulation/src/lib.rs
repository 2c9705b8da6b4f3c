//! What becomes of sessions between clients and servers that share them, told by a schedule: what clients say and when,
//! how far a server has got, what fails and what dies, which answers come together and which in pieces, what time it is.
//!
//! The pooler is the real one, over sockets, turned by hand: one worker, no threads, no clock but the schedule's. The
//! servers are a model of PostgreSQL's backend ([`model`]), and with a session of that kind for each client the judge
//! ([`world`]) of what arrives there:
//!
//! - nothing of a client reaches a server before the pooler's own question there is answered;
//! - a unit of a client runs in the session that its client would have without a pooler;
//! - what the pooler believes of a free session is what the server has;
//! - no write is done twice, no cancel request strikes anybody else's unit;
//! - each client is answered once for each unit, by what is its own, and none waits for ever.
//!
//! A schedule is made of a seed ([`schedule::of_seed`]), or of the bytes of a fuzzer ([`schedule::of_bytes`]); one that
//! fails is cut down to the steps that matter ([`search::shrink`]).

// The judge speaks by panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod model;
pub mod schedule;
pub mod search;
pub mod setup;
pub mod trace;
pub mod world;
