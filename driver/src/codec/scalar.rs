//! The types that are one value: which function reads and writes each.

use pyo3::prelude::*;

use super::python::{self, Done, Value, internal_error};
use super::reader::fixed;
use super::{Context, array, bits, datetime, geometry, hstore, network, number, numeric, snapshot, text};

/// A form in which single values travel. Several types may share one: text and xml, json and varchar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Bool,
    Int2,
    Int4,
    Int8,
    Uint4,
    Uint8,
    Float4,
    Float8,
    Text,
    /// Text that can be read but not sent, `pg_node_tree` for instance.
    TextOut,
    Bytea,
    /// Bytes that can be read but not sent.
    ByteaOut,
    Jsonb,
    Jsonpath,
    Numeric,
    NumericText,
    Uuid,
    Date,
    Time,
    Timetz,
    Timestamp,
    Timestamptz,
    Interval,
    /// The forms of tuple codecs: the numbers of the wire, uninterpreted.
    DateTuple,
    TimeTuple,
    TimetzTuple,
    TimestampTuple,
    IntervalTuple,
    Inet,
    Cidr,
    Bits,
    Point,
    Box,
    Line,
    Lseg,
    Path,
    Polygon,
    Circle,
    Tid,
    Snapshot,
    Hstore,
    Record,
    Void,
    /// A pseudo-type that no value has.
    None,
}

impl Scalar {
    /// Whether decoded values never hold a reference to anything but atoms.
    pub fn is_atomic(self) -> bool {
        !matches!(
            self,
            Scalar::Hstore
                | Scalar::Record
                | Scalar::Path
                | Scalar::Polygon
                | Scalar::Point
                | Scalar::Box
                | Scalar::Line
                | Scalar::Lseg
                | Scalar::Circle
                | Scalar::Bits
                | Scalar::Inet
                | Scalar::Cidr
        )
    }

    /// Whether values can be sent.
    pub fn has_encoder(self) -> bool {
        !matches!(self, Scalar::None | Scalar::TextOut | Scalar::ByteaOut)
    }

    /// Whether values can be read.
    pub fn has_decoder(self) -> bool {
        self != Scalar::None
    }

    /// The Python value of a value's bytes.
    #[inline]
    pub fn decode<'py>(self, cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
        let py = cx.py;
        match self {
            Scalar::Int4 => python::int(py, i32::from_be_bytes(fixed(py, data)?).into()),
            Scalar::Text | Scalar::TextOut => text::decode(cx, data),
            Scalar::Int8 => python::int(py, i64::from_be_bytes(fixed(py, data)?)),
            Scalar::Float8 => python::float(py, f64::from_be_bytes(fixed(py, data)?)),
            Scalar::Timestamptz => datetime::decode_timestamptz(cx, data),
            Scalar::Bool => {
                let [byte] = fixed(py, data)?;
                python::boolean(py, byte == 1)
            }
            Scalar::Int2 => python::int(py, i16::from_be_bytes(fixed(py, data)?).into()),
            Scalar::Uint4 => python::int(py, u32::from_be_bytes(fixed(py, data)?).into()),
            Scalar::Uint8 => python::uint(py, u64::from_be_bytes(fixed(py, data)?)),
            Scalar::Float4 => number::decode_float4(cx, data),
            Scalar::Bytea | Scalar::ByteaOut => python::bytes(py, data),
            Scalar::Numeric => numeric::decode(cx, data),
            Scalar::Uuid => cx.imports.uuid.decode(py, data),
            Scalar::Date => datetime::decode_date(cx, data),
            Scalar::Timestamp => datetime::decode_timestamp(cx, data),
            Scalar::Jsonb => text::decode_versioned(cx, "JSONB", data),
            other => other.decode_rare(cx, data),
        }
    }

    fn decode_rare<'py>(self, cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
        let py = cx.py;
        match self {
            Scalar::Jsonpath => text::decode_versioned(cx, "jsonpath", data),
            Scalar::NumericText => numeric::decode_text(cx, data),
            Scalar::Time => datetime::decode_time(cx, data),
            Scalar::Timetz => datetime::decode_timetz(cx, data),
            Scalar::Interval => datetime::decode_interval(cx, data),
            Scalar::DateTuple => datetime::decode_date_tuple(cx, data),
            Scalar::TimeTuple | Scalar::TimestampTuple => datetime::decode_micros_tuple(cx, data),
            Scalar::TimetzTuple => datetime::decode_timetz_tuple(cx, data),
            Scalar::IntervalTuple => datetime::decode_interval_tuple(cx, data),
            Scalar::Inet => network::decode(cx, false, data),
            Scalar::Cidr => network::decode(cx, true, data),
            Scalar::Bits => bits::decode(cx, data),
            Scalar::Point => geometry::decode_point(cx, data),
            Scalar::Box => geometry::decode_box(cx, data),
            Scalar::Line => geometry::decode_line(cx, data),
            Scalar::Lseg => geometry::decode_lseg(cx, data),
            Scalar::Path => geometry::decode_path(cx, data),
            Scalar::Polygon => geometry::decode_polygon(cx, data),
            Scalar::Circle => geometry::decode_circle(cx, data),
            Scalar::Tid => snapshot::decode_tid(cx, data),
            Scalar::Snapshot => snapshot::decode(cx, data),
            Scalar::Hstore => hstore::decode(cx, data),
            Scalar::Record => super::composite::decode_anonymous(cx, data),
            // A function that returns nothing sends an empty value; it is shown as None.
            Scalar::Void => Ok(py.None().into_bound(py)),
            Scalar::None => Err(internal_error(py, "no decoder for a pseudo-type")),
            // The hot ones are all in `decode`.
            other => Err(internal_error(py, format!("no decoder for {other:?}"))),
        }
    }

    /// Appends the bytes of a value.
    #[inline]
    pub fn encode(self, cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
        let py = cx.py;
        match self {
            Scalar::Int4 => number::encode_int4(cx, value, out),
            Scalar::Int8 => number::encode_int8(cx, value, out),
            Scalar::Text | Scalar::TextOut => text::encode(cx, value, out),
            Scalar::Float8 => number::encode_float8(cx, value, out),
            Scalar::Bool => number::encode_bool(py, value, out),
            Scalar::Int2 => number::encode_int2(cx, value, out),
            Scalar::Uint4 => number::encode_uint4(cx, value, out),
            Scalar::Uint8 => number::encode_uint8(cx, value, out),
            Scalar::Float4 => number::encode_float4(cx, value, out),
            Scalar::Bytea | Scalar::ByteaOut => text::encode_bytes(py, value, out),
            Scalar::Jsonb | Scalar::Jsonpath => text::encode_versioned(cx, value, out),
            Scalar::Numeric => numeric::encode(cx, value, out),
            Scalar::NumericText => numeric::encode_text(cx, value, out),
            Scalar::Uuid => cx.imports.uuid.encode(cx, value, out),
            Scalar::Date => datetime::encode_date(cx, value, out),
            Scalar::Time => datetime::encode_time(cx, value, out),
            Scalar::Timetz => datetime::encode_timetz(cx, value, out),
            Scalar::Timestamp => datetime::encode_timestamp(cx, value, out),
            Scalar::Timestamptz => datetime::encode_timestamptz(cx, value, out),
            Scalar::Interval => datetime::encode_interval(cx, value, out),
            Scalar::DateTuple => datetime::encode_date_tuple(cx, value, out),
            Scalar::TimeTuple => datetime::encode_micros_tuple(cx, "time", value, out),
            Scalar::TimestampTuple => datetime::encode_micros_tuple(cx, "timestamp", value, out),
            Scalar::TimetzTuple => datetime::encode_timetz_tuple(cx, value, out),
            Scalar::IntervalTuple => datetime::encode_interval_tuple(cx, value, out),
            Scalar::Inet => network::encode_inet(cx, value, out),
            Scalar::Cidr => network::encode_cidr(cx, value, out),
            Scalar::Bits => bits::encode(cx, value, out),
            Scalar::Point => geometry::encode_point(cx, value, out),
            Scalar::Box | Scalar::Lseg => geometry::encode_pair(cx, value, out),
            Scalar::Line => geometry::encode_line(cx, value, out),
            Scalar::Path => geometry::encode_path(cx, value, out),
            Scalar::Polygon => geometry::encode_polygon(cx, value, out),
            Scalar::Circle => geometry::encode_circle(cx, value, out),
            Scalar::Tid => snapshot::encode_tid(cx, value, out),
            Scalar::Snapshot => snapshot::encode(cx, value, out),
            Scalar::Hstore => hstore::encode(cx, value, out),
            Scalar::Record => Err(super::composite::anonymous_input(py)),
            Scalar::Void => Ok(()),
            Scalar::None => Err(internal_error(py, "no encoder for a pseudo-type")),
        }
    }

    /// Whether a list of such values can be read by [`array`]'s tight loops.
    pub(super) fn is_plain(self) -> bool {
        array::PLAIN.contains(&self)
    }
}
