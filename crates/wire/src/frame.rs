//! Cutting a stream into messages: a type byte, a length of four bytes that counts itself, a body.

use crate::Error;

/// The longest message that is believed: PostgreSQL refuses more (its buffers end at 1 GB).
pub const MAX_BODY: usize = 0x3fff_ffff;
/// The type byte and the length.
pub const HEADER: usize = 5;

/// The header of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The type byte.
    pub tag: u8,
    /// Bytes of the body, which follows the header.
    pub body: usize,
}

impl Header {
    /// Bytes of the whole message.
    pub fn total(self) -> usize {
        HEADER + self.body
    }
}

/// Reads the header at the start of `bytes`: `None` when fewer than five bytes are there.
///
/// Fails on a length below 4 or above PostgreSQL's own limit, before anything is allocated for it.
pub fn header(bytes: &[u8]) -> Result<Option<Header>, Error> {
    let Some((&[tag, a, b, c, d], _)) = bytes.split_first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let length = i32::from_be_bytes([a, b, c, d]);
    match usize::try_from(length).ok().and_then(|length| length.checked_sub(4)) {
        Some(body) if body <= MAX_BODY => Ok(Some(Header { tag, body })),
        _ => Err(Error::Length { tag, length: i64::from(length) }),
    }
}

/// The first whole message of `bytes`: its type, its body, and the bytes after it; `None` when it is not whole yet.
pub fn message(bytes: &[u8]) -> Result<Option<Message<'_>>, Error> {
    let Some(header) = header(bytes)? else { return Ok(None) };
    match (bytes.get(HEADER..header.total()), bytes.get(header.total()..)) {
        (Some(body), Some(rest)) => Ok(Some(Message { tag: header.tag, body, rest })),
        _ => Ok(None),
    }
}

/// One whole message and what comes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The type byte.
    pub tag: u8,
    /// The body.
    pub body: &'a [u8],
    /// The bytes that follow the message.
    pub rest: &'a [u8],
}

/// Appends a message: the type, and the body that `fill` writes.
pub fn write(out: &mut Vec<u8>, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    write_length(out, fill);
}

/// Appends a length and the body that `fill` writes.
pub(crate) fn write_length(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    // What we write ourselves is far below 2 GB; a caller who does not keep to it sends a length that is refused.
    let length = i32::try_from(out.len() - start).unwrap_or(-1);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Appends a string and its terminating zero.
pub fn write_cstr(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.push(0);
}

/// Reads the fields of one body in order.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    tag: u8,
    left: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of `body`, of a message of type `tag` (for errors).
    pub fn new(tag: u8, body: &'a [u8]) -> Self {
        Self { tag, left: body }
    }

    /// The bytes that are not read yet.
    pub fn left(&self) -> &'a [u8] {
        self.left
    }

    /// A byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Error> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// A signed number of two bytes.
    pub fn i16(&mut self, field: &'static str) -> Result<i16, Error> {
        self.array(field).map(i16::from_be_bytes)
    }

    /// A signed number of four bytes.
    pub fn i32(&mut self, field: &'static str) -> Result<i32, Error> {
        self.array(field).map(i32::from_be_bytes)
    }

    /// Exactly `count` bytes.
    pub fn bytes(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], Error> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(Error::Short { tag: self.tag, field })?;
        self.left = left;
        Ok(taken)
    }

    /// A zero-terminated string, without its zero.
    pub fn cstr(&mut self, field: &'static str) -> Result<&'a [u8], Error> {
        let end = memchr::memchr(0, self.left).ok_or(Error::Short { tag: self.tag, field })?;
        let text = self.bytes(end, field)?;
        self.bytes(1, field)?;
        Ok(text)
    }

    /// A zero-terminated string of UTF-8.
    pub fn text(&mut self, field: &'static str) -> Result<&'a str, Error> {
        std::str::from_utf8(self.cstr(field)?).map_err(|_| Error::Text { tag: self.tag, field })
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        let (taken, left) = self.left.split_first_chunk::<N>().ok_or(Error::Short { tag: self.tag, field })?;
        self.left = left;
        Ok(*taken)
    }
}
