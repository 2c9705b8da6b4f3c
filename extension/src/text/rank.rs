//! `pgml.rank`: how well texts answer a query, by a cross-encoder.

use std::time::Instant;

use pgrx::{IntoDatum, pg_sys};

use super::{Kwargs, LONGEST_TEXT, MOST_TEXTS, interrupted, refused};
use crate::error::Result;
use crate::names;
use crate::sql::{Call, text_datum};

crate::sql_function!(pgml_rank, rank);

/// `pgml.rank(transformer or model_id, query, documents, kwargs)`: rows of corpus_id, score, text, the best first.
fn rank(call: &Call) -> Result<pg_sys::Datum> {
    let began = Instant::now();
    let (transformer, tally) = names::transformer(crate::evaluate::key(call)?)?;
    let query = call.text(1, "query", LONGEST_TEXT)?.unwrap_or_default();
    let documents = call.text_array(2, "documents", MOST_TEXTS, LONGEST_TEXT)?.unwrap_or_default();
    let mut kwargs = Kwargs::of(call.json(3, "kwargs")?)?;
    let top = kwargs.size("top_k")?.unwrap_or(usize::MAX);
    let with_texts = kwargs.bool("return_documents")?.unwrap_or(false);
    kwargs.ignore(&["device", "batch_size", "show_progress_bar"]);
    kwargs.end("top_k, return_documents, batch_size and device")?;
    let scores = transformer.encoder.scores(&query, &documents, &interrupted).map_err(refused)?;
    tally.rows(1, documents.len(), began);
    let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    // Equal ones stay in their order.
    ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    call.rows(ranked.into_iter().take(top).map(|(index, score)| {
        let text = with_texts.then(|| text_datum(&documents[index]));
        [(index as i64).into_datum(), f64::from(score).into_datum(), text]
    }))
}
