//! Values that a type does not hold whole: what becomes of them, for all types by one table.
//!
//! | type | value | [`Manner::Exact`] | [`Manner::Truncating`] | [`Manner::Typed`] |
//! |---|---|---|---|---|
//! | an integer | `float`, `Decimal` and other numbers with a fraction | refused | cut off | misfit |
//! | an integer | the same without a fraction, `2.0` | taken | taken | misfit |
//! | `numeric` | `float` | its shortest digits, `1.1` | its exact value, 55 digits | misfit |
//! | `float4`, `float8` | `Decimal`; an `int` beyond 2^53 | rounded | rounded | misfit |
//! | `date` | a `datetime` with a time of day | refused | cut off | misfit |
//! | `date` | a `datetime` at midnight | taken | taken | misfit |
//! | `time` | a `time` with a zone | refused | zone cut off | misfit |
//! | `time`, `timetz` | a `datetime` | refused | cut off | misfit |
//! | `timestamptz` | a naive `datetime`, a `date` | the machine's zone | the machine's zone | misfit |
//!
//! Arrays, ranges, composites and the rows of COPY are made of these. Typed are the statements of the synchronous
//! interface, which declares what its values are (`dbapi/_declared.py`): a misfit is refused.

use pyo3::prelude::*;

use super::python::{Raised, type_name, value_error};
use crate::session::errors;

/// What becomes of a value that its type does not hold whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It is an error.
    Exact,
    /// It is cut off, as asyncpg does.
    Truncating,
    /// It fits no type but its own.
    Typed,
}

const HINT: &str = "Convert the value, or cast the parameter in the query so that it has the value's type, as in \
                    `$1::numeric`. connect(truncate=True) cuts off, as asyncpg does.";

/// The error about a value of which a type would hold only a part.
#[cold]
pub fn cut_off(py: Python<'_>, kind: &str, value: &Bound<'_, PyAny>, left: &Bound<'_, PyAny>) -> Raised {
    let shown = |value: &Bound<'_, PyAny>| value.str().map_or_else(|_| type_name(value), |text| text.to_string());
    let message = format!("{kind} would cut the {} {} off to {}", type_name(value), shown(value), shown(left));
    let error = errors::new(py, "DataError", &message);
    // It is of a class of the server's errors, which take no hint when they are made.
    let hinted = error.value(py).setattr("hint", HINT);
    Raised::from_err(py, hinted.err().unwrap_or(error))
}

/// The error about a value of another type, whose place is taken by the type of the value.
#[cold]
pub fn misfit(py: Python<'_>, kind: &str, value: &Bound<'_, PyAny>) -> Raised {
    value_error(py, format!("{} is not the type of {kind}", type_name(value)))
}
