//! SentencePiece's tokens, as XLM-RoBERTa has them: characters are mapped by a table that the model brings along, blanks
//! become a letter of their own, and each word is cut into the pieces whose scores sum to most (Unigram).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FILE, Vocabulary, kind_of, steps};
use crate::error::{Error, unreadable};

/// What stands for a blank.
const BLANK: char = '\u{2581}';

/// How much worse than the worst piece a character is that no piece has.
const UNKNOWN: f64 = 10.0;

/// How a text is cleaned and cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unigram {
    unknown: u32,
    /// Whether several blanks are one.
    collapse: bool,
    /// Whether the text is split at every kind of blank first.
    split: bool,
}

impl Unigram {
    pub fn read(tokenizer: &Value) -> Result<Unigram, Error> {
        let part = |name: &str| tokenizer.get(name).unwrap_or(&Value::Null);
        let unknown = part("model").get("unk_id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let unknown = unknown.ok_or_else(|| unreadable(FILE, "its model lacks unk_id"))?;
        if part("model").get("byte_fallback").and_then(Value::as_bool) == Some(true) {
            return Err(Error::Unsupported(format!("byte_fallback of {FILE}")));
        }
        let mut collapse = false;
        for normalizer in steps(part("normalizer"), "normalizers") {
            match kind_of(normalizer) {
                "Precompiled" => {}
                "Replace" if is_collapse(normalizer) => collapse = true,
                other => return Err(Error::Unsupported(format!("the normalizer {other} of {FILE}"))),
            }
        }
        let (mut split, mut blanks) = (false, false);
        for splitter in steps(part("pre_tokenizer"), "pretokenizers") {
            match kind_of(splitter) {
                "WhitespaceSplit" => split = true,
                "Metaspace" if is_metaspace(splitter) => blanks = true,
                other => return Err(Error::Unsupported(format!("the pre_tokenizer {other} of {FILE}"))),
            }
        }
        if !blanks {
            return Err(Error::Unsupported(format!("a Unigram without Metaspace in {FILE}")));
        }
        Ok(Unigram { unknown, collapse, split })
    }

    /// The token of what has no piece.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Appends the tokens of a text; after the `most` first there may be others or not.
    pub fn tokens(&self, vocabulary: &Vocabulary, text: &str, most: usize, ids: &mut Vec<u32>) {
        let mapped = vocabulary.map(text);
        let words: Box<dyn Iterator<Item = &str>> = match self.split {
            true => Box::new(mapped.split_whitespace()),
            false => Box::new(std::iter::once(mapped.as_str()).filter(|text| !text.is_empty())),
        };
        for word in words {
            let mut marked = String::with_capacity(word.len() + 3);
            if !word.starts_with([' ', BLANK]) {
                marked.push(BLANK);
            }
            for character in word.chars() {
                let blank = character == ' ' || character == BLANK;
                if blank && self.collapse && character == ' ' && marked.ends_with(BLANK) {
                    continue;
                }
                marked.push(if blank { BLANK } else { character });
            }
            let mut begin = 0;
            let ends = marked.match_indices(BLANK).map(|(place, _)| place).chain([marked.len()]);
            for end in ends {
                if ids.len() > most {
                    return;
                }
                let piece = &marked[std::mem::replace(&mut begin, end)..end];
                self.best(vocabulary, piece, ids);
            }
        }
    }

    /// Cuts a word into the pieces whose scores sum to most.
    fn best(&self, vocabulary: &Vocabulary, word: &str, ids: &mut Vec<u32>) {
        // Of each place, the best way to it: its score, where its last piece begins, and that piece.
        let mut ways: Vec<Option<(f64, usize, u32)>> = vec![None; word.len() + 1];
        let unknown = vocabulary.worst() - UNKNOWN;
        for (place, character) in word.char_indices() {
            let before = ways[place].map_or(0.0, |(score, ..)| score);
            let one = place + character.len_utf8();
            let mut has_one = false;
            let mut try_way = |end: usize, score: f64, id: u32| {
                if ways[end].is_none_or(|(best, ..)| score > best) {
                    ways[end] = Some((score, place, id));
                }
            };
            vocabulary.prefixes(&word.as_bytes()[place..], |length, id, score| {
                has_one |= place + length == one;
                try_way(place + length, before + score, id);
            });
            if !has_one {
                try_way(one, before + unknown, self.unknown);
            }
        }
        let (mut end, first) = (word.len(), ids.len());
        while let Some((_, begin, id)) = ways[end].filter(|_| end > 0) {
            // What is unknown in a row is one token.
            if id != self.unknown || ids.len() == first || ids.last() != Some(&id) {
                ids.push(id);
            }
            end = begin;
        }
        ids[first..].reverse();
    }
}

/// Whether a replacement has one blank in place of several.
fn is_collapse(part: &Value) -> bool {
    let pattern = part.get("pattern").and_then(|pattern| pattern.get("Regex")).and_then(Value::as_str);
    pattern == Some(" {2,}") && part.get("content").and_then(Value::as_str) == Some(" ")
}

/// Whether it puts the mark before the text and splits at it.
fn is_metaspace(part: &Value) -> bool {
    let text = |name: &str| part.get(name).and_then(Value::as_str);
    let prefixed = match text("prepend_scheme") {
        Some(scheme) => scheme == "always" || scheme == "first",
        None => part.get("add_prefix_space").and_then(Value::as_bool).unwrap_or(true),
    };
    text("replacement") == Some("\u{2581}") && prefixed && part.get("split").and_then(Value::as_bool).unwrap_or(true)
}
