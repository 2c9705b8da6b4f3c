//! Models on trial: the model that answers for a key, and the prediction of a shadow.
//!
//! A project has one deployed model, which makes all predictions by the project's name, and at most one model on trial
//! beside it (pgml.trials). A canary answers for a share of the keys, which `pgml.model_for` selects; a shadow answers
//! for none. These functions only read, so they work on standbys.

use pgrx::{IntoDatum, pg_sys};

use crate::access::Privilege;
use crate::error::Result;
use crate::features::text_bytes;
use crate::lookup::{self, Trial};
use crate::names;
use crate::sql::{Call, text_datum, too_long};
use crate::usage;

use super::call_site::{CallSite, Ready};

crate::sql_function!(pgml_model_for_text, model_for_text);
crate::sql_function!(pgml_model_for_number, model_for_number);
crate::sql_function!(pgml_shadow_of, shadow_of);
crate::sql_function!(pgml_predict_shadow, predict_shadow);

/// Bytes of a key.
const LONGEST_KEY: usize = 1 << 20;

/// `pgml.model_for(project_name text, key text) RETURNS bigint`.
fn model_for_text(call: &Call) -> Result<pg_sys::Datum> {
    let (Some(name), Some(key)) = (call.datum(0), call.datum(1)) else { return Ok(call.null()) };
    // SAFETY: two texts, as declared.
    let (name, key) = unsafe { (text_bytes(name), text_bytes(key)) };
    if key.len() > LONGEST_KEY {
        return Err(too_long("key", key.len(), LONGEST_KEY));
    }
    model_for(name, key)
}

/// `pgml.model_for(project_name text, key bigint) RETURNS bigint`: of a key that is the number's digits.
fn model_for_number(call: &Call) -> Result<pg_sys::Datum> {
    let (Some(name), Some(key)) = (call.datum(0), call.i64(1)) else { return Ok(call.null()) };
    // SAFETY: a text, as declared.
    model_for(unsafe { text_bytes(name) }, key.to_string().as_bytes())
}

fn model_for(name: &[u8], key: &[u8]) -> Result<pg_sys::Datum> {
    let variants = names::variants(known_length(name)?)?;
    let model = match variants.trial {
        Some(Trial { model, share: Some(share) }) if is_within(share, model, key) => model,
        _ => variants.deployed,
    };
    Ok(pg_sys::Datum::from(model))
}

/// Whether a key is among the share of a canary: the first eight bytes of the SHA-256 of `model:key`, as a number from 0
/// to 2^64, are below that share. So each canary has other keys, and a larger share has those of a smaller one.
fn is_within(share: f64, model: i64, key: &[u8]) -> bool {
    let hash = lookup::sha256([format!("{model}:").as_bytes(), key].concat());
    let number = hash.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
    // Both sides are exact: the share is multiplied by a power of two.
    u128::from(number) < (share * 2_f64.powi(64)) as u128
}

/// A project's name that is not too long to be one.
fn known_length(name: &[u8]) -> Result<&[u8]> {
    match name.len() > names::LONGEST {
        true => Err(too_long("project_name", name.len(), names::LONGEST)),
        false => Ok(name),
    }
}

/// `pgml.shadow_of(project_name text) RETURNS bigint`.
fn shadow_of(call: &Call) -> Result<pg_sys::Datum> {
    let Some(name) = call.datum(0) else { return Ok(call.null()) };
    // SAFETY: a text, as declared.
    let shadow = unsafe { shadow(name)? };
    Ok(shadow.map_or_else(|| call.null(), pg_sys::Datum::from))
}

/// # Safety
/// `name` is a text, not NULL.
unsafe fn shadow(name: pg_sys::Datum) -> Result<Option<i64>> {
    // SAFETY: as the caller promises.
    let variants = names::variants(known_length(unsafe { text_bytes(name) })?)?;
    Ok(variants.trial.filter(|trial| trial.share.is_none()).map(|trial| trial.model))
}

/// `pgml.predict_shadow(project_name, features, OUT prediction real, OUT shadow real, OUT error text)`.
fn predict_shadow(call: &Call) -> Result<pg_sys::Datum> {
    let Some(name) = call.datum(0) else { return Ok(call.null()) };
    // SAFETY: the call is running; the SQL declarations put the name first, then the features in one argument.
    let site = unsafe { CallSite::of(call.fcinfo(), 0, Privilege::Predict)? };
    let began = usage::one_row();
    // SAFETY: as above.
    let Some(Ready { target, model, row, scratch }) = (unsafe { site.ready(call.fcinfo())? }) else {
        return Ok(call.null());
    };
    let prediction = model.predict(row, scratch)?;
    target.tally.row(began);
    // SAFETY: a text, as declared; the row was made of this call.
    let beside = unsafe { shadow(name)?.map(|model| by_shadow(call, site, model)) };
    // What is wrong with a shadow is no business of who predicts.
    let (shadow, error) = match beside {
        None => (None, None),
        Some(Ok(shadow)) => (Some(shadow), None),
        Some(Err(error)) => (None, Some(text_datum(&error.message()?))),
    };
    call.record(&[prediction.into_datum(), shadow.into_datum(), error])
}

/// # Safety
/// The site is that of this call, which was ready.
unsafe fn by_shadow(call: &Call, site: &mut CallSite, model: i64) -> Result<f32> {
    let began = usage::one_row();
    // SAFETY: as the caller promises.
    let ready = unsafe { site.ready_beside(call.fcinfo(), model)? };
    let Some(Ready { target, model, row, scratch }) = ready else { return Ok(f32::NAN) };
    let prediction = model.predict(row, scratch)?;
    target.tally.row(began);
    Ok(prediction)
}
