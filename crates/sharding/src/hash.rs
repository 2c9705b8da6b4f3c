//! PostgreSQL's hash of a partition key: Bob Jenkins' lookup3 with a seed of 64 bits (`hash_bytes_extended` of
//! src/common/hashfn.c), combined as `compute_partition_hash_value` does. `satisfies_hash_partition` is its oracle.

/// The seed of hash partitioning, `HASH_PARTITION_SEED` of catalog/partition.h.
const SEED: u64 = 0x7A5B_2236_7996_DCFD;

fn mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    for (by_first, by_second, by_third) in [(4, 6, 8), (16, 19, 4)] {
        *a = a.wrapping_sub(*c) ^ c.rotate_left(by_first);
        *c = c.wrapping_add(*b);
        *b = b.wrapping_sub(*a) ^ a.rotate_left(by_second);
        *a = a.wrapping_add(*c);
        *c = c.wrapping_sub(*b) ^ b.rotate_left(by_third);
        *b = b.wrapping_add(*a);
    }
}

fn finish(mut a: u32, mut b: u32, mut c: u32) -> u64 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    u64::from(b) << 32 | u64::from(c)
}

/// The start of a hash of this many bytes.
fn start(length: u32) -> (u32, u32, u32) {
    let start = 0x9e37_79b9_u32.wrapping_add(length).wrapping_add(3_923_095);
    let (mut a, mut b, mut c) = (start.wrapping_add((SEED >> 32) as u32), start.wrapping_add(SEED as u32), start);
    mix(&mut a, &mut b, &mut c);
    (a, b, c)
}

/// The hash of an integer of any width: equal numbers have equal hashes, as `hashint8extended` sees to.
pub fn integer(value: i64) -> u64 {
    let (low, high) = (value as u32, (value >> 32) as u32);
    let (a, b, c) = start(4);
    finish(a.wrapping_add(low ^ if value >= 0 { high } else { !high }), b, c)
}

/// The hash of the bytes of a text or a UUID.
pub fn bytes(value: &[u8]) -> u64 {
    let (mut a, mut b, mut c) = start(value.len() as u32);
    let mut chunks = value.chunks_exact(12);
    for chunk in &mut chunks {
        let [first, second, third] = words(chunk);
        (a, b, c) = (a.wrapping_add(first), b.wrapping_add(second), c.wrapping_add(third));
        mix(&mut a, &mut b, &mut c);
    }
    let [first, second, third] = words(chunks.remainder());
    // The lowest byte of the third word is kept for the length.
    finish(a.wrapping_add(first), b.wrapping_add(second), c.wrapping_add(third << 8))
}

/// Up to twelve bytes as three words, the lowest byte first.
fn words(chunk: &[u8]) -> [u32; 3] {
    let mut words = [0; 3];
    for (place, &byte) in chunk.iter().enumerate() {
        if let Some(word) = words.get_mut(place / 4) {
            *word |= u32::from(byte) << (8 * (place % 4));
        }
    }
    words
}

/// The slot of a key with this hash: the remainder of its partition, `hash_combine64(0, hash) % modulus`.
pub fn slot(hash: u64, modulus: u64) -> u64 {
    hash.wrapping_add(0x49a0_f4dd_15e5_a8e3).checked_rem(modulus).unwrap_or(0)
}

/// How the number of a row's slot follows from its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Function {
    /// As PostgreSQL chooses a partition by hash.
    #[default]
    Postgres,
    /// PgCat's `sha1`, of integers alone: the last 32 bits of the SHA-1 of the decimal digits.
    Sha1,
}

impl Function {
    /// The hash of an integer.
    pub fn integer(self, value: i64) -> u64 {
        match self {
            Self::Postgres => integer(value),
            Self::Sha1 => {
                let digest =
                    ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, value.to_string().as_bytes());
                digest.as_ref().last_chunk().map_or(0, |last| u32::from_be_bytes(*last).into())
            }
        }
    }

    /// The slot of a key with this hash.
    pub fn slot(self, hash: u64, modulus: u64) -> u64 {
        match self {
            Self::Postgres => slot(hash, modulus),
            Self::Sha1 => hash.checked_rem(modulus).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha1_is_the_last_eight_digits_of_the_digest() {
        // As Python's hashlib has them.
        let known = [(0, 0x94e8_410c), (1, 0x3954_28ab), (-7, 0x61da_3581), (1 << 62, 0xf3b3_6146)];
        for (key, hash) in known {
            assert_eq!(Function::Sha1.integer(key), hash, "{key}");
        }
        let twelve: Vec<u64> = (0..20).map(|key| Function::Sha1.slot(Function::Sha1.integer(key), 12)).collect();
        assert_eq!(twelve, [4, 7, 8, 3, 6, 0, 0, 10, 3, 11, 1, 7, 4, 4, 11, 2, 5, 0, 8, 3]);
    }
}
