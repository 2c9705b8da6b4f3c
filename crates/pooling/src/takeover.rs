//! Clients that go from a process to the one that takes its place (`-R`), each between two of its units.
//!
//! The new process asks `TAKEOVER CLIENTS` on the console again and again. The answer has the sockets of the clients
//! without a statement or transaction under way (SCM_RIGHTS), and rows that describe their sessions. Clients over TLS
//! stay, since their keys cannot be handed over, and so do clients that are pinned or listen, until they no longer do.
//! If the new process ends before it has asked for clients that are ready to go, the old process continues to serve
//! them.

pub mod adopt;
pub mod answer;
pub mod inherited;

use std::fmt;
use std::os::fd::BorrowedFd;

use crate::pools::moves;
use crate::state::Core;
use crate::state::adopted::Described;
use crate::state::client::Client;
use crate::state::transfer::Transfer;

impl fmt::Debug for Described {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Described").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Takes clients back that were to go to a process that has ended, or does not ask for them.
pub fn take_back(core: &mut Core) {
    let takeover = &core.shared.takeover;
    let Some(successor) = takeover.successor() else { return };
    let is_there = core.clients.get(successor).is_some_and(Client::is_on_console);
    for transfer in if is_there { takeover.give_back(core.now) } else { takeover.disinherit() } {
        moves::give_back(core, transfer);
    }
}

impl Transfer {
    /// The client's socket.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.io.socket.shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::shape::Shape;
    use crate::state::adopted::{Choices, Definition, Prepared, Row};

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn what_is_told_of_clients_is_read_again() {
        let plain =
            Described { user: "u".to_owned(), cancel_pid: 7, cancel_secret: vec![0, 255], ..Described::default() };
        let definition = |lexing: &str, text: &[u8]| Definition {
            lexing: lexing.into(),
            text: text.into(),
            ..Definition::default()
        };
        let shape = Shape { parameters: None, columns: Some(u64::MAX) };
        let full = Described {
            is_tcp: true,
            database: "a b".to_owned(),
            minor: 2,
            age: 9,
            choices: Choices { role: "auto".to_owned(), shard: "2".to_owned(), ..Choices::default() },
            values: [vec![pair("TimeZone", "a'b")], vec![pair("TimeZone", "")]],
            sets: [vec![pair("role", "SET ROLE x")], vec![pair("my.a", "SET my.a = 'y'")]],
            prepared: Prepared {
                statements: vec![(b"s\xff".to_vec(), definition("conforming", b"SELECT $1\0\0\x01\0\0\0\x17"))],
                unnamed: Some(Definition { shape, ..definition("unclear", b"SELECT\0\0\0") }),
                renamed: true,
            },
            learnt: (Some("SCRAM-SHA-256$4096:a$b:c".to_owned()), Some([7; 32])),
            ..Described::default()
        };
        let rows = [full.rows(), plain.rows()].concat();
        assert_eq!(Described::read(&rows), Ok(vec![full, plain]));
        let mut older = rows;
        let statement = older.iter_mut().find(|row| row[0] == b"statement").unwrap();
        statement.truncate(4);
        assert!(Described::read(&older).is_ok(), "version 3.2 tells no shapes");
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let row = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Row>();
        for rows in [vec![row(&["value", "a", "b"])], vec![row(&["client", "tcp"])], vec![row(&[])]] {
            assert!(Described::read(&rows).is_err(), "{rows:?}");
        }
        let client = Described::default().rows().remove(0);
        assert!(Described::read(&[client, row(&["riddle", "a", "b"])]).is_err());
    }
}
