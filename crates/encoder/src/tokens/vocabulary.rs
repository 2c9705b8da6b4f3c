//! The pieces of words and their ids, used where they lie: the texts in order, so that one is found by halving.

use safetensors::Dtype;
use serde_json::Value;

use super::charsmap::{self, Map};
use super::{FILE, steps};
use crate::arrays::Array;
use crate::error::{Error, unreadable};
use crate::store::Opened;

/// A vocabulary on its way to be stored.
pub struct Entries {
    /// The texts, one behind the other, in order.
    pub texts: Vec<u8>,
    /// Where each text ends.
    pub ends: Vec<u32>,
    pub ids: Vec<u32>,
    /// Of each text, where pieces are chosen by scores.
    pub scores: Vec<f64>,
    /// The table that maps characters, where there is one.
    pub units: Vec<u32>,
    pub mapped: Vec<u8>,
}

impl Entries {
    /// Reads the vocabulary of a tokenizer's file, whose ids must be below `size`.
    pub fn read(tokenizer: &Value, size: usize) -> Result<Entries, Error> {
        let vocab = tokenizer.get("model").and_then(|model| model.get("vocab"));
        let mut pieces: Vec<(&str, u32, Option<f64>)> = Vec::new();
        match vocab {
            Some(Value::Object(vocab)) => {
                room::reserve(&mut pieces, vocab.len())?;
                for (text, id) in vocab {
                    let id = id.as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX);
                    pieces.push((text, id, None));
                }
            }
            Some(Value::Array(vocab)) => {
                room::reserve(&mut pieces, vocab.len())?;
                for (id, piece) in (0..).zip(vocab) {
                    let (text, score) = (piece.get(0).and_then(Value::as_str), piece.get(1).and_then(Value::as_f64));
                    let (Some(text), Some(score)) = (text, score) else {
                        return Err(unreadable(FILE, format!("piece {id} of its vocab has no text or no score")));
                    };
                    pieces.push((text, id, Some(score)));
                }
            }
            _ => return Err(unreadable(FILE, "its model has no vocab")),
        }
        if let Some((text, ..)) = pieces.iter().find(|(_, id, _)| *id as usize >= size) {
            return Err(unreadable(FILE, format!("the id of \"{text}\" is not below vocab_size")));
        }
        pieces.sort_unstable_by_key(|(text, id, _)| (*text, *id));
        let (mut texts, mut ends) = (Vec::new(), Vec::new());
        for (text, ..) in &pieces {
            texts.extend_from_slice(text.as_bytes());
            ends.push(u32::try_from(texts.len()).map_err(|_| unreadable(FILE, "its vocab is too large"))?);
        }
        let normalizers = steps(tokenizer.get("normalizer").unwrap_or(&Value::Null), "normalizers");
        let table = normalizers.into_iter().find(|part| part.get("precompiled_charsmap").is_some());
        let (units, mapped) = table.map(charsmap::read).transpose()?.unwrap_or_default();
        let scores = pieces.iter().filter_map(|(.., score)| *score).collect();
        Ok(Entries { texts, ends, ids: pieces.iter().map(|(_, id, _)| *id).collect(), scores, units, mapped })
    }
}

/// A vocabulary as it is stored.
pub struct Vocabulary {
    texts: Array<u8>,
    ends: Array<u32>,
    ids: Array<u32>,
    scores: Array<f64>,
    units: Array<u32>,
    mapped: Array<u8>,
    longest: usize,
    worst: f64,
}

impl Vocabulary {
    /// Of an image.
    pub fn open(image: &Opened) -> Result<Vocabulary, Error> {
        let ends: Array<u32> = image.array("ends", Dtype::U32, None)?;
        let ids: Array<u32> = image.array("ids", Dtype::U32, None)?;
        let texts: Array<u8> = image.array("texts", Dtype::U8, None)?;
        let scores: Array<f64> = image.array("scores", Dtype::F64, None)?;
        let last = ends.last().copied().unwrap_or(0) as usize;
        let fits = ends.len() == ids.len() && last == texts.len() && (scores.is_empty() || scores.len() == ids.len());
        if !fits || !ends.is_sorted() {
            return Err(Error::Damaged("the vocabulary is damaged".into()));
        }
        let lengths = ends.iter().zip([0].iter().chain(ends.iter())).map(|(end, begin)| end - begin);
        let longest = lengths.max().unwrap_or(0) as usize;
        let worst = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let (units, mapped) = (image.array("units", Dtype::U32, None)?, image.array("mapped", Dtype::U8, None)?);
        Ok(Vocabulary { texts, ends, ids, scores, units, mapped, longest, worst })
    }

    /// Bytes of the longest text.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The largest id.
    pub fn largest(&self) -> u32 {
        self.ids.iter().copied().max().unwrap_or(0)
    }

    /// The lowest score.
    pub fn worst(&self) -> f64 {
        self.worst
    }

    /// Whether the texts have scores.
    pub fn has_scores(&self) -> bool {
        self.scores.len() == self.ids.len()
    }

    /// The text with its characters mapped by the table, if there is one.
    pub fn map(&self, text: &str) -> String {
        match self.units.is_empty() {
            true => text.to_owned(),
            false => Map { units: &self.units, texts: &self.mapped }.apply(text),
        }
    }

    /// Calls `each` for all texts that `text` begins with, the shortest first: with the length, the id and the score.
    pub fn prefixes(&self, text: &[u8], mut each: impl FnMut(usize, u32, f64)) {
        // Those that begin as the text does up to `place`.
        let (mut low, mut high) = (0, self.ids.len());
        for (place, byte) in text.iter().enumerate().take(self.longest) {
            low = self.first(low, high, |own| own.get(place) >= Some(byte));
            high = self.first(low, high, |own| own.get(place) > Some(byte));
            if low == high {
                return;
            }
            if self.text(low).len() == place + 1 {
                each(place + 1, self.ids[low], self.scores.get(low).copied().unwrap_or(0.0));
            }
        }
    }

    /// The first text of a stretch that is so, as are all behind it.
    fn first(&self, mut low: usize, mut high: usize, is_so: impl Fn(&[u8]) -> bool) -> usize {
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_so(self.text(middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The id of a text.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        let (mut low, mut high) = (0, self.ids.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.text(middle).cmp(text) {
                std::cmp::Ordering::Equal => return Some(self.ids[middle]),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn text(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.texts[begin..self.ends[index] as usize]
    }
}
