//! Hashes that stand for what they are made of. The key is the process's own, so that nobody outside can look for two
//! things of one hash (SipHash-2-4 with 128 bits); all workers have the same, another process has another.

use std::hash::Hasher as _;
use std::sync::OnceLock;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The hash of parts, of which only the last may be of any length.
pub fn digest(parts: &[&[u8]]) -> u128 {
    static KEY: OnceLock<[u8; 16]> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = [0; 16];
        // Without random bytes nobody can log in either: then the key need not be a secret.
        let _ = getrandom::fill(&mut key);
        key
    });
    let mut hasher = SipHasher24::new_with_key(key);
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish128().as_u128()
}
