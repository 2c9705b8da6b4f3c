//! How a session reads the text of statements.

/// The identity of a way of reading statements, the same on all workers: a hash of the settings.
pub type Reading = u128;

/// The reading of statements that are parsed while it is not clear how: they are not shared.
pub const UNCLEAR: Reading = Reading::MAX;

/// The way in which a server takes a text apart into words and literals, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lexing {
    /// A backslash in a literal is a character like others.
    Conforming,
    /// A backslash in a literal escapes the next character (`standard_conforming_strings` is off).
    Escaping,
    /// The lexing is not known: a setting that decides is under way, or the text is in an encoding in which part of a
    /// character may look like a backslash or a quote.
    Unclear,
}

impl Lexing {
    const WORDS: [(&'static str, Self); 3] =
        [("conforming", Self::Conforming), ("escaping", Self::Escaping), ("unclear", Self::Unclear)];

    /// The word for the lexing.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, lexing)| *lexing == self).map_or("", |(word, _)| word)
    }

    /// The lexing that a word stands for.
    pub fn of_word(word: &[u8]) -> Self {
        Self::WORDS.iter().find(|(of, _)| of.as_bytes() == word).map_or(Self::Unclear, |(_, lexing)| *lexing)
    }
}
