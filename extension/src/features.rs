//! SQL values as features: one conversion to float32 for training and for prediction.
//!
//! Integers, float8 and numeric become the nearest float32 (numeric by way of float8), booleans 0 and 1, NULL becomes
//! NaN, which is how trees know a missing value. Dates and timestamps make several features ([`learn::moment`]).
//!
//! Of numbers that float32 cannot tell apart because they are large an origin is taken off before they are rounded
//! (docs/design/features.md): so values are read as float64 too.

use learn::moment::{self, Part};
use pgrx::pg_sys;

use crate::error::{Error, Result};
use crate::memory;

/// What a number is read as: a float32, or a float64, which tells more apart.
pub trait Real: Copy {
    const NAN: Self;
    fn of(value: f64) -> Self;
    fn of_single(value: f32) -> Self;
}

impl Real for f32 {
    const NAN: f32 = f32::NAN;
    fn of(value: f64) -> f32 {
        value as f32
    }
    fn of_single(value: f32) -> f32 {
        value
    }
}

impl Real for f64 {
    const NAN: f64 = f64::NAN;
    fn of(value: f64) -> f64 {
        value
    }
    fn of_single(value: f32) -> f64 {
        f64::from(value)
    }
}

/// A type whose values are numbers to a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    Float4,
    Float8,
    Int2,
    Int4,
    Int8,
    Bool,
    Numeric,
    /// Seconds since midnight.
    Time,
    /// Seconds.
    Interval,
}

/// What a type is to a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Number(Number),
    /// text, varchar, char(n), name, an enum: a category.
    Text(TextKind),
    Many(Many),
}

/// A type of which one value makes several features.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Many {
    /// As many as the array has elements.
    Array(Number),
    /// As many as a vector of pgvector has dimensions.
    Vector,
    Moment(Moment),
}

/// A type whose values are moments, and the parts of them that are features.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Else it is a timestamp, with a time zone or without.
    pub is_date: bool,
    pub parts: &'static [Part],
}

impl Moment {
    const DATE: Moment = Moment { is_date: true, parts: moment::OF_DATE[0] };
    const TIMESTAMP: Moment = Moment { is_date: false, parts: moment::OF_TIMESTAMP[0] };

    /// That of a type as `format_type` names it, in a model that makes so many features of it.
    pub fn named(type_name: &str, size: usize) -> Option<Moment> {
        let (is_date, known) = match type_name {
            "date" => (true, moment::OF_DATE),
            "timestamp without time zone" | "timestamp with time zone" => (false, moment::OF_TIMESTAMP),
            _ => return None,
        };
        known.into_iter().find(|parts| parts.len() == size).map(|parts| Moment { is_date, parts })
    }

    /// # Safety
    /// `datum` is a value of this type, not NULL.
    unsafe fn read(self, datum: pg_sys::Datum) -> impl Iterator<Item = f64> {
        let parts = match self.is_date {
            true => moment::of_date(datum.value() as i32),
            false => moment::of_timestamp(datum.value() as i64),
        };
        self.parts.iter().map(move |part| parts.of(*part))
    }
}

impl Many {
    pub fn is_moment(self) -> bool {
        matches!(self, Many::Moment(_))
    }

    /// How many features each value makes, where that is the same for all values of the type.
    pub fn size(self) -> Option<usize> {
        match self {
            Many::Array(_) | Many::Vector => None,
            Many::Moment(moment) => Some(moment.parts.len()),
        }
    }

    /// Appends the features of a value, none of them where there are more than `at_most`.
    ///
    /// # Safety
    /// `datum` is a value of this type, not NULL.
    pub unsafe fn read<T: Real>(self, datum: pg_sys::Datum, at_most: usize, out: &mut Vec<T>) -> Result<Shape> {
        let before = out.len();
        match self {
            // SAFETY: as the caller promises.
            Many::Array(number) => return unsafe { read_array(datum, number, at_most, out) },
            // SAFETY: as the caller promises.
            Many::Vector => return unsafe { read_vector(datum, at_most, out) },
            // SAFETY: as the caller promises.
            Many::Moment(moment) => out.extend(unsafe { moment.read(datum) }.map(T::of)),
        }
        Ok(Shape::flat(out.len() - before))
    }

    /// The same less the origins of the features, where there are any: those of one row, which many rows may follow.
    ///
    /// # Safety
    /// As [`Many::read`].
    pub unsafe fn read_less(
        self,
        datum: pg_sys::Datum,
        at_most: usize,
        origins: &[f64],
        out: &mut Vec<f32>,
    ) -> Result<Shape> {
        if origins.is_empty() {
            // SAFETY: as the caller promises.
            return unsafe { self.read(datum, at_most, out) };
        }
        let mut doubles: Vec<f64> = Vec::new();
        // SAFETY: as the caller promises.
        let shape = unsafe { self.read(datum, at_most, &mut doubles) }?;
        memory::reserve(out, doubles.len())?;
        out.extend(doubles.iter().zip(origins.iter().cycle()).map(|(value, origin)| (value - origin) as f32));
        Ok(shape)
    }

    /// Whether its values may be more than float32 tells apart.
    pub fn is_wide(self) -> bool {
        match self {
            Many::Array(number) => number.is_wide(),
            Many::Vector => false,
            Many::Moment(_) => true,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextKind {
    Varlena,
    /// char(n): trailing blanks do not count, as everywhere in SQL.
    Padded,
    /// `name`, and literals whose type is not known: C strings.
    CString,
    Enum,
}

impl Kind {
    /// `None` for types that cannot be features. Domains count as their base type.
    pub fn of(type_oid: pg_sys::Oid) -> Option<Kind> {
        // Every query that predicts asks this for every argument, so the catalog is asked only about other types.
        if let Some(kind) = Kind::of_built_in(type_oid) {
            return Some(kind);
        }
        // SAFETY: catalog look-ups within a transaction, of types that exist.
        let (base, element) = unsafe {
            let base = pg_sys::getBaseType(type_oid);
            (base, pg_sys::get_element_type(base))
        };
        if element == pg_sys::InvalidOid {
            // SAFETY: as above.
            return match unsafe { pg_sys::get_typtype(base) } as u8 {
                pg_sys::TYPTYPE_ENUM => Some(Kind::Text(TextKind::Enum)),
                // Rows are asked for here by every query that predicts from them: what a type belongs to takes a scan.
                pg_sys::TYPTYPE_COMPOSITE => None,
                _ if is_vector(base) => Some(Kind::Many(Many::Vector)),
                _ => Kind::of_built_in(base),
            };
        }
        // SAFETY: as above.
        let number = Number::of(unsafe { pg_sys::getBaseType(element) })?;
        (!matches!(number, Number::Time | Number::Interval)).then_some(Kind::Many(Many::Array(number)))
    }

    fn of_built_in(type_oid: pg_sys::Oid) -> Option<Kind> {
        let array = |number| Kind::Many(Many::Array(number));
        Number::of(type_oid).map(Kind::Number).or_else(|| {
            Some(match type_oid {
                pg_sys::TEXTOID | pg_sys::VARCHAROID => Kind::Text(TextKind::Varlena),
                pg_sys::BPCHAROID => Kind::Text(TextKind::Padded),
                pg_sys::NAMEOID | pg_sys::UNKNOWNOID => Kind::Text(TextKind::CString),
                pg_sys::FLOAT4ARRAYOID => array(Number::Float4),
                pg_sys::FLOAT8ARRAYOID => array(Number::Float8),
                pg_sys::INT2ARRAYOID => array(Number::Int2),
                pg_sys::INT4ARRAYOID => array(Number::Int4),
                pg_sys::INT8ARRAYOID => array(Number::Int8),
                pg_sys::BOOLARRAYOID => array(Number::Bool),
                pg_sys::NUMERICARRAYOID => array(Number::Numeric),
                pg_sys::DATEOID => Kind::Many(Many::Moment(Moment::DATE)),
                pg_sys::TIMESTAMPOID | pg_sys::TIMESTAMPTZOID => Kind::Many(Many::Moment(Moment::TIMESTAMP)),
                _ => return None,
            })
        })
    }
}

/// A type whose values can be told apart as texts: categories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    Text(TextKind),
    /// Whole numbers as SQL prints them, and booleans as "true" and "false".
    Number(Number),
    /// As ISO 8601 writes it, whatever DateStyle says.
    Date,
}

impl Word {
    /// `None` where the type's values are measured, or several.
    pub fn of(kind: Kind) -> Option<Word> {
        match kind {
            Kind::Text(kind) => Some(Word::Text(kind)),
            Kind::Number(number @ (Number::Int2 | Number::Int4 | Number::Int8 | Number::Bool)) => {
                Some(Word::Number(number))
            }
            Kind::Many(Many::Moment(Moment { is_date: true, .. })) => Some(Word::Date),
            _ => None,
        }
    }

    /// The value as a text, which may be made in `room`.
    ///
    /// # Safety
    /// `datum` is a value of this type, not NULL.
    pub unsafe fn read(self, datum: pg_sys::Datum, room: &mut String) -> Result<&str> {
        use std::fmt::Write;
        let bits = datum.value();
        let number = match self {
            // SAFETY: as the caller promises.
            Word::Text(kind) => return unsafe { kind.read(datum) },
            Word::Date => {
                *room = moment::text_of_date(bits as i32);
                return Ok(room);
            }
            Word::Number(Number::Bool) => return Ok(bool_word(bits as u8 != 0)),
            Word::Number(Number::Int2) => i64::from(bits as i16),
            Word::Number(Number::Int4) => i64::from(bits as i32),
            Word::Number(_) => bits as i64,
        };
        room.clear();
        let _ = write!(room, "{number}");
        Ok(room)
    }
}

/// A boolean as a category.
pub fn bool_word(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

impl Number {
    /// Of a type that is no domain.
    pub fn of(base: pg_sys::Oid) -> Option<Number> {
        Some(match base {
            pg_sys::FLOAT4OID => Number::Float4,
            pg_sys::FLOAT8OID => Number::Float8,
            pg_sys::INT2OID => Number::Int2,
            pg_sys::INT4OID => Number::Int4,
            pg_sys::INT8OID => Number::Int8,
            pg_sys::BOOLOID => Number::Bool,
            pg_sys::NUMERICOID => Number::Numeric,
            pg_sys::TIMEOID => Number::Time,
            pg_sys::INTERVALOID => Number::Interval,
            _ => return None,
        })
    }

    /// Whether a value may be NaN.
    pub fn is_real(self) -> bool {
        matches!(self, Number::Float4 | Number::Float8 | Number::Numeric)
    }

    /// # Safety
    /// `datum` is a value of this type, not NULL.
    #[inline]
    pub unsafe fn read(self, datum: pg_sys::Datum) -> f32 {
        let bits = datum.value();
        match self {
            Number::Float4 => f32::from_bits(bits as u32),
            Number::Int2 => f32::from(bits as i16),
            // Not by way of float64, which would round large ones twice.
            Number::Int8 => bits as i64 as f32,
            // SAFETY: as the caller promises.
            _ => unsafe { self.double(datum) as f32 },
        }
    }

    /// The value as float64, which tells more apart than features do; whole numbers past 2^53 are rounded.
    ///
    /// # Safety
    /// `datum` is a value of this type, not NULL.
    #[inline]
    pub unsafe fn double(self, datum: pg_sys::Datum) -> f64 {
        let bits = datum.value();
        match self {
            Number::Float4 => f64::from(f32::from_bits(bits as u32)),
            Number::Float8 => f64::from_bits(bits as u64),
            Number::Int2 => f64::from(bits as i16),
            Number::Int4 => f64::from(bits as i32),
            Number::Int8 => bits as i64 as f64,
            Number::Bool => f64::from(u8::from(bits as u8 != 0)),
            // SAFETY: a numeric, as the caller promises.
            Number::Numeric => unsafe { numeric(datum) },
            Number::Time => bits as i64 as f64 / 1e6,
            Number::Interval => {
                // SAFETY: an interval, as the caller promises.
                let interval = unsafe { &*datum.cast_mut_ptr::<pg_sys::Interval>() };
                moment::seconds_of_interval(interval.month, interval.day, interval.time)
            }
        }
    }

    /// Whether its values may be more than float32 tells apart.
    pub fn is_wide(self) -> bool {
        !matches!(self, Number::Float4 | Number::Int2 | Number::Bool | Number::Time)
    }

    /// Whether its values are whole numbers.
    pub fn is_whole(self) -> bool {
        matches!(self, Number::Int2 | Number::Int4 | Number::Int8)
    }

    /// Bytes of an element in an array, which are its alignment too; `None` for numeric, whose elements differ, and for
    /// types of whose arrays no features are made.
    fn stride(self) -> Option<usize> {
        match self {
            Number::Bool => Some(1),
            Number::Int2 => Some(2),
            Number::Float4 | Number::Int4 => Some(4),
            Number::Float8 | Number::Int8 => Some(8),
            Number::Numeric | Number::Time | Number::Interval => None,
        }
    }
}

/// # Safety
/// `datum` is a numeric.
unsafe fn numeric(datum: pg_sys::Datum) -> f64 {
    // SAFETY: as the caller promises; a value past float8's range becomes an infinity, not an ERROR.
    let double = unsafe { pgrx::direct_function_call_as_datum(pg_sys::numeric_float8_no_overflow, &[Some(datum)]) };
    double.map_or(f64::NAN, |double| f64::from_bits(double.value() as u64))
}

/// A value as its type prints it.
///
/// # Safety
/// `datum` is a value of that type, not NULL.
pub unsafe fn printed(type_oid: pg_sys::Oid, datum: pg_sys::Datum) -> String {
    let (mut function, mut varlena) = (pg_sys::InvalidOid, false);
    // SAFETY: the output function of the value's own type; it gives a palloc'd C string.
    unsafe {
        pg_sys::getTypeOutputInfo(type_oid, &mut function, &mut varlena);
        let text = pg_sys::OidOutputFunctionCall(function, datum);
        std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

/// The bytes of a `text` value.
///
/// # Safety
/// `datum` is a varlena. The bytes live as long as the datum, or as the current memory context if it was toasted.
pub unsafe fn text_bytes<'a>(datum: pg_sys::Datum) -> &'a [u8] {
    // SAFETY: a varlena starts with a header, whose lowest two bits tell its form (little-endian): 1 = one byte of
    // length, 00 = four bytes; anything else is compressed or stored elsewhere and is fetched first.
    unsafe {
        let mut pointer = datum.cast_mut_ptr::<u8>();
        let mut first = *pointer;
        if first & 3 == 2 || first == 1 {
            pointer = pg_sys::pg_detoast_datum_packed(pointer.cast()).cast();
            first = *pointer;
        }
        if first & 1 == 1 {
            std::slice::from_raw_parts(pointer.add(1), usize::from(first >> 1) - 1)
        } else {
            let header = pointer.cast::<u32>().read_unaligned();
            std::slice::from_raw_parts(pointer.add(4), (header >> 2) as usize - 4)
        }
    }
}

impl TextKind {
    /// # Safety
    /// `datum` is a value of this kind, not NULL.
    pub unsafe fn read<'a>(self, datum: pg_sys::Datum) -> Result<&'a str> {
        // SAFETY: as the caller promises.
        let bytes = unsafe {
            match self {
                TextKind::CString => std::ffi::CStr::from_ptr(datum.cast_mut_ptr()).to_bytes(),
                TextKind::Varlena => text_bytes(datum),
                TextKind::Enum => {
                    let label = pgrx::direct_function_call_as_datum(pg_sys::enum_out, &[Some(datum)]);
                    label.map_or(&[][..], |label| std::ffi::CStr::from_ptr(label.cast_mut_ptr()).to_bytes())
                }
                TextKind::Padded => text_bytes(datum).trim_ascii_end(),
            }
        };
        std::str::from_utf8(bytes).map_err(|_| Error::unsupported("text categories need a database encoding of UTF8"))
    }
}

/// The dimensions of an array that was read.
pub struct Shape {
    /// Elements in all.
    pub len: usize,
    /// Elements within the innermost dimension, within the two innermost, and so on up to all but the outermost.
    within: [usize; MAXDIM],
    /// How many of these there are: none of an array of one dimension.
    levels: usize,
}

/// PostgreSQL's.
const MAXDIM: usize = pg_sys::MAXDIM as usize;

impl Shape {
    fn flat(len: usize) -> Shape {
        Shape { len, within: [0; MAXDIM], levels: 0 }
    }

    fn of(lengths: &[i32]) -> Shape {
        let mut shape = Shape::flat(usize::from(!lengths.is_empty()));
        for (level, length) in lengths.iter().rev().take(MAXDIM).enumerate() {
            shape.len *= *length as usize;
            shape.within[level] = shape.len;
        }
        shape.levels = lengths.len().min(MAXDIM).saturating_sub(1);
        shape
    }

    /// Whether it can be rows of so many elements: one in each of some inner dimension, or all one after another; else how
    /// many elements an outermost one holds.
    pub fn rows_of(&self, width: usize) -> std::result::Result<(), usize> {
        match &self.within[..self.levels] {
            within if within.is_empty() || within.contains(&width) => Ok(()),
            within => Err(within.last().copied().unwrap_or(self.len)),
        }
    }
}

/// Features that a row may have. Rows are dense: what wants more is of another world, or malicious.
pub const MOST_FEATURES: usize = 1 << 20;

/// Appends the elements of a numeric array in storage order, NaN for NULL; none of them where there are more than
/// `at_most`.
///
/// # Safety
/// `datum` is an array whose elements are of type `number`.
pub unsafe fn read_array<T: Real>(
    datum: pg_sys::Datum,
    number: Number,
    at_most: usize,
    out: &mut Vec<T>,
) -> Result<Shape> {
    // SAFETY: an array is a varlena; a plain one (four-byte header, not compressed, here) is read where it stands.
    let array = unsafe {
        let pointer = datum.cast_mut_ptr::<pg_sys::varlena>();
        if *pointer.cast::<u8>() & 3 == 0 { pointer } else { pg_sys::pg_detoast_datum(pointer) }
    }
    .cast::<pg_sys::ArrayType>();
    // SAFETY: a plain array: a header, the dimensions, the lower bounds, a bitmap if there are NULLs (`dataoffset` is
    // not 0 then), and the elements that are not NULL, aligned. PostgreSQL made it, so its parts lie within it.
    unsafe {
        let dimensions = usize::try_from((*array).ndim).unwrap_or(0);
        let base = array.cast::<u8>();
        let lengths = std::slice::from_raw_parts(base.add(HEADER).cast::<i32>(), dimensions);
        let shape = Shape::of(lengths);
        if shape.len > at_most {
            return Ok(shape);
        }
        memory::reserve(out, shape.len)?;
        let Some(stride) = number.stride() else {
            read_varlena_elements(array, out);
            return Ok(shape);
        };
        if (*array).dataoffset == 0 {
            let data = base.add(align(HEADER + dimensions * 8));
            match number {
                Number::Float4 => {
                    let values = std::slice::from_raw_parts(data.cast::<f32>(), shape.len);
                    out.extend(values.iter().map(|value| T::of_single(*value)));
                }
                _ => out.extend((0..shape.len).map(|i| element::<T>(data.add(i * stride), number))),
            }
            return Ok(shape);
        }
        let bitmap = base.add(HEADER + dimensions * 8);
        let mut data = base.add((*array).dataoffset as usize);
        for i in 0..shape.len {
            if *bitmap.add(i / 8) >> (i % 8) & 1 == 1 {
                out.push(element(data, number));
                data = data.add(stride);
            } else {
                out.push(T::NAN);
            }
        }
        Ok(shape)
    }
}

/// `sizeof(ArrayType)`.
const HEADER: usize = std::mem::size_of::<pg_sys::ArrayType>();

/// MAXALIGN.
const fn align(length: usize) -> usize {
    length.next_multiple_of(8)
}

/// # Safety
/// `at` is aligned for and holds an element of a type of fixed length.
#[inline]
unsafe fn element<T: Real>(at: *const u8, number: Number) -> T {
    // SAFETY: as the caller promises.
    unsafe {
        match number {
            Number::Float4 => T::of_single(*at.cast::<f32>()),
            Number::Float8 => T::of(*at.cast::<f64>()),
            Number::Int2 => T::of(f64::from(*at.cast::<i16>())),
            Number::Int4 => T::of(f64::from(*at.cast::<i32>())),
            Number::Int8 => T::of(*at.cast::<i64>() as f64),
            Number::Bool => T::of(f64::from(*at)),
            Number::Numeric | Number::Time | Number::Interval => T::NAN,
        }
    }
}

/// Whether a type is pgvector's `vector`.
fn is_vector(type_oid: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups within a transaction; a name that is not null is a palloc'd C string.
    unsafe {
        if type_name(type_oid).rsplit('.').next() != Some("vector") {
            return false;
        }
        let extension = pg_sys::getExtensionOfObject(pg_sys::TypeRelationId, type_oid);
        if extension == pg_sys::InvalidOid {
            return false;
        }
        let name = pg_sys::get_extension_name(extension);
        !name.is_null() && std::ffi::CStr::from_ptr(name) == c"vector"
    }
}

/// Appends the elements of a vector of pgvector.
///
/// # Safety
/// `datum` is such a vector, not NULL.
unsafe fn read_vector<T: Real>(datum: pg_sys::Datum, at_most: usize, out: &mut Vec<T>) -> Result<Shape> {
    // SAFETY: a varlena, fetched and with a header of four bytes; two bytes of dimensions, two that are not used, and the
    // elements. pgvector has written it so since its first version.
    unsafe {
        let vector = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<u8>();
        let dimensions = usize::try_from(*vector.add(4).cast::<i16>()).unwrap_or(0);
        if dimensions <= at_most {
            memory::reserve(out, dimensions)?;
            let values = std::slice::from_raw_parts(vector.add(8).cast::<f32>(), dimensions);
            out.extend(values.iter().map(|value| T::of_single(*value)));
        }
        Ok(Shape::flat(dimensions))
    }
}

/// # Safety
/// `array` is a plain array of numeric.
unsafe fn read_varlena_elements<T: Real>(array: *mut pg_sys::ArrayType, out: &mut Vec<T>) {
    let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
    // SAFETY: numeric is a varlena (-1), not by value, aligned as int; the results are palloc'd arrays of `count`.
    unsafe {
        pg_sys::deconstruct_array(
            array,
            pg_sys::NUMERICOID,
            -1,
            false,
            b'i' as std::ffi::c_char,
            &mut values,
            &mut nulls,
            &mut count,
        );
        for i in 0..usize::try_from(count).unwrap_or(0) {
            out.push(if *nulls.add(i) { T::NAN } else { T::of(numeric(*values.add(i))) });
        }
        pg_sys::pfree(values.cast());
        pg_sys::pfree(nulls.cast());
    }
}

/// What a domain is over; any other type itself.
pub fn base_type(type_oid: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a catalog look-up within a transaction, of a type that exists.
    unsafe { pg_sys::getBaseType(type_oid) }
}

/// The type's name as SQL writes it, for messages.
pub fn type_name(type_oid: pg_sys::Oid) -> String {
    // SAFETY: gives a palloc'd C string for any oid.
    unsafe {
        let name = pg_sys::format_type_be(type_oid);
        std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}
