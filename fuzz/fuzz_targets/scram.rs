//! SCRAM, against either side: nobody gets in without the password.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use wire::scram::{Binding, Client, Credential, Secret, Server};

const NONCE: &str = "0123456789abcdef01234567";

/// The pieces of an input, cut at its zeros.
fn pieces(data: &[u8]) -> [&[u8]; 3] {
    let mut pieces = data.splitn(3, |&byte| byte == 0);
    std::array::from_fn(|_| pieces.next().unwrap_or_default())
}

fn secret() -> Secret {
    static SECRET: OnceLock<Secret> = OnceLock::new();
    SECRET.get_or_init(|| Secret::derive(b"not to be found", b"salt", 1)).clone()
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let [first, second, third] = pieces(rest);
    let binding = || match choice / 8 % 3 {
        0 => Binding::No,
        1 => Binding::Declined,
        _ => Binding::EndPoint(b"hash of a certificate"),
    };
    match choice % 4 {
        // A hostile client, which may know what was said so far.
        0 => {
            let Ok((server, answer)) = Server::start_bound(secret(), first, NONCE, binding()) else { return };
            let answer = std::str::from_utf8(&answer).expect("what we say is text");
            let nonce = answer.split(',').next().expect("it begins with the nonce");
            let known = [second, nonce.as_bytes(), third].concat();
            assert!(server.finish(if choice & 4 == 0 { second } else { &known }).is_err());
        }
        // A hostile server.
        1 => {
            let credential = if choice & 4 == 0 {
                Credential::Password(b"not to be found".to_vec())
            } else {
                Credential::Keys { client_key: [1; 32], server_key: [2; 32] }
            };
            let (client, _) = Client::start_bound(credential, NONCE, binding());
            let known = [b"r=", NONCE.as_bytes(), first].concat();
            // The count of iterations is work that the server asks for, within a limit; here it would only take time.
            if known.windows(4).any(|window| window.iter().all(u8::is_ascii_digit)) && choice & 4 == 0 {
                return;
            }
            if let Ok((proven, _)) = client.proof(&known) {
                assert!(proven.finish(second).is_err());
            }
        }
        2 => {
            let _ = std::str::from_utf8(rest).map(Secret::read);
        }
        // Both sides, with any password and any salt that fits into a message.
        _ if second.len() > 1000 => (),
        _ => {
            let secret = Secret::derive(first, second, 1 + u32::from(choice));
            let (client, message) = Client::start_bound(Credential::Password(first.to_vec()), NONCE, binding());
            let (server, message) = match Server::start_bound(secret, &message, "theirs", binding()) {
                Ok(started) => started,
                // Told that there is no channel binding although there is.
                Err(_) => return assert_eq!(choice / 8 % 3, 1),
            };
            let (proven, message) = client.proof(&message).expect("our own message");
            let accepted = server.finish(&message).expect("the right password");
            proven.finish(&accepted.message).expect("the right secret");
        }
    }
});
