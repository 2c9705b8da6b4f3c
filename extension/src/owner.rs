//! Statements with the rights of the registry's owner: reads and writes of the registry that the caller itself may not
//! do.
//!
//! The owner of the tables is often a superuser, so the rule is narrow. A statement that runs as the owner is written
//! here in the extension, names everything with its schema, and runs under a search_path of nothing but the system's
//! own; what the caller may have of it was decided before, and no expression of the caller's is in it.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::error::Result;
use crate::registry;

/// While it lives, the current user is the owner of the registry. An ERROR ends it with the (sub)transaction.
pub struct AsOwner {
    user: pg_sys::Oid,
    context: std::ffi::c_int,
    settings: std::ffi::c_int,
}

impl AsOwner {
    pub fn begin() -> Result<AsOwner> {
        let owner = owner_of(registry::relation_oid(c"projects")?);
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        let local = i32::try_from(pg_sys::SECURITY_LOCAL_USERID_CHANGE).unwrap_or(0);
        // SAFETY: plain reads and writes of backend state, as the system's own referential checks do them; what is
        // changed is changed back in `drop`, or by the end of the (sub)transaction. The strings are NUL-terminated.
        unsafe {
            pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
            let settings = pg_sys::NewGUCNestLevel();
            set(c"search_path", c"pg_catalog, pg_temp");
            pg_sys::SetUserIdAndSecContext(owner, context | local);
            Ok(AsOwner { user, context, settings })
        }
    }
}

impl Drop for AsOwner {
    fn drop(&mut self) {
        // While an ERROR unwinds, the end of the (sub)transaction does this, after what else it does.
        if !std::thread::panicking() {
            // SAFETY: what `begin` found and made.
            unsafe {
                pg_sys::SetUserIdAndSecContext(self.user, self.context);
                pg_sys::AtEOXact_GUC(true, self.settings);
            }
        }
    }
}

/// # Safety
/// Within a nest level of settings that ends before the function does.
unsafe fn set(name: &CStr, value: &CStr) {
    // SAFETY: NUL-terminated strings, of a setting that every role may set.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
    }
}

/// The owner of a relation.
pub fn owner_of(relation: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a relation that exists, opened and closed under the lock of a reader.
    unsafe {
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let open = pg_sys::relation_open(relation, lock);
        let owner = (*(*open).rd_rel).relowner;
        pg_sys::relation_close(open, lock);
        owner
    }
}
