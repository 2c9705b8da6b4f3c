//! The parts of SQL, as far as they matter to what a command leaves in a session.

/// A part of SQL, as far as it matters here.
#[derive(Debug, PartialEq)]
pub enum Token {
    /// A keyword or an identifier, in lower case.
    Word(String),
    /// An identifier that a dot follows, in lower case.
    Schema(String),
    /// An identifier in quotes.
    Quoted,
    /// A character of its own, or a literal as `'`.
    Other(char),
    /// The end of the text.
    End,
}

/// Reads SQL token by token.
pub struct Scan<'a> {
    /// What is not read yet.
    pub rest: &'a str,
}

impl Scan<'_> {
    /// The next token; `None` where it cannot be told how the server would read the text.
    pub fn token(&mut self) -> Option<Token> {
        self.space()?;
        let mut characters = self.rest.chars();
        let Some(first) = characters.next() else { return Some(Token::End) };
        match first {
            '\'' => self.literal(false),
            '"' => {
                self.quoted('"')?;
                self.space()?;
                // A schema in quotes is as unknown as a function in quotes.
                Some(Token::Quoted)
            }
            '$' if !characters.next().is_some_and(|second| second.is_ascii_digit()) => self.dollar(),
            '$' | '0'..='9' => {
                let end = self.rest[1..].find(|c: char| !c.is_alphanumeric()).map_or(self.rest.len(), |end| end + 1);
                self.rest = &self.rest[end..];
                Some(Token::Other('0'))
            }
            _ if first == '_' || first.is_alphabetic() => {
                let is_part = |c: char| c == '_' || c == '$' || c.is_alphanumeric();
                let end = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
                let word = self.rest[..end].to_lowercase();
                self.rest = &self.rest[end..];
                if self.rest.starts_with('\'') && ["e", "b", "x", "n"].contains(&word.as_str()) {
                    return self.literal(word == "e");
                }
                if word == "u" && self.rest.starts_with('&') {
                    return None;
                }
                self.space()?;
                if self.rest.starts_with('.') {
                    self.rest = &self.rest[1..];
                    return Some(Token::Schema(word));
                }
                Some(Token::Word(word))
            }
            _ => {
                self.rest = &self.rest[first.len_utf8()..];
                Some(Token::Other(first))
            }
        }
    }

    /// Skips white space and comments.
    fn space(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with("--") {
                self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
            } else if self.rest.starts_with("/*") {
                let mut depth = 0;
                loop {
                    if let Some(inner) = self.rest.strip_prefix("/*") {
                        self.rest = inner;
                        depth += 1;
                    } else if let Some(outer) = self.rest.strip_prefix("*/") {
                        self.rest = outer;
                        depth -= 1;
                        if depth == 0 {
                            break;
                        }
                    } else {
                        self.rest = &self.rest[self.rest.chars().next()?.len_utf8()..];
                    }
                }
            } else {
                return Some(());
            }
        }
    }

    /// A string constant. What a backslash means in a plain one is a setting, so that is left open.
    fn literal(&mut self, escapes: bool) -> Option<Token> {
        if !escapes {
            let text = self.quoted('\'')?;
            return (!text.contains('\\')).then_some(Token::Other('\''));
        }
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => {
                    characters.next()?;
                }
                '\'' => {
                    // A doubled quote is read as two strings, side by side; that makes no difference here.
                    self.rest = &self.rest[at + 1..];
                    return if self.rest.starts_with('\'') { self.literal(true) } else { Some(Token::Other('\'')) };
                }
                _ => {}
            }
        }
        None
    }

    /// What is between quotes, which are doubled inside.
    fn quoted(&mut self, quote: char) -> Option<&str> {
        let text = self.rest;
        let mut end = 1;
        loop {
            end += text.get(end..)?.find(quote)? + 1;
            if !text[end..].starts_with(quote) {
                self.rest = &text[end..];
                return Some(&text[1..end - 1]);
            }
            end += 1;
        }
    }

    /// A string between `$tag$`s.
    fn dollar(&mut self) -> Option<Token> {
        let end = self.rest[1..].find('$')? + 2;
        let (tag, rest) = self.rest.split_at(end);
        self.rest = &rest[rest.find(tag)? + tag.len()..];
        Some(Token::Other('\''))
    }
}
