//! `numeric` without Python: as an integer of a fixed scale where the column has one, and as text otherwise.

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

/// So many zeros are written out; past them the exponent is, so that ten bytes cannot become a megabyte.
const ZEROS: usize = 64;

/// What travels: groups of four digits, the first of weight 10000^weight.
struct Parts<'a> {
    groups: &'a [u8],
    weight: i64,
    sign: u16,
    scale: usize,
}

impl<'a> Parts<'a> {
    fn new(data: &'a [u8]) -> Result<Self, Error> {
        let Some(([c0, c1, w0, w1, s0, s1, d0, d1], groups)) = data.split_first_chunk::<8>() else {
            return Err(Error::Malformed);
        };
        let count = usize::from(u16::from_be_bytes([*c0, *c1]));
        let parts = Parts {
            groups,
            weight: i16::from_be_bytes([*w0, *w1]).into(),
            sign: u16::from_be_bytes([*s0, *s1]),
            scale: u16::from_be_bytes([*d0, *d1]).into(),
        };
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
    let mut sum = 0_i128;
    for group in parts.digits() {
        sum = sum.checked_mul(10_000).and_then(|sum| sum.checked_add(group.into())).ok_or(Error::TooLong)?;
    }
    let count = (parts.groups.len() / 2) as i64;
    let shift = (parts.weight + 1 - count) * 4 + i64::from(scale);
    let power = |exponent: i64| u32::try_from(exponent).ok().and_then(|exponent| 10_i128.checked_pow(exponent));
    let value = if sum == 0 {
        0
    } else if shift >= 0 {
        power(shift).and_then(|power| sum.checked_mul(power)).ok_or(Error::TooLong)?
    } else {
        // The last group may hold zeros past the scale, never digits.
        let power = power(-shift).ok_or(Error::TooLong)?;
        if sum % power != 0 {
            return Err(Error::TooLong);
        }
        sum / power
    };
    if power(precision.into()).is_some_and(|limit| value >= limit) {
        return Err(Error::TooLong);
    }
    Ok(if parts.sign == NEGATIVE { -value } else { value })
}

/// Appends the value as PostgreSQL prints it, or with an exponent where that would be mostly zeros.
///
/// # Errors
/// When the bytes are no numeric.
pub fn print(data: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let parts = Parts::new(data)?;
    match parts.sign {
        0 | NEGATIVE => {}
        0xC000 => {
            out.extend_from_slice(b"NaN");
            return Ok(());
        }
        0xD000 => {
            out.extend_from_slice(b"Infinity");
            return Ok(());
        }
        0xF000 => {
            out.extend_from_slice(b"-Infinity");
            return Ok(());
        }
        _ => return Err(Error::Malformed),
    }
    let mut digits = Vec::with_capacity(parts.groups.len() * 2);
    for group in parts.digits() {
        digits.extend([group / 1000, group / 100 % 10, group / 10 % 10, group % 10].map(|digit| b'0' + digit as u8));
    }
    if parts.sign == NEGATIVE {
        out.push(b'-');
    }
    // How many of the digits stand before the point; below zero, how many zeros stand behind it first.
    let before = (parts.weight + 1) * 4;
    let size = digits.len() as i64;
    if before - size > ZEROS as i64 || before < -(ZEROS as i64) || parts.scale > digits.len() + ZEROS {
        let first = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
        let kept = digits.get(first..).unwrap_or_default();
        if kept.is_empty() {
            out.extend_from_slice(format!("0E-{}", parts.scale).as_bytes());
        } else {
            out.extend_from_slice(kept);
            out.extend_from_slice(format!("E{:+}", before - size).as_bytes());
        }
        return Ok(());
    }
    let digit = |place: i64| usize::try_from(place).ok().and_then(|place| digits.get(place)).copied().unwrap_or(b'0');
    let mut started = false;
    for place in 0..before {
        let digit = digit(place);
        started |= digit != b'0';
        if started {
            out.push(digit);
        }
    }
    if !started {
        out.push(b'0');
    }
    if parts.scale > 0 {
        out.push(b'.');
        out.extend((before..before + parts.scale as i64).map(digit));
    }
    Ok(())
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

    fn printed(data: &[u8]) -> String {
        let mut out = Vec::new();
        print(data, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_printed_as_the_server_prints_them() {
        for (data, expected) in [
            (wire(&[1, 2345, 6789], 1, 0, 4), "12345.6789"),
            (wire(&[100], 1, NEGATIVE, 0), "-1000000"),
            (wire(&[], 0, 0, 3), "0.000"),
            (wire(&[], 0, 0, 0), "0"),
            (wire(&[12, 3400], 0, 0, 2), "12.34"),
            (wire(&[5], -2, 0, 8), "0.00000005"),
            (wire(&[5], -2, 0, 10), "0.0000000500"),
            (wire(&[1], 3000, 0, 0), "1E+12000"),
            (wire(&[7], -3000, 0, 12000), "7E-12000"),
            (wire(&[], 0, 0, 9000), "0E-9000"),
            (wire(&[], 0, 0xC000, 0), "NaN"),
            (wire(&[], 0, 0xF000, 0), "-Infinity"),
        ] {
            assert_eq!(printed(&data), expected);
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
