//! What becomes of sessions between clients and servers that share them, told by a schedule: what clients say and when,
//! how far a server has got, what fails and what dies, which answers come together and which in pieces, what time it is.
//!
//! The pooler is the real one, over sockets, turned by hand: one worker or several, no threads, no clock but the schedule's. The
//! servers are a model of PostgreSQL's backend ([`model`]), and with a session of that kind for each client the judge
//! ([`world`]) of what arrives there:
//!
//! - nothing of a client reaches a server before the pooler's own question there is answered;
//! - a unit of a client runs in the session that its client would have without a pooler;
//! - what the pooler believes of a free session is what the server has;
//! - no write is done twice, no cancel request strikes anybody else's unit;
//! - each client is answered once for each unit, by what is its own, and none waits for ever;
//! - what it is told of a unit is what a server has answered, or an error that does not call failed what was done;
//! - no client reads a row, or has a value read, by another description of a prepared statement than it was told;
//! - servers have no more connections of a database or a user than its limit, and who waits while all others go on with
//!   their work is served before long;
//! - after a reload clients are served as the user that their database's entry gives, or as themselves;
//! - the lines of a COPY are its client's, in order, and all of them;
//! - of the clients that wait for one server connection, the first one is not passed over for long;
//! - each client hears what is said on the channels that it listens to, in order and once, and nothing else, or is closed.
//!
//! A schedule is made of a seed ([`schedule::of_seed`]), or of the bytes of a fuzzer ([`schedule::of_bytes`]); one that
//! fails is cut down to the steps that matter ([`search::shrink`]).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the judge speaks by panics")]

pub mod dice;
pub mod model;
pub mod schedule;
pub mod search;
pub mod setup;
pub mod statement;
pub mod trace;
pub mod world;
