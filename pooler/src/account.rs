//! The account that the pooler runs as.

use std::ffi::CString;

/// Becomes a user, for good, when the pooler was started as root; anybody else stays who they are.
///
/// To be called before there are threads: the user database is read into memory that all share.
pub fn become_user(name: &str) -> Result<(), String> {
    // SAFETY: geteuid has no arguments, touches no memory and cannot fail.
    if name.is_empty() || unsafe { libc::geteuid() } != 0 {
        return Ok(());
    }
    let fail = |what: &str| Err(format!("user = {name}: {what}: {}", std::io::Error::last_os_error()));
    let text = CString::new(name).map_err(|_| "user: a name has no zero bytes".to_owned())?;
    // SAFETY: `text` is a string that ends with a zero byte; no other thread reads the user database.
    let entry = unsafe { libc::getpwnam(text.as_ptr()) };
    if entry.is_null() {
        return Err(format!("user = {name}: there is no such account"));
    }
    // SAFETY: the entry is not null, and stays as it is until the user database is read again.
    let (uid, gid) = unsafe { ((*entry).pw_uid, (*entry).pw_gid) };
    // SAFETY: `text` is a string that ends with a zero byte.
    if unsafe { libc::initgroups(text.as_ptr(), gid) } != 0 {
        return fail("cannot take over the groups");
    }
    // SAFETY: a number is all that is passed. The group goes first: afterwards it could not be changed.
    if unsafe { libc::setgid(gid) } != 0 {
        return fail("cannot change the group");
    }
    // SAFETY: a number is all that is passed.
    if unsafe { libc::setuid(uid) } != 0 {
        return fail("cannot change the user");
    }
    Ok(())
}

/// The name of an account.
pub fn name(uid: libc::uid_t) -> Option<String> {
    let mut text = vec![0; 16_384];
    // SAFETY: a passwd is made of pointers and numbers, for which zeros are values.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: the buffer is as long as is said, and all that is pointed to lives until the name has been copied.
    let outcome = unsafe { libc::getpwuid_r(uid, &raw mut entry, text.as_mut_ptr(), text.len(), &raw mut found) };
    if outcome != 0 || found.is_null() {
        return None;
    }
    // SAFETY: the name is a string in the buffer that ends with a zero byte.
    let name = unsafe { std::ffi::CStr::from_ptr(entry.pw_name) };
    name.to_str().ok().map(str::to_owned)
}

/// The number of a group.
pub fn group(name: &str) -> Result<libc::gid_t, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = CString::new(name).map_err(|_| "a name has no zero bytes".to_owned())?;
    // SAFETY: `text` is a string that ends with a zero byte; this is called before there are threads.
    let entry = unsafe { libc::getgrnam(text.as_ptr()) };
    if entry.is_null() {
        return Err(format!("there is no group {name}"));
    }
    // SAFETY: the entry is not null, and stays as it is until the group database is read again.
    Ok(unsafe { (*entry).gr_gid })
}
