//! JSON as XGBoost writes it: RFC 8259, and the tokens `NaN`, `Infinity` and `-Infinity`, which no stock parser takes.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::value::{Budget, MAX_DEPTH, Number, Numbers, Value};

/// Parses a whole document.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value<'_>> {
    let text = std::str::from_utf8(bytes).map_err(|error| Error::Syntax {
        format: "JSON",
        offset: error.valid_up_to(),
        what: "not UTF-8".into(),
    })?;
    let mut parser = Parser { text, at: 0, budget: Budget::of(bytes) };
    parser.skip_space();
    let value = parser.value(0)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.error("expected the end of the file")),
    }
}

/// The bytes of the value of a field of an object, the last of that name; `None` where there is none.
pub(crate) fn member<'a>(object: &'a [u8], name: &str) -> Result<Option<&'a [u8]>> {
    let text = std::str::from_utf8(object).map_err(|error| Error::Syntax {
        format: "JSON",
        offset: error.valid_up_to(),
        what: "not UTF-8".into(),
    })?;
    let mut parser = Parser { text, at: 0, budget: Budget::of(object) };
    parser.skip_space();
    if parser.peek() != Some(b'{') {
        return Err(parser.expected("an object"));
    }
    let mut found = None;
    parser.fields(|parser, key| {
        let start = parser.at;
        parser.value(1)?;
        if key == name {
            found = object.get(start..parser.at);
        }
        Ok(())
    })?;
    Ok(found)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    budget: Budget,
}

impl<'a> Parser<'a> {
    fn error(&self, what: impl Into<String>) -> Error {
        Error::Syntax { format: "JSON", offset: self.at, what: what.into() }
    }

    fn expected(&self, what: &str) -> Error {
        match self.rest().chars().next() {
            Some(found) => self.error(format!("expected {what}, found {found:?}")),
            None => self.error(format!("expected {what}, found the end of the file")),
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: u32) -> Result<Value<'a>> {
        if depth == MAX_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        if !self.budget.spend() {
            return Err(self.error("too many values for a model of this size"));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'n') if self.eat_word("null") => Ok(Value::Null),
            Some(b't') if self.eat_word("true") => Ok(Value::Bool(true)),
            Some(b'f') if self.eat_word("false") => Ok(Value::Bool(false)),
            _ => Ok(Value::Number(Number::Text(self.number()?.ok_or_else(|| self.expected("a value"))?))),
        }
    }

    fn object(&mut self, depth: u32) -> Result<Value<'a>> {
        let mut fields = Vec::new();
        self.fields(|parser, key| {
            fields.push((key, parser.value(depth + 1)?));
            Ok(())
        })?;
        Ok(Value::Object(fields))
    }

    /// Calls `each` with every key of the object whose brace is next, where its value begins.
    fn fields(&mut self, mut each: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>) -> Result<()> {
        self.at += 1;
        self.skip_space();
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key"));
            }
            let key = self.string()?;
            self.skip_space();
            if !self.eat(b':') {
                return Err(self.expected("':'"));
            }
            self.skip_space();
            each(self, key)?;
            self.skip_space();
            if self.eat(b'}') {
                return Ok(());
            }
            if !self.eat(b',') {
                return Err(self.expected("',' or '}'"));
            }
        }
    }

    fn array(&mut self, depth: u32) -> Result<Value<'a>> {
        self.at += 1;
        let start = self.at;
        if let Some(numbers) = self.numbers()? {
            return Ok(Value::Numbers(numbers));
        }
        self.at = start;
        let mut items = Vec::new();
        self.skip_space();
        if self.eat(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.eat(b']') {
                return Ok(Value::Array(items));
            }
            if !self.eat(b',') {
                return Err(self.expected("',' or ']'"));
            }
        }
    }

    /// The array whose bracket was just read, if it holds numbers only and at least one.
    fn numbers(&mut self) -> Result<Option<Numbers<'a>>> {
        let start = self.at;
        loop {
            self.skip_space();
            if self.number()?.is_none() {
                return Ok(None);
            }
            self.skip_space();
            if self.eat(b']') {
                return Ok(self.text.get(start..self.at - 1).map(Numbers::Text));
            }
            if !self.eat(b',') {
                return Ok(None);
            }
        }
    }

    /// `None` if what follows does not begin as a number does.
    fn number(&mut self) -> Result<Option<&'a str>> {
        let start = self.at;
        let negative = self.eat(b'-');
        if self.eat_word("Infinity") || (!negative && self.eat_word("NaN")) {
            return Ok(self.text.get(start..self.at));
        }
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return if negative { Err(self.expected("a digit")) } else { Ok(None) };
        }
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(self.text.get(start..self.at))
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    /// The string whose opening quote is next.
    fn string(&mut self) -> Result<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        let mut unescaped: Option<String> = None;
        let mut copied = start;
        loop {
            match self.peek() {
                None => return Err(self.expected("'\"'")),
                Some(b'"') => {
                    let tail = self.text.get(copied..self.at).unwrap_or_default();
                    self.at += 1;
                    return Ok(match unescaped {
                        None => Cow::Borrowed(tail),
                        Some(text) => Cow::Owned(text + tail),
                    });
                }
                Some(b'\\') => {
                    let text = unescaped.get_or_insert_default();
                    text.push_str(self.text.get(copied..self.at).unwrap_or_default());
                    self.at += 1;
                    text.push(self.escape()?);
                    copied = self.at;
                }
                // Control characters are let through: XGBoost writes some of them unescaped.
                Some(_) => self.at += 1,
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char> {
        let Some(byte) = self.peek() else { return Err(self.expected("an escape")) };
        let c = match byte {
            b'"' | b'\\' | b'/' => byte.into(),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.expected("an escape")),
        };
        self.at += 1;
        Ok(c)
    }

    fn unicode_escape(&mut self) -> Result<char> {
        let high = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&high) && self.eat_word("\\u") {
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(self.error("a lone surrogate in a string"));
            }
            0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
        } else {
            high
        };
        char::from_u32(code).ok_or_else(|| self.error("a lone surrogate in a string"))
    }

    fn hex4(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 4;
        code.ok_or_else(|| Error::Syntax {
            format: "JSON",
            offset: self.at - 4,
            what: "expected four hexadecimal digits".into(),
        })
    }
}
