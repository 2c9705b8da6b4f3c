//! `numeric`: base-10000 digits, a weight, a sign and a scale, as `decimal.Decimal`, exactly.
//!
//! Reading forms the decimal's text and has the C implementation parse it by a context of unbounded precision, which
//! is the shortest public way into a `Decimal`. Writing goes the same way back: `str()` of a decimal gives its digits
//! and its exponent in one call, where `as_tuple` makes an object for each digit.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyFloat;

use super::Context;
use super::fit::{self, Manner};
use super::python::{self, Done, OrRaise, Raised, Value, protocol_error, value_error};
use super::reader::Reader;
use super::text;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;
/// The most digits after the point that the server takes.
const MAX_SCALE: i64 = 0x3FFF;

/// The text form, as of money's and of text-only columns.
pub fn decode_text<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let value = text::decode(cx, data)?;
    python::call_one(cx.imports.decimal.bind(cx.py).as_any(), &value)
}

/// Appends `str()` of the value.
pub fn encode_text(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let value = value.str().or_raise(cx.py)?;
    text::encode(cx, value.as_any(), out)
}

/// A `Decimal` with the digits and the exponent that the server means.
pub fn decode<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let [c0, c1, w0, w1, s0, s1, d0, d1] = reader.array::<8>(py)?;
    let count = usize::from(u16::from_be_bytes([c0, c1]));
    let weight = i64::from(i16::from_be_bytes([w0, w1]));
    let sign = u16::from_be_bytes([s0, s1]);
    let scale = i64::from(u16::from_be_bytes([d0, d1]));
    let special = match sign {
        0 | NEGATIVE => None,
        NAN => Some(&cx.imports.decimal_nan),
        INFINITY => Some(&cx.imports.decimal_infinity),
        MINUS_INFINITY => Some(&cx.imports.decimal_minus_infinity),
        _ => return Err(protocol_error(py, format!("unexpected sign of a numeric value: {sign:#06x}"))),
    };
    if let Some(special) = special {
        reader.rest();
        return Ok(special.bind(py).clone());
    }
    let digits = reader.take(py, count * 2)?;
    reader.end(py)?;

    // The zeros that the server has left out, between the last of its digits and the point.
    let zeros = ((weight + 1) * 4).max(0) as usize;
    let mut buffer = Buffer::new(digits.len() * 2 + zeros + scale as usize + 32);
    let written = write_digits(&mut buffer, digits, weight, sign == NEGATIVE, scale, cx.as_psycopg);
    if !written {
        return Err(protocol_error(py, "unexpected digit in a numeric value"));
    }
    let ascii = buffer.bytes();
    // SAFETY: the buffer holds nothing but ASCII, as many bytes as are copied.
    let value = unsafe {
        let object = ffi::PyUnicode_New(ascii.len() as ffi::Py_ssize_t, 127);
        if !object.is_null() {
            std::ptr::copy_nonoverlapping(ascii.as_ptr(), ffi::PyUnicode_DATA(object).cast::<u8>(), ascii.len());
        }
        python::own(py, object)?
    };
    python::call_one(cx.imports.create_decimal.bind(py), &value)
}

/// Writes `-digits.digits` or, where the point is outside the digits, `-digitsE+n`. False when a digit is none.
///
/// The exponent is minus the scale where there is one; without a scale the zeros that the server left out are left
/// out here too, so that 1000000 has an exponent of 4: asyncpg's reading, and equal to any other. With `whole` they are
/// written, as psycopg reads it.
fn write_digits(buffer: &mut Buffer, groups: &[u8], weight: i64, negative: bool, scale: i64, whole: bool) -> bool {
    if negative {
        buffer.push(b'-');
    }
    let start = buffer.len();
    if !push_groups(buffer, groups) {
        return false;
    }
    let behind = if groups.is_empty() {
        buffer.push(b'0');
        scale
    } else {
        let behind = (groups.len() as i64 / 2 - weight - 1) * 4;
        if scale > 0 || whole { cut_to_scale(buffer, start, behind, scale) } else { behind }
    };
    let size = (buffer.len() - start) as i64;
    match behind {
        0 => (),
        1.. if behind <= size => buffer.insert_point(behind as usize),
        _ => push_exponent(buffer, -behind),
    }
    true
}

/// Appends the digits of groups of four, without the zeros in front. False when a group is none.
#[inline]
fn push_groups(buffer: &mut Buffer, groups: &[u8]) -> bool {
    for (place, group) in groups.chunks_exact(2).enumerate() {
        let [high, low] = group else { return false };
        let number = u16::from_be_bytes([*high, *low]);
        if number > 9999 {
            return false;
        }
        let ascii = [
            b'0' + (number / 1000) as u8,
            b'0' + (number / 100 % 10) as u8,
            b'0' + (number / 10 % 10) as u8,
            b'0' + (number % 10) as u8,
        ];
        let zeros = match number {
            _ if place > 0 => 0,
            1000.. => 0,
            100.. => 1,
            10.. => 2,
            _ => 3,
        };
        buffer.extend(ascii.get(zeros..).unwrap_or_default());
    }
    true
}

/// Has the digits from `start` on, the last of which stands `behind` the point, end at the scale; where the last stands
/// then.
#[inline]
fn cut_to_scale(buffer: &mut Buffer, start: usize, mut behind: i64, scale: i64) -> i64 {
    while behind < scale {
        buffer.push(b'0');
        behind += 1;
    }
    while behind > scale && buffer.len() > start {
        buffer.pop();
        behind -= 1;
    }
    if buffer.len() == start {
        buffer.push(b'0');
        behind = scale;
    }
    behind
}

/// Appends `E+n` or `E-n`.
fn push_exponent(buffer: &mut Buffer, exponent: i64) {
    buffer.extend(if exponent < 0 { b"E-" } else { b"E+" });
    let mut number = [0_u8; 20];
    let mut at = number.len();
    let mut rest = exponent.unsigned_abs();
    while rest > 0 {
        at -= 1;
        if let Some(place) = number.get_mut(at) {
            *place = b'0' + (rest % 10) as u8;
        }
        rest /= 10;
    }
    buffer.extend(number.get(at..).unwrap_or_default());
}

/// Text on the stack, or on the heap when it is long.
struct Buffer {
    short: [u8; 96],
    used: usize,
    long: Option<Vec<u8>>,
}

impl Buffer {
    fn new(room: usize) -> Self {
        Buffer { short: [0; 96], used: 0, long: (room > 96).then(|| Vec::with_capacity(room)) }
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.extend(&[byte]);
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        match &mut self.long {
            Some(long) => long.extend_from_slice(bytes),
            None => {
                if let Some(place) = self.short.get_mut(self.used..self.used + bytes.len()) {
                    place.copy_from_slice(bytes);
                    self.used += bytes.len();
                }
            }
        }
    }

    fn pop(&mut self) {
        match &mut self.long {
            Some(long) => {
                long.pop();
            }
            None => self.used = self.used.saturating_sub(1),
        }
    }

    fn len(&self) -> usize {
        self.long.as_ref().map_or(self.used, Vec::len)
    }

    fn insert_point(&mut self, behind: usize) {
        self.push(b'.');
        let bytes = match &mut self.long {
            Some(long) => long.as_mut_slice(),
            None => self.short.get_mut(..self.used).unwrap_or_default(),
        };
        let at = bytes.len().saturating_sub(behind + 1);
        if let Some(tail) = bytes.get_mut(at..) {
            tail.rotate_right(1);
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.long {
            Some(long) => long,
            None => self.short.get(..self.used).unwrap_or_default(),
        }
    }
}

/// Appends a decimal, or whatever `Decimal()` makes one of.
pub fn encode(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let class = cx.imports.decimal.bind(py);
    if value.is_instance(class.as_any()).or_raise(py)? {
        return encode_decimal(cx, value, out);
    }
    // SAFETY: a check of a live object's type.
    if cx.manner == Manner::Typed && unsafe { ffi::PyIndex_Check(value.as_ptr()) } == 0 {
        return Err(fit::misfit(py, "numeric", value));
    }
    if cx.manner == Manner::Exact
        && let Ok(float) = value.cast::<PyFloat>()
    {
        // Its shortest digits, as Python and PostgreSQL print it; not all those of the nearest binary fraction.
        let printed = format!("{:?}", float.value());
        let printed = printed.strip_suffix(".0").unwrap_or(&printed);
        return encode_printed(printed.as_bytes(), out).map_err(|refusal| refused(py, refusal.why()));
    }
    let converted = python::call_one(class.as_any(), value)?;
    encode_decimal(cx, &converted, out)
}

fn encode_decimal(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    // Not `str(value)`: a subclass may write itself otherwise.
    let printed = python::call_one(cx.imports.decimal_str.bind(py), value)?;
    let printed = printed.cast::<pyo3::types::PyString>().map_err(PyErr::from).or_raise(py)?;
    let printed = python::as_utf8(py, printed)?;
    encode_printed(printed, out).map_err(|refusal| refused(py, refusal.why()))
}

#[cold]
fn refused(py: Python<'_>, why: &str) -> Raised {
    value_error(py, format!("cannot encode Decimal value into numeric: {why}"))
}

/// Why a decimal cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    ExponentSmall,
    ExponentLarge,
    Digits,
    Unknown,
}

impl Refusal {
    fn why(self) -> &'static str {
        match self {
            Refusal::ExponentSmall => "exponent is too small",
            Refusal::ExponentLarge => "exponent is too large",
            Refusal::Digits => "number of digits is too large",
            Refusal::Unknown => "unknown notation",
        }
    }
}

/// Appends the wire form of what `Decimal.__str__` printed.
fn encode_printed(printed: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let (negative, body) = match printed.split_first() {
        Some((b'-', body)) => (true, body),
        Some((b'+', body)) => (false, body),
        _ => (false, printed),
    };
    let special = match body.first() {
        Some(b'N' | b'n' | b's' | b'S') => Some(NAN),
        Some(b'I' | b'i') if negative => Some(MINUS_INFINITY),
        Some(b'I' | b'i') => Some(INFINITY),
        _ => None,
    };
    if let Some(sign) = special {
        put(out, 0, 0, sign, 0);
        return Ok(());
    }

    let Printed { digits, exponent } = Printed::read(body)?;
    if exponent < -MAX_SCALE {
        return Err(Refusal::ExponentSmall);
    }
    let leading = digits.len() as i64 + exponent - 1;
    let weight = leading.div_euclid(4);
    // PostgreSQL's weight is signed: a larger one would be that of a small number.
    if weight > i64::from(i16::MAX) {
        return Err(Refusal::ExponentLarge);
    }
    let padding = ((weight + 1) * 4 - (leading + 1)) as usize;
    let count = (digits.len() + padding).div_ceil(4);
    if count > usize::from(u16::MAX) {
        return Err(Refusal::Digits);
    }
    let sign = if negative { NEGATIVE } else { 0 };
    put(out, count as u16, weight as i16, sign, exponent.min(0).unsigned_abs() as u16);
    put_groups(out, &digits, padding);
    Ok(())
}

/// A number as it was printed: its digits as an integer, times ten to the exponent.
struct Printed {
    digits: Vec<u8>,
    exponent: i64,
}

impl Printed {
    #[inline]
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        let mut digits = Vec::with_capacity(body.len());
        let mut exponent = 0_i64;
        let mut seen_point = false;
        let mut rest = body.iter();
        while let Some(&byte) = rest.next() {
            match byte {
                b'0'..=b'9' => {
                    if !(digits.is_empty() && byte == b'0') {
                        digits.push(byte - b'0');
                    }
                    exponent -= i64::from(seen_point);
                }
                b'.' => seen_point = true,
                b'E' | b'e' => {
                    let shift = std::str::from_utf8(rest.as_slice()).ok().and_then(|shift| shift.parse::<i64>().ok());
                    exponent = exponent.checked_add(shift.ok_or(Refusal::Unknown)?).ok_or(Refusal::Unknown)?;
                    break;
                }
                _ => return Err(Refusal::Unknown),
            }
        }
        if digits.is_empty() {
            digits.push(0);
        }
        Ok(Printed { digits, exponent })
    }
}

/// Appends digits in groups of four; the first group begins with `padding` zeros.
#[inline]
fn put_groups(out: &mut Vec<u8>, digits: &[u8], padding: usize) {
    let mut group = 0_u16;
    let mut filled = padding;
    for digit in digits {
        group = group * 10 + u16::from(*digit);
        filled += 1;
        if filled == 4 {
            out.extend_from_slice(&group.to_be_bytes());
            (group, filled) = (0, 0);
        }
    }
    if filled > 0 {
        for _ in filled..4 {
            group *= 10;
        }
        out.extend_from_slice(&group.to_be_bytes());
    }
}

fn put(out: &mut Vec<u8>, count: u16, weight: i16, sign: u16, scale: u16) {
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&scale.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(groups: &[u16], weight: i64, negative: bool, scale: i64) -> String {
        let bytes: Vec<u8> = groups.iter().flat_map(|group| group.to_be_bytes()).collect();
        let mut buffer = Buffer::new(bytes.len() * 2 + scale as usize + 32);
        assert!(write_digits(&mut buffer, &bytes, weight, negative, scale, false));
        String::from_utf8(buffer.bytes().to_vec()).unwrap()
    }

    #[test]
    fn digits_are_printed_with_the_servers_scale() {
        for (groups, weight, negative, scale, expected) in [
            (&[1, 2345, 6789][..], 1, false, 4, "12345.6789"),
            (&[1][..], -1, false, 4, "0.0001".trim_start_matches("0.")),
            (&[1000][..], 0, true, 2, "-1000.00"),
            (&[100][..], 1, false, 0, "100E+4"),
            (&[][..], 0, false, 3, ""),
            (&[12, 3400][..], 0, false, 2, "12.34"),
            (&[5][..], -10, false, 40, "5E-40"),
        ] {
            let got = printed(groups, weight, negative, scale);
            match expected {
                "0001" => assert_eq!(got, "1E-4"),
                "" => assert_eq!(got, "0E-3"),
                expected => assert_eq!(got, expected),
            }
        }
    }

    #[test]
    fn a_long_number_leaves_the_stack() {
        let groups = vec![9999_u16; 100];
        assert_eq!(printed(&groups, 99, false, 0), "9".repeat(400));
    }

    #[test]
    fn printed_decimals_become_base_ten_thousand() {
        for (text, expected) in [
            ("0", &[1_u16, 0, 0, 0, 0][..]),
            ("12345.6789", &[3, 1, 0, 4, 1, 2345, 6789]),
            ("-0.0001", &[1, 0xffff, NEGATIVE, 4, 1]),
            ("1E+4", &[1, 1, 0, 0, 1]),
            ("NaN", &[0, 0, NAN, 0]),
            ("-Infinity", &[0, 0, MINUS_INFINITY, 0]),
            ("100", &[1, 0, 0, 0, 100]),
            ("0.00", &[1, 0xffff, 0, 2, 0]),
        ] {
            let mut out = Vec::new();
            encode_printed(text.as_bytes(), &mut out).unwrap();
            let words: Vec<u16> = out.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            assert_eq!(words, expected, "{text}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let mut out = Vec::new();
        assert_eq!(encode_printed(b"1E-20000", &mut out), Err(Refusal::ExponentSmall));
        assert_eq!(encode_printed(b"1E+1000000", &mut out), Err(Refusal::ExponentLarge));
        assert_eq!(encode_printed(&[b'1'; 300_000], &mut out), Err(Refusal::ExponentLarge));
        assert_eq!(encode_printed(b"1E+131072", &mut out), Err(Refusal::ExponentLarge));
        assert_eq!(encode_printed(b"1E+131071", &mut out), Ok(()));
    }
}
