//! `pgml.chunk`: a long text in pieces.

use encoder::chunk::{Keep, Kind, Splitter};
use pgrx::{IntoDatum, pg_sys};
use serde_json::Value;

use super::{Kwargs, interrupted, refused};
use crate::error::{Error, Result};
use crate::sql::{Call, LONGEST_NAME, text_datum};

crate::sql_function!(pgml_chunk, chunk);

/// Bytes of a text: the pieces of it take some times as much.
const LONGEST_TEXT: usize = 64 << 20;

/// `pgml.chunk(splitter, text, kwargs)`: rows of chunk_index, chunk.
fn chunk(call: &Call) -> Result<pg_sys::Datum> {
    let name = call.text(0, "splitter", LONGEST_NAME)?.unwrap_or_default();
    let text = call.text(1, "text", LONGEST_TEXT)?.unwrap_or_default();
    let splitter = splitter(&name, Kwargs::of(call.json(2, "kwargs")?)?)?;
    let chunks = splitter.chunks(&text, &interrupted);
    call.rows((1i64..).zip(chunks).map(|(index, chunk)| [index.into_datum(), Some(text_datum(&chunk))]))
}

/// The splitter of that name, with what is asked for.
fn splitter(name: &str, mut kwargs: Kwargs) -> Result<Splitter> {
    let unknown = |error| refused(error).hint("Use recursive_character or character.");
    let mut splitter = Splitter::named(name).map_err(unknown)?;
    splitter.size = kwargs.size("chunk_size")?.unwrap_or(splitter.size);
    splitter.overlap = kwargs.size("chunk_overlap")?.unwrap_or(splitter.overlap);
    splitter.strip = kwargs.bool("strip_whitespace")?.unwrap_or(splitter.strip);
    let keep = |value: &Value| match value {
        Value::Bool(false) => Some(Keep::Dropped),
        Value::Bool(true) => Some(Keep::Start),
        Value::String(side) if side == "start" => Some(Keep::Start),
        Value::String(side) if side == "end" => Some(Keep::End),
        _ => None,
    };
    splitter.keep = kwargs.take("keep_separator", "true, false, start or end", keep)?.unwrap_or(splitter.keep);
    let own = match &mut splitter.kind {
        Kind::Character(separator) => {
            if let Some(given) = kwargs.text("separator")? {
                *separator = given;
            }
            "separator"
        }
        Kind::Recursive(separators) => {
            let texts = |value: &Value| -> Option<Vec<String>> {
                let texts = value.as_array()?.iter().map(|text| Some(text.as_str()?.to_owned()));
                texts.collect::<Option<Vec<_>>>().filter(|texts| (1..=100).contains(&texts.len()))
            };
            if let Some(given) = kwargs.take("separators", "an array of 1 to 100 texts", texts)? {
                *separators = given;
            }
            "separators"
        }
    };
    kwargs.end(&format!("chunk_size, chunk_overlap, {own}, keep_separator and strip_whitespace"))?;
    if splitter.size == 0 {
        return Err(Error::invalid("chunk_size must be at least 1"));
    }
    if splitter.overlap > splitter.size {
        let (size, overlap) = (splitter.size, splitter.overlap);
        return Err(Error::invalid(format!("chunk_overlap is {overlap}, more than chunk_size, which is {size}"))
            .hint("They are 4000 and 200 where nothing is said."));
    }
    Ok(splitter)
}
