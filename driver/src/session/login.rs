//! Proving who the user is: answers to the server's Authentication messages.

use wire::backend::{Authentication, authentication};
use wire::scram::{self, Binding, Credential};
use wire::{frontend, md5};

/// The mechanism that binds the exchange to the TLS channel.
const PLUS: &str = "SCRAM-SHA-256-PLUS";
/// The mechanism without.
const PLAIN: &str = "SCRAM-SHA-256";

/// Why a login cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server asks for something that is not spoken here.
    #[error("unsupported authentication method requested by the server: {0}")]
    Method(String),
    /// The server offers only other SASL mechanisms.
    #[error("unsupported SASL Authentication methods requested by the server: {0}")]
    Mechanism(String),
    /// A step came that does not follow the last one.
    #[error("the server's authentication messages are out of order")]
    Order,
    /// The server did not finish the proof that it knows the password.
    #[error("the server did not prove that it knows the password")]
    Unproven,
    /// The message or the exchange is broken.
    #[error(transparent)]
    Wire(#[from] wire::Error),
}

#[derive(Debug, Default)]
pub(crate) enum Step {
    #[default]
    Start,
    Sent,
    First(scram::Client),
    Final(scram::Proven),
    Done,
}

/// One login.
#[derive(Debug, Default)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The password; empty when there is none.
    pub password: Vec<u8>,
    /// The hash of the server's certificate, when the connection is encrypted.
    pub end_point: Option<Vec<u8>>,
    pub(crate) step: Step,
}

impl Login {
    /// Takes one Authentication message, and appends the answer, if one is due, to `out`.
    pub fn answer(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        match (authentication(body)?, std::mem::take(&mut self.step)) {
            (Authentication::Ok, Step::Start | Step::Sent | Step::Done) => self.step = Step::Done,
            (Authentication::Ok, Step::First(_) | Step::Final(_)) => return Err(Error::Unproven),
            (Authentication::CleartextPassword, Step::Start) => {
                frontend::write_password(out, &self.password);
                self.step = Step::Sent;
            }
            (Authentication::Md5Password(salt), Step::Start) => {
                let response = md5::response(&md5::stored(&self.user, &self.password), salt);
                frontend::write_password(out, response.as_bytes());
                self.step = Step::Sent;
            }
            (Authentication::Sasl(offered), Step::Start) => self.step = self.start_scram(&offered, out)?,
            (Authentication::SaslContinue(message), Step::First(client)) => {
                let (proven, answer) = client.proof(message)?;
                frontend::write_sasl_response(out, &answer);
                self.step = Step::Final(proven);
            }
            (Authentication::SaslFinal(message), Step::Final(proven)) => {
                proven.finish(message)?;
                self.step = Step::Done;
            }
            (Authentication::Other(number), _) => return Err(Error::Method(name(number))),
            _ => return Err(Error::Order),
        }
        Ok(())
    }

    fn start_scram(&self, offered: &[&str], out: &mut Vec<u8>) -> Result<Step, Error> {
        let (mechanism, channel) = match &self.end_point {
            Some(hash) if offered.contains(&PLUS) => (PLUS, Binding::EndPoint(hash)),
            Some(_) if offered.contains(&PLAIN) => (PLAIN, Binding::Declined),
            None if offered.contains(&PLAIN) => (PLAIN, Binding::No),
            _ => return Err(Error::Mechanism(offered.join(", "))),
        };
        let credential = Credential::Password(self.password.clone());
        let (client, first) = scram::Client::start_bound(credential, &scram::nonce()?, channel);
        frontend::write_sasl_initial(out, mechanism, &first);
        Ok(Step::First(client))
    }
}

fn name(number: i32) -> String {
    match number {
        2 => "kerberosv5".into(),
        7 | 8 => "gss".into(),
        9 => "sspi".into(),
        other => other.to_string(),
    }
}

/// The hash algorithm, as Python's hashlib names it, of `tls-server-end-point` for a certificate in DER: that of its
/// signature, with SHA-256 for MD5 and SHA-1 (RFC 5929). `None` when the certificate cannot be read or the signature
/// has no hash of its own (Ed25519).
pub fn end_point_hash(certificate: &[u8]) -> Option<&'static str> {
    let (_, whole, _) = der(certificate)?;
    let (_, _, after) = der(whole)?;
    let (_, algorithm, _) = der(after)?;
    let (tag, oid, _) = der(algorithm)?;
    if tag != 0x06 {
        return None;
    }
    // 1.2.840.113549.1.1.x, RSA; 1.2.840.10045.4.x, ECDSA.
    match oid {
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 4 | 5 | 11] => Some("sha256"),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 12] => Some("sha384"),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 13] => Some("sha512"),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 14] => Some("sha224"),
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01] => Some("sha256"),
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 1] => Some("sha224"),
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 2] => Some("sha256"),
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 3] => Some("sha384"),
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 4] => Some("sha512"),
        _ => None,
    }
}

/// The tag, the content and what follows of the first element of a DER encoding.
fn der(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if digits.len() > 4 {
            return None;
        }
        (digits.iter().fold(0_usize, |sum, &digit| sum << 8 | usize::from(digit)), rest)
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::backend::write_authentication;
    use wire::scram::{Secret, Server};

    fn body(what: &Authentication<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        write_authentication(&mut out, what);
        out.split_off(wire::frame::HEADER)
    }

    fn login(password: &str) -> Login {
        Login { user: "u".into(), password: password.into(), ..Login::default() }
    }

    fn scram(password: &str) -> Result<(), Error> {
        let mut login = login(password);
        let mut out = Vec::new();
        login.answer(&body(&Authentication::Sasl(vec![PLAIN])), &mut out)?;
        let (mechanism, first) = frontend::sasl_initial(&out[5..]).unwrap();
        assert_eq!(mechanism, PLAIN);
        let (server, message) = Server::start(Secret::derive(b"right", b"salt", 4096), first, "xyz").unwrap();
        out.clear();
        login.answer(&body(&Authentication::SaslContinue(&message)), &mut out)?;
        let accepted = server.finish(&out[5..]).map_err(Error::Wire)?;
        login.answer(&body(&Authentication::SaslFinal(&accepted.message)), &mut out)?;
        login.answer(&body(&Authentication::Ok), &mut out)
    }

    #[test]
    fn scram_agrees_with_the_server_on_the_right_password_only() {
        scram("right").unwrap();
        assert!(scram("wrong").is_err());
    }

    #[test]
    fn a_server_that_skips_its_proof_is_refused() {
        let mut login = login("p");
        let mut out = Vec::new();
        login.answer(&body(&Authentication::Sasl(vec![PLAIN])), &mut out).unwrap();
        assert!(matches!(login.answer(&body(&Authentication::Ok), &mut out), Err(Error::Unproven)));
    }

    #[test]
    fn the_channel_is_bound_when_it_can_be() {
        for (end_point, offered, mechanism, header) in [
            (Some(vec![1, 2]), vec![PLAIN, PLUS], PLUS, "p=tls-server-end-point,,"),
            (Some(vec![1, 2]), vec![PLAIN], PLAIN, "y,,"),
            (None, vec![PLAIN, PLUS], PLAIN, "n,,"),
        ] {
            let mut login = Login { end_point, ..login("p") };
            let mut out = Vec::new();
            login.answer(&body(&Authentication::Sasl(offered)), &mut out).unwrap();
            let (chosen, first) = frontend::sasl_initial(&out[5..]).unwrap();
            assert_eq!(chosen, mechanism);
            assert!(first.starts_with(header.as_bytes()));
        }
    }

    #[test]
    fn what_is_not_spoken_is_named() {
        let error = login("p").answer(&body(&Authentication::Other(7)), &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "unsupported authentication method requested by the server: gss");
        let error = login("p").answer(&body(&Authentication::Sasl(vec!["OAUTHBEARER"])), &mut Vec::new()).unwrap_err();
        assert!(matches!(error, Error::Mechanism(_)));
    }
}
