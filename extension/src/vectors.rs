//! Arithmetic on arrays of real and of double precision: PostgresML's vector functions.
//!
//! One function serves both types, told apart by the array's own header. An array of several dimensions counts as its
//! elements in storage order; results have one dimension. Sums are made in double precision.

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::error::{Error, Result};
use crate::features::Number;
use crate::sql::Call;

/// `sizeof(ArrayType)`.
const HEADER: usize = std::mem::size_of::<pg_sys::ArrayType>();

/// MaxAllocSize: no SQL value is larger.
const LARGEST_VALUE: usize = 0x3fff_ffff;

/// Sums that are made at a time, so that they do not wait for each other.
const LANES: usize = 8;

/// A type of element.
trait Float: Copy + PartialOrd + Default + 'static {
    const OID: pg_sys::Oid;
    fn wide(self) -> f64;
    fn narrow(value: f64) -> Self;
    fn of_datum(datum: pg_sys::Datum) -> Self;
    fn to_datum(self) -> pg_sys::Datum;
}

impl Float for f32 {
    const OID: pg_sys::Oid = pg_sys::FLOAT4OID;

    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn narrow(value: f64) -> f32 {
        value as f32
    }

    fn of_datum(datum: pg_sys::Datum) -> f32 {
        f32::from_bits(datum.value() as u32)
    }

    fn to_datum(self) -> pg_sys::Datum {
        pg_sys::Datum::from(self.to_bits())
    }
}

impl Float for f64 {
    const OID: pg_sys::Oid = pg_sys::FLOAT8OID;

    fn wide(self) -> f64 {
        self
    }

    fn narrow(value: f64) -> f64 {
        value
    }

    fn of_datum(datum: pg_sys::Datum) -> f64 {
        f64::from_bits(datum.value() as u64)
    }

    fn to_datum(self) -> pg_sys::Datum {
        pg_sys::Datum::from(self.to_bits())
    }
}

/// An array argument, uncompressed.
struct Vector {
    array: *mut pg_sys::ArrayType,
}

impl Vector {
    /// Argument number `index`, a `real[]` or `double precision[]` as declared; all functions here are strict.
    fn of(call: &Call, index: usize) -> Result<Vector> {
        let datum = call.datum(index).ok_or_else(|| Error::null_argument("vector"))?;
        // SAFETY: an array is a varlena; what comes back is a plain one with a four-byte header, aligned.
        let array: *mut pg_sys::ArrayType = unsafe {
            let pointer = datum.cast_mut_ptr::<pg_sys::varlena>();
            if *pointer.cast::<u8>() & 3 == 0 { pointer } else { pg_sys::pg_detoast_datum(pointer) }
        }
        .cast();
        // SAFETY: as above.
        if unsafe { pg_sys::array_contains_nulls(array) } {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                format!("argument {} has an element that is NULL", index + 1),
            ));
        }
        Ok(Vector { array })
    }

    /// Argument number `index`, an array of any numbers, as one of double precision.
    fn widened(call: &Call, index: usize) -> Result<Vector> {
        let vector = Vector::of(call, index)?;
        if vector.is_double() {
            return Ok(vector);
        }
        // SAFETY: a plain array, which knows the type of its elements.
        let element = unsafe { pg_sys::getBaseType((*vector.array).elemtype) };
        let number = Number::of(element).filter(|number| !matches!(number, Number::Time | Number::Interval));
        let number = number.ok_or_else(|| {
            Error::new(PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH, format!("argument {} is not of numbers", index + 1))
        })?;
        let (mut length, mut by_value, mut align) = (0, false, 0);
        let (mut values, mut count) = (std::ptr::null_mut(), 0);
        // SAFETY: what the catalog says of the elements takes the array apart, into a palloc'd array of `count`; each
        // is a `number`, and none is NULL.
        unsafe {
            pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
            let (array, nulls) = (vector.array, std::ptr::null_mut());
            pg_sys::deconstruct_array(array, element, length.into(), by_value, align, &mut values, nulls, &mut count);
            let values = std::slice::from_raw_parts(values, usize::try_from(count).unwrap_or(0));
            let (array, result) = new_array::<f64>(values.len())?;
            for (result, value) in result.iter_mut().zip(values) {
                *result = number.double(*value);
            }
            Ok(Vector { array: array.cast_mut_ptr() })
        }
    }

    fn is_double(&self) -> bool {
        // SAFETY: a plain array.
        unsafe { (*self.array).elemtype == pg_sys::FLOAT8OID }
    }

    /// The elements; `T` is their type.
    fn elements<T: Float>(&self) -> &[T] {
        // SAFETY: a plain array without NULLs: a header, the dimensions, the lower bounds, then, aligned, the elements. A
        // bitmap may be there all the same, and `dataoffset` says then where the elements begin.
        unsafe {
            debug_assert!((*self.array).elemtype == T::OID);
            let dimensions = usize::try_from((*self.array).ndim).unwrap_or(0);
            if dimensions == 0 {
                return &[];
            }
            let base = self.array.cast::<u8>();
            let lengths = std::slice::from_raw_parts(base.add(HEADER).cast::<i32>(), dimensions);
            let length = lengths.iter().map(|length| usize::try_from(*length).unwrap_or(0)).product();
            let offset = match usize::try_from((*self.array).dataoffset) {
                Ok(offset) if offset > 0 => offset,
                _ => (HEADER + 8 * dimensions).next_multiple_of(8),
            };
            std::slice::from_raw_parts(base.add(offset).cast(), length)
        }
    }
}

/// A new array of one dimension, its elements to be written.
fn new_array<'a, T: Float>(length: usize) -> Result<(pg_sys::Datum, &'a mut [T])> {
    let header = (HEADER + 8).next_multiple_of(8);
    let size = length.saturating_mul(std::mem::size_of::<T>()).saturating_add(header);
    if size > LARGEST_VALUE {
        let code = PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
        return Err(Error::new(code, format!("{length} elements do not fit into one array")));
    }
    // SAFETY: the allocation holds the header, the one dimension, its lower bound and all elements, aligned.
    unsafe {
        if length == 0 {
            return Ok((pg_sys::Datum::from(pg_sys::construct_empty_array(T::OID)), &mut []));
        }
        let array: *mut pg_sys::ArrayType = pg_sys::palloc0(size).cast();
        pgrx::set_varsize_4b(array.cast(), i32::try_from(size).unwrap_or(i32::MAX));
        (*array).ndim = 1;
        (*array).dataoffset = 0;
        (*array).elemtype = T::OID;
        let bounds = array.cast::<u8>().add(HEADER).cast::<i32>();
        *bounds = i32::try_from(length).unwrap_or(i32::MAX);
        *bounds.add(1) = 1;
        Ok((pg_sys::Datum::from(array), std::slice::from_raw_parts_mut(array.cast::<u8>().add(header).cast(), length)))
    }
}

/// What is done to each element and a number.
fn with_scalar(call: &Call, operation: fn(f64, f64) -> f64) -> Result<pg_sys::Datum> {
    fn run<T: Float>(vector: &Vector, call: &Call, operation: fn(f64, f64) -> f64) -> Result<pg_sys::Datum> {
        let scalar = call.datum(1).ok_or_else(|| Error::null_argument("scalar"))?;
        let scalar = T::of_datum(scalar).wide();
        let elements = vector.elements::<T>();
        let (array, result) = new_array::<T>(elements.len())?;
        for (result, element) in result.iter_mut().zip(elements) {
            *result = T::narrow(operation(element.wide(), scalar));
        }
        Ok(array)
    }
    let vector = Vector::of(call, 0)?;
    if vector.is_double() { run::<f64>(&vector, call, operation) } else { run::<f32>(&vector, call, operation) }
}

/// Two vectors of the same type.
fn pair(call: &Call) -> Result<(Vector, Vector)> {
    let (one, other) = (Vector::of(call, 0)?, Vector::of(call, 1)?);
    Ok((one, other))
}

fn same_length(one: usize, other: usize) -> Result<()> {
    match one == other {
        true => Ok(()),
        false => Err(Error::new(
            PgSqlErrorCode::ERRCODE_DATA_EXCEPTION,
            format!("the vectors have {one} and {}", learn::count(other, "element")),
        )
        .hint("Both need the same number of elements.")),
    }
}

/// What is done to the elements of two vectors, pair by pair.
fn with_vector(call: &Call, operation: fn(f64, f64) -> f64) -> Result<pg_sys::Datum> {
    let (one, other) = pair(call)?;
    match one.is_double() {
        true => paired::<f64>(&one, &other, operation),
        false => paired::<f32>(&one, &other, operation),
    }
}

fn paired<T: Float>(one: &Vector, other: &Vector, operation: fn(f64, f64) -> f64) -> Result<pg_sys::Datum> {
    let (one, other) = (one.elements::<T>(), other.elements::<T>());
    same_length(one.len(), other.len())?;
    let (array, result) = new_array::<T>(one.len())?;
    for ((result, one), other) in result.iter_mut().zip(one).zip(other) {
        *result = T::narrow(operation(one.wide(), other.wide()));
    }
    Ok(array)
}

/// The step of an aggregate over arrays of whole numbers or of numeric: the state, none at first, is of double precision.
fn step(call: &Call, operation: fn(f64, f64) -> f64) -> Result<pg_sys::Datum> {
    match (call.datum(0), call.datum(1)) {
        (state, None) => Ok(state.unwrap_or_else(|| call.null())),
        (None, Some(_)) => Ok(pg_sys::Datum::from(Vector::widened(call, 1)?.array)),
        (Some(_), Some(_)) => paired::<f64>(&Vector::of(call, 0)?, &Vector::widened(call, 1)?, operation),
    }
}

/// The sum over pairs of elements, in lanes.
#[inline(always)]
fn sum<T: Float>(one: &[T], other: &[T], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (ones, others) = (one.chunks_exact(LANES), other.chunks_exact(LANES));
    let rest = ones.remainder().iter().zip(others.remainder());
    let rest: f64 = rest.map(|(one, other)| term(one.wide(), other.wide())).sum();
    for (ones, others) in ones.zip(others) {
        for ((lane, one), other) in lanes.iter_mut().zip(ones).zip(others) {
            *lane += term(one.wide(), other.wide());
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// A number made of two vectors.
trait Measure {
    fn of<T: Float>(one: &[T], other: &[T]) -> f64;
}

fn measured<M: Measure>(call: &Call) -> Result<pg_sys::Datum> {
    fn run<T: Float, M: Measure>(one: &Vector, other: &Vector) -> Result<pg_sys::Datum> {
        let (one, other) = (one.elements::<T>(), other.elements::<T>());
        same_length(one.len(), other.len())?;
        Ok(T::narrow(M::of(one, other)).to_datum())
    }
    let (one, other) = pair(call)?;
    if one.is_double() { run::<f64, M>(&one, &other) } else { run::<f32, M>(&one, &other) }
}

struct Dot;

impl Measure for Dot {
    fn of<T: Float>(one: &[T], other: &[T]) -> f64 {
        sum(one, other, |a, b| a * b)
    }
}

struct Taxicab;

impl Measure for Taxicab {
    fn of<T: Float>(one: &[T], other: &[T]) -> f64 {
        sum(one, other, |a, b| (a - b).abs())
    }
}

struct Euclid;

impl Measure for Euclid {
    fn of<T: Float>(one: &[T], other: &[T]) -> f64 {
        sum(one, other, |a, b| (a - b) * (a - b)).sqrt()
    }
}

/// NaN where a vector has no direction.
struct Cosine;

impl Measure for Cosine {
    fn of<T: Float>(one: &[T], other: &[T]) -> f64 {
        let lengths = sum(one, one, |a, b| a * b).sqrt() * sum(other, other, |a, b| a * b).sqrt();
        (Dot::of(one, other) / lengths).clamp(-1.0, 1.0)
    }
}

/// The length of a vector, by one of the norms.
trait Norm {
    fn of<T: Float>(vector: &[T]) -> f64;
}

/// Elements that are not zero.
struct Zero;

impl Norm for Zero {
    fn of<T: Float>(vector: &[T]) -> f64 {
        sum(vector, vector, |a, _| f64::from(u8::from(a != 0.0)))
    }
}

struct One;

impl Norm for One {
    fn of<T: Float>(vector: &[T]) -> f64 {
        sum(vector, vector, |a, _| a.abs())
    }
}

struct Two;

impl Norm for Two {
    fn of<T: Float>(vector: &[T]) -> f64 {
        sum(vector, vector, |a, b| a * b).sqrt()
    }
}

struct Max;

impl Norm for Max {
    fn of<T: Float>(vector: &[T]) -> f64 {
        vector.iter().map(|element| element.wide().abs()).fold(0.0, |a, b| if b > a || b.is_nan() { b } else { a })
    }
}

fn norm<N: Norm>(call: &Call) -> Result<pg_sys::Datum> {
    let vector = Vector::of(call, 0)?;
    Ok(match vector.is_double() {
        true => f64::narrow(N::of(vector.elements::<f64>())).to_datum(),
        false => f32::narrow(N::of(vector.elements::<f32>())).to_datum(),
    })
}

/// Each element divided by the norm; a vector of zeros stays one.
fn normalize<N: Norm>(call: &Call) -> Result<pg_sys::Datum> {
    fn run<T: Float, N: Norm>(vector: &Vector) -> Result<pg_sys::Datum> {
        let elements = vector.elements::<T>();
        let norm = N::of(elements);
        let divisor = if norm == 0.0 { 1.0 } else { norm };
        let (array, result) = new_array::<T>(elements.len())?;
        for (result, element) in result.iter_mut().zip(elements) {
            *result = T::narrow(element.wide() / divisor);
        }
        Ok(array)
    }
    let vector = Vector::of(call, 0)?;
    if vector.is_double() { run::<f64, N>(&vector) } else { run::<f32, N>(&vector) }
}

/// Each element without its sign.
fn absolute(call: &Call) -> Result<pg_sys::Datum> {
    fn run<T: Float>(vector: &Vector) -> Result<pg_sys::Datum> {
        let elements = vector.elements::<T>();
        let (array, result) = new_array::<T>(elements.len())?;
        for (result, element) in result.iter_mut().zip(elements) {
            *result = T::narrow(element.wide().abs());
        }
        Ok(array)
    }
    let vector = Vector::of(call, 0)?;
    if vector.is_double() { run::<f64>(&vector) } else { run::<f32>(&vector) }
}

/// The smaller or larger of two, NaN where one is.
fn least(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

fn greatest(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

macro_rules! functions {
    ($($symbol:ident = $name:ident: $body:expr;)*) => {
        $(
            fn $name(call: &Call) -> Result<pg_sys::Datum> {
                $body(call)
            }
            crate::sql_function!($symbol, $name);
        )*
    };
}

functions! {
    pgml_vector_add_scalar = add_scalar: |call| with_scalar(call, |a, b| a + b);
    pgml_vector_subtract_scalar = subtract_scalar: |call| with_scalar(call, |a, b| a - b);
    pgml_vector_multiply_scalar = multiply_scalar: |call| with_scalar(call, |a, b| a * b);
    pgml_vector_divide_scalar = divide_scalar: |call| with_scalar(call, |a, b| a / b);
    pgml_vector_add = add: |call| with_vector(call, |a, b| a + b);
    pgml_vector_subtract = subtract: |call| with_vector(call, |a, b| a - b);
    pgml_vector_multiply = multiply: |call| with_vector(call, |a, b| a * b);
    pgml_vector_divide = divide: |call| with_vector(call, |a, b| a / b);
    pgml_vector_min = min: |call| with_vector(call, least);
    pgml_vector_max = max: |call| with_vector(call, greatest);
    pgml_vector_min_abs = min_abs: |call| with_vector(call, |a, b| least(a.abs(), b.abs()));
    pgml_vector_max_abs = max_abs: |call| with_vector(call, |a, b| greatest(a.abs(), b.abs()));
    pgml_vector_sum_step = sum_step: |call| step(call, |a, b| a + b);
    pgml_vector_min_step = min_step: |call| step(call, least);
    pgml_vector_max_step = max_step: |call| step(call, greatest);
    pgml_vector_min_abs_step = min_abs_step: |call| step(call, |a, b| least(a.abs(), b.abs()));
    pgml_vector_max_abs_step = max_abs_step: |call| step(call, |a, b| greatest(a.abs(), b.abs()));
    pgml_vector_abs = abs: absolute;
    pgml_vector_norm_l0 = norm_l0: norm::<Zero>;
    pgml_vector_norm_l1 = norm_l1: norm::<One>;
    pgml_vector_norm_l2 = norm_l2: norm::<Two>;
    pgml_vector_norm_max = norm_max: norm::<Max>;
    pgml_vector_normalize_l1 = normalize_l1: normalize::<One>;
    pgml_vector_normalize_l2 = normalize_l2: normalize::<Two>;
    pgml_vector_normalize_max = normalize_max: normalize::<Max>;
    pgml_vector_distance_l1 = distance_l1: measured::<Taxicab>;
    pgml_vector_distance_l2 = distance_l2: measured::<Euclid>;
    pgml_vector_dot_product = dot_product: measured::<Dot>;
    pgml_vector_cosine_similarity = cosine_similarity: measured::<Cosine>;
}
