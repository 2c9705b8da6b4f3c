//! The proof of the user's identity: the exchange of `wire`, with the driver's credentials and asyncpg's error
//! messages.

use wire::backend::authentication;
use wire::login::{Account, ChannelBinding, Error, Exchange, Password};

/// One login.
#[derive(Debug)]
pub struct Login {
    exchange: Exchange,
    end_point: Option<Vec<u8>>,
    /// libpq's names of the methods that will do; none where all will.
    required: Vec<String>,
    /// Whether the server has asked for a proof.
    asked: bool,
}

impl Default for Login {
    fn default() -> Self {
        Self::new(String::new(), Vec::new(), None, ChannelBinding::Prefer, Vec::new())
    }
}

impl Login {
    /// A login of a user with a password, empty when there is none. `end_point` is the hash of the server's certificate,
    /// when the connection is encrypted.
    pub fn new(
        user: String,
        password: Vec<u8>,
        end_point: Option<Vec<u8>>,
        binding: ChannelBinding,
        required: Vec<String>,
    ) -> Self {
        let account = Account { user, password: Some(Password::Plain(password)) };
        Self { exchange: Exchange::new(account, binding), end_point, required, asked: false }
    }

    /// Refuses an Authentication message of a method that `require_auth` leaves out, in libpq's words.
    pub fn check(&mut self, body: &[u8]) -> Result<(), String> {
        let Some((number, _)) = body.split_first_chunk::<4>() else { return Ok(()) };
        let method = match i32::from_be_bytes(*number) {
            0 if self.asked => return Ok(()),
            0 => "none",
            3 => "password",
            5 => "md5",
            7 => "gss",
            9 => "sspi",
            10 => "scram-sha-256",
            _ => return Ok(()),
        };
        self.asked = true;
        if self.required.is_empty() || self.required.iter().any(|allowed| allowed == method) {
            return Ok(());
        }
        let what = match method {
            "none" => "server did not complete authentication".into(),
            method => format!("server requested {method} authentication"),
        };
        Err(format!("authentication method requirement {:?} failed: {what}", self.required.join(",")))
    }

    /// Takes one Authentication message, and appends the answer, if one is due, to `out`.
    pub fn answer(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.exchange.answer(&authentication(body)?, self.end_point.as_deref(), out)
    }
}

/// libpq's word for whether SCRAM is bound to the TLS connection.
pub fn binding(word: Option<&str>) -> ChannelBinding {
    match word {
        Some("disable") => ChannelBinding::Disable,
        Some("require") => ChannelBinding::Require,
        _ => ChannelBinding::Prefer,
    }
}

/// Why a login cannot go on, in asyncpg's words where it has any.
pub fn complaint(error: &Error) -> String {
    match error {
        Error::Method(number) => {
            format!("unsupported authentication method requested by the server: {}", method(*number))
        }
        Error::Mechanisms(offered) => {
            format!("unsupported SASL Authentication methods requested by the server: {offered}")
        }
        other => other.to_string(),
    }
}

fn method(number: i32) -> String {
    match number {
        2 => "kerberosv5".into(),
        7 | 8 => "gss".into(),
        9 => "sspi".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::backend::{Authentication, write_authentication};
    use wire::{frontend, scram};

    fn body(what: &Authentication<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        write_authentication(&mut out, what);
        out.split_off(wire::frame::HEADER)
    }

    fn login(end_point: Option<Vec<u8>>) -> Login {
        Login::new("u".into(), b"p".to_vec(), end_point, ChannelBinding::Prefer, Vec::new())
    }

    #[test]
    fn the_channel_is_bound_when_it_can_be() {
        for (end_point, header) in [(Some(vec![1, 2]), "p=tls-server-end-point,,"), (None, "n,,")] {
            let mut out = Vec::new();
            let offered = Authentication::Sasl(vec![scram::MECHANISM, scram::MECHANISM_PLUS]);
            login(end_point).answer(&body(&offered), &mut out).unwrap();
            let (_, first) = frontend::sasl_initial(&out[5..]).unwrap();
            assert!(first.starts_with(header.as_bytes()));
        }
    }

    #[test]
    fn only_the_methods_that_are_required_will_do() {
        let mut required =
            Login::new("u".into(), Vec::new(), None, ChannelBinding::Prefer, vec!["scram-sha-256".into()]);
        assert!(required.check(&body(&Authentication::CleartextPassword)).unwrap_err().contains("requested password"));
        let mut required =
            Login::new("u".into(), Vec::new(), None, ChannelBinding::Prefer, vec!["scram-sha-256".into()]);
        assert!(required.check(&[0; 4]).unwrap_err().contains("did not complete"));
        let mut required =
            Login::new("u".into(), Vec::new(), None, ChannelBinding::Prefer, vec!["scram-sha-256".into()]);
        required.check(&body(&Authentication::Sasl(vec![scram::MECHANISM]))).unwrap();
        required.check(&[0; 4]).unwrap();
    }

    #[test]
    fn what_is_not_spoken_is_named() {
        let error = login(None).answer(&body(&Authentication::Other(7)), &mut Vec::new()).unwrap_err();
        assert_eq!(complaint(&error), "unsupported authentication method requested by the server: gss");
        let error = login(None).answer(&body(&Authentication::Sasl(vec!["OAUTHBEARER"])), &mut Vec::new()).unwrap_err();
        assert_eq!(complaint(&error), "unsupported SASL Authentication methods requested by the server: OAUTHBEARER");
    }
}
