//! Dates, times, timestamps and intervals: microseconds and days since 2000, as the classes of `datetime`.
//!
//! The calendar is worked out here and the objects are made by the C interface of `datetime`, one call each. Whatever
//! Python's classes cannot hold is handed to Python's own arithmetic, so that the exception is Python's own too.
//! PostgreSQL's infinities are the first and the last moment that Python knows, as with asyncpg; with
//! [`Context::as_psycopg`] they are errors, and these moments are themselves.

use pyo3::ffi;
use pyo3::prelude::*;

use super::Context;
use super::fit::{self, Manner};
use super::python::{self, Done, Filling, OrRaise, Raised, Value, overflow_error, type_error, type_name, value_error};
use super::reader::{Reader, fixed};
use crate::session::errors;

const DAY: i64 = 86_400_000_000;
const SECOND: i64 = 1_000_000;
/// 2000-01-01, counted from 0000-03-01, where the calendar's arithmetic starts.
const EPOCH: i64 = 730_425;
/// 2000-01-01 as `date.toordinal` counts.
const EPOCH_ORDINAL: i64 = 730_120;
/// 0001-01-01 and 9999-12-31, counted from 2000-01-01.
const FIRST_DAY: i64 = -730_119;
const LAST_DAY: i64 = 2_921_939;
/// `datetime.max` and `datetime.min`, which stand for the infinities.
const LAST_MICROSECOND: i64 = 252_455_615_999_999_999;
const FIRST_MICROSECOND: i64 = -63_082_281_600_000_000;

/// Year, month and day of a day counted from 2000-01-01, within Python's years.
///
/// The method is that of Neri and Schneider, "Euclidean affine functions and their application to calendar
/// algorithms" (2022): multiplications in place of divisions.
#[inline]
fn civil(day: i64) -> (i32, i32, i32) {
    let n1 = 4 * (day + EPOCH) as u32 + 3;
    let (century, n2) = (n1 / 146_097, (n1 % 146_097) | 3);
    let p2 = 2_939_745 * u64::from(n2);
    let (year, n3) = ((p2 >> 32) as u32, (p2 as u32) / 2_939_745 / 4);
    let p3 = 2_141 * n3 + 197_913;
    let (month, day) = (p3 >> 16, (p3 & 0xffff) / 2_141);
    let after = n3 >= 306;
    let year = 100 * century + year + u32::from(after);
    let month = if after { month - 12 } else { month };
    (year as i32, month as i32, day as i32 + 1)
}

/// The day counted from 2000-01-01.
#[inline]
fn day_of(year: i32, month: i32, day: i32) -> i64 {
    let (year, month, day) = (i64::from(year), i64::from(month), i64::from(day));
    let year = year - i64::from(month <= 2);
    let century = year.div_euclid(100);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(4) - century + century.div_euclid(4) + 365 * year + of_year - EPOCH
}

#[inline]
fn api() -> *mut ffi::PyDateTime_CAPI {
    // SAFETY: `Imports::load` imported the interface before any codec could run, and it lives as long as Python.
    unsafe { ffi::PyDateTimeAPI() }
}

/// A `date`.
#[inline]
pub fn decode_date<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let day = i32::from_be_bytes(fixed(py, data)?);
    match day {
        i32::MAX | i32::MIN if cx.as_psycopg => return Err(infinite(cx, "date", day == i32::MAX)),
        i32::MAX => return Ok(cx.imports.date_max.bind(py).clone()),
        i32::MIN => return Ok(cx.imports.date_min.bind(py).clone()),
        _ => {}
    }
    let day = i64::from(day);
    if !(FIRST_DAY..=LAST_DAY).contains(&day) {
        return beyond(cx, cx.imports.date.bind(py).call_method1("fromordinal", (day + EPOCH_ORDINAL,)));
    }
    let (year, month, day) = civil(day);
    // SAFETY: the interface is imported; the fields are in range, and the call checks them.
    unsafe { python::own(py, ((*api()).Date_FromDate)(year, month, day, (*api()).DateType)) }
}

#[inline]
fn moment<'py>(cx: &Context<'_, 'py>, data: &[u8], utc: bool) -> Value<'py> {
    let py = cx.py;
    let micros = i64::from_be_bytes(fixed(py, data)?);
    let day = micros.div_euclid(DAY);
    if !(FIRST_DAY..=LAST_DAY).contains(&day) {
        return far_moment(cx, micros, utc);
    }
    let rest = micros - day * DAY;
    let (year, month, day) = civil(day);
    let (second, micro) = ((rest / SECOND) as i32, (rest % SECOND) as i32);
    // SAFETY: the interface is imported; the fields are in range, and the call checks them; the zone is UTC's
    // singleton or None, borrowed for the call.
    let value = unsafe {
        let zone = if utc { cx.imports.utc.as_ptr() } else { ffi::Py_None() };
        python::own(
            py,
            ((*api()).DateTime_FromDateAndTime)(
                year,
                month,
                day,
                second / 3600,
                second / 60 % 60,
                second % 60,
                micro,
                zone,
                (*api()).DateTimeType,
            ),
        )
    }?;
    if !utc || !cx.zoned {
        return Ok(value);
    }
    match cx.registry.zone(py) {
        None => Ok(value),
        Some(zone) => beyond(cx, value.call_method1(pyo3::intern!(py, "astimezone"), (zone,))),
    }
}

#[cold]
fn far_moment<'py>(cx: &Context<'_, 'py>, micros: i64, utc: bool) -> Value<'py> {
    let py = cx.py;
    match micros {
        i64::MAX | i64::MIN if cx.as_psycopg => {
            return Err(infinite(cx, if utc { "timestamptz" } else { "timestamp" }, micros == i64::MAX));
        }
        i64::MAX => return Ok(cx.imports.datetime_max.bind(py).clone()),
        i64::MIN => return Ok(cx.imports.datetime_min.bind(py).clone()),
        _ => {}
    }
    let epoch = if utc { &cx.imports.epoch_utc } else { &cx.imports.epoch };
    let delta = cx.imports.timedelta.bind(py);
    let delta = delta.call1((0, micros.div_euclid(SECOND), micros.rem_euclid(SECOND))).or_raise(py)?;
    beyond(cx, epoch.bind(py).add(delta))
}

/// Python's own exception for what its years do not reach, in words that say what to do.
#[cold]
fn beyond<'py>(cx: &Context<'_, 'py>, refused: PyResult<Bound<'py, PyAny>>) -> Value<'py> {
    let py = cx.py;
    let explained = refused.map_err(|error| {
        let message = format!(
            "a date before the year 1 or after 9999, which Python's classes do not hold ({}): \
             decode_far_dates() of the connection says what such dates become",
            error.value(py)
        );
        PyErr::from_type(error.get_type(py), (message,))
    });
    held(cx, explained.or_raise(py))
}

/// A value, or why Python's classes do not hold it: as psycopg a `DataError`.
fn held<'py>(cx: &Context<'_, 'py>, value: Value<'py>) -> Value<'py> {
    value.map_err(|raised| if cx.as_psycopg { not_held(cx.py, raised) } else { raised })
}

#[cold]
fn not_held(py: Python<'_>, raised: Raised) -> Raised {
    let error = raised.into_err(py);
    let data = errors::new(py, "DataError", &error.value(py).to_string());
    data.set_cause(py, Some(error));
    Raised::from_err(py, data)
}

/// The error about an infinity, for which Python's classes have no value.
#[cold]
fn infinite(cx: &Context<'_, '_>, kind: &str, positive: bool) -> Raised {
    let sign = if positive { "" } else { "-" };
    let message = format!(
        "the {kind} is {sign}infinity, which Python's classes do not hold: decode_far_dates() of the connection says \
         what such dates become"
    );
    Raised::from_err(cx.py, errors::new(cx.py, "DataError", &message))
}

/// A naive `datetime`.
#[inline]
pub fn decode_timestamp<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    moment(cx, data, false)
}

/// A `datetime` in UTC.
#[inline]
pub fn decode_timestamptz<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    moment(cx, data, true)
}

fn clock<'py>(cx: &Context<'_, 'py>, micros: i64, zone: Option<&Bound<'py, PyAny>>) -> Value<'py> {
    let py = cx.py;
    let micros = if micros == i64::MAX || micros == i64::MIN { 0 } else { micros };
    let (seconds, micro) = (micros.div_euclid(SECOND), micros.rem_euclid(SECOND) as i32);
    let Ok(hour) = i32::try_from(seconds.div_euclid(3600)) else {
        return Err(value_error(py, "hour must be in 0..23"));
    };
    let second = seconds.rem_euclid(3600) as i32;
    // SAFETY: the interface is imported; the call checks its fields; the zone is borrowed for the call.
    unsafe {
        let zone = zone.map_or(ffi::Py_None(), |zone| zone.as_ptr());
        python::own(py, ((*api()).Time_FromTime)(hour, second / 60, second % 60, micro, zone, (*api()).TimeType))
    }
}

/// A naive `time`.
pub fn decode_time<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    held(cx, clock(cx, i64::from_be_bytes(fixed(cx.py, data)?), None))
}

/// A `time` with a fixed offset in whole minutes.
pub fn decode_timetz<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let (micros, west) = (reader.i64(py)?, reader.i32(py)?);
    reader.end(py)?;
    // PostgreSQL counts to the west, Python to the east.
    let seconds = -(west / 60) * 60;
    // SAFETY: the interface is imported; Python normalises and checks the numbers.
    let offset = unsafe { python::own(py, ((*api()).Delta_FromDelta)(0, seconds, 0, 1, (*api()).DeltaType)) }?;
    let zone = cx.imports.timezone.bind(py).call1((offset,)).or_raise(py)?;
    held(cx, clock(cx, micros, Some(&zone)))
}

/// A `timedelta`, a month being 30 days and a year 365.
pub fn decode_interval<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let (micros, days, months) = (reader.i64(py)?, reader.i32(py)?, reader.i32(py)?);
    reader.end(py)?;
    let micros = if micros == i64::MAX || micros == i64::MIN { 0 } else { micros };
    let (years, months) = (i64::from(months / 12), i64::from(months % 12));
    let days = i64::from(days) + months * 30 + years * 365 + micros.div_euclid(DAY);
    let rest = micros.rem_euclid(DAY);
    let Ok(fitting) = i32::try_from(days) else {
        return held(cx, Err(overflow_error(py, format!("days={days}; must have magnitude <= 999999999"))));
    };
    // SAFETY: the interface is imported; the call checks the days, the rest is normal.
    let value = unsafe {
        python::own(
            py,
            ((*api()).Delta_FromDelta)(fitting, (rest / SECOND) as i32, (rest % SECOND) as i32, 0, (*api()).DeltaType),
        )
    };
    held(cx, value)
}

fn numbers<'py>(cx: &Context<'_, 'py>, values: &[i64]) -> Value<'py> {
    let mut tuple = Filling::tuple(cx.py, values.len())?;
    for value in values {
        tuple.push(python::int(cx.py, *value)?);
    }
    Ok(tuple.finish())
}

/// `(days since 2000-01-01,)`.
pub fn decode_date_tuple<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    numbers(cx, &[i32::from_be_bytes(fixed(cx.py, data)?).into()])
}

/// `(microseconds,)` of a time or a timestamp.
pub fn decode_micros_tuple<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    numbers(cx, &[i64::from_be_bytes(fixed(cx.py, data)?)])
}

/// `(microseconds, seconds west)`.
pub fn decode_timetz_tuple<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let mut reader = Reader::new(data);
    let values = [reader.i64(cx.py)?, reader.i32(cx.py)?.into()];
    reader.end(cx.py)?;
    numbers(cx, &values)
}

/// `(months, days, microseconds)`.
pub fn decode_interval_tuple<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let mut reader = Reader::new(data);
    let (micros, days, months) = (reader.i64(cx.py)?, reader.i32(cx.py)?, reader.i32(cx.py)?);
    reader.end(cx.py)?;
    numbers(cx, &[months.into(), days.into(), micros])
}

/// An attribute that must be an integer.
fn field(value: &Bound<'_, PyAny>, name: &str) -> Result<i64, Raised> {
    let py = value.py();
    integer(&value.getattr(name).or_raise(py)?)
}

fn integer(value: &Bound<'_, PyAny>) -> Result<i64, Raised> {
    // SAFETY: the object is live; any failure sets an exception, which is looked for.
    let number = unsafe { ffi::PyLong_AsLongLong(value.as_ptr()) };
    if number == -1 {
        python::check(value.py())?;
    }
    Ok(number)
}

fn small(value: &Bound<'_, PyAny>) -> Result<i32, Raised> {
    let number = integer(value)?;
    i32::try_from(number).map_err(|_| overflow_error(value.py(), "value too large to convert to int32_t"))
}

/// Refuses a `datetime` of which a date holds only a part.
fn check_date(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>) -> Done {
    let py = cx.py;
    if !value.is_instance(cx.imports.datetime.bind(py).as_any()).or_raise(py)? {
        return Ok(());
    }
    if cx.manner == Manner::Typed {
        return Err(fit::misfit(py, "date", value));
    }
    for name in ["hour", "minute", "second", "microsecond"] {
        if field(value, name)? != 0 {
            return Err(fit::cut_off(py, "date", value, &value.call_method0("date").or_raise(py)?));
        }
    }
    Ok(())
}

/// Appends anything with `toordinal`: dates, and datetimes at midnight.
pub fn encode_date(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let class = value.get_type_ptr();
    if cx.manner != Manner::Truncating && class != cx.imports.date.bind(py).as_type_ptr() {
        check_date(cx, value)?;
    }
    let ordinal =
        if class == cx.imports.date.bind(py).as_type_ptr() || class == cx.imports.datetime.bind(py).as_type_ptr() {
            // SAFETY: the object is exactly a date or a datetime, both of which begin with these fields.
            let (year, month, day) = unsafe {
                let object = value.as_ptr();
                (ffi::PyDateTime_GET_YEAR(object), ffi::PyDateTime_GET_MONTH(object), ffi::PyDateTime_GET_DAY(object))
            };
            day_of(year, month, day) + EPOCH_ORDINAL
        } else {
            integer(&value.call_method0("toordinal").or_raise(py)?)?
        };
    let day = ordinal.saturating_sub(EPOCH_ORDINAL);
    let day = match day {
        LAST_DAY if !cx.as_psycopg => i32::MAX,
        FIRST_DAY if !cx.as_psycopg => i32::MIN,
        day => i32::try_from(day).map_err(|_| overflow_error(py, "date value out of range"))?,
    };
    out.extend_from_slice(&day.to_be_bytes());
    Ok(())
}

fn put_micros(cx: &Context<'_, '_>, micros: i64, out: &mut Vec<u8>) {
    let micros = match micros {
        LAST_MICROSECOND if !cx.as_psycopg => i64::MAX,
        FIRST_MICROSECOND if !cx.as_psycopg => i64::MIN,
        micros => micros,
    };
    out.extend_from_slice(&micros.to_be_bytes());
}

/// The microseconds of anything like a timedelta.
fn delta_micros(delta: &Bound<'_, PyAny>) -> Result<i64, Raised> {
    let (days, seconds, micros) = (field(delta, "days")?, field(delta, "seconds")?, field(delta, "microseconds")?);
    let total = i128::from(days) * i128::from(DAY) + i128::from(seconds) * i128::from(SECOND) + i128::from(micros);
    i64::try_from(total).map_err(|_| overflow_error(delta.py(), "value out of the range of PostgreSQL's timestamps"))
}

/// The fields of exactly a `datetime` as microseconds since 2000, its zone left aside.
///
/// # Safety
/// The object is exactly a `datetime.datetime`.
unsafe fn datetime_micros(object: *mut ffi::PyObject) -> i64 {
    // SAFETY: the caller says what the object is.
    unsafe {
        let day = day_of(
            ffi::PyDateTime_GET_YEAR(object),
            ffi::PyDateTime_GET_MONTH(object),
            ffi::PyDateTime_GET_DAY(object),
        );
        let seconds = i64::from(ffi::PyDateTime_DATE_GET_HOUR(object)) * 3600
            + i64::from(ffi::PyDateTime_DATE_GET_MINUTE(object)) * 60
            + i64::from(ffi::PyDateTime_DATE_GET_SECOND(object));
        day * DAY + seconds * SECOND + i64::from(ffi::PyDateTime_DATE_GET_MICROSECOND(object))
    }
}

/// Whether a value is a `datetime`; a plain `date` is made one by the second argument; anything else is refused.
fn as_datetime<'py>(
    cx: &Context<'_, 'py>,
    value: &Bound<'py, PyAny>,
    zone: impl FnOnce() -> Result<Option<Bound<'py, PyAny>>, Raised>,
) -> Value<'py> {
    let py = cx.py;
    if value.is_instance(cx.imports.datetime.bind(py).as_any()).or_raise(py)? {
        return Ok(value.clone());
    }
    if !value.is_instance(cx.imports.date.bind(py).as_any()).or_raise(py)? {
        return Err(type_error(
            py,
            format!("expected a datetime.date or datetime.datetime instance, got '{}'", type_name(value)),
        ));
    }
    let fields = (field(value, "year")?, field(value, "month")?, field(value, "day")?, 0, 0, 0, 0, zone()?);
    cx.imports.datetime.bind(py).call1(fields).or_raise(py)
}

/// Appends a naive `datetime`, or a `date` at midnight.
pub fn encode_timestamp(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    if value.get_type_ptr() == cx.imports.datetime.bind(py).as_type_ptr() {
        // SAFETY: the object is exactly a datetime.
        let (naive, micros) = unsafe {
            let zone = ffi::PyDateTime_DATE_GET_TZINFO(value.as_ptr());
            (zone == ffi::Py_None(), datetime_micros(value.as_ptr()))
        };
        if naive {
            put_micros(cx, micros, out);
            return Ok(());
        }
    }
    let moment = as_datetime(cx, value, || Ok(None))?;
    // An aware one cannot be subtracted from a naive one, and Python says so.
    let delta = moment.sub(cx.imports.epoch.bind(py)).or_raise(py)?;
    put_micros(cx, delta_micros(&delta)?, out);
    Ok(())
}

/// Appends an aware `datetime`, a naive one in the machine's zone, or a `date` at the machine's midnight.
pub fn encode_timestamptz(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    if value.get_type_ptr() == cx.imports.datetime.bind(py).as_type_ptr() {
        // SAFETY: the object is exactly a datetime.
        let (zone, micros) =
            unsafe { (ffi::PyDateTime_DATE_GET_TZINFO(value.as_ptr()), datetime_micros(value.as_ptr())) };
        if zone == cx.imports.utc.as_ptr() {
            put_micros(cx, micros, out);
            return Ok(());
        }
        if !cx.as_psycopg
            // SAFETY: None is a static object.
            && zone == unsafe { ffi::Py_None() }
            && (micros == LAST_MICROSECOND || micros == FIRST_MICROSECOND)
        {
            put_micros(cx, micros, out);
            return Ok(());
        }
    }
    let moment = as_datetime(cx, value, || local_zone(cx).map(Some))?;
    if cx.manner == Manner::Typed {
        // A naive one is the server's to place, by its own zone.
        let naive = |moment: &Bound<'_, PyAny>| moment.call_method0("utcoffset").map(|offset| offset.is_none());
        if !moment.is(value) || naive(&moment).or_raise(py)? {
            return Err(fit::misfit(py, "timestamptz", value));
        }
    }
    for (infinity, stands_for) in [(&cx.imports.datetime_max, i64::MAX), (&cx.imports.datetime_min, i64::MIN)] {
        if !cx.as_psycopg && moment.eq(infinity.bind(py)).or_raise(py)? {
            out.extend_from_slice(&stands_for.to_be_bytes());
            return Ok(());
        }
    }
    let moment = moment.call_method1("astimezone", (cx.imports.utc.bind(py),)).or_raise(py)?;
    let delta = moment.sub(cx.imports.epoch_utc.bind(py)).or_raise(py)?;
    put_micros(cx, delta_micros(&delta)?, out);
    Ok(())
}

fn local_zone<'py>(cx: &Context<'_, 'py>) -> Value<'py> {
    let py = cx.py;
    let now = cx.imports.datetime.bind(py).call_method1("now", (cx.imports.utc.bind(py),)).or_raise(py)?;
    let offset = now.call_method0("astimezone").and_then(|now| now.call_method0("utcoffset")).or_raise(py)?;
    cx.imports.timezone.bind(py).call1((offset,)).or_raise(py)
}

fn time_micros(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>) -> Result<i64, Raised> {
    if value.get_type_ptr() == cx.imports.time.bind(cx.py).as_type_ptr() {
        // SAFETY: the object is exactly a time.
        return Ok(unsafe {
            let object = value.as_ptr();
            let seconds = i64::from(ffi::PyDateTime_TIME_GET_HOUR(object)) * 3600
                + i64::from(ffi::PyDateTime_TIME_GET_MINUTE(object)) * 60
                + i64::from(ffi::PyDateTime_TIME_GET_SECOND(object));
            seconds * SECOND + i64::from(ffi::PyDateTime_TIME_GET_MICROSECOND(object))
        });
    }
    let (hour, minute) = (field(value, "hour")?, field(value, "minute")?);
    let (second, micro) = (field(value, "second")?, field(value, "microsecond")?);
    let seconds = hour.saturating_mul(3600).saturating_add(minute.saturating_mul(60)).saturating_add(second);
    Ok(seconds.saturating_mul(SECOND).saturating_add(micro))
}

/// Appends a `time`, or anything with its fields.
pub fn encode_time(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    // SAFETY: an object that is exactly a time has this field.
    let plain = value.get_type_ptr() == cx.imports.time.bind(py).as_type_ptr()
        && unsafe { ffi::PyDateTime_TIME_GET_TZINFO(value.as_ptr()) == ffi::Py_None() };
    if !plain {
        check_time(cx, "time", value)?;
    }
    if !plain && cx.manner != Manner::Truncating && value.is_instance(cx.imports.time.bind(py).as_any()).or_raise(py)? {
        let without = pyo3::types::PyDict::new(py);
        without.set_item("tzinfo", py.None()).or_raise(py)?;
        if !value.getattr("tzinfo").or_raise(py)?.is_none() {
            let left = value.call_method("replace", (), Some(&without)).or_raise(py)?;
            return Err(fit::cut_off(py, "time", value, &left));
        }
    }
    out.extend_from_slice(&time_micros(cx, value)?.to_be_bytes());
    Ok(())
}

/// Refuses a `datetime` of which a time holds only a part.
fn check_time(cx: &Context<'_, '_>, kind: &str, value: &Bound<'_, PyAny>) -> Done {
    let py = cx.py;
    if cx.manner == Manner::Truncating || !value.is_instance(cx.imports.datetime.bind(py).as_any()).or_raise(py)? {
        return Ok(());
    }
    Err(fit::cut_off(py, kind, value, &value.call_method0("timetz").or_raise(py)?))
}

/// Appends a `time` with a zone of a fixed offset.
pub fn encode_timetz(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    check_time(cx, "timetz", value)?;
    let zone = value.getattr("tzinfo").or_raise(py)?;
    let offset = zone.call_method1("utcoffset", (py.None(),)).or_raise(py)?;
    let seconds = field(&offset, "days")?.saturating_mul(86_400).saturating_add(field(&offset, "seconds")?);
    let Ok(west) = i32::try_from(seconds.saturating_neg()) else {
        return Err(overflow_error(py, "value too large to convert to int32_t"));
    };
    out.extend_from_slice(&time_micros(cx, value)?.to_be_bytes());
    out.extend_from_slice(&west.to_be_bytes());
    Ok(())
}

/// Appends a `timedelta`, or anything with its fields.
pub fn encode_interval(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let (days, seconds, micros) = if value.get_type_ptr() == cx.imports.timedelta.bind(py).as_type_ptr() {
        // SAFETY: the object is exactly a timedelta.
        unsafe {
            let object = value.as_ptr();
            (
                i64::from(ffi::PyDateTime_DELTA_GET_DAYS(object)),
                i64::from(ffi::PyDateTime_DELTA_GET_SECONDS(object)),
                i64::from(ffi::PyDateTime_DELTA_GET_MICROSECONDS(object)),
            )
        }
    } else {
        (field(value, "days")?, field(value, "seconds")?, field(value, "microseconds")?)
    };
    let Ok(days) = i32::try_from(days) else {
        return Err(overflow_error(py, "value too large to convert to int32_t"));
    };
    out.extend_from_slice(&seconds.saturating_mul(SECOND).saturating_add(micros).to_be_bytes());
    out.extend_from_slice(&days.to_be_bytes());
    out.extend_from_slice(&0_i32.to_be_bytes());
    Ok(())
}

fn elements<'py>(value: &Bound<'py, PyAny>, name: &str, count: usize) -> Result<Vec<Bound<'py, PyAny>>, Raised> {
    let py = value.py();
    let found = value.len().or_raise(py)?;
    if found != count {
        let s = if count == 1 { "" } else { "s" };
        let message = format!("{name} tuple encoder: expecting {count} element{s} in tuple, got {found}");
        return Err(value_error(py, message));
    }
    (0..count).map(|place| value.get_item(place).or_raise(py)).collect()
}

/// Appends `(days since 2000-01-01,)`.
pub fn encode_date_tuple(_cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    for element in elements(value, "date", 1)? {
        out.extend_from_slice(&small(&element)?.to_be_bytes());
    }
    Ok(())
}

/// Appends `(microseconds,)`.
pub fn encode_micros_tuple(_cx: &Context<'_, '_>, name: &str, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    for element in elements(value, name, 1)? {
        out.extend_from_slice(&integer(&element)?.to_be_bytes());
    }
    Ok(())
}

/// Appends `(microseconds, seconds west)`.
pub fn encode_timetz_tuple(_cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let parts = elements(value, "time", 2)?;
    if let [micros, west] = parts.as_slice() {
        out.extend_from_slice(&integer(micros)?.to_be_bytes());
        out.extend_from_slice(&small(west)?.to_be_bytes());
    }
    Ok(())
}

/// Appends `(months, days, microseconds)`.
pub fn encode_interval_tuple(_cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = value.py();
    if !value.is_instance_of::<pyo3::types::PyTuple>() {
        return Err(type_error(py, format!("Expected tuple, got {}", type_name(value))));
    }
    let parts = elements(value, "interval", 3)?;
    if let [months, days, micros] = parts.as_slice() {
        out.extend_from_slice(&integer(micros)?.to_be_bytes());
        out.extend_from_slice(&small(days)?.to_be_bytes());
        out.extend_from_slice(&small(months)?.to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_runs_both_ways_over_every_day() {
        let (mut year, mut month, mut day) = (1, 1, 1);
        for count in FIRST_DAY..=LAST_DAY {
            assert_eq!(civil(count), (year, month, day));
            assert_eq!(day_of(year, month, day), count);
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = [31, 28 + i32::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, day) if day == last => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
    }
}
