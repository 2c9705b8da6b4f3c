//! Filling columns from rows.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;

use super::Columns;
use crate::codec::{Codec, Format};

/// A batch ends before a column's text grows beyond this, for offsets are 32 bits wide.
const TEXT_LIMIT: usize = 1 << 30;
/// From 1970-01-01, where Arrow counts from, to 2000-01-01, where PostgreSQL does.
const DAYS: i32 = 10_957;
const MICROSECONDS: i64 = 946_684_800_000_000;

/// How a column is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bits.
    Bool,
    /// Integers and floating-point numbers: width in bytes, Arrow's format, NumPy's.
    Fixed(usize, &'static str, &'static str),
    /// Days since 1970.
    Date,
    /// Microseconds since 1970, with or without a zone.
    Timestamp(&'static str),
    /// 16 bytes.
    Uuid,
    /// Text as the server writes it, of so many bytes in front that are not text.
    Text(usize),
    /// Bytes.
    Binary,
    /// Text, each different one once.
    Dictionary(usize),
}

impl Kind {
    /// How values of a type are kept, and in which format they are asked for.
    fn of(codec: &Codec, dictionary: bool) -> (Kind, Format) {
        let text = |front| if dictionary { Kind::Dictionary(front) } else { Kind::Text(front) };
        match codec.oid() {
            16 => (Kind::Bool, Format::Binary),
            21 => (Kind::Fixed(2, "s", "<i2"), Format::Binary),
            23 => (Kind::Fixed(4, "i", "<i4"), Format::Binary),
            20 => (Kind::Fixed(8, "l", "<i8"), Format::Binary),
            26 => (Kind::Fixed(4, "I", "<u4"), Format::Binary),
            700 => (Kind::Fixed(4, "f", "<f4"), Format::Binary),
            701 => (Kind::Fixed(8, "g", "<f8"), Format::Binary),
            1082 => (Kind::Date, Format::Binary),
            1114 => (Kind::Timestamp("tsu:"), Format::Binary),
            1184 => (Kind::Timestamp("tsu:UTC"), Format::Binary),
            1083 => (Kind::Fixed(8, "ttu", "<i8"), Format::Binary),
            2950 => (Kind::Uuid, Format::Binary),
            17 => (Kind::Binary, Format::Binary),
            3802 => (text(1), Format::Binary),
            25 | 1043 | 1042 | 19 | 114 => (text(0), Format::Binary),
            _ => (text(0), Format::Text),
        }
    }

    /// NumPy's name of values that it can read in place, and their width.
    pub fn numpy(&self) -> Option<(&'static str, usize)> {
        match self {
            Kind::Fixed(width, _, name) => Some((name, *width)),
            Kind::Date => Some(("<i4", 4)),
            Kind::Timestamp(_) => Some(("<M8[us]", 8)),
            _ => None,
        }
    }
}

/// A column's buffers.
#[derive(Debug, Default)]
pub struct Filled {
    /// How many values.
    pub rows: usize,
    /// How many of them are NULL.
    pub nulls: usize,
    /// A bit for each value that is not NULL; empty when none is.
    pub validity: Vec<u8>,
    /// The values, or the text of all.
    pub values: Vec<u8>,
    /// Where each text begins, and the last ends.
    pub offsets: Vec<i32>,
    /// The different texts of a dictionary.
    pub dictionary: Option<Box<Filled>>,
    seen: HashMap<Box<[u8]>, i32>,
}

/// Columns that are being filled.
#[derive(Debug)]
pub struct Builder {
    kinds: Vec<Kind>,
    formats: Vec<Format>,
    names: Vec<String>,
    columns: Vec<Filled>,
    done: Vec<Arc<Vec<Filled>>>,
}

impl Builder {
    /// Columns of these types; those of text that are named in `dictionary` keep each different text once.
    pub fn new(codecs: &[Arc<Codec>], names: Vec<String>, dictionary: &[String]) -> Self {
        let kinds = codecs.iter().zip(&names).map(|(codec, name)| Kind::of(codec, dictionary.contains(name)));
        let (kinds, formats): (Vec<_>, Vec<_>) = kinds.unzip();
        let mut builder = Self { columns: Vec::new(), kinds, formats, names, done: Vec::new() };
        builder.columns = builder.fresh();
        builder
    }

    fn fresh(&self) -> Vec<Filled> {
        let fresh = |kind: &Kind| match kind {
            Kind::Text(_) | Kind::Binary => Filled { offsets: vec![0], ..Filled::default() },
            Kind::Dictionary(_) => Filled {
                dictionary: Some(Box::new(Filled { offsets: vec![0], ..Filled::default() })),
                ..Filled::default()
            },
            _ => Filled::default(),
        };
        self.kinds.iter().map(fresh).collect()
    }

    /// The formats to ask for, as Bind has them.
    pub fn formats(&self) -> Vec<u8> {
        let mut out = (self.formats.len() as u16).to_be_bytes().to_vec();
        for format in &self.formats {
            out.extend_from_slice(&(*format as i16).to_be_bytes());
        }
        out
    }

    /// Takes a row: the body of a DataRow behind its count. What is wrong with it, if it is not such a row.
    pub fn row(&mut self, mut body: &[u8]) -> Result<(), &'static str> {
        let mut full = false;
        for (kind, column) in self.kinds.iter().zip(&mut self.columns) {
            let (length, rest) = body.split_first_chunk::<4>().ok_or("a row is too short")?;
            body = rest;
            match usize::try_from(i32::from_be_bytes(*length)) {
                Ok(length) => {
                    let (value, rest) = body.split_at_checked(length).ok_or("a value is longer than its row")?;
                    body = rest;
                    column.push(kind, value)?;
                }
                Err(_) => column.push_null(kind),
            }
            full |= column.values.len() > TEXT_LIMIT && !column.offsets.is_empty();
        }
        if full {
            let fresh = self.fresh();
            self.done.push(Arc::new(std::mem::replace(&mut self.columns, fresh)));
        }
        if body.is_empty() { Ok(()) } else { Err("a row has bytes behind its values") }
    }

    /// How many columns.
    pub fn width(&self) -> usize {
        self.kinds.len()
    }

    /// The columns, filled.
    pub fn finish(mut self, py: Python<'_>) -> PyResult<Py<Columns>> {
        self.done.push(Arc::new(self.columns));
        Py::new(py, Columns { names: self.names, batches: self.done, kinds: self.kinds })
    }
}

const WIDTH: &str = "a value has not its type's width";

impl Filled {
    #[inline]
    fn push(&mut self, kind: &Kind, value: &[u8]) -> Result<(), &'static str> {
        match kind {
            Kind::Bool => {
                let [bit] = value else { return Err(WIDTH) };
                set_bit(&mut self.values, self.rows, *bit != 0);
            }
            Kind::Fixed(4, ..) => {
                let value: [u8; 4] = value.try_into().map_err(|_| WIDTH)?;
                self.values.extend_from_slice(&u32::from_be_bytes(value).to_le_bytes());
            }
            Kind::Fixed(8, ..) => {
                let value: [u8; 8] = value.try_into().map_err(|_| WIDTH)?;
                self.values.extend_from_slice(&u64::from_be_bytes(value).to_le_bytes());
            }
            Kind::Fixed(width, ..) => {
                if value.len() != *width {
                    return Err(WIDTH);
                }
                self.values.extend(value.iter().rev());
            }
            Kind::Date => {
                let value: [u8; 4] = value.try_into().map_err(|_| WIDTH)?;
                // The ends of time stay the ends.
                self.values.extend_from_slice(&i32::from_be_bytes(value).saturating_add(DAYS).to_le_bytes());
            }
            Kind::Timestamp(_) => {
                let value: [u8; 8] = value.try_into().map_err(|_| WIDTH)?;
                self.values.extend_from_slice(&i64::from_be_bytes(value).saturating_add(MICROSECONDS).to_le_bytes());
            }
            Kind::Uuid => {
                let value: &[u8; 16] = value.try_into().map_err(|_| WIDTH)?;
                self.values.extend_from_slice(value);
            }
            Kind::Text(front) => {
                let text = value.get(*front..).ok_or(WIDTH)?;
                std::str::from_utf8(text).map_err(|_| "a text is not UTF-8")?;
                self.push_bytes(text)?;
            }
            Kind::Binary => self.push_bytes(value)?,
            Kind::Dictionary(front) => {
                let text = value.get(*front..).ok_or(WIDTH)?;
                let place = match self.seen.get(text) {
                    Some(place) => *place,
                    None => {
                        std::str::from_utf8(text).map_err(|_| "a text is not UTF-8")?;
                        let place = i32::try_from(self.seen.len()).map_err(|_| "too many different texts")?;
                        if let Some(dictionary) = &mut self.dictionary {
                            dictionary.push_bytes(text)?;
                            dictionary.rows += 1;
                        }
                        self.seen.insert(text.into(), place);
                        place
                    }
                };
                self.values.extend_from_slice(&place.to_le_bytes());
            }
        }
        if self.nulls > 0 {
            set_bit(&mut self.validity, self.rows, true);
        }
        self.rows += 1;
        Ok(())
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.values.extend_from_slice(bytes);
        self.offsets.push(i32::try_from(self.values.len()).map_err(|_| "a batch is too long")?);
        Ok(())
    }

    #[cold]
    fn push_null(&mut self, kind: &Kind) {
        if self.nulls == 0 {
            self.validity = vec![0xff; self.rows.div_ceil(8)];
        }
        set_bit(&mut self.validity, self.rows, false);
        self.nulls += 1;
        match kind {
            Kind::Bool => set_bit(&mut self.values, self.rows, false),
            Kind::Fixed(4, "f", _) => self.values.extend_from_slice(&f32::NAN.to_le_bytes()),
            Kind::Fixed(8, "g", _) => self.values.extend_from_slice(&f64::NAN.to_le_bytes()),
            Kind::Fixed(width, ..) => self.values.resize(self.values.len() + width, 0),
            Kind::Date | Kind::Dictionary(_) => self.values.extend_from_slice(&[0; 4]),
            Kind::Timestamp(_) => self.values.extend_from_slice(&[0; 8]),
            Kind::Uuid => self.values.extend_from_slice(&[0; 16]),
            Kind::Text(_) | Kind::Binary => {
                if let Some(&last) = self.offsets.last() {
                    self.offsets.push(last);
                }
            }
        }
        self.rows += 1;
    }
}

/// Sets the bit at a place that is at most one behind the last byte's.
#[inline]
fn set_bit(bits: &mut Vec<u8>, place: usize, on: bool) {
    if bits.len() <= place / 8 {
        bits.push(0);
    }
    if let Some(byte) = bits.get_mut(place / 8) {
        let mask = 1 << (place % 8);
        *byte = if on { *byte | mask } else { *byte & !mask };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_marked_from_the_first_on() {
        let kind = Kind::Fixed(4, "i", "<i4");
        let mut column = Filled::default();
        for value in 0..9_i32 {
            column.push(&kind, &value.to_be_bytes()).unwrap();
        }
        column.push_null(&kind);
        column.push(&kind, &7_i32.to_be_bytes()).unwrap();
        assert_eq!((column.rows, column.nulls), (11, 1));
        assert_eq!(column.validity[0], 0xff);
        assert_eq!(column.validity[1] & 0b111, 0b101);
        assert_eq!(column.values.len(), 44);
    }

    #[test]
    fn a_value_of_another_width_is_refused() {
        for kind in [Kind::Bool, Kind::Fixed(2, "s", "<i2"), Kind::Fixed(8, "l", "<i8"), Kind::Date, Kind::Uuid] {
            assert!(Filled::default().push(&kind, &[0; 3]).is_err());
        }
    }

    #[test]
    fn a_dictionary_holds_each_text_once() {
        let kind = Kind::Dictionary(0);
        let mut column = Filled { dictionary: Some(Box::new(Filled { offsets: vec![0], ..Filled::default() })), ..Filled::default() };
        for text in ["a", "b", "a", "a"] {
            column.push(&kind, text.as_bytes()).unwrap();
        }
        let dictionary = column.dictionary.unwrap();
        assert_eq!((dictionary.rows, dictionary.values.as_slice()), (2, b"ab".as_slice()));
        assert_eq!(column.values, [0, 1, 0, 0].map(i32::to_le_bytes).concat());
    }
}
