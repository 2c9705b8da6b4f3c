//! A login to a hostile server: what it may say depends on the terms alone, and never on where the stream is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::login::{Account, ChannelBinding, Error, Event, Link, Login, Password, SslMode, Terms};

const PASSWORD: &[u8] = b"not to be found";

/// What was sent in the clear, and what over TLS.
#[derive(Default)]
struct Wire {
    clear: Vec<u8>,
    sealed: Vec<u8>,
    tls: bool,
}

impl Link for Wire {
    fn out(&mut self) -> &mut Vec<u8> {
        if self.tls { &mut self.sealed } else { &mut self.clear }
    }

    fn begin_tls(&mut self) -> Result<(), String> {
        self.tls = true;
        Ok(())
    }

    fn is_encrypted(&self) -> bool {
        self.tls
    }

    fn end_point(&self) -> Option<Vec<u8>> {
        self.tls.then(|| b"hash".to_vec())
    }
}

/// What comes of a login to a server that says this, part by part: the events, and how it ended.
fn run(terms: Terms, parts: &[&[u8]]) -> (Vec<String>, Option<Error>, Wire) {
    let account = Account { user: "u".to_owned(), password: Some(Password::Plain(PASSWORD.to_vec())) };
    let mut login = Login::session(terms, account, [("user", "u")]);
    let (mut wire, mut told, mut held) = (Wire::default(), Vec::new(), Vec::new());
    login.begin(&mut wire).expect("there is nothing to object to yet");
    for part in parts {
        held.extend_from_slice(part);
        loop {
            match login.receive(&held, &mut wire) {
                Ok(Some((count, event))) => {
                    assert!(terms.binding != ChannelBinding::Require || event != Event::Ready, "without a proof");
                    if event != Event::Nothing {
                        told.push(format!("{event:?}"));
                    }
                    assert!(count > 0);
                    held.drain(..count);
                }
                Ok(None) => break,
                Err(error) => {
                    assert!(!login.second_attempt(wire.tls) || !terms.sslmode.requires());
                    return (told, Some(error), wire);
                }
            }
        }
    }
    (told, None, wire)
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, cut], said)) = data.split_first_chunk::<2>() else { return };
    let bindings = [ChannelBinding::Disable, ChannelBinding::Prefer, ChannelBinding::Require];
    let terms = Terms {
        sslmode: SslMode::ALL[usize::from(choice) % SslMode::ALL.len()],
        binding: bindings[usize::from(choice) / SslMode::ALL.len() % bindings.len()],
    };
    // The answer to the question for TLS is a byte by itself.
    let asks = !matches!(terms.sslmode, SslMode::Disable | SslMode::Allow);
    let (answer, rest) = said.split_at(usize::from(asks).min(said.len()));
    let (left, right) = rest.split_at(usize::from(cut).min(rest.len()));
    let (told, error, wire) = run(terms, &[answer, rest]);
    let (again, same, _) = run(terms, &[answer, left, right]);
    assert_eq!((&told, &error), (&again, &same));
    if terms.sslmode.requires() {
        assert_eq!(wire.clear.len(), 8, "the question alone");
    }
});
