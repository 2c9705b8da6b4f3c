//! How far a unit goes in a client's input.

use wire::frontend::{self, tag};
use wire::header;

/// A unit longer than this gets a connection to itself.
pub const LONGEST_UNIT: usize = 16_384;

/// How far a unit at the front of an input goes.
pub enum Extent {
    /// So many bytes, all there.
    Whole(usize),
    /// Its end has not come.
    More,
    /// It cannot share a connection, whatever its statements are.
    Never,
}

/// Where the unit at the front of `input` ends.
pub fn extent(input: &[u8]) -> Extent {
    match cut(input) {
        // A client that has sent nonsense may be waiting to be told so.
        Extent::More if !is_sound(input) => Extent::Never,
        extent => extent,
    }
}

/// Whether the whole messages at the front of `input` can be read.
pub fn is_sound(mut input: &[u8]) -> bool {
    while let Ok(Some(message)) = wire::frame::message(input) {
        let sound = match message.tag {
            tag::PARSE => frontend::parse(message.body).is_ok(),
            tag::BIND => frontend::bind(message.body).is_some(),
            tag::DESCRIBE => frontend::target(message.tag, message.body).is_ok(),
            _ => true,
        };
        if !sound {
            return false;
        }
        input = message.rest;
    }
    true
}

/// Where the unit at the front of `input` ends, whether or not its messages can be read.
pub fn cut(input: &[u8]) -> Extent {
    let mut at = 0;
    loop {
        let head = match header(input.get(at..).unwrap_or_default()) {
            Ok(Some(head)) => head,
            Ok(None) => return Extent::More,
            Err(_) => return Extent::Never,
        };
        let end = at.saturating_add(head.total());
        match head.tag {
            _ if end > LONGEST_UNIT => return Extent::Never,
            tag::QUERY if at == 0 => return if end <= input.len() { Extent::Whole(end) } else { Extent::More },
            tag::SYNC => return if end <= input.len() { Extent::Whole(end) } else { Extent::More },
            tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE => at = end,
            _ => return Extent::Never,
        }
        if end > input.len() {
            return Extent::More;
        }
    }
}
