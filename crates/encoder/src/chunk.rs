//! Splitting of texts into chunks, with LangChain's results.
//!
//! A text is split at a separator, and the parts are put together again as long as they are no longer than a chunk; the
//! next chunk begins with the last parts of the one before, as far as the overlap goes. Lengths are in characters.

use crate::error::Error;

/// How a text is split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splitter {
    pub kind: Kind,
    /// Characters of a chunk.
    pub size: usize,
    /// Characters that a chunk has of the one before.
    pub overlap: usize,
    pub keep: Keep,
    /// Whether blanks go from the ends of chunks.
    pub strip: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// At this separator alone.
    Character(String),
    /// At the first of these that the text has, and parts that are still too long at the ones behind it.
    Recursive(Vec<String>),
}

/// What becomes of a separator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Dropped,
    /// It begins the part behind it.
    Start,
    /// It ends the part before it.
    End,
}

impl Splitter {
    /// The splitter of that name with the settings that it has where nothing is said.
    ///
    /// # Errors
    /// [`Error::Option`] where there is none.
    pub fn named(name: &str) -> Result<Splitter, Error> {
        let (kind, keep) = match name {
            "character" => (Kind::Character("\n\n".into()), Keep::Dropped),
            "recursive_character" => (Kind::Recursive(["\n\n", "\n", " ", ""].map(String::from).into()), Keep::Start),
            other => return Err(Error::Option(format!("there is no splitter \"{other}\""))),
        };
        Ok(Splitter { kind, size: 4000, overlap: 200, keep, strip: true })
    }

    /// The chunks of a text. `each` is called now and then, and may unwind.
    pub fn chunks(&self, text: &str, each: &dyn Fn()) -> Vec<String> {
        let mut chunks = Vec::new();
        match &self.kind {
            Kind::Character(separator) => {
                let parts = self.split(text, separator);
                self.merge(&parts, separator, &mut chunks, each);
            }
            Kind::Recursive(separators) => self.recursive(text, separators, &mut chunks, each),
        }
        chunks
    }

    fn recursive(&self, text: &str, separators: &[String], chunks: &mut Vec<String>, each: &dyn Fn()) {
        let found = separators.iter().position(|separator| text.contains(separator.as_str()));
        let last = separators.len().saturating_sub(1);
        let place = found.unwrap_or(last);
        let separator = separators.get(place).map_or("", String::as_str);
        // Behind the last, and behind one that splits into characters, nothing splits any more.
        let finer = if found.is_none() || separator.is_empty() { &[] } else { &separators[place + 1..] };
        let mut short = Vec::new();
        for part in self.split(text, separator) {
            if is_shorter(part, self.size) {
                short.push(part);
                continue;
            }
            self.merge(&short, separator, chunks, each);
            short.clear();
            match finer {
                [] => chunks.push(part.to_owned()),
                finer => self.recursive(part, finer, chunks, each),
            }
        }
        self.merge(&short, separator, chunks, each);
    }

    /// The parts between separators that are not empty; for an empty separator, the characters.
    fn split<'a>(&self, text: &'a str, separator: &str) -> Vec<&'a str> {
        if separator.is_empty() {
            let ends = text.char_indices().map(|(place, character)| (place, place + character.len_utf8()));
            return ends.map(|(begin, end)| &text[begin..end]).collect();
        }
        let parts: Vec<&str> = match self.keep {
            Keep::Dropped => text.split(separator).collect(),
            Keep::End => text.split_inclusive(separator).collect(),
            Keep::Start => {
                let mut begin = 0;
                let places = text.match_indices(separator).map(|(place, _)| place).chain([text.len()]);
                places.map(|end| &text[std::mem::replace(&mut begin, end)..end]).collect()
            }
        };
        parts.into_iter().filter(|part| !part.is_empty()).collect()
    }

    /// Puts parts together to chunks.
    fn merge(&self, parts: &[&str], separator: &str, chunks: &mut Vec<String>, each: &dyn Fn()) {
        let separator = if self.keep == Keep::Dropped { separator } else { "" };
        let between = separator.chars().count();
        let lengths: Vec<usize> = parts.iter().map(|part| part.chars().count()).collect();
        // The chunk is of the parts from `first` on, with so many characters.
        let (mut first, mut total) = (0, 0);
        for (next, length) in lengths.iter().enumerate() {
            let with_next = |total: usize, first| total + length + if next > first { between } else { 0 };
            if with_next(total, first) > self.size && next > first {
                each();
                self.join(&parts[first..next], separator, chunks);
                while total > self.overlap || with_next(total, first) > self.size && total > 0 {
                    total -= lengths[first] + if next - first > 1 { between } else { 0 };
                    first += 1;
                }
            }
            total = with_next(total, first);
        }
        self.join(&parts[first..], separator, chunks);
    }

    fn join(&self, parts: &[&str], separator: &str, chunks: &mut Vec<String>) {
        let joined = parts.join(separator);
        let chunk = if self.strip { joined.trim_matches(is_blank) } else { joined.as_str() };
        if !chunk.is_empty() {
            chunks.push(chunk.to_owned());
        }
    }
}

fn is_shorter(text: &str, size: usize) -> bool {
    text.len() < size || text.chars().count() < size
}

/// What Python takes for blank.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(splitter: &Splitter, text: &str) -> Vec<String> {
        splitter.chunks(text, &|| ())
    }

    /// What LangChain 1.1.3 gives for these.
    #[test]
    fn chunks_are_those_of_langchain() {
        let splitter = Splitter { size: 20, overlap: 8, ..Splitter::named("recursive_character").unwrap() };
        assert_eq!(
            chunks(&splitter, "The quick brown fox jumps over the lazy dog"),
            ["The quick brown fox", "fox jumps over the", "the lazy dog"]
        );
        let splitter = Splitter { size: 10, overlap: 0, ..Splitter::named("character").unwrap() };
        assert_eq!(chunks(&splitter, "one\n\ntwo\n\nthree four\n\n\n\nfive"), ["one\n\ntwo", "three four", "five"]);
    }

    #[test]
    fn nothing_is_made_of_blanks() {
        let splitter = Splitter::named("recursive_character").unwrap();
        assert!(chunks(&splitter, "").is_empty() && chunks(&splitter, " \n\n ").is_empty());
    }
}
