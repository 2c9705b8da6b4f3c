//! Trainings in the background: `pgml.train_async`, `pgml.wait`, `pgml.cancel`.
//!
//! A training that was asked for is a row of `pgml.training_jobs`, written in the caller's transaction (`submit.rs`). When
//! that commits, a background worker is asked for that looks after the queue of the database (`queue.rs`); there is one
//! at most, and it ends with the queue. It starts a worker for each training (`run.rs`), as many at once as
//! `pgml.background_trainings` says. Nothing has to be preloaded: both are dynamic background workers.
//!
//! That the queue is looked after is told by a lock, which ends with its holder. That a job runs is told by its row, which
//! has the process: a job of a process that is no more was killed, or its server was, and has failed.

mod cancel;
mod process;
mod queue;
mod run;
mod settings;
mod submit;
mod table;
mod wait;

pub use process::register;
pub use queue::go_on;

/// What becomes of a job; as in `pgml.training_jobs`.
mod status {
    pub const QUEUED: &str = "queued";
    pub const RUNNING: &str = "running";
    pub const DONE: &str = "done";
    pub const FAILED: &str = "failed";
    pub const CANCELLED: &str = "cancelled";
}
