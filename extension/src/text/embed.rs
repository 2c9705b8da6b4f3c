//! `pgml.embed`: vectors of texts.

use std::time::Instant;

use encoder::Options;
use pgrx::{IntoDatum, pg_sys};

use super::stored::Transformer;
use super::{Kwargs, LONGEST_TEXT, MOST_TEXTS, interrupted, refused};
use crate::error::{Error, Result};
use crate::names;
use crate::sql::Call;

crate::sql_function!(pgml_embed, embed);
crate::sql_function!(pgml_embed_many, embed_many);

/// Texts whose vectors are in memory at once.
const AT_ONCE: usize = 256;

/// `pgml.embed(transformer or model_id, text, kwargs)`.
fn embed(call: &Call) -> Result<pg_sys::Datum> {
    let began = Instant::now();
    let (transformer, tally) = names::transformer(crate::evaluate::key(call)?)?;
    let options = options(&transformer, call)?;
    let Some(text) = call.text(1, "text", LONGEST_TEXT)? else { return Ok(call.null()) };
    let vectors = transformer.encoder.embed(&[text], &options, &interrupted).map_err(refused)?;
    tally.rows(1, 1, began);
    Ok(vectors.into_iter().next().into_datum().unwrap_or(pg_sys::Datum::from(0)))
}

/// `pgml.embed(transformer or model_id, texts, kwargs)`: a row for each.
fn embed_many(call: &Call) -> Result<pg_sys::Datum> {
    let began = Instant::now();
    let (transformer, tally) = names::transformer(crate::evaluate::key(call)?)?;
    let options = options(&transformer, call)?;
    let texts = call.text_array(1, "inputs", MOST_TEXTS, LONGEST_TEXT)?.unwrap_or_default();
    let mut failed = None;
    let vectors =
        texts.chunks(AT_ONCE).map_while(|texts| match transformer.encoder.embed(texts, &options, &interrupted) {
            Ok(vectors) => Some(vectors),
            Err(error) => {
                failed = Some(error);
                None
            }
        });
    let rows = call.rows(vectors.flatten().map(|vector| [vector.into_datum()]))?;
    tally.rows(1, texts.len(), began);
    match failed {
        None => Ok(rows),
        Some(error) => Err(refused(error)),
    }
}

/// What is asked for in `kwargs`.
fn options(transformer: &Transformer, call: &Call) -> Result<Options> {
    let mut kwargs = Kwargs::of(call.json(2, "kwargs")?)?;
    let about = transformer.encoder.about();
    let (prompt, name) = (kwargs.text("prompt")?, kwargs.text("prompt_name")?);
    let known = |name: &str| {
        about.prompts.get(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = about.prompts.keys().map(String::as_str).collect();
            let error = Error::invalid(format!("the model has no prompt \"{name}\""));
            match names.as_slice() {
                [] => error.hint("It has none: give one as \"prompt\"."),
                names => error.hint(format!("It has {}.", names.join(", "))),
            }
        })
    };
    let prompt = match (prompt, name.or_else(|| about.default_prompt.clone())) {
        (Some(prompt), _) => prompt,
        (None, Some(name)) => known(&name)?,
        (None, None) => String::new(),
    };
    let dimensions = kwargs.size("truncate_dim")?;
    let most = transformer.encoder.dimensions();
    if dimensions.is_some_and(|dimensions| !(1..=most).contains(&dimensions)) {
        return Err(Error::invalid(format!("truncate_dim must be from 1 to {most}, the dimensions of the model")));
    }
    let normalize = kwargs.bool("normalize_embeddings")?.unwrap_or(false);
    kwargs.ignore(&["device", "batch_size", "show_progress_bar"]);
    kwargs.end("prompt, prompt_name, normalize_embeddings, truncate_dim, batch_size and device")?;
    Ok(Options { prompt, dimensions, normalize })
}
