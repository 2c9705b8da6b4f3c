//! A value of a lent column, written as a field of a binary COPY.

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

use super::convert::{Converter, Read, Write};
use super::place::Place;
use crate::columns::arrow::Array;
use crate::columns::decimal;

/// Microseconds from 1970-01-01, where Arrow counts from, to 2000-01-01, where PostgreSQL does.
const EPOCH: i64 = 946_684_800_000_000;
const DAYS: i64 = 10_957;

/// Writes a row of a batch.
pub fn write_row(batch: &Array, columns: &[Converter], row: usize, out: &mut Vec<u8>) -> PyResult<()> {
    out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
    for (place, converter) in columns.iter().enumerate() {
        if usize::try_from(batch.n_children).unwrap_or(0) <= place {
            return Err(PyValueError::new_err("a batch has fewer columns than its schema"));
        }
        // SAFETY: the batch has so many children; the row is one of its rows, counted from its own offset.
        unsafe {
            let column = &**batch.children.add(place);
            let row = row + usize::try_from(batch.offset).unwrap_or(0);
            write_value(column, converter, row, out)?;
        }
    }
    Ok(())
}

/// # Safety
/// The column has the converter's type, and `row` is one of its rows.
unsafe fn write_value(column: &Array, converter: &Converter, row: usize, out: &mut Vec<u8>) -> PyResult<()> {
    // SAFETY: as promised.
    let mut place = unsafe { Place::of(column, converter.read, row) };
    if let Some(positions) = converter.dictionary
        && !place.is_null()
    {
        // SAFETY: as promised.
        place = unsafe { in_dictionary(place, positions)? };
    }
    if place.is_null() {
        out.extend_from_slice(&[0xff; 4]);
        return Ok(());
    }
    match &converter.write {
        Write::Bool => put(out, &[u8::from(place.integer() != 0)]),
        Write::Int(width) => {
            let bytes = within(place.integer(), *width)?.to_be_bytes();
            put(out, bytes.get(16 - width..).unwrap_or_default())
        }
        Write::Float4 => put(out, &(place.float() as f32).to_be_bytes()),
        Write::Float8 => put(out, &place.float().to_be_bytes()),
        Write::Bytes(None) => put(out, place.bytes()),
        Write::Bytes(Some(front)) => put(out, &[&[*front], place.bytes()].concat()),
        Write::Oid => put(out, &oid(place.integer())?.to_be_bytes()),
        Write::Numeric => put(out, &numeric(place)),
        Write::Date => put(out, &date(place)?.to_be_bytes()),
        Write::Timestamp => put(out, &timestamp(place)?.to_be_bytes()),
        Write::Time => put(out, &time(place)?.to_be_bytes()),
        Write::Interval => put(out, &interval(place)?),
        Write::Array(oid, element) => write_array(place, *oid, element, out),
    }
}

/// Where a value stands in the column's dictionary, of which the place has the position.
///
/// # Safety
/// The positions are of that type, and the dictionary's values of the place's own.
#[inline(never)]
unsafe fn in_dictionary(place: Place<'_>, positions: Read) -> PyResult<Place<'_>> {
    // SAFETY: null, or an array that lives as long as the column.
    let Some(dictionary) = (unsafe { place.column.dictionary.as_ref() }) else { return Ok(place) };
    let position = usize::try_from(Place { read: positions, ..place }.integer()).unwrap_or(usize::MAX);
    if position >= usize::try_from(dictionary.length).unwrap_or(0) {
        return Err(PyValueError::new_err("a position is outside of its dictionary"));
    }
    // SAFETY: the position is one of the dictionary's.
    Ok(unsafe { Place::of(dictionary, place.read, position) })
}

/// Writes the bytes of a value behind their length.
#[inline]
fn put(out: &mut Vec<u8>, bytes: &[u8]) -> PyResult<()> {
    let length = i32::try_from(bytes.len()).map_err(|_| PyOverflowError::new_err("a value is too long"))?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

/// An integer that a column of this width in bytes can hold.
#[inline]
fn within(value: i128, width: usize) -> PyResult<i128> {
    let fits = match width {
        2 => i16::try_from(value).is_ok(),
        4 => i32::try_from(value).is_ok(),
        _ => i64::try_from(value).is_ok(),
    };
    if fits {
        Ok(value)
    } else {
        Err(PyOverflowError::new_err(format!("{value} is out of range for a column of {width} bytes")))
    }
}

fn oid(value: i128) -> PyResult<u32> {
    u32::try_from(value)
        .map_err(|_| PyOverflowError::new_err(format!("{value} is out of range for a column of type oid")))
}

#[inline]
fn numeric(place: Place<'_>) -> Vec<u8> {
    match place.read {
        Read::Decimal(16, scale) => decimal::unscaled(place.decimal(), scale),
        Read::Decimal(width, scale) => decimal::unscaled(place.signed(width), scale),
        _ => decimal::unscaled(place.integer(), 0),
    }
}

#[inline]
fn date(place: Place<'_>) -> PyResult<i32> {
    let days = match place.read {
        Read::Time(unit) => (place.signed(8) as i64).div_euclid(unit.saturating_mul(86_400)),
        _ => place.signed(4) as i64,
    };
    i32::try_from(days - DAYS).map_err(|_| PyOverflowError::new_err("a date is out of range"))
}

#[inline]
fn timestamp(place: Place<'_>) -> PyResult<i64> {
    let micros = match place.read {
        Read::Time(unit) => micros(place.signed(8), unit),
        _ => place.signed(4) * 86_400_000_000,
    };
    i64::try_from(micros)
        .ok()
        .and_then(|micros| micros.checked_sub(EPOCH))
        .ok_or_else(|| PyOverflowError::new_err("a timestamp is out of range"))
}

fn time(place: Place<'_>) -> PyResult<i64> {
    let (width, unit) = if let Read::Clock(width, unit) = place.read { (width, unit) } else { (8, 1) };
    i64::try_from(micros(place.signed(width), unit))
        .ok()
        .filter(|micros| (0..=86_400_000_000).contains(micros))
        .ok_or_else(|| PyOverflowError::new_err("a time of the day is out of range"))
}

/// Microseconds, days and months.
fn interval(place: Place<'_>) -> PyResult<[u8; 16]> {
    let (months, days, micros) = match place.read {
        Read::Duration(unit) => (0, 0, micros(place.signed(8), unit)),
        _ => {
            let (months, days, nanos) = place.months();
            (months, days, i128::from(nanos.div_euclid(1000)))
        }
    };
    let micros = i64::try_from(micros).map_err(|_| PyOverflowError::new_err("an interval is out of range"))?;
    let mut bytes = [0; 16];
    let (first, rest) = bytes.split_at_mut(8);
    let (second, third) = rest.split_at_mut(4);
    first.copy_from_slice(&micros.to_be_bytes());
    second.copy_from_slice(&days.to_be_bytes());
    third.copy_from_slice(&months.to_be_bytes());
    Ok(bytes)
}

/// Microseconds, from a number of ticks and the ticks of a second.
fn micros(value: i128, unit: i64) -> i128 {
    (value * 1_000_000).div_euclid(i128::from(unit))
}

/// Writes a list as an array of one dimension.
fn write_array(list: Place<'_>, oid: u32, element: &Converter, out: &mut Vec<u8>) -> PyResult<()> {
    let (start, end) = list.offsets(if list.read == Read::List(4) { 4 } else { 8 });
    let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else {
        return Err(PyValueError::new_err("a list has an offset below zero"));
    };
    if list.column.n_children < 1 || end < start {
        return Err(PyValueError::new_err("a list without its elements"));
    }
    let too_long = |_| PyOverflowError::new_err("a list is too long");
    let count = i32::try_from(end - start).map_err(too_long)?;
    let place = out.len();
    let dimensions: i32 = if count == 0 { 0 } else { 1 };
    for word in [0, dimensions, 0, oid.cast_signed()] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    if count > 0 {
        for word in [count, 1] {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }
    for row in start..end {
        // SAFETY: a list has one child, which has the element's type and as many values as the offsets say.
        unsafe { write_value(&**list.column.children, element, row, out)? };
    }
    let length = i32::try_from(out.len() - place - 4).map_err(too_long)?;
    if let Some(word) = out.get_mut(place..place + 4) {
        word.copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}
