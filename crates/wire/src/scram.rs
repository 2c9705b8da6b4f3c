//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as PostgreSQL speaks it, both sides, with or without the channel binding
//! `tls-server-end-point` (RFC 5929).
//!
//! A server keeps a [`Secret`] and never needs the password. From a successful login it learns the client's key, with
//! which it can log in elsewhere under the same secret ([`Credential::Keys`]): so a pooler needs no passwords at all.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::Error;

/// The name of the mechanism.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The name of the mechanism with channel binding.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// The flag of the only channel binding that PostgreSQL knows.
const END_POINT: &str = "p=tls-server-end-point";
/// PostgreSQL's default.
pub const ITERATIONS: u32 = 4096;
/// More than this a stored secret or a server may not ask for: the work is ours.
pub const MAX_ITERATIONS: u32 = 1_000_000;
/// Longer messages than these are not SCRAM.
const MAX_MESSAGE: usize = 2048;

/// A key or a hash.
pub type Key = [u8; 32];

/// The form in which a server stores a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Rounds of PBKDF2.
    pub iterations: u32,
    /// The salt.
    pub salt: Vec<u8>,
    /// H(ClientKey).
    pub stored_key: Key,
    /// Signs what the server says last.
    pub server_key: Key,
}

impl Secret {
    /// The secret of a password with this salt.
    pub fn derive(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let salted = salted_password(password, salt, iterations);
        Self {
            iterations,
            salt: salt.to_vec(),
            stored_key: sha256(&hmac(&salted, &[b"Client Key"])),
            server_key: hmac(&salted, &[b"Server Key"]),
        }
    }

    /// The secret of a user who has none. It looks like any other, stays the same as long as the `seed` does, and nobody
    /// can prove to know its password.
    pub fn mock(seed: &Key, user: &str, iterations: u32) -> Self {
        let user = user.as_bytes();
        Self {
            iterations,
            salt: mock_salt(seed, user).to_vec(),
            stored_key: hmac(seed, &[b"stored key", user]),
            server_key: hmac(seed, &[b"server key", user]),
        }
    }

    /// Whether this is the client's key of a login under this secret.
    pub fn is_of(&self, client_key: &[u8; 32]) -> bool {
        sha256(client_key).ct_eq(&self.stored_key).into()
    }

    /// Reads PostgreSQL's stored form, `SCRAM-SHA-256$4096:salt$storedkey:serverkey`.
    pub fn read(text: &str) -> Option<Self> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let iterations = iterations.parse().ok().filter(|count| (1..=MAX_ITERATIONS).contains(count))?;
        Some(Self {
            iterations,
            salt: BASE64.decode(salt).ok()?,
            stored_key: BASE64.decode(stored).ok()?.try_into().ok()?,
            server_key: BASE64.decode(server).ok()?.try_into().ok()?,
        })
    }
}

/// How an exchange is tied to the connection that it runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding<'a> {
    /// Not at all: there is no TLS, or nothing to bind to.
    No,
    /// Not, though it could be. For a client: the server does not offer it, and is told that the client would have
    /// taken it. For a server: it was offered and the client took the mechanism without; a client that says that it
    /// was not offered has been lied to by somebody between.
    Declined,
    /// To the hash of the server's certificate, `tls-server-end-point`.
    EndPoint(&'a [u8]),
}

/// The server's side of one exchange.
#[derive(Debug)]
pub struct Server {
    secret: Secret,
    nonce: String,
    client_first_bare: String,
    server_first: String,
    bound: Vec<u8>,
}

/// The server's results of a successful login.
#[derive(Debug)]
pub struct Accepted {
    /// The server-final-message.
    pub message: Vec<u8>,
    /// The client's key: with it and the secret one can log in elsewhere as this client.
    pub client_key: Key,
}

impl Binding<'_> {
    /// What the last message of a client repeats: the header of its first one and what the exchange is bound to.
    fn data(&self, header: &str) -> Vec<u8> {
        let hash = if let Self::EndPoint(hash) = self { hash } else { [].as_slice() };
        [header.as_bytes(), hash].concat()
    }
}

impl Server {
    /// Answers a client-first-message without channel binding; `nonce` is 18 random bytes in Base64 ([`nonce`]).
    pub fn start(secret: Secret, client_first: &[u8], nonce: &str) -> Result<(Self, Vec<u8>), Error> {
        Self::start_bound(secret, client_first, nonce, Binding::No)
    }

    /// Answers a client-first-message; `binding` says which mechanism the client chose and over what.
    pub fn start_bound(
        secret: Secret,
        client_first: &[u8],
        nonce: &str,
        binding: Binding<'_>,
    ) -> Result<(Self, Vec<u8>), Error> {
        let text = text(client_first)?;
        let (flag, rest) = text.split_once(',').ok_or(Error::Scram("no channel binding flag"))?;
        match (flag, binding) {
            ("n", Binding::No | Binding::Declined) | ("y", Binding::No) | (END_POINT, Binding::EndPoint(_)) => (),
            ("y", Binding::Declined) => {
                return Err(Error::Scram("the client was not offered the channel binding that was offered to it"));
            }
            ("n" | "y", Binding::EndPoint(_)) => {
                return Err(Error::Scram("the mechanism with channel binding was chosen without binding"));
            }
            (END_POINT, _) => return Err(Error::Scram("channel binding was not offered or not chosen")),
            (other, _) if other.starts_with("p=") => return Err(Error::Scram("unsupported channel binding type")),
            _ => return Err(Error::Scram("unknown channel binding flag")),
        }
        let (authzid, bare) = rest.split_once(',').ok_or(Error::Scram("no authorization identity"))?;
        if !authzid.is_empty() {
            return Err(Error::Scram("authorization identities are not supported"));
        }
        let mut attributes = bare.split(',');
        if !attributes.next().is_some_and(|user| user.starts_with("n=")) {
            return Err(Error::Scram("no user name"));
        }
        let theirs = attributes
            .next()
            .and_then(|attribute| attribute.strip_prefix("r="))
            .filter(|nonce| !nonce.is_empty())
            .ok_or(Error::Scram("no nonce"))?;
        let nonce = format!("{theirs}{nonce}");
        let server_first = format!("r={nonce},s={},i={}", BASE64.encode(&secret.salt), secret.iterations);
        let message = server_first.clone().into_bytes();
        let bound = binding.data(&format!("{flag},{authzid},"));
        Ok((Self { secret, nonce, client_first_bare: bare.to_owned(), server_first, bound }, message))
    }

    /// Checks a client-final-message.
    pub fn finish(self, client_final: &[u8]) -> Result<Accepted, Error> {
        let text = text(client_final)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(Error::Scram("no proof"))?;
        let mut attributes = without_proof.split(',');
        let binding = attributes
            .next()
            .and_then(|attribute| attribute.strip_prefix("c="))
            .ok_or(Error::Scram("no channel binding data"))?;
        if BASE64.decode(binding).ok().as_deref() != Some(self.bound.as_slice()) {
            return Err(Error::Scram("channel binding data does not match"));
        }
        let nonce = attributes.next().and_then(|attribute| attribute.strip_prefix("r="));
        if nonce != Some(self.nonce.as_str()) {
            return Err(Error::Scram("the nonce does not match"));
        }
        let proof: Key = BASE64
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(Error::Scram("the proof is not Base64 of 32 bytes"))?;
        let exchange = [self.client_first_bare.as_str(), &self.server_first, without_proof].join(",");
        let client_key = xor(proof, hmac(&self.secret.stored_key, &[exchange.as_bytes()]));
        if !bool::from(sha256(&client_key).ct_eq(&self.secret.stored_key)) {
            return Err(Error::Verification);
        }
        let signature = hmac(&self.secret.server_key, &[exchange.as_bytes()]);
        Ok(Accepted { message: format!("v={}", BASE64.encode(signature)).into_bytes(), client_key })
    }
}

/// With what a client logs in.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The password.
    Password(Vec<u8>),
    /// The keys of the password under the server's salt.
    Keys {
        /// ClientKey.
        client_key: Key,
        /// ServerKey, by which the server proves that it knows the secret too.
        server_key: Key,
    },
}

/// It is not for logs.
impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if matches!(self, Self::Password(_)) { "Password" } else { "Keys" })
    }
}

/// The client's side of one exchange.
#[derive(Debug)]
pub struct Client {
    credential: Credential,
    nonce: String,
    first_bare: String,
    bound: Vec<u8>,
}

/// The client's side when its proof is sent and the server's has not come.
#[derive(Debug)]
pub struct Proven {
    signature: Key,
}

impl Client {
    /// The client-first-message without channel binding; `nonce` is 18 random bytes in Base64 ([`nonce`]).
    pub fn start(credential: Credential, nonce: &str) -> (Self, Vec<u8>) {
        Self::start_bound(credential, nonce, Binding::No)
    }

    /// The client-first-message, for [`MECHANISM_PLUS`] when `binding` is [`Binding::EndPoint`].
    pub fn start_bound(credential: Credential, nonce: &str, binding: Binding<'_>) -> (Self, Vec<u8>) {
        // PostgreSQL takes the user's name from the startup packet and ignores the one here, as libpq knows.
        let first_bare = format!("n=,r={nonce}");
        let header = match binding {
            Binding::No => "n,,".to_owned(),
            Binding::Declined => "y,,".to_owned(),
            Binding::EndPoint(_) => format!("{END_POINT},,"),
        };
        let message = format!("{header}{first_bare}").into_bytes();
        (Self { credential, nonce: nonce.to_owned(), first_bare, bound: binding.data(&header) }, message)
    }

    /// The client-final-message in answer to a server-first-message.
    pub fn proof(self, server_first: &[u8]) -> Result<(Proven, Vec<u8>), Error> {
        let text = text(server_first)?;
        let mut attributes = text.split(',');
        let mut next = |name| attributes.next().and_then(|attribute: &str| attribute.strip_prefix(name));
        let nonce = next("r=").ok_or(Error::Scram("no nonce"))?;
        let salt = next("s=").and_then(|salt| BASE64.decode(salt).ok()).ok_or(Error::Scram("no salt"))?;
        let iterations = next("i=")
            .and_then(|count| count.parse().ok())
            .filter(|count| (1..=MAX_ITERATIONS).contains(count))
            .ok_or(Error::Scram("no usable iteration count"))?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(Error::Scram("the nonce does not match"));
        }
        let (client_key, server_key) = match &self.credential {
            Credential::Keys { client_key, server_key } => (*client_key, *server_key),
            Credential::Password(password) => {
                let salted = salted_password(password, &salt, iterations);
                (hmac(&salted, &[b"Client Key"]), hmac(&salted, &[b"Server Key"]))
            }
        };
        let without_proof = format!("c={},r={nonce}", BASE64.encode(&self.bound));
        let exchange = [self.first_bare.as_str(), text, &without_proof].join(",");
        let proof = xor(client_key, hmac(&sha256(&client_key), &[exchange.as_bytes()]));
        let message = format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes();
        Ok((Proven { signature: hmac(&server_key, &[exchange.as_bytes()]) }, message))
    }
}

impl Proven {
    /// Checks a server-final-message: that the server knows the secret.
    pub fn finish(self, server_final: &[u8]) -> Result<(), Error> {
        let text = text(server_final)?;
        let signature = text
            .strip_prefix("v=")
            .and_then(|rest| BASE64.decode(rest.split(',').next().unwrap_or_default()).ok())
            .ok_or(Error::Scram("no server signature"))?;
        if bool::from(signature.ct_eq(self.signature.as_slice())) { Ok(()) } else { Err(Error::Verification) }
    }
}

/// The salt for a user who has no secret: of PostgreSQL's usual length, and the same each time.
pub fn mock_salt(seed: &Key, user: &[u8]) -> [u8; 16] {
    let mut salt = [0; 16];
    salt.iter_mut().zip(hmac(seed, &[b"salt", user])).for_each(|(salt, byte)| *salt = byte);
    salt
}

/// A fresh nonce: 18 random bytes in Base64.
pub fn nonce() -> Result<String, Error> {
    let mut bytes = [0; 18];
    getrandom::fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(BASE64.encode(bytes))
}

fn text(message: &[u8]) -> Result<&str, Error> {
    if message.len() > MAX_MESSAGE {
        return Err(Error::Scram("the message is too long"));
    }
    std::str::from_utf8(message).map_err(|_| Error::Scram("the message is not UTF-8"))
}

/// PBKDF2 of the normalised password. As in PostgreSQL, what SASLprep refuses is taken as it is.
fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> Key {
    let normalised = std::str::from_utf8(password).ok().and_then(|text| stringprep::saslprep(text).ok());
    let password = normalised.as_deref().map_or(password, str::as_bytes);
    let mut block = hmac(password, &[salt, &1_u32.to_be_bytes()]);
    let mut result = block;
    // A key of any length will do for HMAC, so the error cannot be.
    let Ok(keyed) = Hmac::<Sha256>::new_from_slice(password) else { return result };
    for _ in 1..iterations {
        block = keyed.clone().chain_update(block).finalize().into_bytes().into();
        result = xor(result, block);
    }
    result
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    // A key of any length will do for HMAC, so the error cannot be.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn sha256(bytes: &[u8]) -> Key {
    Sha256::digest(bytes).into()
}

fn xor(mut left: Key, right: Key) -> Key {
    left.iter_mut().zip(right).for_each(|(left, right)| *left ^= right);
    left
}
