//! The registry changed: tell every connection when this transaction commits.
//!
//! The triggers are row triggers that always fire: those of statements do not where logical replication applies a change.

use pgrx::pg_sys;

use crate::error::Result;
use crate::sql::Call;

crate::sql_function!(pgml_invalidate, invalidate);

/// Trigger function `pgml.invalidate` of the registry's tables, for each row that changes, and for TRUNCATE.
fn invalidate(call: &Call) -> Result<pg_sys::Datum> {
    deployments_changed()?;
    Ok(call.no_value())
}

/// Sends the relcache invalidation of `pgml.deployments`, which travels with the commit, to standbys too, and not at
/// all if the transaction rolls back.
pub fn deployments_changed() -> Result<()> {
    let relation = crate::registry::relation_oid(c"deployments")?;
    // SAFETY: a valid transaction is open (a function is running) and the oid is that of a relation, which the
    // function looks up itself and for which it raises an ERROR otherwise.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relation) };
    crate::names::changed_here();
    Ok(())
}
