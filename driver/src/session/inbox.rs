//! The bytes that were received and are not read yet.
//!
//! The transport reads straight into the free end of one buffer. What is whole is read in place; only the beginning of
//! a message that is not whole yet is moved, to the front. The buffer grows with the bytes that really come, never by
//! the length that a message claims, so a lying server costs no memory.

use wire::frame;

/// How much is offered to a read.
const CHUNK: usize = 256 * 1024;
/// A buffer that one long message made larger than this is given back once it is empty.
const KEEP: usize = 4 * CHUNK;

/// Has the allocator keep a megabyte or two that is free in place of giving it back to the system at once.
///
/// glibc gives the end of the heap back when 128 KB of it are free, and asks for it again with the next result, page
/// by page; that costs as much as all else about rows of a kilobyte. It raises that bound to twice the size of the
/// largest block that it has seen come and go by itself.
pub fn settle_allocator() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(1024 * 1024)));
}

/// Bytes from the server.
#[derive(Debug, Default)]
pub struct Inbox {
    buffer: Vec<u8>,
    /// Where the unread bytes begin.
    start: usize,
    /// Where they end, and a read may write.
    end: usize,
}

/// One whole message: its type and where in the buffer its body lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The type byte.
    pub tag: u8,
    start: usize,
    end: usize,
}

/// Messages of one type that came one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// How long their bodies are together.
    pub length: usize,
    first: usize,
    end: usize,
}

impl Inbox {
    /// The free end of the buffer, never empty, into which bytes may be written before [`Inbox::filled`].
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if self.buffer.len() > KEEP {
                self.buffer = Vec::new();
            }
        }
        if self.buffer.len() - self.end < CHUNK / 2 {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            if self.buffer.len() - self.end < CHUNK / 2 {
                let length = (self.end * 2).max(CHUNK);
                self.buffer.resize(length, 0);
            }
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Takes the first `count` bytes of the space as come.
    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// Takes bytes that came by another way.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.space();
            let count = space.len().min(bytes.len());
            let (now, later) = bytes.split_at(count);
            if let Some(place) = space.get_mut(..count) {
                place.copy_from_slice(now);
            }
            self.filled(count);
            bytes = later;
        }
    }

    /// The next whole message, which is thereby read; `None` when more bytes are needed.
    #[inline]
    pub fn message(&mut self) -> Result<Option<Message>, wire::Error> {
        let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(header) = frame::header(unread)? else { return Ok(None) };
        if unread.len() < header.total() {
            return Ok(None);
        }
        let start = self.start + frame::HEADER;
        self.start += header.total();
        Ok(Some(Message { tag: header.tag, start, end: self.start }))
    }

    /// The body of a message, as long as nothing else has come.
    #[inline]
    pub fn body(&self, message: Message) -> &[u8] {
        self.buffer.get(message.start..message.end).unwrap_or_default()
    }

    /// How far the whole messages of one type go that follow `first`, and how long all their bodies are together.
    pub fn run(&self, first: Message) -> Run {
        let mut run = Run { length: first.end - first.start, first: first.start, end: self.start };
        while let Some(unread) = self.buffer.get(run.end..self.end)
            && let Ok(Some(header)) = frame::header(unread)
            && header.tag == first.tag
            && header.total() <= unread.len()
        {
            run.length += header.total() - frame::HEADER;
            run.end += header.total();
        }
        run
    }

    /// Reads the messages of a run: their bodies, one after the other, fill `out`.
    pub fn take_run(&mut self, run: Run, mut out: &mut [u8]) {
        let mut at = run.first - frame::HEADER;
        while at < run.end
            && let Some(Ok(Some(header))) = self.buffer.get(at..run.end).map(frame::header)
            && let Some(body) = self.buffer.get(at + frame::HEADER..at + header.total())
            && let Some((place, rest)) = out.split_at_mut_checked(body.len())
        {
            place.copy_from_slice(body);
            out = rest;
            at += header.total();
        }
        self.start = run.end;
    }

    /// How many bytes have come and are not read.
    pub fn unread(&self) -> usize {
        self.end - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        frame::write(&mut out, tag, |out| out.extend_from_slice(body));
        out
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let long = vec![7; 3 * CHUNK];
        let mut stream = message(b'T', b"abc");
        stream.extend(message(b'D', &long));
        stream.extend(message(b'Z', b"I"));
        for cut in [1, 2, 3, 5, 8, 4096, CHUNK - 1, CHUNK, 4 * CHUNK] {
            let mut inbox = Inbox::default();
            let mut seen = Vec::new();
            for part in stream.chunks(cut) {
                inbox.feed(part);
                while let Some(message) = inbox.message().unwrap() {
                    seen.push((message.tag, inbox.body(message).to_vec()));
                }
            }
            assert_eq!(seen, [(b'T', b"abc".to_vec()), (b'D', long.clone()), (b'Z', b"I".to_vec())], "cut at {cut}");
            assert_eq!(inbox.unread(), 0);
        }
    }

    #[test]
    fn a_run_ends_where_another_type_begins_or_the_rest_has_not_come() {
        let mut stream = message(b'd', b"ab");
        stream.extend(message(b'd', b""));
        stream.extend(message(b'd', b"cde"));
        let whole = stream.len();
        stream.extend(message(b'c', b""));
        for cut in [whole, whole + 1, stream.len()] {
            let mut inbox = Inbox::default();
            inbox.feed(&stream[..cut]);
            let first = inbox.message().unwrap().unwrap();
            let run = inbox.run(first);
            assert_eq!(run.length, 5);
            let mut bodies = [0; 5];
            inbox.take_run(run, &mut bodies);
            assert_eq!(&bodies, b"abcde");
            assert_eq!(inbox.unread(), cut - whole);
        }
        let mut inbox = Inbox::default();
        inbox.feed(&stream[..whole - 1]);
        let first = inbox.message().unwrap().unwrap();
        assert_eq!(inbox.run(first).length, 2);
    }

    #[test]
    fn a_claimed_length_allocates_nothing() {
        let mut inbox = Inbox::default();
        inbox.feed(&[b'D', 0x3f, 0xff, 0xff, 0x00, 1, 2, 3]);
        assert_eq!(inbox.message(), Ok(None));
        inbox.space();
        assert!(inbox.buffer.len() <= 2 * CHUNK);
    }

    #[test]
    fn impossible_lengths_are_errors() {
        for length in [[0, 0, 0, 3], [0xff, 0xff, 0xff, 0xff], [0x40, 0, 0, 5]] {
            let mut inbox = Inbox::default();
            inbox.feed(b"D");
            inbox.feed(&length);
            assert!(inbox.message().is_err());
        }
    }

    #[test]
    fn a_buffer_made_large_by_one_message_is_given_back() {
        let mut inbox = Inbox::default();
        inbox.feed(&message(b'D', &vec![1; 3 * KEEP]));
        assert!(inbox.message().unwrap().is_some());
        inbox.space();
        assert!(inbox.buffer.len() <= KEEP);
    }
}
