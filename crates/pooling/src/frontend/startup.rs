//! What a client sends before it is asked for anything: a request for encryption, a cancel request, or the startup packet
//! that says who it is.

use crate::model::keys::ClientKey;
use crate::model::turn::{Step, Turn};
use wire::startup::{self, CancelKey, Packet};

use crate::error::Error;
use crate::frontend::{enter, login};
use crate::io::TLS_HANDSHAKE;
use crate::pools::leave;
use crate::shared::Message;
use crate::state::Core;
use crate::state::client::State;
use crate::sync::lock;

/// Works on the first packets of a client, up to its startup packet.
pub fn startup_input(core: &mut Core, key: ClientKey, left: &[u8]) -> Step {
    let plain = core.clients.get(key).is_some_and(|client| client.io.tls().is_none());
    if plain && left.first() == Some(&TLS_HANDSHAKE) {
        accept_tls(core, key, b"", left);
        return Step::Took(left.len());
    }
    let (packet, length) = match startup::read(left) {
        Ok(Some(read)) => read,
        Ok(None) => return Step::More,
        Err(error) => {
            leave::fatal(core, key, &error.into());
            return Step::Took(left.len());
        }
    };
    match packet {
        Packet::SslRequest | Packet::GssEncRequest => {
            // Bytes that came with the request cannot have been encrypted, and must not be taken for later ones.
            let complaint = match (left.len() > length, plain) {
                (true, _) => Error::Injected,
                (_, false) => Error::EncryptedTwice,
                _ => {
                    answer_encryption(core, key, &packet);
                    return Step::Took(length);
                }
            };
            leave::fatal(core, key, &complaint);
            Step::Took(left.len())
        }
        Packet::Cancel(cancel) => {
            ask_to_cancel(core, key, cancel);
            Step::Took(left.len())
        }
        Packet::Startup(startup) => match login::begin_login(core, key, &startup) {
            Ok(None) => Step::Took(length),
            Ok(Some(worker)) => {
                // The other worker begins with the packet again.
                if let Some(client) = core.clients.get_mut(key) {
                    client.io.rest = left.to_vec();
                }
                enter::move_client(core, key, worker, None);
                Step::Took(left.len())
            }
            Err(refusal) => {
                leave::fatal(core, key, &refusal);
                Step::Took(left.len())
            }
        },
    }
}

/// Passes a cancel request on to the worker of its client, if its key is a client's.
fn ask_to_cancel(core: &mut Core, key: ClientKey, cancel: CancelKey) {
    let target = lock(&core.shared.cancels).get(&cancel).copied();
    let asker = (core.id, key);
    if target.is_none() && !core.shared.outside.pass_on(&core.shared, &cancel, asker) {
        return leave::close_client(core, key, "cancel request");
    }
    // As with a server, the connection ends when the request has had its effect.
    if let Some(client) = core.clients.get_mut(key) {
        client.pass_to(State::Cancels);
    }
    if let Some((worker, target)) = target {
        core.shared.tell(worker, Message::Cancel(target, cancel, asker));
    }
}

/// Answers a request for encryption: by TLS, or by a refusal.
fn answer_encryption(core: &mut Core, key: ClientKey, request: &Packet<'_>) {
    let Some(client) = core.clients.get_mut(key) else { return };
    let over_tcp = !client.io.socket.is_local();
    if *request == Packet::SslRequest && over_tcp && core.config.tls.acceptor.is_some() {
        accept_tls(core, key, b"S", b"");
    } else {
        client.io.out().push(b'N');
    }
}

/// Begins TLS with a client: `before` goes out first, `held` has come from it already.
fn accept_tls(core: &mut Core, key: ClientKey, before: &[u8], held: &[u8]) {
    let Some(client) = core.clients.get_mut(key) else { return };
    let over_tcp = !client.io.socket.is_local();
    let Some(acceptor) = core.config.tls.acceptor.as_ref().filter(|_| over_tcp) else {
        return leave::close_client(core, key, "TLS was begun but is not configured");
    };
    match acceptor.clone().accept(before, held) {
        Ok(session) => {
            client.io.begin_tls(session);
            core.schedule.give_turn(Turn::Client(key));
        }
        Err(error) => leave::close_client(core, key, &format!("TLS: {error}")),
    }
}
