//! UBJSON (draft 12) as far as models use it. XGBoost writes objects without a count, generic arrays with a count and
//! no end marker, and arrays of numbers with a type and a count; the reader takes the other forms too.
//!
//! A claimed length never reserves memory: it is compared with the bytes that are left, or counts values of which each
//! takes at least one byte.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::value::{Budget, Kind, MAX_DEPTH, Number, Numbers, Value};

/// Parses a whole document.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value<'_>> {
    let mut parser = Parser { bytes, at: 0, budget: Budget::of(bytes) };
    let marker = parser.marker()?;
    let value = parser.value(marker, 0)?;
    if parser.at == bytes.len() { Ok(value) } else { Err(parser.error("expected the end of the file")) }
}

/// The bytes of the value of a field of an object, marker and all, the last of that name; `None` where there is none.
pub(crate) fn member<'a>(object: &'a [u8], name: &str) -> Result<Option<&'a [u8]>> {
    let mut parser = Parser { bytes: object, at: 0, budget: Budget::of(object) };
    if !parser.eat(b'{') {
        return Err(parser.error("expected an object"));
    }
    let mut found = None;
    parser.fields(|parser, key, marker| {
        let start = parser.at - 1;
        parser.value(marker, 1)?;
        if key == name {
            found = object.get(start..parser.at);
        }
        Ok(())
    })?;
    Ok(found)
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    budget: Budget,
}

impl<'a> Parser<'a> {
    fn error(&self, what: impl Into<String>) -> Error {
        Error::Syntax { format: "UBJSON", offset: self.at, what: what.into() }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        match taken {
            Some(taken) => {
                self.at += count;
                Ok(taken)
            }
            None => {
                let left = self.bytes.len() - self.at;
                Err(self.error(format!("{count} bytes are claimed where {left} are left")))
            }
        }
    }

    fn skip_noop(&mut self) {
        while self.eat(b'N') {}
    }

    fn marker(&mut self) -> Result<u8> {
        self.skip_noop();
        match self.peek() {
            Some(marker) => {
                self.at += 1;
                Ok(marker)
            }
            None => Err(self.error("expected a value, found the end of the file")),
        }
    }

    fn number(&mut self, kind: Kind) -> Result<Number<'a>> {
        let word = self.take(kind.width())?;
        kind.number(word).ok_or_else(|| self.error("expected a number"))
    }

    fn length(&mut self) -> Result<usize> {
        let start = self.at;
        let marker = self.marker()?;
        let length = match Kind::of_marker(marker).filter(|kind| !matches!(kind, Kind::F32 | Kind::F64)) {
            Some(kind) => self.number(kind)?,
            None => {
                self.at = start;
                return Err(self.error(format!("expected a length, found {:?}", char::from(marker))));
            }
        };
        match length {
            Number::Int(length) if length >= 0 => usize::try_from(length).map_err(|_| self.error("length too large")),
            _ => {
                self.at = start;
                Err(self.error("a negative length"))
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>> {
        let length = self.length()?;
        let bytes = self.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(error) => {
                self.at = self.at - length + error.valid_up_to();
                Err(self.error("not UTF-8"))
            }
        }
    }

    fn value(&mut self, marker: u8, depth: u32) -> Result<Value<'a>> {
        if depth == MAX_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        if !self.budget.spend() {
            return Err(self.error("too many values for a model of this size"));
        }
        Ok(match marker {
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'S' => Value::String(self.string()?),
            b'C' => Value::String(Cow::Owned(self.take(1)?.iter().copied().map(char::from).collect())),
            b'Z' => Value::Null,
            b'T' => Value::Bool(true),
            b'F' => Value::Bool(false),
            _ => match Kind::of_marker(marker) {
                Some(kind) => Value::Number(self.number(kind)?),
                None => {
                    self.at -= 1;
                    return Err(self.error(format!("expected a value, found {:?}", char::from(marker))));
                }
            },
        })
    }

    /// `#` and a count, if they are next.
    fn count(&mut self) -> Result<Option<usize>> {
        if self.eat(b'#') { self.length().map(Some) } else { Ok(None) }
    }

    /// Whether a container whose `len` elements were read has another one; eats the end marker.
    fn more(&mut self, count: Option<usize>, len: usize, end: u8) -> bool {
        match count {
            Some(count) => len < count,
            None => {
                self.skip_noop();
                !self.eat(end)
            }
        }
    }

    fn object(&mut self, depth: u32) -> Result<Value<'a>> {
        let mut fields = Vec::new();
        self.fields(|parser, key, marker| {
            fields.push((key, parser.value(marker, depth + 1)?));
            Ok(())
        })?;
        Ok(Value::Object(fields))
    }

    /// Calls `each` with every key of the object whose brace was just read, and the marker of its value, which was read too.
    fn fields(&mut self, mut each: impl FnMut(&mut Self, Cow<'a, str>, u8) -> Result<()>) -> Result<()> {
        if self.peek() == Some(b'$') {
            return Err(self.error("an object of one type of values: XGBoost writes none"));
        }
        let count = self.count()?;
        let mut read = 0;
        while self.more(count, read, b'}') {
            let key = self.string()?;
            let marker = self.marker()?;
            each(self, key, marker)?;
            read += 1;
        }
        Ok(())
    }

    fn array(&mut self, depth: u32) -> Result<Value<'a>> {
        if self.eat(b'$') {
            return self.packed();
        }
        let count = self.count()?;
        let mut items = Vec::new();
        while self.more(count, items.len(), b']') {
            let marker = self.marker()?;
            items.push(self.value(marker, depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    /// The array whose `$` was just read.
    fn packed(&mut self) -> Result<Value<'a>> {
        let start = self.at;
        let marker = self.take(1)?.first().copied().unwrap_or_default();
        let Some(kind) = Kind::of_marker(marker) else {
            self.at = start;
            return Err(self.error(format!("expected a type of numbers, found {:?}", char::from(marker))));
        };
        let Some(count) = self.count()? else { return Err(self.error("expected '#'")) };
        let length =
            count.checked_mul(kind.width()).ok_or_else(|| self.error(format!("{count} elements are claimed")))?;
        let bytes = self.take(length)?;
        Ok(if bytes.is_empty() { Value::Array(Vec::new()) } else { Value::Numbers(Numbers::Packed { kind, bytes }) })
    }
}
