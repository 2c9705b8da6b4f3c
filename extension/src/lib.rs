//! `CREATE EXTENSION pgml`.
//!
//! The SQL interface is written by hand in `sql/`; each of its functions is a symbol declared by [`sql_function!`].

mod access;
mod activity;
mod algorithms;
mod backends;
mod cache;
mod compiled;
mod dataset;
mod deploy;
mod doubts;
mod error;
mod evaluate;
mod exchange;
mod features;
mod forecast;
mod grants;
mod guc;
mod invalidate;
mod jobs;
mod lookup;
mod measure;
mod memory;
mod metric;
mod model;
mod model_meta;
mod names;
mod nearest;
mod owner;
mod predict;
mod registry;
mod sql;
mod text;
mod touch;
mod train;
mod usage;
mod vectors;
mod version;

pgrx::pg_module_magic!(name, version);

/// Called by PostgreSQL when it loads the library.
#[pgrx::pg_guard]
pub extern "C-unwind" fn _PG_init() {
    memory::register();
    quiet_backtraces();
    guc::define();
    names::register();
    jobs::register();
    usage::register();
}

/// pgrx puts a backtrace into the DETAIL of every ERROR of a server that was started with RUST_BACKTRACE set. What a user
/// did wrong is told in the message; who debugs the extension sets RUST_LIB_BACKTRACE.
fn quiet_backtraces() {
    const SETTING: &str = "RUST_LIB_BACKTRACE";
    if std::env::var_os(SETTING).is_none() {
        // SAFETY: a backend has one thread while it loads a library.
        unsafe { std::env::set_var(SETTING, "0") }
    }
}
