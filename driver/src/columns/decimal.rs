//! `numeric` without Python: as an integer of its column's scale.

/// Why a value has no place in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are no numeric.
    #[error("malformed numeric value")]
    Malformed,
    /// NaN or an infinity, which Arrow's decimals do not have.
    #[error("NaN and infinity have no place in a column of decimals: cast the column to float8 or text")]
    Special,
    /// More digits than were announced.
    #[error("numeric value does not fit its column's precision")]
    TooLong,
}

const NEGATIVE: u16 = 0x4000;

/// What travels: groups of four digits, the first of weight 10000^weight.
struct Parts<'a> {
    groups: &'a [u8],
    weight: i64,
    sign: u16,
}

impl<'a> Parts<'a> {
    fn new(data: &'a [u8]) -> Result<Self, Error> {
        let Some(([c0, c1, w0, w1, s0, s1, _, _], groups)) = data.split_first_chunk::<8>() else {
            return Err(Error::Malformed);
        };
        let count = usize::from(u16::from_be_bytes([*c0, *c1]));
        let parts =
            Parts { groups, weight: i16::from_be_bytes([*w0, *w1]).into(), sign: u16::from_be_bytes([*s0, *s1]) };
        let digits = parts.digits().all(|group| group <= 9999);
        if groups.len() == count * 2 && digits { Ok(parts) } else { Err(Error::Malformed) }
    }

    fn digits(&self) -> impl Iterator<Item = u16> + '_ {
        self.groups.chunks_exact(2).map(|pair| match pair {
            [high, low] => u16::from_be_bytes([*high, *low]),
            _ => 0,
        })
    }
}

/// The value times 10^scale.
///
/// # Errors
/// When the bytes are no numeric, or the value is no number, or needs more than `precision` digits or another scale.
pub fn scaled(data: &[u8], precision: u8, scale: u8) -> Result<i128, Error> {
    let parts = Parts::new(data)?;
    if parts.sign != 0 && parts.sign != NEGATIVE {
        return Err(Error::Special);
    }
    let power = |exponent: i64| u32::try_from(exponent).ok().and_then(|exponent| 10_i128.checked_pow(exponent));
    // How many digits behind the integer's last one the group at hand ends; less than none, in front of it.
    let mut behind = -(parts.weight * 4 + i64::from(scale));
    let mut value = 0_i128;
    for group in parts.digits() {
        // Behind the scale the last group may hold zeros, never digits.
        let (kept, rest) = match behind {
            ..=0 => (4, 1),
            1..4 => (4 - behind, power(behind).ok_or(Error::TooLong)?),
            _ => (0, 10_000),
        };
        if i128::from(group) % rest != 0 {
            return Err(Error::TooLong);
        }
        value = power(kept)
            .and_then(|power| value.checked_mul(power))
            .and_then(|value| value.checked_add(i128::from(group) / rest))
            .ok_or(Error::TooLong)?;
        behind += 4;
    }
    // Groups of nothing but zeros at the end do not travel.
    let missing = 4 - behind;
    if value != 0 && missing > 0 {
        value = power(missing).and_then(|power| value.checked_mul(power)).ok_or(Error::TooLong)?;
    }
    if power(precision.into()).is_some_and(|limit| value >= limit) {
        return Err(Error::TooLong);
    }
    Ok(if parts.sign == NEGATIVE { -value } else { value })
}

/// A numeric in its wire form: `value` divided by 10^scale.
pub fn unscaled(value: i128, scale: i32) -> Vec<u8> {
    let mut digits = value.unsigned_abs().to_string();
    if value != 0 {
        digits.extend(std::iter::repeat_n('0', usize::try_from(-scale).unwrap_or(0)));
    }
    let scale = usize::try_from(scale).unwrap_or(0);
    // Zeros in front, so that there is a whole part, in whole groups; and behind, up to the end of a group.
    let whole = digits.len().saturating_sub(scale).max(1).next_multiple_of(4);
    let mut text = "0".repeat((whole + scale).saturating_sub(digits.len()));
    text.push_str(&digits);
    text.extend(std::iter::repeat_n('0', scale.next_multiple_of(4) - scale));
    let groups: Vec<u16> = text
        .as_bytes()
        .chunks(4)
        .map(|group| group.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
        .collect();
    let first = groups.iter().position(|group| *group != 0).unwrap_or(groups.len());
    let end = groups.iter().rposition(|group| *group != 0).map_or(first, |last| last + 1);
    let kept = groups.get(first..end).unwrap_or_default();
    let weight = if kept.is_empty() { 0 } else { (whole / 4) as i64 - 1 - first as i64 };
    let sign = if value < 0 { NEGATIVE } else { 0 };
    let head = [kept.len() as u16, weight as u16, sign, scale as u16];
    head.iter().chain(kept).flat_map(|word| word.to_be_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(groups: &[u16], weight: i16, sign: u16, scale: u16) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [groups.len() as u16, weight as u16, sign, scale].iter().chain(groups) {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out
    }

    #[test]
    fn integers_of_a_scale_become_numbers() {
        assert_eq!(unscaled(123_456_789, 4), wire(&[1, 2345, 6789], 1, 0, 4));
        assert_eq!(unscaled(-1_234_567, 2), wire(&[1, 2345, 6700], 1, NEGATIVE, 2));
        assert_eq!(unscaled(0, 2), wire(&[], 0, 0, 2));
        assert_eq!(unscaled(5, 6), wire(&[500], -2, 0, 6));
        assert_eq!(unscaled(70_000, 0), wire(&[7], 1, 0, 0));
        assert_eq!(unscaled(7, -4), wire(&[7], 1, 0, 0));
        for value in [1, -1, 9999, 10_000, 12_345_678_901_234_567_890, 10_i128.pow(38) - 1, 1 - 10_i128.pow(38)] {
            for scale in 0..=38 {
                assert_eq!(scaled(&unscaled(value, scale), 38, scale as u8), Ok(value), "{value} {scale}");
            }
        }
    }

    #[test]
    fn numbers_of_a_scale_become_integers() {
        assert_eq!(scaled(&wire(&[1, 2345, 6789], 1, 0, 4), 10, 4), Ok(123_456_789));
        assert_eq!(scaled(&wire(&[1, 2345, 6700], 1, NEGATIVE, 2), 10, 2), Ok(-1_234_567));
        assert_eq!(scaled(&wire(&[], 0, 0, 2), 10, 2), Ok(0));
        assert_eq!(scaled(&wire(&[9999], 0, 0, 0), 4, 0), Ok(9999));
        assert_eq!(scaled(&wire(&[1], 1, 0, 0), 4, 0), Err(Error::TooLong));
        assert_eq!(scaled(&wire(&[1, 2345, 6789], 1, 0, 4), 10, 2), Err(Error::TooLong));
        assert_eq!(scaled(&wire(&[1], 3000, 0, 0), 38, 0), Err(Error::TooLong));
        assert_eq!(scaled(&wire(&[], 0, 0xC000, 0), 38, 0), Err(Error::Special));
        assert_eq!(scaled(&wire(&[10_000], 0, 0, 0), 38, 0), Err(Error::Malformed));
        assert_eq!(scaled(b"\0\x05", 38, 0), Err(Error::Malformed));
    }
}
