//! The keys by which clients cancel what they do.

use crate::model::keys::ClientKey;
use wire::startup::CancelKey;

use crate::state::Core;
use crate::sync::lock;

/// Gives a client a new cancel key.
pub fn new_cancel_key(core: &mut Core, key: ClientKey) -> Option<CancelKey> {
    let mut random = [0; 36];
    getrandom::fill(&mut random).ok()?;
    let client = core.clients.get_mut(key)?;
    let [a, b, c, d, secret @ ..] = random;
    // A process id is positive; a secret has four bytes before protocol 3.2.
    let pid = i32::from_be_bytes([a & 0x7f, b, c, d]).max(1);
    let length = if client.identity.minor >= 2 { secret.len() } else { 4 };
    client.identity.cancel_key = CancelKey { pid, secret: secret.get(..length).unwrap_or_default().to_vec() };
    lock(&core.shared.cancels).insert(client.identity.cancel_key.clone(), (core.id, key));
    Some(client.identity.cancel_key.clone())
}
