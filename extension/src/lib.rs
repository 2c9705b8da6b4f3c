//! `CREATE EXTENSION pgml`.
pgrx::pg_module_magic!();
