//! PostgreSQL's MD5 passwords: `md5` and the hex of MD5(password, user), salted once more for each login.

use md5::{Digest, Md5};

/// The stored form of a password: what pg_authid holds.
pub fn stored(user: &str, password: &[u8]) -> String {
    let mut digest = Md5::new();
    digest.update(password);
    digest.update(user.as_bytes());
    hex(&digest.finalize())
}

/// A client's answer to a salt, from the stored form.
pub fn response(stored: &str, salt: [u8; 4]) -> String {
    let mut digest = Md5::new();
    digest.update(stored.strip_prefix("md5").unwrap_or(stored).as_bytes());
    digest.update(salt);
    hex(&digest.finalize())
}

/// Whether a stored password is an MD5 one.
pub fn is_stored(password: &str) -> bool {
    password.len() == 35 && password.strip_prefix("md5").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::from("md5");
    for byte in digest {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
