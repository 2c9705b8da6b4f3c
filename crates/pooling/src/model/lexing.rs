//! How a session reads the text of statements.

/// What tells one way of reading statements from another, the same on all workers: a hash of the settings.
pub type Reading = u128;

/// The reading of statements that are parsed while it is not clear how: they are shared with nobody.
pub const UNCLEAR: Reading = Reading::MAX;

/// How a server takes a text apart into words and literals, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lexing {
    /// A backslash in a literal is a character like others.
    Conforming,
    /// A backslash in a literal escapes what follows (`standard_conforming_strings` is off).
    Escaping,
    /// One or the other: a setting that decides is under way, or the text is in an encoding in which part of a character
    /// may look like a backslash or a quote.
    Unclear,
}

impl Lexing {
    const WORDS: [(&'static str, Self); 3] =
        [("conforming", Self::Conforming), ("escaping", Self::Escaping), ("unclear", Self::Unclear)];

    /// The word for it.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, lexing)| *lexing == self).map_or("", |(word, _)| word)
    }

    /// What a word means.
    pub fn of_word(word: &[u8]) -> Self {
        Self::WORDS.iter().find(|(of, _)| of.as_bytes() == word).map_or(Self::Unclear, |(_, lexing)| *lexing)
    }
}
