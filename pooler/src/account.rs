//! Accounts and groups of the operating system: the pooler's own, and those at the other end of Unix sockets.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{self, Gid, Group, Uid, User};

/// Becomes a user, for good, when the pooler was started as root; anybody else stays who they are.
///
/// To be called before there are threads, so that none of them runs as root.
pub fn become_user(name: &str) -> Result<(), String> {
    if name.is_empty() || !Uid::effective().is_root() {
        return Ok(());
    }
    let fail = |what: &str, why: &dyn std::fmt::Display| format!("user = {name}: {what}: {why}");
    let found = User::from_name(name).map_err(|error| fail("cannot look the account up", &io::Error::from(error)))?;
    let Some(user) = found else { return Err(format!("user = {name}: there is no such account")) };
    let text = CString::new(name).map_err(|error| fail("cannot take over the groups", &error))?;
    unistd::initgroups(&text, user.gid)
        .map_err(|error| fail("cannot take over the groups", &io::Error::from(error)))?;
    // The group goes first: afterwards it could not be changed.
    unistd::setgid(user.gid).map_err(|error| fail("cannot change the group", &io::Error::from(error)))?;
    unistd::setuid(user.uid).map_err(|error| fail("cannot change the user", &io::Error::from(error)))
}

/// The account that the pooler runs as.
pub fn own() -> Uid {
    Uid::effective()
}

/// The account of the process at the other end of a Unix socket.
pub fn peer(socket: impl AsFd) -> io::Result<Uid> {
    Ok(Uid::from_raw(getsockopt(&socket, sockopt::PeerCredentials)?.uid()))
}

/// The name of an account.
pub fn name(account: Uid) -> Option<String> {
    User::from_uid(account).ok()?.map(|user| user.name)
}

/// The number of a group.
pub fn group(name: &str) -> Result<Gid, String> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        Ok(None) => Err(format!("there is no group {name}")),
        Err(error) => Err(format!("cannot look the group {name} up: {}", io::Error::from(error))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn both_ends_of_a_socket_of_ones_own_have_ones_account() {
        let (left, right) = UnixStream::pair().unwrap();
        assert_eq!(peer(&left).unwrap(), own());
        assert_eq!(peer(&right).unwrap(), own());
    }

    #[test]
    fn root_and_its_group_have_their_names_and_numbers() {
        assert_eq!(name(Uid::from_raw(0)).as_deref(), Some("root"));
        assert_eq!(name(Uid::from_raw(3_999_999_999)), None);
        assert_eq!(group("root"), Ok(Gid::from_raw(0)));
        assert_eq!(group("17"), Ok(Gid::from_raw(17)));
        assert_eq!(group("no such group"), Err("there is no group no such group".to_owned()));
    }
}
