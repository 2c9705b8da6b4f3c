//! How models are stored and predict: forms that families share.
//!
//! A new form is a file here and a name in the list; the name of one is never used for anything else again.

pub(crate) mod boosted;
pub(crate) mod centroids;
pub(crate) mod ellipse;
pub(crate) mod grouped;
pub(crate) mod histograms;
pub(crate) mod kernel;
pub(crate) mod labelled_rows;
pub(crate) mod laplace;
pub(crate) mod linear;
pub(crate) mod local_density;
pub(crate) mod mixture;
pub(crate) mod neighbours;
pub(crate) mod normal_densities;
pub(crate) mod program;
pub(crate) mod projection;
pub(crate) mod several;
pub(crate) mod tails;
pub(crate) mod threshold;
pub(crate) mod trees;

use crate::Error;
use crate::family::{Form, Model, Predict, Stored};

const ALL: &[&Form] = &[
    &boosted::FORM,
    &centroids::FORM,
    &ellipse::FORM,
    &grouped::FORM,
    &histograms::FORM,
    &kernel::FORM,
    &laplace::FORM,
    &linear::FORM,
    &local_density::FORM,
    &mixture::FORM,
    &neighbours::FORM,
    &normal_densities::FORM,
    &program::FORM,
    &projection::FORM,
    &several::FORM,
    &tails::FORM,
    &threshold::FORM,
    &trees::FORM,
    &labelled_rows::FORM,
];

/// A stored model, ready to predict.
///
/// # Errors
/// [`Error::Model`] where it is damaged, or of a form that is not known.
pub fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let name = stored.form();
    let form = ALL.iter().find(|form| form.name == name);
    let form = form.ok_or_else(|| Error::Model(format!("its form \"{name}\" is not known")))?;
    let opened = (form.open)(stored)?;
    match opened.width() > 0 && opened.values() > 0 {
        true => Ok(opened),
        false => Err(Error::Model("it has no features, or no values".into())),
    }
}

/// Checks a stored model from end to end; of many side by side, which [`open`] opens as they are asked for, each.
///
/// # Errors
/// As [`open`].
pub fn check(stored: &Stored) -> Result<(), Error> {
    if stored.form() == grouped::FORM.name { grouped::check(stored) } else { open(stored).map(drop) }
}

/// The bytes of a stored model made ready to be opened by many processes; `None` where there is nothing to do.
///
/// # Errors
/// [`Error::Model`] where it is damaged.
pub fn compile(stored: &Stored) -> Result<Option<Vec<u8>>, Error> {
    if stored.form() == grouped::FORM.name { grouped::compile(stored) } else { Ok(None) }
}

/// A trained model, ready to predict as when it has been stored.
///
/// # Errors
/// As [`open`].
pub fn open_new(model: &Model) -> Result<Box<dyn Predict>, Error> {
    open(&stored_of(model)?)
}

/// A trained model as it is when it has been stored.
pub(crate) fn stored_of(model: &Model) -> Result<Stored, Error> {
    Stored::read(model.to_bytes(&[])?.into())
}

/// Writes the contributions of features to the sum of their scores, from the mean of each; the last number is that of all.
pub(crate) fn put_contributions(scores: impl Iterator<Item = f64>, means: &[f64], contributions: &mut [f32]) {
    for ((contribution, score), mean) in contributions.iter_mut().zip(scores).zip(means) {
        *contribution = (score - mean) as f32;
    }
    if let Some(expected) = contributions.last_mut() {
        *expected = means.iter().sum::<f64>() as f32;
    }
}
