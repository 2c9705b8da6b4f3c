//! The settings of a session, for a training of it that runs elsewhere.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// What is of the connection or of its transactions, not of what a training means.
const LEFT_OUT: [&CStr; 12] = [
    c"application_name",
    c"client_encoding",
    c"client_min_messages",
    c"default_transaction_deferrable",
    c"default_transaction_isolation",
    c"default_transaction_read_only",
    c"idle_in_transaction_session_timeout",
    c"idle_session_timeout",
    c"lock_timeout",
    c"options",
    c"statement_timeout",
    c"transaction_timeout",
];

/// How the transactions of a worker are.
const OWN: &[(&CStr, &CStr)] = &[
    (c"default_transaction_deferrable", c"off"),
    (c"default_transaction_isolation", c"read committed"),
    (c"default_transaction_read_only", c"off"),
    (c"lock_timeout", c"0"),
    (c"statement_timeout", c"0"),
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    (c"transaction_timeout", c"0"),
];

/// What the session has set, or was set for it when it connected, and the current role may set: search_path, settings
/// that policies ask for, memory.
pub fn of_session() -> Map<String, Value> {
    // SAFETY: the server's table of settings, as long as it says, whose names are C strings.
    unsafe {
        let mut count = 0;
        #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
        let table = {
            count += pg_sys::GetNumConfigOptions();
            pg_sys::get_guc_variables()
        };
        #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
        let table = pg_sys::get_guc_variables(&mut count);
        let settings = std::slice::from_raw_parts(table, usize::try_from(count).unwrap_or(0));
        settings.iter().filter(|setting| is_carried(&***setting)).filter_map(|setting| value(&**setting)).collect()
    }
}

fn is_carried(setting: &pg_sys::config_generic) -> bool {
    // SAFETY: the name of a setting is a C string; the other is a look-up for the current role.
    let (name, superuser) = unsafe { (CStr::from_ptr(setting.name), pg_sys::superuser()) };
    let flags = setting.flags as u32;
    let highest = if superuser { pg_sys::GucContext::PGC_SUSET } else { pg_sys::GucContext::PGC_USERSET };
    setting.source >= pg_sys::GucSource::PGC_S_CLIENT
        && setting.source != pg_sys::GucSource::PGC_S_OVERRIDE
        && setting.context >= pg_sys::GucContext::PGC_SUSET
        && setting.context >= highest
        && flags & (pg_sys::GUC_NO_RESET_ALL | pg_sys::GUC_NOT_WHILE_SEC_REST) == 0
        && !LEFT_OUT.contains(&name)
}

/// # Safety
/// A setting of the server's table, which the current role may read.
unsafe fn value(setting: &pg_sys::config_generic) -> Option<(String, Value)> {
    // SAFETY: a name that is in the table; what is given is a palloc'd C string.
    unsafe {
        let text = pg_sys::GetConfigOptionByName(setting.name, std::ptr::null_mut(), true);
        if text.is_null() {
            return None;
        }
        let name = CStr::from_ptr(setting.name).to_string_lossy().into_owned();
        Some((name, Value::from(CStr::from_ptr(text).to_string_lossy().into_owned())))
    }
}

/// Sets them, with the rights of the current role.
pub fn set(settings: &Map<String, Value>) -> Result<()> {
    for (name, value) in settings {
        let text = |text: &str| CString::new(text).map_err(|error| Error::invalid(error.to_string()));
        let (name, value) = (text(name)?, text(value.as_str().unwrap_or_default())?);
        // SAFETY: only reads whether the current role is one.
        let context = match unsafe { pg_sys::superuser() } {
            true => pg_sys::GucContext::PGC_SUSET,
            false => pg_sys::GucContext::PGC_USERSET,
        };
        put(&name, &value, context);
    }
    Ok(())
}

/// Sets what a worker's transactions go by, whatever `ALTER ROLE` says of the role that it logs in as: one worker looks
/// after the jobs of all roles.
pub fn set_own() {
    for (name, value) in OWN {
        put(name, value, pg_sys::GucContext::PGC_USERSET);
    }
}

fn put(name: &CStr, value: &CStr, context: pg_sys::GucContext::Type) {
    // SAFETY: C strings; a value that cannot be is an ERROR.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            context,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SET,
            true,
            0,
            false,
        );
    }
}
