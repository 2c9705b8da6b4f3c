//! What a client sends before it is asked for anything: a request for encryption, a cancel request, or the startup packet
//! that says who it is.

use wire::backend;
use wire::startup::{self, CancelKey, Packet, Startup};

use crate::client::{ClientKey, State};
use crate::config::Settings;
use crate::net::Stream;
use crate::refusal::Refusal;
use crate::relay::Replication;
use crate::shared::{Message, lock};
use crate::takeover::pass_on;
use crate::tls::{self, Session};
use crate::worker::{Step, Turn, Worker};

/// Longer names of users and databases are no names: PostgreSQL cuts its own off at 63 bytes.
const MAX_NAME: usize = 128;

/// Who a client says it is, and what it wants its session to be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
    /// The minor version of the protocol that is spoken.
    pub minor: u16,
    /// The parameters of the session, those in `options` too.
    pub parameters: Vec<(String, String)>,
    /// Whether it asks for a replication connection, and of which kind.
    pub replication: Option<Replication>,
    /// Whether the client asked for a version, or for options of the protocol, that are not known.
    negotiate: Option<Vec<String>>,
}

impl Introduction {
    /// Reads a startup packet.
    pub fn read(startup: &Startup<'_>, settings: &Settings) -> Result<Self, Refusal> {
        let user = startup.get("user").filter(|user| !user.is_empty()).ok_or(Refusal::NoUser)?;
        let replication = startup.get("replication").map(Replication::read).transpose()?.flatten();
        // Physical replication is of no database: this name stands for it, as libpq has it.
        let unnamed = if replication == Some(Replication::Physical) { "replication" } else { user };
        let database = startup.get("database").filter(|name| !name.is_empty()).unwrap_or(unnamed);
        for (what, name) in [("user", user), ("database", database)] {
            if name.len() > MAX_NAME {
                return Err(Refusal::LongName { what, most: MAX_NAME });
            }
        }
        let mut unknown = Vec::new();
        let mut given = Vec::new();
        for &(name, value) in &startup.parameters {
            match name {
                "user" | "database" | "replication" => (),
                _ if name.starts_with("_pq_.") => unknown.push(name.to_owned()),
                _ if settings.ignore_startup_parameters.has(name) => (),
                "options" => given.extend(options_of(value)?),
                _ => given.push((name.to_owned(), value.to_owned())),
            }
        }
        given.retain(|(name, _)| !settings.ignore_startup_parameters.has(name));
        let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if let Some((name, _)) = given.iter().find(|(name, _)| !is_word(name)) {
            return Err(Refusal::Parameter { place: "", name: name.clone() });
        }
        let asks_for_more = startup.minor > 2 || startup.minor == 1 || !unknown.is_empty();
        Ok(Self {
            user: user.to_owned(),
            database: database.to_owned(),
            minor: if startup.minor >= 2 { 2 } else { 0 },
            parameters: given,
            replication,
            negotiate: asks_for_more.then_some(unknown),
        })
    }

    /// Tells a client which version of the protocol is spoken, if it is not the one that it asked for.
    pub fn write_negotiation(&mut self, out: &mut Vec<u8>) {
        if let Some(unknown) = self.negotiate.take() {
            let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
            backend::write_negotiate_version(out, self.minor, &unknown);
        }
    }
}

impl Worker {
    /// Works on what a client sends before it has said who it is.
    pub fn startup_input(&mut self, key: ClientKey, left: &[u8]) -> Step {
        let plain = self.clients.get(key.0).is_some_and(|client| client.io.tls().is_none());
        if plain && left.first() == Some(&tls::HANDSHAKE) {
            self.accept_tls(key, b"", left);
            return Step::Took(left.len());
        }
        let (packet, length) = match startup::read(left) {
            Ok(Some(read)) => read,
            Ok(None) => return Step::More,
            Err(error) => {
                self.refuse_login(key, error.into());
                return Step::Took(left.len());
            }
        };
        match packet {
            Packet::SslRequest | Packet::GssEncRequest => {
                // What came with the request cannot have been encrypted, and must not be taken for what follows.
                let complaint = match (left.len() > length, plain) {
                    (true, _) => "data came before the answer to a request for encryption",
                    (_, false) => "encryption was asked for within TLS",
                    _ => {
                        self.answer_encryption(key, &packet);
                        return Step::Took(length);
                    }
                };
                self.refuse_login(key, Refusal::Protocol(complaint.to_owned()));
                Step::Took(left.len())
            }
            Packet::Cancel(cancel) => {
                self.ask_to_cancel(key, cancel);
                Step::Took(left.len())
            }
            Packet::Startup(startup) => match self.begin_login(key, &startup) {
                Ok(None) => Step::Took(length),
                Ok(Some(worker)) => {
                    // There it is worked on from the beginning.
                    if let Some(client) = self.clients.get_mut(key.0) {
                        client.io.rest = left.to_vec();
                    }
                    self.move_client(key, worker, None);
                    Step::Took(left.len())
                }
                Err(refusal) => {
                    self.refuse_login(key, refusal);
                    Step::Took(left.len())
                }
            },
        }
    }

    /// Passes a cancel request on to the worker of whom it names, if it names anybody.
    fn ask_to_cancel(&mut self, key: ClientKey, cancel: CancelKey) {
        let target = lock(&self.shared.cancels).get(&cancel).copied();
        let asker = (self.id, key);
        if target.is_none() && !pass_on(&self.shared, &cancel, asker) {
            return self.close_client(key, "cancel request");
        }
        // As with a server, the connection ends when the request has had its effect.
        if let Some(client) = self.clients.get_mut(key.0) {
            client.state = State::Cancels;
        }
        if let Some((worker, target)) = target {
            self.shared.tell(worker, Message::Cancel(target, cancel, asker));
        }
    }

    /// Answers a request for encryption: by TLS, or that there is none.
    fn answer_encryption(&mut self, key: ClientKey, request: &Packet<'_>) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let over_tcp = matches!(client.io.stream, Stream::Tcp(_));
        if *request == Packet::SslRequest && over_tcp && self.config.tls.acceptor.is_some() {
            self.accept_tls(key, b"S", b"");
        } else {
            client.io.out().push(b'N');
        }
    }

    /// Begins TLS with a client: `before` goes out first, `held` is what has come of it.
    fn accept_tls(&mut self, key: ClientKey, before: &[u8], held: &[u8]) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let over_tcp = matches!(client.io.stream, Stream::Tcp(_));
        let Some(acceptor) = self.config.tls.acceptor.as_ref().filter(|_| over_tcp) else {
            return self.close_client(key, "TLS was begun but is not configured");
        };
        match Session::accept(acceptor, before, held) {
            Ok(session) => {
                client.io.begin_tls(session);
                self.give_turn(Turn::Client(key));
            }
            Err(error) => self.close_client(key, &format!("TLS: {error}")),
        }
    }
}

/// The parameters in a startup packet's `options`: `-c name=value` and `--name=value`, a backslash before a space.
pub(crate) fn options_of(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let mut words: Vec<String> = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(characters.next())),
            c if c.is_whitespace() => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let pair = if word == "-c" {
            words.next()
        } else {
            word.strip_prefix("--").or_else(|| word.strip_prefix("-c")).map(str::to_owned)
        };
        let pair = pair.as_deref().and_then(|pair| pair.split_once('='));
        let (name, value) = pair.ok_or(Refusal::Parameter { place: " in options", name: word })?;
        found.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    #[test]
    fn options_are_read_as_postgresql_reads_them() {
        let options = options_of(r"-c a.b=1 --search-path=x\ y  -cc=3").unwrap();
        let options: Vec<(&str, &str)> = options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(options, [("a.b", "1"), ("search_path", "x y"), ("c", "3")]);
        assert!(options_of("-x").is_err());
    }

    #[test]
    fn what_is_to_be_ignored_is_ignored_wherever_it_stands() {
        let settings = Settings {
            ignore_startup_parameters: Value::read("extra_float_digits, geqo").unwrap(),
            ..Settings::default()
        };
        let parameters = vec![
            ("user", "bob"),
            ("extra_float_digits", "3"),
            ("options", "-c geqo=off --extra-float-digits=2 -c work_mem=1MB"),
        ];
        let introduction = Introduction::read(&Startup { minor: 0, parameters }, &settings).unwrap();
        assert_eq!(introduction.parameters, [("work_mem".to_owned(), "1MB".to_owned())]);
        assert_eq!((&*introduction.user, &*introduction.database), ("bob", "bob"));
    }

    #[test]
    fn long_names_are_refused() {
        let long = "x".repeat(MAX_NAME + 1);
        for parameters in [vec![("user", &*long)], vec![("user", "bob"), ("database", &long)]] {
            let refusal = Introduction::read(&Startup { minor: 0, parameters }, &Settings::default()).unwrap_err();
            assert_eq!(refusal.code(), "08P01");
        }
    }
}
