//! The 64-bit checksum of an image: against rot and truncation, not against an attacker.
//!
//! Eight lanes, each `h = rotate((h ^ word) * odd)`, so that eight multiplications are under way at once. Every step
//! is a bijection of `h` for a fixed word and of the word for a fixed `h`, and so is the folding of the lanes: a change
//! confined to one word, one flipped byte among them, always changes the sum.

const LANES: usize = 8;
const WORD: usize = 8;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline(always)]
fn step(h: u64, word: u64) -> u64 {
    (h ^ word).wrapping_mul(MULTIPLIER).rotate_left(29)
}

/// The checksum of `bytes`, length included.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut lanes = [0u64; LANES];
    for (i, lane) in lanes.iter_mut().enumerate() {
        *lane = step(bytes.len() as u64, i as u64);
    }
    let (words, rest) = bytes.as_chunks::<WORD>();
    let (blocks, words) = words.as_chunks::<LANES>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }
    for (lane, word) in lanes.iter_mut().zip(words) {
        *lane = step(*lane, u64::from_le_bytes(*word));
    }
    let mut last = [0; WORD];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    let mut sum = u64::from_le_bytes(last);
    for lane in lanes {
        sum = step(sum, lane);
    }
    sum ^ (sum >> 32)
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn every_flipped_bit_and_every_length_changes_the_sum() {
        let bytes: Vec<u8> = (0..300u32).map(|i| (i * 7) as u8).collect();
        let mut seen = std::collections::HashSet::new();
        for length in 0..bytes.len() {
            assert!(seen.insert(checksum(&bytes[..length])), "length {length}");
        }
        let sum = checksum(&bytes);
        for i in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[i / 8] ^= 1 << (i % 8);
            assert_ne!(checksum(&flipped), sum, "bit {i}");
        }
    }

    #[test]
    fn zeros_of_different_lengths_differ() {
        assert_ne!(checksum(&[0; 64]), checksum(&[0; 128]));
        assert_ne!(checksum(&[0; 3]), checksum(&[0; 4]));
    }
}
