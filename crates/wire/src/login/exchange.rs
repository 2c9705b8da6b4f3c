//! The answers to the server's Authentication messages, by which both sides prove who they are.

use std::fmt;

use super::{ChannelBinding, Error};
use crate::backend::{Authentication, tag};
use crate::scram::{self, Binding, Credential};
use crate::{frontend, md5};

/// The known forms of a password.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// All.
    Plain(Vec<u8>),
    /// Its MD5 hash, as PostgreSQL stores it.
    Md5(String),
    /// Its keys under the server's SCRAM secret.
    Keys(Credential),
    /// Its SCRAM secret, by which one can tell who knows it but not show that one does.
    Secret,
}

/// Secrets are not written to logs.
impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Md5(_) => "Md5",
            Self::Keys(_) => "Keys",
            Self::Secret => "Secret",
        })
    }
}

impl Password {
    /// What a stored password is good for: one in plain, or one of the two forms of `pg_authid`. `client_keys` are keys by
    /// which its user has logged in; the one of this SCRAM secret is of use, if it is among them.
    pub fn stored(stored: &str, client_keys: impl IntoIterator<Item = [u8; 32]>) -> Self {
        if md5::is_stored(stored) {
            return Self::Md5(stored.to_owned());
        }
        let Some(secret) = scram::Secret::read(stored) else { return Self::Plain(stored.as_bytes().to_vec()) };
        match client_keys.into_iter().find(|key| secret.is_of(key)) {
            Some(client_key) => Self::Keys(Credential::Keys { client_key, server_key: secret.server_key }),
            None => Self::Secret,
        }
    }
}

/// As whom one logs in, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The user's name.
    pub user: String,
    /// The password, if one is known.
    pub password: Option<Password>,
}

#[derive(Debug)]
enum Step {
    /// The server has asked for nothing.
    Start,
    /// A password is sent, in plain or hashed; the server proves nothing.
    Sent,
    /// The first message of SCRAM is sent.
    First(scram::Client),
    /// The proof is sent.
    Final(scram::Proven),
    /// The server has proved that it knows the password.
    Proven,
    /// The server has let us in.
    Accepted,
    /// A message was wrong.
    Failed,
}

/// One exchange.
#[derive(Debug)]
pub struct Exchange {
    account: Account,
    binding: ChannelBinding,
    step: Step,
}

impl Exchange {
    /// An exchange in which the server has not yet said anything.
    pub fn new(account: Account, binding: ChannelBinding) -> Self {
        Self { account, binding, step: Step::Start }
    }

    /// Whether the server has asked for something, or let us in.
    pub fn has_begun(&self) -> bool {
        !matches!(self.step, Step::Start)
    }

    /// Whether the server has let us in, and has proved what it had to.
    pub fn is_accepted(&self) -> bool {
        matches!(self.step, Step::Accepted)
    }

    /// Whether the answer to this depends on what SCRAM can be bound to.
    pub fn wants_end_point(&self, asked: &Authentication<'_>) -> bool {
        matches!(asked, Authentication::Sasl(_)) && self.binding != ChannelBinding::Disable
    }

    /// Takes an Authentication message; what is to be answered is appended to `out`. `end_point` is the hash of the
    /// server's certificate, if the connection is over TLS.
    ///
    /// # Errors
    /// Why the login has failed. After that nothing more is answered.
    pub fn answer(
        &mut self,
        asked: &Authentication<'_>,
        end_point: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let step = std::mem::replace(&mut self.step, Step::Failed);
        self.step = match (asked, step) {
            // A server that asks for SCRAM and then does without has not shown that it knows the secret.
            (Authentication::Ok, Step::First(_) | Step::Final(_)) => return Err(Error::Unproven),
            (Authentication::Ok, Step::Proven) => Step::Accepted,
            (Authentication::SaslContinue(data), Step::First(client)) => {
                let (proven, proof) = client.proof(data)?;
                frontend::write_sasl_response(out, &proof);
                Step::Final(proven)
            }
            (Authentication::SaslFinal(data), Step::Final(proven)) => {
                proven.finish(data)?;
                Step::Proven
            }
            (Authentication::Sasl(offered), Step::Start) => self.start_scram(offered, end_point, out)?,
            (Authentication::Other(number), Step::Start) => return Err(Error::Method(*number)),
            (
                Authentication::Ok | Authentication::CleartextPassword | Authentication::Md5Password(_),
                Step::Start | Step::Sent,
            ) if self.binding == ChannelBinding::Require => {
                return Err(Error::Unbound("the server asks for no SCRAM"));
            }
            (Authentication::Ok, Step::Start | Step::Sent) => Step::Accepted,
            (Authentication::CleartextPassword, Step::Start) => {
                let Some(Password::Plain(password)) = &self.account.password else { return Err(self.no_password()) };
                frontend::write_password(out, password);
                Step::Sent
            }
            (Authentication::Md5Password(salt), Step::Start) => {
                let stored = match &self.account.password {
                    Some(Password::Plain(password)) => md5::stored(&self.account.user, password),
                    Some(Password::Md5(stored)) => stored.clone(),
                    _ => return Err(self.no_password()),
                };
                frontend::write_password(out, md5::response(&stored, *salt).as_bytes());
                Step::Sent
            }
            _ => return Err(Error::Order(tag::AUTHENTICATION)),
        };
        Ok(())
    }

    fn start_scram(&self, offered: &[&str], end_point: Option<&[u8]>, out: &mut Vec<u8>) -> Result<Step, Error> {
        let required = self.binding == ChannelBinding::Require;
        let (mechanism, bound) = match end_point.filter(|_| self.binding != ChannelBinding::Disable) {
            Some(hash) if offered.contains(&scram::MECHANISM_PLUS) => (scram::MECHANISM_PLUS, Binding::EndPoint(hash)),
            Some(_) if required => return Err(Error::Unbound("the server does not offer it")),
            None if required => return Err(Error::Unbound("there is no certificate of the server to bind to")),
            _ if !offered.contains(&scram::MECHANISM) => return Err(Error::Mechanisms(offered.join(", "))),
            Some(_) => (scram::MECHANISM, Binding::Declined),
            None => (scram::MECHANISM, Binding::No),
        };
        let user = || self.account.user.clone();
        let credential = match &self.account.password {
            Some(Password::Plain(password)) => Credential::Password(password.clone()),
            Some(Password::Keys(keys)) => keys.clone(),
            Some(Password::Md5(_)) => return Err(Error::OnlyMd5(user())),
            Some(Password::Secret) => return Err(Error::OnlySecret(user())),
            None => return Err(self.no_password()),
        };
        let (client, first) = scram::Client::start_bound(credential, &scram::nonce()?, bound);
        frontend::write_sasl_initial(out, mechanism, &first);
        Ok(Step::First(client))
    }

    fn no_password(&self) -> Error {
        Error::NoPassword(self.account.user.clone())
    }
}
