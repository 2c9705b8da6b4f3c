//! A login to a server, without I/O: its messages go in, ours come out.

use balancer::FailureKind;
use wire::backend::{self, Authentication, tag};
use wire::frontend;
use wire::md5;
use wire::scram::{self, Credential};

use super::users::Account;

/// Why a login has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub kind: FailureKind,
    pub message: String,
}

impl Refusal {
    pub fn nonsense(message: impl ToString) -> Self {
        Self { kind: FailureKind::Nonsense, message: message.to_string() }
    }

    fn not_allowed(message: impl ToString) -> Self {
        Self { kind: FailureKind::NotAllowed, message: message.to_string() }
    }

    /// What an error of the server means.
    pub fn of(report: &backend::Report) -> Self {
        let kind = match report.code.as_str() {
            // It starts, stops, or has just lost a process.
            "57P01" | "57P02" | "57P03" => FailureKind::NotReady,
            // A message that was not understood: no server of ours.
            code if code.starts_with("08") => FailureKind::Nonsense,
            // Whoever tells why we may not come in lives.
            _ => FailureKind::NotAllowed,
        };
        Self { kind, message: format!("{} ({})", report.message, report.code) }
    }
}

#[derive(Debug)]
enum Stage {
    Started,
    First(Box<scram::Client>),
    Final(Box<scram::Proven>),
    Proven,
    Accepted,
}

/// A login that has begun with a startup packet.
#[derive(Debug)]
pub(super) struct Login {
    account: Account,
    stage: Stage,
}

impl Login {
    pub fn new(account: Account) -> Self {
        Self { account, stage: Stage::Started }
    }

    /// Takes a message of the server; what is to be answered is appended to `out`. Whether the session has begun.
    pub fn message(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<bool, Refusal> {
        match tag {
            tag::AUTHENTICATION => {
                self.authenticate(&backend::authentication(body).map_err(Refusal::nonsense)?, out)?;
                Ok(false)
            }
            tag::ERROR_RESPONSE => Err(Refusal::of(&backend::report(body).map_err(Refusal::nonsense)?)),
            tag::READY_FOR_QUERY => match self.stage {
                Stage::Accepted => Ok(true),
                _ => Err(Refusal::nonsense("the server let us in without saying so")),
            },
            tag::PARAMETER_STATUS | tag::BACKEND_KEY_DATA | tag::NOTICE_RESPONSE | tag::NEGOTIATE_PROTOCOL_VERSION => {
                Ok(false)
            }
            other => Err(Refusal::nonsense(format!("a message '{}' in a login", char::from(other)))),
        }
    }

    fn authenticate(&mut self, what: &Authentication<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let user = &self.account.user;
        let missing = || Refusal::not_allowed(format!("no password is known for user \"{user}\""));
        let out_of_turn = || Refusal::nonsense("the messages of SCRAM come out of turn");
        let stage = std::mem::replace(&mut self.stage, Stage::Started);
        self.stage = match (what, stage) {
            (Authentication::Ok, Stage::First(_) | Stage::Final(_)) => {
                return Err(Refusal::nonsense("the server ended SCRAM without proving that it knows the secret"));
            }
            (Authentication::Ok, _) => Stage::Accepted,
            (Authentication::CleartextPassword, stage) => {
                frontend::write_password(out, self.account.plain().ok_or_else(missing)?.as_bytes());
                stage
            }
            (Authentication::Md5Password(salt), stage) => {
                let hashed = self.account.hashed().ok_or_else(missing)?;
                frontend::write_password(out, md5::response(&hashed, *salt).as_bytes());
                stage
            }
            (Authentication::Sasl(mechanisms), _) => {
                if !mechanisms.contains(&scram::MECHANISM) {
                    return Err(Refusal::not_allowed(format!("the server offers only {}", mechanisms.join(", "))));
                }
                let credential: Credential = self.account.credential().ok_or_else(missing)?;
                let nonce = scram::nonce().map_err(Refusal::not_allowed)?;
                let (client, first) = scram::Client::start(credential, &nonce);
                frontend::write_sasl_initial(out, scram::MECHANISM, &first);
                Stage::First(Box::new(client))
            }
            (Authentication::SaslContinue(data), Stage::First(client)) => {
                let (proven, proof) = client.proof(data).map_err(Refusal::nonsense)?;
                frontend::write_sasl_response(out, &proof);
                Stage::Final(Box::new(proven))
            }
            (Authentication::SaslFinal(data), Stage::Final(proven)) => {
                proven.finish(data).map_err(Refusal::nonsense)?;
                Stage::Proven
            }
            (Authentication::SaslContinue(_) | Authentication::SaslFinal(_), _) => return Err(out_of_turn()),
            (Authentication::Other(number), _) => {
                return Err(Refusal::not_allowed(format!("the server asks for authentication {number}")));
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(password: Option<&str>) -> Login {
        Login::new(Account { user: "u".to_owned(), stored: password.map(str::to_owned), keys: None })
    }

    fn say(login: &mut Login, what: &Authentication<'_>) -> Result<Vec<u8>, Refusal> {
        let (mut message, mut out) = (Vec::new(), Vec::new());
        backend::write_authentication(&mut message, what);
        login.message(message[0], &message[5..], &mut out).map(|_| out)
    }

    #[test]
    fn a_server_must_prove_that_it_knows_the_secret() {
        let mut login = login(Some("pw"));
        say(&mut login, &Authentication::Sasl(vec![scram::MECHANISM])).unwrap();
        let early = say(&mut login, &Authentication::Ok).unwrap_err();
        assert!(early.message.contains("without proving"), "{early:?}");
    }

    #[test]
    fn both_sides_of_scram_agree() {
        let mut login = login(Some("pw"));
        let first = say(&mut login, &Authentication::Sasl(vec![scram::MECHANISM])).unwrap();
        let (_, response) = frontend::sasl_initial(&first[5..]).unwrap();
        let secret = scram::Secret::derive(b"pw", b"0123456789abcdef", 4096);
        let (server, challenge) = scram::Server::start(secret, response, "c2VydmVy").unwrap();
        let proof = say(&mut login, &Authentication::SaslContinue(&challenge)).unwrap();
        let accepted = server.finish(&proof[5..]).unwrap();
        say(&mut login, &Authentication::SaslFinal(&accepted.message)).unwrap();
        say(&mut login, &Authentication::Ok).unwrap();
        let mut out = Vec::new();
        assert_eq!(login.message(tag::READY_FOR_QUERY, b"I", &mut out), Ok(true));
    }

    #[test]
    fn who_knows_no_password_is_not_allowed_and_not_down() {
        for asked in [
            Authentication::CleartextPassword,
            Authentication::Md5Password([1; 4]),
            Authentication::Sasl(vec![scram::MECHANISM]),
            Authentication::Other(7),
        ] {
            assert_eq!(say(&mut login(None), &asked).unwrap_err().kind, FailureKind::NotAllowed, "{asked:?}");
        }
        let mut out = Vec::new();
        let told = |code: &str| {
            let mut message = Vec::new();
            backend::write_error(&mut message, "FATAL", code, "no");
            message
        };
        for (code, kind) in [
            ("57P03", FailureKind::NotReady),
            ("28P01", FailureKind::NotAllowed),
            ("53300", FailureKind::NotAllowed),
            ("08P01", FailureKind::Nonsense),
        ] {
            let refusal = login(None).message(tag::ERROR_RESPONSE, &told(code)[5..], &mut out).unwrap_err();
            assert_eq!(refusal.kind, kind);
        }
        assert_eq!(login(None).message(b'D', b"", &mut out).unwrap_err().kind, FailureKind::Nonsense);
        assert!(login(None).message(tag::READY_FOR_QUERY, b"I", &mut out).is_err(), "nobody has said that we are in");
    }
}
