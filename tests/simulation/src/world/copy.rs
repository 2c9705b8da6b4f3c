//! COPY on the server.

use wire::frame;

use super::World;
use super::connection::Connection;
use super::ledger::Said;
use super::said::REFUSED;

/// How long a line is that is long: it does not come at once.
const LONG: usize = 20_000;

/// A COPY that is taken in.
#[derive(Default)]
pub(super) struct CopyIn {
    lines: usize,
    /// How many there are to be, by the last of them.
    all: Option<usize>,
}

/// A line of a COPY, with as much behind it as makes it long.
pub(super) fn line(text: &str, long: bool) -> Vec<u8> {
    let mut line = text.as_bytes().to_vec();
    line.resize(if long { LONG } else { line.len() }, b' ');
    line.push(b'\n');
    line
}

/// What a line says.
pub(super) fn text_of(line: &[u8]) -> &str {
    std::str::from_utf8(line).expect("UTF-8").trim_end()
}

impl World {
    /// A server that takes in a COPY reads one message; whether there was any, or a cancel request.
    pub(super) fn copy_one(&mut self, at: usize) -> bool {
        let connection = &mut self.connections[at];
        let Some(question) = connection.questions.pop_front() else { return false };
        // PostgreSQL looks for a cancel request when it has read a line, or the end of the lines.
        if matches!(question.tag, b'd' | b'c') && std::mem::take(&mut connection.cancelled) {
            self.judge_cancel(at, false);
            self.fail_copy(at, "57014");
            return true;
        }
        match question.tag {
            b'd' => match connection.strike.take() {
                Some(code) => self.fail_copy(at, code),
                None if text_of(&question.body).contains(REFUSED) => self.fail_copy(at, "22P02"),
                None => connection.take_line(&question.body),
            },
            b'c' => self.end_copy(at),
            b'f' => self.fail_copy(at, "57014"),
            // As PostgreSQL does for clients that did not know that they began a COPY.
            b'H' | b'S' => (),
            b'X' => {
                let id = connection.id;
                self.bury(id);
            }
            tag => panic!("a message of type {} within a COPY", char::from(tag)),
        }
        true
    }

    fn end_copy(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        let Some(CopyIn { lines, all, .. }) = connection.copy.take() else { return };
        assert_eq!(Some(lines), all, "lines of a COPY");
        let (_, unit, _) = connection.unit.as_ref().expect("a unit");
        let name = format!("{unit}.copy");
        connection.session.write(&name);
        self.ledger.write(&name);
        connection.tell_end(&format!("COPY {lines}"));
        if connection.script.is_some() {
            self.go_on(at);
        }
    }

    fn fail_copy(&mut self, at: usize, code: &'static str) {
        let connection = &mut self.connections[at];
        connection.copy = None;
        connection.fail();
        connection.refuse(code);
        if let Some(script) = &mut connection.script {
            script.commands.clear();
            self.go_on(at);
        }
    }
}

impl Connection {
    /// It asks for the lines of a COPY.
    pub(super) fn begin_copy(&mut self) {
        self.copy = Some(CopyIn::default());
        self.say(|out| frame::write(out, b'G', |out| out.extend_from_slice(b"\0\0\0")));
    }

    /// It tells the lines of a COPY.
    pub(super) fn copy_out(&mut self, long: bool) {
        let (_, unit, _) = self.unit.as_ref().expect("a unit");
        let line = line(unit, long);
        self.say(|out| {
            frame::write(out, b'H', |out| out.extend_from_slice(b"\0\0\0"));
            for _ in 0..2 {
                frame::write(out, b'd', |out| out.extend_from_slice(&line));
            }
            frame::write(out, b'c', |_| ());
        });
        self.said.extend([Said::Row, Said::Row]);
    }

    /// A line is of the unit that copies, and the next of it: `unit:number/of how many`.
    fn take_line(&mut self, line: &[u8]) {
        let (_, unit, _) = self.unit.as_ref().expect("a unit");
        let (name, number) = text_of(line).split_once(':').expect("a line");
        assert_eq!(name, unit, "another's line in a COPY");
        let (number, all) = number.split_once('/').expect("a number");
        let Some(copy) = &mut self.copy else { return };
        assert_eq!(number.parse(), Ok(copy.lines), "a line out of its order");
        copy.lines += 1;
        copy.all = all.parse().ok();
    }
}
