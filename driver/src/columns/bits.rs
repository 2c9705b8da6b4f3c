//! Bits packed as Arrow packs them: eight in a byte, the first one the least significant.

/// A growing row of bits.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    /// A bitmap of ones.
    pub fn ones(len: usize) -> Self {
        let mut bytes = vec![0xff; len.div_ceil(8)];
        if let (Some(last), rest) = (bytes.last_mut(), len % 8)
            && rest > 0
        {
            *last = (1 << rest) - 1;
        }
        Bits { bytes, len }
    }

    /// Appends a bit.
    #[inline]
    pub fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(bit.into());
        } else if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.len % 8);
        }
        self.len += 1;
    }

    /// The bit at a place; places beyond the end have none.
    pub fn get(&self, place: usize) -> bool {
        place < self.len && self.bytes.get(place / 8).is_some_and(|byte| byte >> (place % 8) & 1 == 1)
    }

    /// How many bits there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes that hold them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Which values are there. No bitmap is made until the first NULL comes.
#[derive(Clone, Debug, Default)]
pub struct Validity {
    bits: Option<Bits>,
    nulls: usize,
}

impl Validity {
    /// Counts a value that is there.
    #[inline]
    pub fn push(&mut self) {
        if let Some(bits) = &mut self.bits {
            bits.push(true);
        }
    }

    /// Counts a NULL after `before` values and NULLs.
    pub fn push_null(&mut self, before: usize) {
        self.bits.get_or_insert_with(|| Bits::ones(before)).push(false);
        self.nulls += 1;
    }

    /// Whether the value at a place is NULL.
    pub fn is_null(&self, place: usize) -> bool {
        self.bits.as_ref().is_some_and(|bits| !bits.get(place))
    }

    /// How many NULLs there are.
    pub fn nulls(&self) -> usize {
        self.nulls
    }

    /// The bitmap, where there are NULLs.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bits.as_ref().map(Bits::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_kept_in_order() {
        let pattern: Vec<bool> = (0..37).map(|place| place % 3 == 0).collect();
        let mut bits = Bits::default();
        pattern.iter().for_each(|bit| bits.push(*bit));
        assert_eq!((0..37).map(|place| bits.get(place)).collect::<Vec<_>>(), pattern);
        assert!(!bits.get(37));
        assert_eq!(bits.bytes().len(), 5);
    }

    #[test]
    fn the_bitmap_begins_with_the_first_null() {
        for before in [0, 1, 7, 8, 9, 64] {
            let mut validity = Validity::default();
            (0..before).for_each(|_| validity.push());
            assert!(validity.bytes().is_none());
            validity.push_null(before);
            validity.push();
            assert_eq!(validity.nulls(), 1);
            assert_eq!((0..before + 2).filter(|place| validity.is_null(*place)).collect::<Vec<_>>(), [before]);
        }
    }
}
