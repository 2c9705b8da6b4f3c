//! `CREATE EXTENSION pgml`.
//!
//! The SQL interface is written by hand in `sql/`; each of its functions is a symbol declared by [`sql_function!`].

mod cache;
mod dataset;
mod deploy;
mod error;
mod features;
mod guc;
mod invalidate;
mod lookup;
mod model;
mod model_meta;
mod names;
mod nearest;
mod predict;
mod registry;
mod sql;
mod touch;
mod train;
mod version;

pgrx::pg_module_magic!(name, version);

/// Called by PostgreSQL when it loads the library.
#[pgrx::pg_guard]
pub extern "C-unwind" fn _PG_init() {
    guc::define();
    names::register();
}
