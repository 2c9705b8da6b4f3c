//! A replication connection, and how far its commands have come.

use wire::backend::tag;
use wire::frame::HEADER;

/// The kind of replication that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// `replication=true`: of the whole server.
    Physical,
    /// `replication=database`.
    Logical,
}

impl Replication {
    /// Reads the value in a startup packet as PostgreSQL does: `database`, or a Boolean in any of its spellings.
    pub fn read(value: &str) -> Result<Option<Self>, String> {
        if value == "database" {
            return Ok(Some(Self::Logical));
        }
        let word = value.to_ascii_lowercase();
        let begins = |whole: &str, least: usize| word.len() >= least && whole.starts_with(&word);
        if begins("true", 1) || begins("yes", 1) || word == "on" || word == "1" {
            Ok(Some(Self::Physical))
        } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
            Ok(None)
        } else {
            Err(value.to_owned())
        }
    }

    /// The name of the kind on the console.
    pub fn word(self) -> &'static str {
        match self {
            Self::Physical => "physical",
            Self::Logical => "logical",
        }
    }

    /// The value for a startup packet.
    fn value(self) -> &'static str {
        match self {
            Self::Physical => "true",
            Self::Logical => "database",
        }
    }
}

/// The activity on a replication connection, as the messages of the server show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doing {
    /// The last command has been answered.
    #[default]
    Nothing,
    /// A command is being answered, or a backup is being sent.
    Command,
    /// Changes are streamed, for as long as both sides like.
    Streaming,
}

/// A replication connection.
#[derive(Debug)]
pub struct Relay {
    /// The kind of replication.
    pub replication: Replication,
    /// The client's other parameters of its startup packet.
    parameters: Vec<(String, String)>,
    doing: Doing,
    /// The first bytes of a header that has not come whole.
    header: Vec<u8>,
    /// Bytes of a message that are still to come.
    left: usize,
}

impl Relay {
    /// A replication connection that a client asks for.
    pub fn new(replication: Replication, parameters: Vec<(String, String)>) -> Self {
        Self { replication, parameters, doing: Doing::Nothing, header: Vec::new(), left: 0 }
    }

    /// The parameters of the login at the server, beside the user and the database.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        own.chain([("replication", self.replication.value())])
    }

    /// Follows bytes from the server.
    pub fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let lacking = HEADER.saturating_sub(self.header.len()).min(bytes.len());
            if self.left > 0 || lacking == 0 {
                return;
            }
            self.header.extend_from_slice(bytes.get(..lacking).unwrap_or_default());
            bytes = bytes.get(lacking..).unwrap_or_default();
            // An invalid header is left to the receiver to report.
            let Ok(Some(head)) = wire::header(&self.header) else { return };
            self.header.clear();
            self.left = head.body;
            self.doing = match head.tag {
                tag::READY_FOR_QUERY => Doing::Nothing,
                tag::COPY_BOTH_RESPONSE => Doing::Streaming,
                tag::COPY_DONE | tag::COMMAND_COMPLETE => Doing::Command,
                _ => self.doing,
            };
        }
    }

    /// Notes that the client has sent something.
    pub fn asked(&mut self) {
        if self.doing == Doing::Nothing {
            self.doing = Doing::Command;
        }
    }

    /// Whether the pooler may send the client a message: the server is not in the middle of one.
    pub fn is_between_messages(&self) -> bool {
        self.left == 0 && self.header.is_empty()
    }

    /// Whether the connection may be ended without the loss of a command that ends by itself.
    pub fn may_end(&self) -> bool {
        self.doing != Doing::Command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_read_as_postgresql_reads_it() {
        for (value, kind) in [
            ("database", Some(Replication::Logical)),
            ("true", Some(Replication::Physical)),
            ("T", Some(Replication::Physical)),
            ("on", Some(Replication::Physical)),
            ("1", Some(Replication::Physical)),
            ("ye", Some(Replication::Physical)),
            ("false", None),
            ("OFF", None),
            ("no", None),
            ("0", None),
        ] {
            assert_eq!(Replication::read(value).unwrap(), kind, "{value}");
        }
        for wrong in ["", "o", "Database", "2", "truest", "yesno"] {
            assert!(Replication::read(wrong).is_err(), "{wrong}");
        }
    }

    fn message(tag: u8, body: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::frame::write(&mut bytes, tag, |out| out.resize(out.len() + body, b'x'));
        bytes
    }

    #[test]
    fn messages_are_followed_however_they_are_cut() {
        let said = [
            message(tag::COPY_BOTH_RESPONSE, 3),
            message(tag::COPY_DATA, 40),
            message(tag::COPY_DONE, 0),
            message(tag::COMMAND_COMPLETE, 5),
            message(tag::READY_FOR_QUERY, 1),
        ];
        let whole = said.concat();
        let ends: Vec<usize> = said
            .iter()
            .scan(0, |at, part| {
                *at += part.len();
                Some(*at)
            })
            .collect();
        for size in 1..whole.len() {
            let mut relay = Relay::new(Replication::Physical, Vec::new());
            relay.asked();
            let mut at = 0;
            for part in whole.chunks(size) {
                relay.follow(part);
                at += part.len();
                assert_eq!(relay.is_between_messages(), ends.contains(&at), "{size} {at}");
            }
            assert_eq!(relay.doing, Doing::Nothing);
        }
    }

    #[test]
    fn a_command_is_waited_for_and_a_stream_is_not() {
        let mut relay = Relay::new(Replication::Physical, Vec::new());
        assert!(relay.may_end(), "nothing has been asked");
        relay.asked();
        assert!(!relay.may_end());
        relay.follow(&message(tag::ROW_DESCRIPTION, 9));
        relay.follow(&message(tag::COPY_OUT_RESPONSE, 3));
        assert!(!relay.may_end(), "a backup");
        relay.follow(&message(tag::READY_FOR_QUERY, 1));
        assert!(relay.may_end());
        relay.asked();
        relay.follow(&message(tag::COPY_BOTH_RESPONSE, 3));
        relay.asked();
        assert!(relay.may_end(), "a stream");
        relay.follow(&message(tag::COPY_DONE, 0));
        assert!(!relay.may_end(), "its end is being said");
    }
}
