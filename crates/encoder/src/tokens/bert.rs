//! BERT's tokens: the text is cleaned, split at blanks and punctuation, and each word into the longest pieces that the
//! vocabulary has (WordPiece).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use super::{FILE, Vocabulary};
use crate::error::{Error, unreadable};

/// How a text is cleaned and its words are cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bert {
    clean: bool,
    chinese: bool,
    strip_accents: bool,
    lowercase: bool,
    /// Before a piece that is not the first of its word.
    prefix: String,
    /// Characters of a word; a longer one is unknown.
    longest: usize,
    unknown: u32,
}

impl Bert {
    pub fn read(tokenizer: &Value) -> Result<Bert, Error> {
        let part = |name: &str| tokenizer.get(name).unwrap_or(&Value::Null);
        let kind = |part: &Value| part.get("type").and_then(Value::as_str).unwrap_or("none").to_owned();
        let (normalizer, splitter, model) = (part("normalizer"), part("pre_tokenizer"), part("model"));
        for (what, found, known) in [
            ("normalizer", kind(normalizer), "BertNormalizer"),
            ("pre_tokenizer", kind(splitter), "BertPreTokenizer"),
            ("model", kind(model), "WordPiece"),
        ] {
            if found != known {
                return Err(Error::Unsupported(format!("the {what} {found} of {FILE} ({known} is)")));
            }
        }
        let is = |name: &str| normalizer.get(name).and_then(Value::as_bool);
        let text = |name: &str| model.get(name).and_then(Value::as_str);
        let unknown = text("unk_token").and_then(|name| model.get("vocab")?.get(name)?.as_u64());
        let unknown = unknown.and_then(|id| u32::try_from(id).ok());
        let lowercase = is("lowercase").unwrap_or(true);
        let longest = model.get("max_input_chars_per_word").and_then(Value::as_u64).unwrap_or(100);
        Ok(Bert {
            clean: is("clean_text").unwrap_or(true),
            chinese: is("handle_chinese_chars").unwrap_or(true),
            strip_accents: is("strip_accents").unwrap_or(lowercase),
            lowercase,
            prefix: text("continuing_subword_prefix").unwrap_or("##").to_owned(),
            longest: usize::try_from(longest).unwrap_or(100).min(1000),
            unknown: unknown.ok_or_else(|| unreadable(FILE, "its vocab lacks the unk_token"))?,
        })
    }

    /// The token of a word that is not made of pieces.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Appends the tokens of a text; after the `most` first there may be others or not.
    pub fn tokens(&self, vocabulary: &Vocabulary, text: &str, most: usize, ids: &mut Vec<u32>) {
        let mut word = String::new();
        for character in text.chars() {
            if ids.len() > most {
                return;
            }
            if self.clean && is_dropped(character) {
                continue;
            }
            if self.chinese && is_chinese(character) {
                self.word(vocabulary, &mut word, ids);
                self.letter(vocabulary, character, &mut word, ids);
                self.word(vocabulary, &mut word, ids);
            } else {
                self.letter(vocabulary, character, &mut word, ids);
            }
        }
        self.word(vocabulary, &mut word, ids);
    }

    /// Adds a character to the word, as it is normalised.
    fn letter(&self, vocabulary: &Vocabulary, character: char, word: &mut String, ids: &mut Vec<u32>) {
        if character.is_ascii() {
            let lower = if self.lowercase { character.to_ascii_lowercase() } else { character };
            return self.normal(vocabulary, lower, word, ids);
        }
        let mut each = |character: char| {
            if self.strip_accents && character.general_category() == GeneralCategory::NonspacingMark {
                return;
            }
            match self.lowercase {
                true => character.to_lowercase().for_each(|lower| self.normal(vocabulary, lower, word, ids)),
                false => self.normal(vocabulary, character, word, ids),
            }
        };
        match self.strip_accents {
            true => std::iter::once(character).nfd().for_each(&mut each),
            false => each(character),
        }
    }

    fn normal(&self, vocabulary: &Vocabulary, character: char, word: &mut String, ids: &mut Vec<u32>) {
        if character.is_whitespace() {
            self.word(vocabulary, word, ids);
        } else if is_punctuation(character) {
            self.word(vocabulary, word, ids);
            word.push(character);
            self.word(vocabulary, word, ids);
        } else {
            word.push(character);
        }
    }

    /// Cuts a word into pieces, and empties it.
    fn word(&self, vocabulary: &Vocabulary, word: &mut String, ids: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let before = ids.len();
        if word.chars().nth(self.longest).is_some() || !self.pieces(vocabulary, word, ids) {
            ids.truncate(before);
            ids.push(self.unknown);
        }
        word.clear();
    }

    /// Whether the word is made of pieces that the vocabulary has.
    fn pieces(&self, vocabulary: &Vocabulary, word: &str, ids: &mut Vec<u32>) -> bool {
        let mut piece = Vec::with_capacity(self.prefix.len() + word.len());
        let mut rest = word;
        while !rest.is_empty() {
            piece.clear();
            if rest.len() < word.len() {
                piece.extend_from_slice(self.prefix.as_bytes());
            }
            let prefix = piece.len();
            piece.extend_from_slice(rest.as_bytes());
            let ends = rest.char_indices().rev().map(|(place, character)| place + character.len_utf8());
            let mut ends = ends.filter(|end| prefix + end <= vocabulary.longest());
            let found = ends.find_map(|end| Some((vocabulary.find(&piece[..prefix + end])?, end)));
            let Some((id, end)) = found else { return false };
            ids.push(id);
            rest = &rest[end..];
        }
        true
    }
}

/// Controls, and what stands for no character.
fn is_dropped(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\0' | '\u{fffd}' => true,
        ' '..='~' => false,
        other => {
            matches!(
                other.general_category(),
                GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse
            )
        }
    }
}

fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation()
        || !character.is_ascii() && character.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// The blocks of ideographs that BERT takes for words each. (The last but two begins where the library's does.)
fn is_chinese(character: char) -> bool {
    matches!(
        character,
        '\u{4e00}'..='\u{9fff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{20000}'..='\u{2a6df}'
            | '\u{2a700}'..='\u{2b73f}'
            | '\u{2b740}'..='\u{2b81f}'
            | '\u{2b920}'..='\u{2ceaf}'
            | '\u{f900}'..='\u{faff}'
            | '\u{2f800}'..='\u{2fa1f}'
    )
}
