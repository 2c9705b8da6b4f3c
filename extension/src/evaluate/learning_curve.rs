//! `pgml.learning_curve`: how good a model was after each round of its training. The curve is stored beside the model, not in
//! it: predictions do not load it.

use pgrx::{IntoDatum, pg_sys};

use crate::access::{self, Privilege};
use crate::error::{Error, Result};
use crate::registry;
use crate::sql::{Call, text_datum};

crate::sql_function!(pgml_learning_curve, learning_curve);

/// `pgml.learning_curve(model_id bigint) RETURNS TABLE (round integer, part text, metric text, value double precision)`.
fn learning_curve(call: &Call) -> Result<pg_sys::Datum> {
    let model = call.i64(0).ok_or_else(|| Error::null_argument("model_id"))?;
    access::require_of_model(model, Privilege::See)?;
    let series = registry::learning_curve(model)?;
    call.rows(series.into_iter().flat_map(|(part, metric, rounds, values)| {
        rounds.into_iter().zip(values).map(move |(round, value)| {
            [round.into_datum(), Some(text_datum(&part)), Some(text_datum(&metric)), value.into_datum()]
        })
    }))
}
