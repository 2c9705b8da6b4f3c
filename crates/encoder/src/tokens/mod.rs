//! From a text to tokens, as `tokenizer.json` says.
//!
//! `bert` and `unigram` normalise and split, `vocabulary` has the pieces and `charsmap` a table of characters. What a tokenizer has that is not known here is
//! refused when the model is read, so that no text gets other tokens than the library gives it.

mod bert;
mod charsmap;
mod unigram;
mod vocabulary;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, unreadable};
use bert::Bert;
use unigram::Unigram;
pub use vocabulary::{Entries, Vocabulary};

const FILE: &str = "tokenizer.json";

/// How a text becomes tokens, beside the vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub words: Words,
    /// Tokens that are found in a text as they are, before it is split.
    pub added: Vec<Added>,
    /// Around one text.
    pub single: Vec<Part>,
    /// Around two.
    pub pair: Vec<Part>,
}

/// How words become pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Words {
    Bert(Bert),
    Unigram(Unigram),
}

impl Words {
    fn read(tokenizer: &Value) -> Result<Words, Error> {
        match tokenizer.get("model").map_or("none", kind_of) {
            "WordPiece" => Bert::read(tokenizer).map(Words::Bert),
            "Unigram" => Unigram::read(tokenizer).map(Words::Unigram),
            other => Err(Error::Unsupported(format!("the model {other} of {FILE} (WordPiece and Unigram are)"))),
        }
    }

    /// The token of what is in no vocabulary.
    pub fn unknown(&self) -> u32 {
        match self {
            Words::Bert(words) => words.unknown(),
            Words::Unigram(words) => words.unknown(),
        }
    }

    /// Whether pieces are chosen by scores.
    pub fn need_scores(&self) -> bool {
        matches!(self, Words::Unigram(_))
    }

    /// Appends the tokens of a text; after the `most` first there may be others or not.
    fn tokens(&self, vocabulary: &Vocabulary, text: &str, most: usize, ids: &mut Vec<u32>) {
        match self {
            Words::Bert(words) => words.tokens(vocabulary, text, most, ids),
            Words::Unigram(words) => words.tokens(vocabulary, text, most, ids),
        }
    }
}

/// The type of a part of the tokenizer's file.
fn kind_of(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or("none")
}

/// The steps of a sequence, or the one that it is.
fn steps<'a>(part: &'a Value, name: &str) -> Vec<&'a Value> {
    match kind_of(part) {
        "Sequence" => part.get(name).and_then(Value::as_array).into_iter().flatten().collect(),
        _ if part.is_null() => Vec::new(),
        _ => vec![part],
    }
}

/// A token that is no part of words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    pub text: String,
    pub id: u32,
    /// Whether blanks before and behind are taken with it.
    pub strips: (bool, bool),
}

/// A part of what is given to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// This token, of this type.
    Token(u32, u32),
    /// The first text.
    First(u32),
    /// The second.
    Second(u32),
}

/// Tokens, and the type of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    pub ids: Vec<u32>,
    pub types: Vec<u32>,
}

impl Settings {
    /// Reads the tokenizer's file.
    pub fn read(tokenizer: &Value) -> Result<Settings, Error> {
        let added = tokenizer.get("added_tokens").and_then(Value::as_array).into_iter().flatten();
        let added = added.map(Added::read).collect::<Result<Vec<_>, Error>>()?;
        let (single, pair) = templates(tokenizer.get("post_processor").unwrap_or(&Value::Null))?;
        Ok(Settings { words: Words::read(tokenizer)?, added, single, pair })
    }

    /// Tokens that are put around one text or two, at most.
    pub fn around(&self) -> usize {
        around(&self.single).max(around(&self.pair))
    }

    /// The tokens of a text alone.
    fn of_text(&self, vocabulary: &Vocabulary, text: &str, most: usize) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut rest = text;
        // What is beyond the most is cut away in any case.
        while !rest.is_empty() && ids.len() < most {
            let found = self.added.iter().filter_map(|added| Some((rest.find(&added.text)?, added)));
            // The leftmost, the longest of these.
            let next = found.min_by_key(|(place, added)| (*place, usize::MAX - added.text.len()));
            let Some((place, added)) = next else {
                self.words.tokens(vocabulary, rest, most, &mut ids);
                break;
            };
            let (mut before, mut behind) = (&rest[..place], &rest[place + added.text.len()..]);
            if added.strips.0 {
                before = before.trim_end();
            }
            if added.strips.1 {
                behind = behind.trim_start();
            }
            self.words.tokens(vocabulary, before, most, &mut ids);
            ids.push(added.id);
            rest = behind;
        }
        ids
    }

    /// What the network is given of a text: `most` tokens at most.
    pub fn single(&self, vocabulary: &Vocabulary, text: &str, most: usize) -> Tokens {
        let room = most.saturating_sub(around(&self.single));
        let mut ids = self.of_text(vocabulary, text, room);
        ids.truncate(room);
        put(&self.single, &ids, &[])
    }

    /// What it is given of two texts: of the longer one is cut first.
    pub fn pair(&self, vocabulary: &Vocabulary, first: &str, second: &str, most: usize) -> Tokens {
        let room = most.saturating_sub(around(&self.pair));
        let mut first = self.of_text(vocabulary, first, most);
        let mut second = self.of_text(vocabulary, second, most);
        let (one, other) = longest_first(first.len(), second.len(), room);
        first.truncate(one);
        second.truncate(other);
        put(&self.pair, &first, &second)
    }
}

/// How long two texts may be that have room for so many tokens together.
fn longest_first(first: usize, second: usize, room: usize) -> (usize, usize) {
    if first + second <= room {
        return (first, second);
    }
    // All of the shorter one, if that is at most half; else half of each, and the odd one for the longer.
    let short = first.min(second).min(room / 2);
    if first > second { (room - short, short) } else { (short, room - short) }
}

/// Tokens that a template adds.
fn around(template: &[Part]) -> usize {
    template.iter().filter(|part| matches!(part, Part::Token(..))).count()
}

fn put(template: &[Part], first: &[u32], second: &[u32]) -> Tokens {
    let mut tokens = Tokens::default();
    for part in template {
        let (ids, kind) = match part {
            Part::Token(id, kind) => (std::slice::from_ref(id), *kind),
            Part::First(kind) => (first, *kind),
            Part::Second(kind) => (second, *kind),
        };
        tokens.ids.extend_from_slice(ids);
        tokens.types.resize(tokens.ids.len(), kind);
    }
    tokens
}

impl Added {
    fn read(json: &Value) -> Result<Added, Error> {
        let is = |name: &str| json.get(name).and_then(Value::as_bool).unwrap_or(false);
        let text = json.get("content").and_then(Value::as_str).filter(|text| !text.is_empty());
        let id = json.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let (Some(text), Some(id)) = (text, id) else {
            return Err(unreadable(FILE, "one of added_tokens lacks content or id"));
        };
        // One that is looked for in the text as it is normalised is the same there, if normalising leaves it as it is.
        let changes = is("normalized") && !(is("special") && text.to_lowercase() == text);
        if is("single_word") || changes {
            let which = if changes { "normalized" } else { "single_word" };
            return Err(Error::Unsupported(format!("the token \"{text}\", which is {which},")));
        }
        Ok(Added { text: text.to_owned(), id, strips: (is("lstrip"), is("rstrip")) })
    }
}

/// What is put around one text, and around two.
fn templates(processor: &Value) -> Result<(Vec<Part>, Vec<Part>), Error> {
    let special = |name: &str| {
        let id = processor.get(name)?.get(1)?.as_u64()?;
        u32::try_from(id).ok()
    };
    match processor.get("type").and_then(Value::as_str) {
        Some("TemplateProcessing") => Ok((template(processor, "single")?, template(processor, "pair")?)),
        Some("BertProcessing") => {
            let (Some(cls), Some(sep)) = (special("cls"), special("sep")) else {
                return Err(unreadable(FILE, "its post_processor lacks cls or sep"));
            };
            let single = vec![Part::Token(cls, 0), Part::First(0), Part::Token(sep, 0)];
            let pair = [single.as_slice(), &[Part::Second(1), Part::Token(sep, 1)]].concat();
            Ok((single, pair))
        }
        Some("RobertaProcessing") => {
            let (Some(cls), Some(sep)) = (special("cls"), special("sep")) else {
                return Err(unreadable(FILE, "its post_processor lacks cls or sep"));
            };
            let single = vec![Part::Token(cls, 0), Part::First(0), Part::Token(sep, 0)];
            let pair = [single.as_slice(), &[Part::Token(sep, 0), Part::Second(0), Part::Token(sep, 0)]].concat();
            Ok((single, pair))
        }
        kind => Err(Error::Unsupported(format!("the post_processor {}", kind.unwrap_or("of no type")))),
    }
}

/// One of the templates of a `TemplateProcessing`.
fn template(processor: &Value, name: &str) -> Result<Vec<Part>, Error> {
    let refused = || unreadable(FILE, format!("the template \"{name}\" of its post_processor cannot be understood"));
    let ids = |name: &str| processor.get("special_tokens")?.get(name)?.get("ids")?.as_array();
    let mut parts = Vec::new();
    for piece in processor.get(name).and_then(Value::as_array).ok_or_else(refused)? {
        let (kind, piece) = piece.as_object().and_then(|piece| piece.iter().next()).ok_or_else(refused)?;
        let kind_of_token = piece.get("type_id").and_then(Value::as_u64).and_then(|kind| u32::try_from(kind).ok());
        let kind_of_token = kind_of_token.ok_or_else(refused)?;
        let id = piece.get("id").and_then(Value::as_str).ok_or_else(refused)?;
        match (kind.as_str(), id) {
            ("Sequence", "A") => parts.push(Part::First(kind_of_token)),
            ("Sequence", "B") => parts.push(Part::Second(kind_of_token)),
            ("SpecialToken", id) => {
                for id in ids(id).ok_or_else(refused)? {
                    let id = id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(refused)?;
                    parts.push(Part::Token(id, kind_of_token));
                }
            }
            _ => return Err(refused()),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::longest_first;

    #[test]
    fn of_the_longer_text_is_cut_first() {
        for (first, second, room, expected) in [
            (3, 4, 10, (3, 4)),
            (3, 40, 10, (3, 7)),
            (40, 3, 10, (7, 3)),
            (40, 30, 10, (5, 5)),
            (40, 30, 11, (6, 5)),
            (30, 40, 11, (5, 6)),
            (40, 40, 11, (5, 6)),
        ] {
            assert_eq!(longest_first(first, second, room), expected, "{first} {second} {room}");
        }
    }
}
