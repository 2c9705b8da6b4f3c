//! Hashes that stand for their contents (SipHash-2-4 with 128 bits). Each process has a key of its own, which all its
//! workers share, so that no client can search for two contents with the same hash.

use std::hash::Hasher as _;
use std::sync::OnceLock;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The hash of parts, of which only the last may be of any length.
pub fn digest(parts: &[&[u8]]) -> u128 {
    static KEY: OnceLock<[u8; 16]> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = [0; 16];
        // Without random bytes no client can log in either: then the key need not be a secret.
        let _ = getrandom::fill(&mut key);
        key
    });
    let mut hasher = SipHasher24::new_with_key(key);
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish128().as_u128()
}
