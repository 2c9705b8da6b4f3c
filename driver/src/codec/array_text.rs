//! Arrays in text form, `{a,"b c",NULL}`, of the types that travel as text only.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::array::{self, MAX_DIMENSIONS};
use super::python::{self, Done, Filling, OrRaise, Raised, Value, protocol_error, value_error};
use super::{Codec, Context, text};

/// A list, of lists where braces nest.
pub fn decode<'py>(cx: &Context<'_, 'py>, element: &Codec, delimiter: u8, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let whole = text::decode(cx, data)?;
    let whole = whole.cast::<PyString>().map_err(PyErr::from).or_raise(py)?;
    // Syntax is told by ASCII, which in some encodings can be half of a character; in UTF-8 it cannot.
    let within = Context { utf8: true, ..*cx };
    let literal = python::as_utf8(py, whole)?;
    let mut parser = Parser { literal, at: 0, delimiter };
    let result = parser.array(&within, element);
    result.map_err(|trouble| match trouble {
        Trouble::Syntax(why) => {
            let shown = python::repr_of(whole.as_any());
            protocol_error(py, format!("malformed array literal {shown}: {why}"))
        }
        Trouble::Element(raised) => raised,
    })
}

enum Trouble {
    Syntax(String),
    Element(Raised),
}

impl From<Raised> for Trouble {
    fn from(raised: Raised) -> Self {
        Trouble::Element(raised)
    }
}

struct Parser<'a> {
    literal: &'a [u8],
    at: usize,
    delimiter: u8,
}

/// The white space that PostgreSQL skips.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | 0x0b | 0x0c)
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.literal.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    fn syntax<T>(&self, why: &str) -> Result<T, Trouble> {
        Err(Trouble::Syntax(why.to_owned()))
    }

    fn unexpected<T>(&self) -> Result<T, Trouble> {
        match self.peek() {
            None => self.syntax("unexpected end of string"),
            Some(byte) => {
                let position = self.at + 1;
                Err(Trouble::Syntax(format!("unexpected character {:?} at position {position}", char::from(byte))))
            }
        }
    }

    /// `[lower:upper]…=`, whose sizes the braces must confirm.
    fn bounds(&mut self) -> Result<Option<Vec<i64>>, Trouble> {
        let mut sizes = Vec::new();
        loop {
            self.skip_space();
            if self.peek() != Some(b'[') {
                break;
            }
            if sizes.len() == MAX_DIMENSIONS {
                return self.syntax("number of array dimensions (7) exceed the maximum expected (6)");
            }
            self.at += 1;
            let mut upper = self.number()?;
            let mut lower = 1;
            if self.peek() == Some(b':') {
                self.at += 1;
                lower = upper;
                upper = self.number()?;
            }
            if self.peek() != Some(b']') {
                return self.syntax("missing ']' after array dimensions");
            }
            self.at += 1;
            sizes.push(upper - lower + 1);
        }
        if sizes.is_empty() {
            return Ok(None);
        }
        if self.peek() != Some(b'=') {
            return self.syntax("missing '=' after array dimensions");
        }
        self.at += 1;
        self.skip_space();
        Ok(Some(sizes))
    }

    fn number(&mut self) -> Result<i64, Trouble> {
        let start = self.at;
        if matches!(self.peek(), Some(b'-' | b'+')) {
            self.at += 1;
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = self.literal.get(start..self.at).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| digits.parse::<i32>().ok()) {
            Some(number) => Ok(number.into()),
            None => self.syntax("missing array dimension value"),
        }
    }

    fn array<'py>(&mut self, cx: &Context<'_, 'py>, element: &Codec) -> Result<Bound<'py, PyAny>, Trouble> {
        let announced = self.bounds()?;
        let mut sizes = Vec::new();
        let result = self.level(cx, element, &mut sizes, 0)?;
        self.skip_space();
        if self.peek().is_some() {
            return self.unexpected();
        }
        let empty = sizes.last().is_none_or(|size| *size == 0);
        let matching = |announced: &Vec<i64>| {
            announced.len() == sizes.len() && announced.iter().zip(&sizes).all(|(a, b)| *a == *b as i64)
        };
        if announced.is_some_and(|announced| empty || !matching(&announced)) {
            return self.syntax("specified array dimensions do not match array content");
        }
        if empty {
            return Ok(Filling::list(cx.py, 0)?.finish());
        }
        Ok(result)
    }

    /// One pair of braces. `sizes` are those of the dimensions seen so far, this one's being at `depth`.
    fn level<'py>(
        &mut self,
        cx: &Context<'_, 'py>,
        element: &Codec,
        sizes: &mut Vec<usize>,
        depth: usize,
    ) -> Result<Bound<'py, PyAny>, Trouble> {
        if depth >= MAX_DIMENSIONS {
            return self.syntax("number of array dimensions (7) exceed the maximum expected (6)");
        }
        self.skip_space();
        if self.peek() != Some(b'{') {
            return self.unexpected();
        }
        self.at += 1;
        let first = depth == sizes.len();
        if first {
            sizes.push(0);
        }
        let mut items = Vec::new();
        let mut arrays = None;
        self.skip_space();
        if self.peek() != Some(b'}') {
            loop {
                self.skip_space();
                let is_array = self.peek() == Some(b'{');
                if arrays.is_some_and(|arrays| arrays != is_array) {
                    return self.unexpected();
                }
                arrays = Some(is_array);
                items.push(if is_array { self.level(cx, element, sizes, depth + 1)? } else { self.item(cx, element)? });
                self.skip_space();
                match self.peek() {
                    Some(byte) if byte == self.delimiter => self.at += 1,
                    Some(b'}') => break,
                    _ => return self.unexpected(),
                }
            }
        } else if depth > 0 {
            return self.unexpected();
        }
        self.at += 1;
        match sizes.get_mut(depth) {
            Some(size) if first => *size = items.len(),
            Some(size) if *size == items.len() => {}
            _ => {
                let position = self.at;
                return Err(Trouble::Syntax(format!("inconsistent sub-array dimensions at position {position}")));
            }
        }
        if sizes.len() > depth + 1 && arrays == Some(false) {
            return self.syntax("inconsistent sub-array dimensions");
        }
        let mut list = Filling::list(cx.py, items.len())?;
        for item in items {
            list.push(item);
        }
        Ok(list.finish())
    }

    fn item<'py>(&mut self, cx: &Context<'_, 'py>, element: &Codec) -> Result<Bound<'py, PyAny>, Trouble> {
        let mut value = Vec::new();
        // What of the value must be kept even if it is white space.
        let mut kept = 0;
        let mut quoted = false;
        let mut in_quotes = false;
        loop {
            let Some(byte) = self.peek() else { return self.syntax("unexpected end of string") };
            match byte {
                b'"' => {
                    if !in_quotes && quoted {
                        return self.unexpected();
                    }
                    in_quotes = !in_quotes;
                    quoted = true;
                    kept = value.len();
                }
                b'\\' => {
                    self.at += 1;
                    let Some(escaped) = self.peek() else { return self.syntax("unexpected end of string") };
                    value.push(escaped);
                    quoted = true;
                    kept = value.len();
                }
                _ if in_quotes => value.push(byte),
                b'}' => break,
                b'{' => return self.unexpected(),
                _ if byte == self.delimiter => break,
                _ => {
                    value.push(byte);
                    if !is_space(byte) {
                        kept = value.len();
                    }
                }
            }
            self.at += 1;
        }
        value.truncate(kept);
        if !quoted {
            if value.is_empty() {
                return self.unexpected();
            }
            if value.eq_ignore_ascii_case(b"NULL") {
                return Ok(cx.py.None().into_bound(cx.py));
            }
        }
        Ok(element.decode_value(cx, &value)?)
    }
}

/// Appends an array literal.
pub fn encode(
    cx: &Context<'_, '_>,
    element: &Arc<Codec>,
    delimiter: u8,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Done {
    let py = cx.py;
    let sizes = array::shape(cx, value)?;
    let within = Context { utf8: true, ..*cx };
    if cx.utf8 {
        return write(&within, element, delimiter, value, &sizes, out);
    }
    let mut literal = Vec::new();
    write(&within, element, delimiter, value, &sizes, &mut literal)?;
    let literal = python::utf8(py, &literal)?;
    text::encode(cx, &literal, out)
}

fn write(
    cx: &Context<'_, '_>,
    element: &Arc<Codec>,
    delimiter: u8,
    value: &Bound<'_, PyAny>,
    sizes: &[usize],
    out: &mut Vec<u8>,
) -> Done {
    let py = cx.py;
    let Some((&size, inner)) = sizes.split_first() else { return Ok(()) };
    let mut written = 0;
    out.push(b'{');
    for item in value.try_iter().or_raise(py)? {
        let item = item.or_raise(py)?;
        if written > 0 {
            out.push(delimiter);
        }
        written += 1;
        if !inner.is_empty() {
            write(cx, element, delimiter, &item, inner, out)?;
        } else if item.is_none() {
            out.extend_from_slice(b"NULL");
        } else {
            let mut plain = Vec::new();
            element.encode_value(cx, &item, &mut plain).or_else(|raised| array::element_error(py, raised, None))?;
            quote(&plain, delimiter, out);
        }
    }
    out.push(b'}');
    if written == size { Ok(()) } else { Err(value_error(py, "non-homogeneous array")) }
}

fn quote(plain: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'{' | b'}') || *byte == delimiter || is_space(*byte);
    if !plain.is_empty() && !plain.eq_ignore_ascii_case(b"NULL") && !plain.iter().any(special) {
        out.extend_from_slice(plain);
        return;
    }
    out.push(b'"');
    for &byte in plain {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}
