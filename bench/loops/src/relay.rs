//! What the relay does, without sockets: clients' requests over two server connections, and the answers back.
//!
//! It trusts that each request is one Query or ends with one Sync, and looks at nothing else. What is to be sent is
//! gathered until the loop takes it: what came together goes together.

use std::collections::VecDeque;
use std::io::{Error, Result};

use slab::Slab;

/// The connections to the server.
pub const SERVERS: usize = 2;
/// The tag of a message and its length.
const HEADER: usize = 5;
const CANCEL: u32 = 80_877_102;

/// The clients and the server connections.
#[derive(Debug, Default)]
pub struct Relay {
    greeting: Vec<u8>,
    clients: Slab<Client>,
    servers: [Server; SERVERS],
    /// How many clients have come.
    come: usize,
    /// Clients that have something to be sent.
    touched: Vec<usize>,
}

#[derive(Debug, Default)]
struct Client {
    /// The beginning of a request.
    input: Vec<u8>,
    out: Vec<u8>,
    server: usize,
    /// Requests without an answer.
    owed: usize,
    is_in: bool,
    is_gone: bool,
}

#[derive(Debug, Default)]
struct Server {
    /// The beginning of an answer.
    input: Vec<u8>,
    out: Vec<u8>,
    /// Whose answers come next.
    queue: VecDeque<usize>,
}

impl Relay {
    /// A relay that greets as the server does.
    pub fn new(greeting: Vec<u8>) -> Self {
        Self { greeting, ..Self::default() }
    }

    /// A client has come.
    pub fn enter(&mut self) -> usize {
        self.come += 1;
        self.clients.insert(Client { server: self.come % SERVERS, ..Client::default() })
    }

    /// A client has gone.
    pub fn leave(&mut self, key: usize) {
        if let Some(client) = self.clients.get_mut(key) {
            client.is_gone = true;
            if client.owed == 0 {
                self.clients.remove(key);
            }
        }
    }

    /// A client has said this; false when it is to be gone.
    pub fn hear(&mut self, key: usize, bytes: &[u8]) -> bool {
        let Some(client) = self.clients.get_mut(key) else { return false };
        if client.input.is_empty() {
            let (used, stays) = self.requests(key, bytes);
            let rest = bytes.get(used..).unwrap_or_default();
            if let Some(client) = self.clients.get_mut(key) {
                client.input.extend_from_slice(rest);
            }
            return stays;
        }
        client.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut client.input);
        let (used, stays) = self.requests(key, &input);
        input.drain(..used);
        if let Some(client) = self.clients.get_mut(key) {
            client.input = input;
        }
        stays
    }

    /// Sends whole requests on; gives how many bytes they are, and whether the client stays.
    fn requests(&mut self, key: usize, bytes: &[u8]) -> (usize, bool) {
        let (mut used, mut at) = (0, 0);
        let Some(client) = self.clients.get_mut(key) else { return (0, false) };
        let Some(server) = self.servers.get_mut(client.server) else { return (0, false) };
        while let Some((tag, end)) = message(bytes, at, client.is_in) {
            at = end;
            match tag {
                _ if !client.is_in => {
                    let code = word(bytes, used + 4).unwrap_or_default();
                    if code == CANCEL {
                        return (at, false);
                    }
                    client.is_in = code >> 16 == 3;
                    // Else it asks for TLS, which there is not.
                    client.out.extend_from_slice(if client.is_in { &self.greeting } else { b"N" });
                    self.touched.push(key);
                    used = at;
                }
                b'X' => return (at, false),
                b'Q' | b'S' => {
                    server.out.extend_from_slice(bytes.get(used..at).unwrap_or_default());
                    server.queue.push_back(key);
                    client.owed += 1;
                    used = at;
                }
                _ => (),
            }
        }
        (used, true)
    }

    /// A server has said this.
    ///
    /// # Errors
    /// It has said what nobody asked.
    pub fn answer(&mut self, number: usize, bytes: &[u8]) -> Result<()> {
        let Some(server) = self.servers.get_mut(number) else { return Ok(()) };
        if server.input.is_empty() {
            let used = self.answers(number, bytes)?;
            if let Some(server) = self.servers.get_mut(number) {
                server.input.extend_from_slice(bytes.get(used..).unwrap_or_default());
            }
            return Ok(());
        }
        server.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut server.input);
        let used = self.answers(number, &input)?;
        input.drain(..used);
        if let Some(server) = self.servers.get_mut(number) {
            server.input = input;
        }
        Ok(())
    }

    /// Gives whole answers to whom they are owed; how many bytes they are.
    fn answers(&mut self, number: usize, bytes: &[u8]) -> Result<usize> {
        let (mut used, mut at) = (0, 0);
        let Some(server) = self.servers.get_mut(number) else { return Ok(0) };
        while let Some((tag, end)) = message(bytes, at, true) {
            at = end;
            if tag != b'Z' {
                continue;
            }
            let key = server.queue.pop_front().ok_or_else(|| Error::other("an answer that nobody asked for"))?;
            if let Some(client) = self.clients.get_mut(key) {
                client.owed -= 1;
                if !client.is_gone {
                    client.out.extend_from_slice(bytes.get(used..at).unwrap_or_default());
                    self.touched.push(key);
                } else if client.owed == 0 {
                    self.clients.remove(key);
                }
            }
            used = at;
        }
        Ok(used)
    }

    /// Clients that have something to be sent, some of them more than once.
    pub fn touched(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.touched)
    }

    /// Keeps the memory of a list that is done with.
    pub fn done(&mut self, mut list: Vec<usize>) {
        if self.touched.is_empty() {
            list.clear();
            self.touched = list;
        }
    }

    /// A client has something left to be sent.
    pub fn touch(&mut self, key: usize) {
        self.touched.push(key);
    }

    /// Gives back, empty, what was taken to be sent to a server: memory that is used again.
    pub fn give_back(&mut self, number: usize, out: Vec<u8>) {
        if let Some(server) = self.servers.get_mut(number).filter(|server| server.out.capacity() == 0) {
            server.out = out;
        }
    }

    /// What is to be sent to a client.
    pub fn for_client(&mut self, key: usize) -> Option<&mut Vec<u8>> {
        self.clients.get_mut(key).map(|client| &mut client.out).filter(|out| !out.is_empty())
    }

    /// What is to be sent to a server.
    pub fn for_server(&mut self, number: usize) -> Option<&mut Vec<u8>> {
        self.servers.get_mut(number).map(|server| &mut server.out).filter(|out| !out.is_empty())
    }
}

/// The tag and the end of the message at `at`, if it is whole; before the login it has no tag.
fn message(bytes: &[u8], at: usize, is_in: bool) -> Option<(u8, usize)> {
    let skip = usize::from(is_in);
    let length = usize::try_from(word(bytes, at + skip)?).ok()?;
    let end = at.checked_add(skip)?.checked_add(length)?;
    // Nothing that is shorter than its own header is ever whole.
    (end <= bytes.len() && end >= at + HEADER).then(|| (bytes.get(at).copied().unwrap_or_default(), end))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTUP: &[u8] = b"\0\0\0\x08\0\x03\0\0";
    const QUERY: &[u8] = b"Q\0\0\0\x05\0";
    const BATCH: &[u8] = b"P\0\0\0\x04B\0\0\0\x04S\0\0\0\x04";
    const DONE: &[u8] = b"C\0\0\0\x05\0Z\0\0\0\x05I";

    #[test]
    fn requests_and_answers_may_be_cut_anywhere() {
        let said = [STARTUP, QUERY, BATCH, QUERY].concat();
        for cut in 0..=said.len() {
            let mut relay = Relay::new(b"hello".to_vec());
            let key = relay.enter();
            let (first, second) = said.split_at(cut);
            assert!(relay.hear(key, first) && relay.hear(key, second), "cut at {cut}");
            assert_eq!(relay.for_client(key).map(std::mem::take), Some(b"hello".to_vec()));
            let number = 1;
            assert_eq!(relay.for_server(number).map(std::mem::take), Some([QUERY, BATCH, QUERY].concat()));
            let answers = DONE.repeat(3);
            let (first, second) = answers.split_at(cut.min(answers.len()));
            relay.answer(number, first).unwrap();
            relay.answer(number, second).unwrap();
            assert_eq!(relay.for_client(key).map(std::mem::take), Some(answers));
            assert!(relay.answer(number, DONE).is_err());
        }
    }

    #[test]
    fn who_has_gone_gets_nothing_and_its_answer_goes_to_nobody_else() {
        let mut relay = Relay::new(Vec::new());
        let (gone, stays) = (relay.enter(), (relay.enter(), relay.enter()).1);
        for key in [gone, stays] {
            assert!(relay.hear(key, &[STARTUP, QUERY].concat()));
        }
        assert!(!relay.hear(gone, b"X\0\0\0\x04"));
        relay.leave(gone);
        relay.answer(1, DONE).unwrap();
        assert_eq!(relay.for_client(stays), None);
        relay.answer(1, DONE).unwrap();
        assert_eq!(relay.for_client(stays).map(std::mem::take), Some(DONE.to_vec()));
    }
}
