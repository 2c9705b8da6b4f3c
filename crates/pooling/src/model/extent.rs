//! A unit at the front of a client's input: its end and its contents, read once.

use smallvec::SmallVec;
use wire::frontend::{self, Bind, Parse, Target, tag};
use wire::{Header, header};

/// A unit longer than this gets a connection to itself.
pub const LONGEST_UNIT: usize = 16_384;

/// A unit that begins a message behind this is not waited for until it can be judged as a whole.
const LONGEST_JUDGED: usize = 65_536;

/// The contents of a client's message.
#[derive(Debug, Clone, Copy)]
pub enum Said<'a> {
    /// A Query, by its text.
    Query(&'a [u8]),
    /// A Parse.
    Parse(Parse<'a>),
    /// The head of a Bind.
    Bind(Bind<'a>),
    /// A Describe.
    Describe(Target<'a>),
    /// An Execute.
    Execute,
    /// A Close.
    Close,
    /// A Sync.
    Sync,
}

/// A whole message of a client.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The message's type and length.
    pub head: Header,
    /// All bytes of the message.
    pub bytes: &'a [u8],
    /// The contents of the message.
    pub said: Said<'a>,
}

/// A whole unit.
#[derive(Debug)]
pub struct Unit<'a> {
    /// The bytes of the unit.
    pub bytes: &'a [u8],
    /// The messages of the unit.
    pub messages: SmallVec<[Message<'a>; 5]>,
}

impl Unit<'_> {
    /// Whether the unit prepares a statement without a name.
    pub fn prepares_unnamed(&self) -> bool {
        self.messages.iter().any(|message| matches!(message.said, Said::Parse(parse) if parse.name.is_empty()))
    }

    /// Whether the unit binds or describes a statement without a name that an earlier unit has prepared.
    pub fn uses_unnamed(&self) -> bool {
        let first = self.messages.iter().find_map(|message| match message.said {
            Said::Parse(parse) if parse.name.is_empty() => Some(false),
            Said::Bind(names) if names.statement.is_empty() => Some(true),
            Said::Describe(Target::Statement(b"")) => Some(true),
            _ => None,
        });
        first == Some(true)
    }
}

/// The reason why there is no unit at the front of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// The end of the unit has not come.
    More,
    /// The unit cannot share a connection, whatever its statements are; or it cannot be read.
    Never,
}

/// The unit at the front of `input`, if it may share a connection.
pub fn extent(input: &[u8]) -> Result<Unit<'_>, Unread> {
    read(input, LONGEST_UNIT, |tag, end| end > LONGEST_UNIT || tag == tag::CLOSE)
}

/// The unit at the front of `input`, for the choice of a server: a longer one than goes down a pipelined connection is
/// waited for too, since a write may stand at its end.
pub fn judged(input: &[u8]) -> Result<Unit<'_>, Unread> {
    read(input, LONGEST_JUDGED, |_, _| false)
}

/// The message at the front of `input` as a unit, if it is whole and can be read.
pub fn first(input: &[u8]) -> Option<Unit<'_>> {
    let message = message(header(input).ok()??, input)?;
    Some(Unit { bytes: message.bytes, messages: SmallVec::from_slice(&[message]) })
}

/// Reads a unit with no message that begins behind `longest`, or that is `barred` by its type and its end.
fn read(input: &[u8], longest: usize, barred: impl Fn(u8, usize) -> bool) -> Result<Unit<'_>, Unread> {
    let (mut at, mut messages) = (0, SmallVec::new());
    while at <= longest {
        let left = input.get(at..).unwrap_or_default();
        let head = match header(left) {
            Ok(Some(head)) => head,
            Ok(None) => return Err(Unread::More),
            Err(_) => return Err(Unread::Never),
        };
        let end = at.saturating_add(head.total());
        let known = match head.tag {
            tag::QUERY => at == 0,
            tag => matches!(tag, tag::SYNC | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE),
        };
        if !known || barred(head.tag, end) {
            return Err(Unread::Never);
        }
        if end > input.len() {
            return Err(if end > longest { Unread::Never } else { Unread::More });
        }
        // A client that has sent nonsense may be waiting for the error.
        let Some(message) = message(head, left) else { return Err(Unread::Never) };
        if matches!(message.said, Said::Parse(parse) if takes_lines(parse.query)) {
            return Err(Unread::Never);
        }
        messages.push(message);
        if let (Said::Query(_) | Said::Sync, Some(bytes)) = (message.said, input.get(..end)) {
            return Ok(Unit { bytes, messages });
        }
        at = end;
    }
    Err(Unread::Never)
}

/// Whether a text is a COPY FROM STDIN: its client may send the end of its unit only when the server asks for lines.
fn takes_lines(sql: &[u8]) -> bool {
    let copies = sql.trim_ascii_start().get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"copy"));
    copies && sql.windows(5).any(|word| word.eq_ignore_ascii_case(b"stdin"))
}

fn message(head: Header, left: &[u8]) -> Option<Message<'_>> {
    let bytes = left.get(..head.total())?;
    let body = bytes.get(wire::frame::HEADER..)?;
    let said = match head.tag {
        tag::QUERY => Said::Query(frontend::query(body).ok()?),
        tag::PARSE => Said::Parse(frontend::parse(body).ok()?),
        tag::BIND => Said::Bind(frontend::bind(body)?),
        tag::DESCRIBE => Said::Describe(frontend::target(head.tag, body).ok()?),
        tag::EXECUTE if frontend::is_execute(body) => Said::Execute,
        tag::CLOSE => Said::Close,
        tag::SYNC if body.is_empty() => Said::Sync,
        _ => return None,
    };
    Some(Message { head, bytes, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(parts: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (tag, body) in parts {
            wire::frame::write(&mut out, *tag, |out| out.extend_from_slice(body));
        }
        out
    }

    fn size(read: &Result<Unit<'_>, Unread>) -> Option<usize> {
        read.as_ref().ok().map(|unit| unit.bytes.len())
    }

    #[test]
    fn a_unit_ends_with_its_query_or_its_sync() {
        let query = said(&[(b'Q', b"SELECT 1\0"), (b'Q', b"SELECT 2\0")]);
        assert_eq!(size(&extent(&query)), Some(query.len() / 2));
        let extended =
            said(&[(b'P', b"\0SELECT 1\0\0\0"), (b'B', b"\0\0\0\0\0\0\0\0"), (b'E', b"\0\0\0\0\0"), (b'S', b"")]);
        let Ok(unit) = extent(&extended) else { panic!("it is whole") };
        assert_eq!((unit.bytes, unit.messages.len()), (&extended[..], 4));
        assert!(matches!(unit.messages[0].said, Said::Parse(parse) if parse.query == b"SELECT 1"));
        for end in 0..extended.len() {
            assert!(matches!(extent(&extended[..end]), Err(Unread::More)), "{end}");
        }
    }

    #[test]
    fn nonsense_is_not_waited_for() {
        assert!(
            matches!(extent(&said(&[(b'P', b"\0SELECT 1\0\0\x09")])), Err(Unread::Never)),
            "types that are not there"
        );
        assert!(matches!(extent(&said(&[(b'Q', b"SELECT 1")])), Err(Unread::Never)), "a text without an end");
        assert!(matches!(extent(&said(&[(b'P', b"\0SELECT 1\0\0\0"), (b'Q', b"x\0")])), Err(Unread::Never)));
        assert!(matches!(extent(&said(&[(b'x', b"")])), Err(Unread::Never)));
        assert!(
            matches!(extent(&said(&[(b'P', b"\0\n copy t FROM STDIN\0\0\0")])), Err(Unread::Never)),
            "a COPY without a Sync"
        );
    }

    #[test]
    fn what_is_long_or_closes_is_judged_and_not_shared() {
        let long = said(&[(b'Q', &[&[b' '; 20_000][..], b"\0"].concat())]);
        assert!(matches!(extent(&long), Err(Unread::Never)));
        assert_eq!(size(&judged(&long)), Some(long.len()));
        assert!(matches!(extent(&long[..100]), Err(Unread::Never)), "its length stands in front");
        assert!(matches!(judged(&long[..100]), Err(Unread::More)));
        let closes = said(&[(b'C', b"Sx\0"), (b'S', b"")]);
        assert!(matches!(extent(&closes), Err(Unread::Never)));
        assert_eq!(size(&judged(&closes)), Some(closes.len()));
        let longest = said(&[(b'Q', &[&[b' '; 70_000][..], b"\0"].concat())]);
        assert_eq!(size(&judged(&longest)), Some(longest.len()), "it is there");
        assert!(matches!(judged(&longest[..100]), Err(Unread::Never)));
    }
}
