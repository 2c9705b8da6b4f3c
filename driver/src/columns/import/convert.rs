//! How the columns that are lent are read, and how the columns of a table are written.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::{children, format, text};
use crate::codec::{Body, Codec};
use crate::columns::arrow::Schema;

/// How values of a column are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    Bool,
    /// Width in bytes, and whether there is a sign.
    Int(usize, bool),
    Float32,
    Float64,
    /// Offsets of 32 or 64 bits.
    Bytes(usize),
    /// Short ones in place, others elsewhere.
    Views,
    Fixed(usize),
    /// Values a second.
    Time(i64),
    Days,
    /// The width of a time of the day, and values a second.
    Clock(usize, i64),
    /// Values a second.
    Duration(i64),
    /// Months, days and nanoseconds.
    Months,
    /// The width, and digits behind the point.
    Decimal(usize, i32),
    /// Offsets of 32 or 64 bits into a column of elements.
    List(usize),
}

/// How they are written.
#[derive(Clone, Debug)]
pub enum Write {
    Bool,
    Int(usize),
    Float4,
    Float8,
    /// With this byte in front, as jsonb has it.
    Bytes(Option<u8>),
    Date,
    Timestamp,
    Time,
    Interval,
    Numeric,
    Oid,
    /// The elements' type, and how they are read and written.
    Array(u32, Box<Converter>),
}

/// How a column is read and written.
#[derive(Clone, Debug)]
pub struct Converter {
    pub read: Read,
    pub write: Write,
    /// How positions in a dictionary are read, where the values are in one.
    pub dictionary: Option<Read>,
}

impl Read {
    fn of(format: &str) -> Option<Read> {
        let unit = |unit: &str| match unit {
            "s" => Some(1),
            "m" => Some(1_000),
            "u" => Some(1_000_000),
            "n" => Some(1_000_000_000),
            _ => None,
        };
        Some(match format {
            "b" => Read::Bool,
            "c" => Read::Int(1, true),
            "C" => Read::Int(1, false),
            "s" => Read::Int(2, true),
            "S" => Read::Int(2, false),
            "i" => Read::Int(4, true),
            "I" => Read::Int(4, false),
            "l" => Read::Int(8, true),
            "L" => Read::Int(8, false),
            "f" => Read::Float32,
            "g" => Read::Float64,
            "u" | "z" => Read::Bytes(4),
            "U" | "Z" => Read::Bytes(8),
            "vu" | "vz" => Read::Views,
            "+l" => Read::List(4),
            "+L" => Read::List(8),
            "tdD" => Read::Days,
            "tdm" => Read::Time(1_000),
            "tts" => Read::Clock(4, 1),
            "ttm" => Read::Clock(4, 1_000),
            "ttu" => Read::Clock(8, 1_000_000),
            "ttn" => Read::Clock(8, 1_000_000_000),
            "tin" => Read::Months,
            _ if format.starts_with("d:") => return Read::decimal(format.get(2..)?),
            _ if format.starts_with("tD") => Read::Duration(unit(format.get(2..)?)?),
            _ => match (format.strip_prefix("w:"), format.strip_prefix("ts")) {
                (Some(width), _) => Read::Fixed(width.parse().ok()?),
                (_, Some(rest)) => Read::Time(unit(rest.get(..1)?)?),
                _ => return None,
            },
        })
    }

    /// A decimal, described by its precision, its scale and perhaps its bits.
    fn decimal(described: &str) -> Option<Read> {
        let mut parts = described.split(',');
        let (_, scale) = (parts.next()?, parts.next()?.parse().ok()?);
        match parts.next().unwrap_or("128") {
            "32" => Some(Read::Decimal(4, scale)),
            "64" => Some(Read::Decimal(8, scale)),
            "128" => Some(Read::Decimal(16, scale)),
            _ => None,
        }
    }
}

impl Converter {
    pub fn of(schema: &Schema, codec: &Codec) -> PyResult<Converter> {
        // SAFETY: null, or a schema that lives as long as its parent.
        let dictionary = unsafe { schema.dictionary.as_ref() };
        let shown = dictionary.map_or_else(|| format(schema), format);
        let refused = || {
            PyTypeError::new_err(format!(
                "column {:?} of Arrow's type {shown:?} cannot be copied into a column of type {}",
                text(schema.name),
                codec.name()
            ))
        };
        let read = Read::of(&shown).ok_or_else(refused)?;
        let dictionary = match dictionary {
            Some(_) => Some(Read::of(&format(schema)).ok_or_else(refused)?),
            None => None,
        };
        if let (Body::Array { element, element_oid, .. }, Read::List(_)) = (&codec.body, read) {
            let child = children(schema).into_iter().next().ok_or_else(refused)?;
            let element = Converter::of(child, element)?;
            if matches!(element.read, Read::List(_)) {
                return Err(refused());
            }
            return Ok(Converter { read, write: Write::Array(*element_oid, Box::new(element)), dictionary });
        }
        let write = match (codec.oid(), read) {
            (16, Read::Bool) => Write::Bool,
            (21, Read::Int(..) | Read::Bool) => Write::Int(2),
            (23, Read::Int(..) | Read::Bool) => Write::Int(4),
            (20, Read::Int(..) | Read::Bool) => Write::Int(8),
            (700, Read::Int(..) | Read::Float32 | Read::Float64) => Write::Float4,
            (701, Read::Int(..) | Read::Float32 | Read::Float64) => Write::Float8,
            (1082, Read::Days | Read::Time(_)) => Write::Date,
            (1114 | 1184, Read::Time(_) | Read::Days) => Write::Timestamp,
            (26, Read::Int(..)) => Write::Oid,
            (1083, Read::Clock(..)) => Write::Time,
            (1186, Read::Duration(_) | Read::Months) => Write::Interval,
            (1700, Read::Decimal(..) | Read::Int(..)) => Write::Numeric,
            (2950, Read::Fixed(16)) | (17, Read::Fixed(_) | Read::Bytes(_) | Read::Views) => Write::Bytes(None),
            (3802, Read::Bytes(_) | Read::Views) => Write::Bytes(Some(1)),
            (25 | 1043 | 1042 | 19 | 114, Read::Bytes(_) | Read::Views) => Write::Bytes(None),
            // Labels of enums, which are numbered by the database.
            (16_384.., Read::Bytes(_) | Read::Views) => Write::Bytes(None),
            _ => return Err(refused()),
        };
        Ok(Converter { read, write, dictionary })
    }
}
