//! Protocol Buffers' wire format, read where it lies: nothing is copied, and nothing is believed of a length before it was
//! held against the bytes that are there.

use forest::error::{Error, Result};

/// A message: where it lies in the file.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
}

/// The value of a field.
#[derive(Clone, Copy)]
pub(super) enum Field<'a> {
    Number(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    /// A text, a message or packed numbers.
    Bytes(Message<'a>),
}

fn syntax(offset: usize, what: &str) -> Error {
    Error::Syntax { format: "ONNX", offset, what: what.to_owned() }
}

impl<'a> Message<'a> {
    pub(super) fn of(file: &'a [u8]) -> Message<'a> {
        Message { file, at: 0, end: file.len() }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        &self.file[self.at..self.end]
    }

    /// Its fields, in their order.
    pub(super) fn fields(self) -> impl Iterator<Item = Result<(u32, Field<'a>)>> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let next = (rest.at < rest.end).then(|| rest.field());
            if matches!(next, Some(Err(_))) {
                rest.at = rest.end;
            }
            next
        })
    }

    /// The bytes as a text.
    pub(super) fn text(&self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()).map_err(|_| syntax(self.at, "a text that is not UTF-8"))
    }

    /// That something is wrong with this message.
    pub(super) fn wrong(&self, what: &str) -> Error {
        syntax(self.at, what)
    }

    fn field(&mut self) -> Result<(u32, Field<'a>)> {
        let start = self.at;
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| syntax(start, "a field whose number is too large"))?;
        let field = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Fixed64(self.fixed()?),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).ok().filter(|length| *length <= self.end - self.at);
                let length = length.ok_or_else(|| syntax(start, "a field that ends behind its message"))?;
                let bytes = Message { end: self.at + length, ..*self };
                self.at += length;
                Field::Bytes(bytes)
            }
            5 => Field::Fixed32(self.fixed()?),
            _ => return Err(syntax(start, "a field of a type that there is not")),
        };
        Ok((number, field))
    }

    fn varint(&mut self) -> Result<u64> {
        let start = self.at;
        let mut number = 0;
        for (shift, byte) in (0..64).step_by(7).zip(&self.file[start..self.end]) {
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(syntax(start, "a number that does not end"))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.file[self.at..self.end].first_chunk::<N>().copied();
        let bytes = bytes.ok_or_else(|| syntax(self.at, "a number that is cut"))?;
        self.at += N;
        Ok(bytes)
    }
}

impl<'a> Field<'a> {
    pub(super) fn message(self) -> Result<Message<'a>> {
        match self {
            Field::Bytes(message) => Ok(message),
            _ => Err(syntax(0, "a number where a message should be")),
        }
    }

    pub(super) fn text(self) -> Result<&'a str> {
        self.message()?.text()
    }

    pub(super) fn int(self) -> Result<i64> {
        match self {
            Field::Number(number) => Ok(number.cast_signed()),
            _ => Err(syntax(0, "something else where a number should be")),
        }
    }

    /// Appends what a repeated field of whole numbers has, packed or not.
    pub(super) fn ints(self, out: &mut Vec<i64>) -> Result<()> {
        match self {
            Field::Bytes(mut packed) => {
                room(out, packed.bytes().iter().filter(|byte| **byte & 0x80 == 0).count())?;
                while packed.at < packed.end {
                    out.push(packed.varint()?.cast_signed());
                }
                Ok(())
            }
            one => {
                out.push(one.int()?);
                Ok(())
            }
        }
    }

    /// Appends what a repeated field of float32 has, packed or not.
    pub(super) fn floats(self, out: &mut Vec<f32>) -> Result<()> {
        match self {
            Field::Fixed32(bytes) => out.push(f32::from_le_bytes(bytes)),
            Field::Bytes(packed) => numbers(packed, out, f32::from_le_bytes)?,
            _ => return Err(syntax(0, "something else where a float should be")),
        }
        Ok(())
    }

    /// Appends what a repeated field of float64 has, packed or not.
    pub(super) fn doubles(self, out: &mut Vec<f64>) -> Result<()> {
        match self {
            Field::Fixed64(bytes) => out.push(f64::from_le_bytes(bytes)),
            Field::Bytes(packed) => numbers(packed, out, f64::from_le_bytes)?,
            _ => return Err(syntax(0, "something else where a double should be")),
        }
        Ok(())
    }
}

/// Appends the numbers that these bytes are.
pub(super) fn numbers<T, const N: usize>(bytes: Message<'_>, out: &mut Vec<T>, read: fn([u8; N]) -> T) -> Result<()> {
    let (whole, rest) = bytes.bytes().as_chunks::<N>();
    if !rest.is_empty() {
        return Err(bytes.wrong("numbers of which the last is cut"));
    }
    room(out, whole.len())?;
    out.extend(whole.iter().map(|number| read(*number)));
    Ok(())
}

/// Reserves memory for more elements.
pub(super) fn room<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    room::reserve(vec, more).map_err(|room::NoRoom { bytes }| Error::Invalid {
        path: "the model".into(),
        what: format!("there is no memory for {bytes} bytes of it"),
    })
}
