//! The stored form of a user's password, the request for it, and the check of the answer.
//!
//! The pooler treats users that do not exist like all others: the same exchange, a salt that stays the same, and the
//! same work.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use wire::md5;
use wire::scram::{self, Secret};

use crate::config::AuthType;

/// The stored password of the user that a client claims to be.
#[derive(Clone, PartialEq, Eq)]
pub enum Stored {
    /// There is no such user.
    Nobody,
    /// The user exists and has no password: no password is right.
    Nothing,
    /// The password as it is.
    Plain(Arc<str>),
    /// The MD5 hash of the password.
    Md5(Arc<str>),
    /// The SCRAM secret, as it is written and as it is used.
    Scram(Arc<str>, Arc<Secret>),
}

impl Stored {
    /// Reads a stored password as in the users file or in `pg_authid`.
    pub fn read(text: &str) -> Self {
        match Secret::read(text) {
            Some(secret) => Self::Scram(text.into(), Arc::new(secret)),
            None if text.is_empty() => Self::Nothing,
            None if md5::is_stored(text) => Self::Md5(text.into()),
            None => Self::Plain(text.into()),
        }
    }

    /// Whether there is such a user.
    pub fn exists(&self) -> bool {
        *self != Self::Nobody
    }

    /// The stored password as it is written.
    pub fn text(&self) -> Option<&Arc<str>> {
        match self {
            Self::Plain(text) | Self::Md5(text) | Self::Scram(text, _) => Some(text),
            Self::Nobody | Self::Nothing => None,
        }
    }
}

/// A stored password is not for logs.
impl fmt::Debug for Stored {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Nothing => "Nothing",
            Self::Plain(_) => "Plain",
            Self::Md5(_) => "Md5",
            Self::Scram(..) => "Scram",
        })
    }
}

/// The exchange by which a client is asked for its password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// The password as it is.
    Plain,
    /// The password hashed with a salt.
    Md5,
    /// SCRAM-SHA-256.
    Scram,
}

/// The usual form of stored passwords, which a user that does not exist is taken to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usual {
    /// Whether MD5 is the exchange where `auth_type` is md5.
    pub md5: bool,
    /// The rounds of SCRAM secrets.
    pub iterations: u32,
}

impl Default for Usual {
    /// PostgreSQL's own defaults.
    fn default() -> Self {
        Self { md5: false, iterations: scram::ITERATIONS }
    }
}

impl Usual {
    /// The form of most of these passwords.
    pub fn of<'a>(stored: impl IntoIterator<Item = &'a String>) -> Self {
        let (mut scram, mut others) = (HashMap::new(), 0);
        for text in stored {
            match Stored::read(text) {
                Stored::Scram(_, secret) => *scram.entry(secret.iterations).or_insert(0_usize) += 1,
                Stored::Plain(_) | Stored::Md5(_) => others += 1,
                Stored::Nobody | Stored::Nothing => (),
            }
        }
        let secrets: usize = scram.values().sum();
        let most = scram.into_iter().max_by_key(|(iterations, count)| (*count, *iterations));
        Self { md5: others > secrets, iterations: most.map_or(scram::ITERATIONS, |(iterations, _)| iterations) }
    }

    /// The form after a password was found stored like this.
    pub fn seen(self, stored: &Stored) -> Self {
        match stored {
            Stored::Scram(_, secret) => Self { md5: false, iterations: secret.iterations },
            Stored::Plain(_) | Stored::Md5(_) => Self { md5: true, ..self },
            Stored::Nobody | Stored::Nothing => self,
        }
    }
}

impl Exchange {
    /// The exchange for a password that is stored like this. As in PostgreSQL, `md5` means SCRAM for a SCRAM secret.
    pub fn of(auth_type: AuthType, stored: &Stored, usual: Usual) -> Self {
        match (auth_type, stored) {
            (AuthType::Plain, _) => Self::Plain,
            (AuthType::Md5, Stored::Plain(_) | Stored::Md5(_)) => Self::Md5,
            (AuthType::Md5, Stored::Nobody | Stored::Nothing) if usual.md5 => Self::Md5,
            _ => Self::Scram,
        }
    }
}

/// The outcome of a check of a plain password.
#[derive(Debug, PartialEq, Eq)]
pub enum Plain {
    /// The password is right, or wrong.
    Is(bool),
    /// The secret with this salt and this number of rounds must be compared, which takes a while.
    Derive(Vec<u8>, u32),
}

/// Checks a plain password, or says which secret must be derived for that.
pub fn check_plain(user: &str, stored: &Stored, password: &[u8], usual: Usual, mock_salt: [u8; 16]) -> Plain {
    match stored {
        Stored::Plain(text) => Plain::Is(text.as_bytes().ct_eq(password).into()),
        Stored::Md5(text) => Plain::Is(text.as_bytes().ct_eq(md5::stored(user, password).as_bytes()).into()),
        Stored::Scram(_, secret) => Plain::Derive(secret.salt.clone(), secret.iterations),
        Stored::Nobody | Stored::Nothing if usual.md5 => Plain::Is(false),
        Stored::Nobody | Stored::Nothing => Plain::Derive(mock_salt.to_vec(), usual.iterations),
    }
}

/// Whether a secret that was derived from a client's password is the stored one.
pub fn is_secret(stored: &Stored, derived: &Secret) -> bool {
    matches!(stored, Stored::Scram(_, secret) if secret.stored_key.ct_eq(&derived.stored_key).into())
}

/// Whether `response` answers a request for an MD5 hash with this salt.
pub fn check_md5(user: &str, stored: &Stored, salt: [u8; 4], response: &[u8]) -> bool {
    let hashed = match stored {
        Stored::Md5(text) => text.to_string(),
        Stored::Plain(text) => md5::stored(user, text.as_bytes()),
        Stored::Nobody | Stored::Nothing | Stored::Scram(..) => md5::stored(user, b""),
    };
    let answers = bool::from(md5::response(&hashed, salt).as_bytes().ct_eq(response));
    answers && matches!(stored, Stored::Md5(_) | Stored::Plain(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAM: &str = "SCRAM-SHA-256$8192:c2FsdHNhbHRzYWx0c2FsdA==$\
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

    fn hashed() -> Stored {
        Stored::read(&md5::stored("bob", b"pw"))
    }

    #[test]
    fn what_is_stored_is_told_apart() {
        assert_eq!(Stored::read(""), Stored::Nothing);
        assert_eq!(Stored::read("pw"), Stored::Plain("pw".into()));
        assert!(matches!(hashed(), Stored::Md5(_)));
        assert!(matches!(Stored::read(SCRAM), Stored::Scram(..)));
    }

    #[test]
    fn an_unknown_user_is_asked_as_most_are() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        for (stored, usual, exchange) in [
            (texts(&[]), Usual::default(), Exchange::Scram),
            (texts(&["a", "b", SCRAM]), Usual { md5: true, iterations: 8192 }, Exchange::Md5),
            (texts(&["a", SCRAM, ""]), Usual { md5: false, iterations: 8192 }, Exchange::Scram),
        ] {
            let found = Usual::of(&stored);
            assert_eq!(found, usual);
            for nobody in [Stored::Nobody, Stored::Nothing] {
                assert_eq!(Exchange::of(AuthType::Md5, &nobody, found), exchange);
                assert_eq!(Exchange::of(AuthType::Scram, &nobody, found), Exchange::Scram);
                assert_eq!(Exchange::of(AuthType::Plain, &nobody, found), Exchange::Plain);
            }
        }
        assert_eq!(Usual::default().seen(&hashed()), Usual { md5: true, iterations: scram::ITERATIONS });
        assert_eq!(Usual::default().seen(&Stored::read(SCRAM)), Usual { md5: false, iterations: 8192 });
    }

    #[test]
    fn a_missing_password_is_never_right() {
        for stored in [Stored::Nobody, Stored::Nothing] {
            let usual = Usual { md5: true, ..Usual::default() };
            assert_eq!(check_plain("bob", &stored, b"", usual, [0; 16]), Plain::Is(false));
            let response = md5::response(&md5::stored("bob", b""), [1; 4]);
            assert!(!check_md5("bob", &stored, [1; 4], response.as_bytes()));
            assert!(!is_secret(&stored, &Secret::derive(b"", &[0; 16], 1)));
        }
    }

    #[test]
    fn the_right_password_is_right() {
        let response = md5::response(&md5::stored("bob", b"pw"), [1; 4]);
        for stored in [Stored::Plain("pw".into()), hashed()] {
            assert!(check_md5("bob", &stored, [1; 4], response.as_bytes()));
            assert!(!check_md5("bob", &stored, [2; 4], response.as_bytes()));
            assert_eq!(check_plain("bob", &stored, b"pw", Usual::default(), [0; 16]), Plain::Is(true));
            assert_eq!(check_plain("bob", &stored, b"pw2", Usual::default(), [0; 16]), Plain::Is(false));
        }
        let stored = Stored::read(SCRAM);
        assert_eq!(
            check_plain("bob", &stored, b"pw", Usual::default(), [0; 16]),
            Plain::Derive(b"saltsaltsaltsalt".to_vec(), 8192)
        );
    }
}
