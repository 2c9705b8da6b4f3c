//! How a client proves who it is: by a password as it is, MD5 or SCRAM.

use std::sync::Arc;

use crate::model::keys::ClientKey;
use crate::model::turn::{Step, Turn};
use wire::backend::{self, Authentication};
use wire::frame::{self, HEADER};
use wire::frontend;
use wire::scram::{self, Binding, Secret};

use crate::config::AuthType;
use crate::derive::Job;
use crate::error::Error;
use crate::io::Cipher;
use crate::password::{self, Exchange, Plain, Stored};
use crate::pools::leave;
use crate::state::client::State;
use crate::state::login::{Challenge, Derivation, Login, MAX_PASSWORD, Phase, Proven};
use crate::state::{Core, sockets};

/// Goes on with a login when the stored password of the user is known.
pub fn looked_up(core: &mut Core, key: ClientKey, login: Box<Login>, stored: Stored) -> Result<(), Error> {
    let Some(client) = core.clients.get_mut(key) else { return Ok(()) };
    let user = client.identity.user.to_string();
    if !stored.exists() && login.method != AuthType::Any && core.config.settings.log_pooler_errors {
        crate::info!(of core.name_client(key); "the user is not known");
    }
    match login.method {
        AuthType::Any => prove(core, key, *login, stored),
        AuthType::Trust | AuthType::Cert | AuthType::Peer if stored.exists() => prove(core, key, *login, stored),
        AuthType::Trust => return Err(Error::Trust(user)),
        AuthType::Cert => return Err(Error::Certificate(user)),
        AuthType::Peer => return Err(Error::Peer(user)),
        AuthType::Plain | AuthType::Md5 | AuthType::Scram | AuthType::Hba => challenge(core, key, login, stored)?,
    }
    Ok(())
}

/// Asks a client for its password.
fn challenge(core: &mut Core, key: ClientKey, login: Box<Login>, stored: Stored) -> Result<(), Error> {
    let Some(client) = core.clients.get_mut(key) else { return Ok(()) };
    let (challenge, authentication) = match Exchange::of(login.method, &stored, core.shared.secrets.usual()) {
        Exchange::Plain => (Challenge::Plain(stored), Authentication::CleartextPassword),
        Exchange::Md5 => {
            let mut salt = [0; 4];
            getrandom::fill(&mut salt).map_err(|_| Error::Random)?;
            (Challenge::Md5(stored, salt), Authentication::Md5Password(salt))
        }
        Exchange::Scram => {
            let bound = client.io.tls().and_then(Cipher::end_point).map(|_| scram::MECHANISM_PLUS);
            let mechanisms = bound.into_iter().chain([scram::MECHANISM]).collect();
            (Challenge::ScramFirst(stored), Authentication::Sasl(mechanisms))
        }
    };
    client.enter_login(login, Phase::Challenge(challenge));
    backend::write_authentication(client.io.out(), &authentication);
    sockets::flush_client(core, key);
    Ok(())
}

/// Works on a client's messages in its login.
pub fn password_input(core: &mut Core, key: ClientKey, left: &[u8]) -> Step {
    let Some(client) = core.clients.get(key) else { return Step::Took(left.len()) };
    // A message that comes before it is asked for stays where it is.
    if !client.login_phase().is_some_and(Phase::awaits_client) {
        return Step::Stop;
    }
    let message = match wire::header(left) {
        Ok(Some(head)) if head.tag != frontend::tag::PASSWORD || head.body > MAX_PASSWORD => {
            Err(Error::NoPasswordMessage)
        }
        Ok(Some(_)) => frame::message(left).map_err(Error::from),
        Ok(None) => return Step::More,
        Err(error) => Err(error.into()),
    };
    let outcome = match message {
        Ok(Some(message)) => password_answered(core, key, message.body).map(|()| HEADER + message.body.len()),
        Ok(None) => return Step::More,
        Err(refusal) => Err(refusal),
    };
    match outcome {
        Ok(taken) => Step::Took(taken),
        Err(refusal) => {
            leave::fatal(core, key, &refusal);
            Step::Took(left.len())
        }
    }
}

/// Goes on with a login by its client's answer.
fn password_answered(core: &mut Core, key: ClientKey, body: &[u8]) -> Result<(), Error> {
    let Some(client) = core.clients.get_mut(key) else { return Ok(()) };
    let Some((mut login, Phase::Challenge(challenge))) = client.leave_login() else { return Ok(()) };
    match challenge {
        Challenge::Plain(stored) => check_plain(core, key, login, stored, frontend::password(body)?),
        Challenge::Md5(stored, salt) => {
            let response = frontend::password(body)?;
            let right = password::check_md5(&login.introduction.user, &stored, salt, response);
            conclude(core, key, *login, stored, right)
        }
        Challenge::ScramFirst(stored) => begin_scram(core, key, login, stored, body),
        Challenge::ScramFinal(stored, server) => {
            let accepted = match server.finish(body) {
                Err(wire::Error::Verification) => return conclude(core, key, *login, stored, false),
                outcome => outcome?,
            };
            backend::write_authentication(client.io.out(), &Authentication::SaslFinal(&accepted.message));
            login.client_key = Some(accepted.client_key);
            let exists = stored.exists();
            conclude(core, key, *login, stored, exists)
        }
    }
}

fn check_plain(
    core: &mut Core,
    key: ClientKey,
    login: Box<Login>,
    stored: Stored,
    password: &[u8],
) -> Result<(), Error> {
    let (user, secrets) = (&login.introduction.user, &core.shared.secrets);
    match password::check_plain(user, &stored, password, secrets.usual(), secrets.salt(user)) {
        Plain::Is(right) => conclude(core, key, *login, stored, right),
        Plain::Derive(salt, iterations) => {
            derive(core, key, login, Derivation::Compare(stored), (password.to_vec(), salt, iterations));
            Ok(())
        }
    }
}

/// Goes on with SCRAM when a client's first message has come: as soon as the secret is there that it must prove to
/// know, or one that looks like it.
fn begin_scram(core: &mut Core, key: ClientKey, login: Box<Login>, stored: Stored, body: &[u8]) -> Result<(), Error> {
    let (user, secrets) = (&login.introduction.user, &core.shared.secrets);
    let password = match &stored {
        Stored::Scram(_, secret) => {
            let secret = (**secret).clone();
            return go_on_with_scram(core, key, login, stored, secret, body);
        }
        Stored::Plain(text) => match secrets.get(user, text) {
            Some(secret) => return go_on_with_scram(core, key, login, stored, (*secret).clone(), body),
            None => text.as_bytes().to_vec(),
        },
        _ if secrets.are_complete() => {
            let secret = secrets.mock(user);
            return go_on_with_scram(core, key, login, stored, secret, body);
        }
        _ => Vec::new(),
    };
    let material = (password, secrets.salt(user).to_vec(), secrets.iterations());
    derive(core, key, login, Derivation::Prove(stored, body.to_vec()), material);
    Ok(())
}

fn go_on_with_scram(
    core: &mut Core,
    key: ClientKey,
    login: Box<Login>,
    stored: Stored,
    secret: Secret,
    body: &[u8],
) -> Result<(), Error> {
    let Some(client) = core.clients.get_mut(key) else { return Ok(()) };
    let (mechanism, first) = frontend::sasl_initial(body)?;
    let end_point = client.io.tls().and_then(Cipher::end_point);
    let binding = match (mechanism, &end_point) {
        (scram::MECHANISM_PLUS, Some(hash)) => Binding::EndPoint(hash),
        (scram::MECHANISM, Some(_)) => Binding::Declined,
        (scram::MECHANISM, None) => Binding::No,
        _ => return Err(wire::Error::Scram("the mechanism is none of those that were offered").into()),
    };
    let (server, answer) = scram::Server::start_bound(secret, first, &scram::nonce()?, binding)?;
    client.enter_login(login, Phase::Challenge(Challenge::ScramFinal(stored, Box::new(server))));
    backend::write_authentication(client.io.out(), &Authentication::SaslContinue(&answer));
    Ok(())
}

/// Has a secret derived from a password, with this salt and this number of rounds.
fn derive(core: &mut Core, key: ClientKey, login: Box<Login>, then: Derivation, material: (Vec<u8>, Vec<u8>, u32)) {
    let Some(client) = core.clients.get_mut(key) else { return };
    let awaited = Arc::new(());
    let (password, salt, iterations) = material;
    let job = Job { password, salt, iterations, worker: core.id, client: key, awaited: Arc::downgrade(&awaited) };
    client.enter_login(login, Phase::Deriving { then, _awaited: awaited });
    core.shared.secrets.derive(job);
}

/// The secret that a client waits for has been derived.
pub fn derived(core: &mut Core, key: ClientKey, secret: &Secret) {
    let Some(client) = core.clients.get_mut(key) else { return };
    let Some((login, Phase::Deriving { then, .. })) = client.leave_login() else { return };
    let outcome = match then {
        Derivation::Compare(stored) => {
            let right = password::is_secret(&stored, secret);
            conclude(core, key, *login, stored, right)
        }
        Derivation::Prove(stored, body) => {
            let is_plain = matches!(stored, Stored::Plain(_));
            let mock = || core.shared.secrets.mock(&login.introduction.user);
            let secret = if is_plain { secret.clone() } else { mock() };
            go_on_with_scram(core, key, login, stored, secret, &body)
        }
    };
    if let Err(refusal) = outcome {
        leave::fatal(core, key, &refusal);
    }
    sockets::flush_client(core, key);
    core.schedule.give_turn(Turn::Client(key));
}

fn conclude(core: &mut Core, key: ClientKey, login: Login, stored: Stored, right: bool) -> Result<(), Error> {
    if !right {
        // For the log alone: a client must not learn which users there are.
        let why = match &stored {
            Stored::Nobody => "there is no such user",
            Stored::Nothing => "the user has no password",
            Stored::Md5(_) if login.method == AuthType::Scram => {
                "the stored password is an MD5 hash, which SCRAM cannot use: let auth_type be md5, or set the password again"
            }
            _ => "the password is wrong",
        };
        crate::warning!(of core.name_client(key); "login refused: {why}");
        return Err(Error::Password(login.introduction.user));
    }
    prove(core, key, login, stored);
    Ok(())
}

/// Notes that a client has proven its identity. At its next turn it goes to the worker of its database.
fn prove(core: &mut Core, key: ClientKey, login: Login, stored: Stored) {
    let Some(client) = core.clients.get_mut(key) else { return };
    backend::write_authentication(client.io.out(), &Authentication::Ok);
    let Login { introduction, own_account, client_key, .. } = login;
    let secret = stored.text().cloned();
    client.pass_to(State::Proven(Box::new(Proven { introduction, secret, client_key, own_account, place: None })));
    core.schedule.give_turn(Turn::Client(key));
}
