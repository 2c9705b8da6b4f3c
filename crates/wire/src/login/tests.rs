use super::*;
use crate::backend::{Authentication, Report, write_authentication};
use crate::scram::{self, Binding, Secret};
use crate::{frontend, md5};

const PASSWORD: &str = "the right one";
const HASH: &[u8] = b"the hash of a certificate";

/// A connection that keeps what was sent in the clear apart from what left over TLS.
#[derive(Default)]
struct Wire {
    clear: Vec<u8>,
    sealed: Vec<u8>,
    tls: bool,
    /// Whether TLS only seems to begin.
    lies: bool,
    hash: Option<Vec<u8>>,
}

impl Link for Wire {
    fn out(&mut self) -> &mut Vec<u8> {
        if self.tls { &mut self.sealed } else { &mut self.clear }
    }

    fn begin_tls(&mut self) -> Result<(), String> {
        self.tls = !self.lies;
        Ok(())
    }

    fn is_encrypted(&self) -> bool {
        self.tls
    }

    fn end_point(&self) -> Option<Vec<u8>> {
        self.hash.clone().filter(|_| self.tls)
    }
}

fn wire_with_hash() -> Wire {
    Wire { hash: Some(HASH.to_vec()), ..Wire::default() }
}

fn secret() -> Secret {
    Secret::derive(PASSWORD.as_bytes(), b"0123456789abcdef", 4)
}

fn stored_secret() -> String {
    use base64::Engine as _;
    let text = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let Secret { iterations, salt, stored_key, server_key } = secret();
    format!("SCRAM-SHA-256${iterations}:{}${}:{}", text(&salt), text(&stored_key), text(&server_key))
}

/// The client's key, as a pooler learns it: from a login to itself.
fn client_key() -> [u8; 32] {
    let (client, first) = scram::Client::start(scram::Credential::Password(PASSWORD.into()), "a");
    let (server, challenge) = scram::Server::start(secret(), &first, "b").unwrap();
    server.finish(&client.proof(&challenge).unwrap().1).unwrap().client_key
}

fn login(sslmode: SslMode, binding: ChannelBinding, password: Option<Password>) -> Login {
    let account = Account { user: "u".to_owned(), password };
    Login::session(Terms { sslmode, binding }, account, [("user", "u"), ("database", "d")])
}

fn plain() -> Option<Password> {
    Some(Password::stored(PASSWORD, None))
}

fn ask(asked: &Authentication<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write_authentication(&mut out, asked);
    out
}

/// What a server says once it has let somebody in.
fn welcome() -> Vec<u8> {
    let mut out = ask(&Authentication::Ok);
    backend::write_parameter_status(&mut out, "server_version", "18.0");
    backend::write_notice(&mut out, "NOTICE", "00000", "hello");
    backend::write_parameter_status(&mut out, "TimeZone", "");
    backend::write_backend_key_data(&mut out, 7, b"\x01\x02\x03\x04");
    backend::write_ready_for_query(&mut out, Status::Idle);
    out
}

fn error(code: &str) -> Vec<u8> {
    let mut out = Vec::new();
    backend::write_error(&mut out, "FATAL", code, "no");
    out
}

/// How a server lets somebody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Trust,
    Cleartext,
    Md5,
    Scram,
    ScramPlus,
}

/// A server that keeps to the protocol: what is said to it, its answer.
struct Server {
    tls: bool,
    method: Method,
    begun: bool,
    scram: Option<scram::Server>,
}

impl Server {
    fn new(tls: bool, method: Method) -> Self {
        Self { tls, method, begun: false, scram: None }
    }

    fn answer(&mut self, said: &[u8]) -> Vec<u8> {
        if !self.begun {
            let (packet, length) = startup::read(said).unwrap().unwrap();
            assert_eq!(length, said.len(), "nothing is said before its turn");
            return match packet {
                startup::Packet::SslRequest => if self.tls { b"S" } else { b"N" }.to_vec(),
                startup::Packet::Startup(_) => {
                    self.begun = true;
                    match self.method {
                        Method::Trust => welcome(),
                        Method::Cleartext => ask(&Authentication::CleartextPassword),
                        Method::Md5 => ask(&Authentication::Md5Password([1, 2, 3, 4])),
                        Method::Scram => ask(&Authentication::Sasl(vec![scram::MECHANISM])),
                        Method::ScramPlus => ask(&Authentication::Sasl(vec![scram::MECHANISM_PLUS, scram::MECHANISM])),
                    }
                }
                other => panic!("{other:?}"),
            };
        }
        let body = frame::message(said).unwrap().unwrap().body;
        match (self.method, self.scram.take()) {
            (Method::Cleartext, _) => assert_eq!(frontend::password(body).unwrap(), PASSWORD.as_bytes()),
            (Method::Md5, _) => {
                let right = md5::response(&md5::stored("u", PASSWORD.as_bytes()), [1, 2, 3, 4]);
                assert_eq!(frontend::password(body).unwrap(), right.as_bytes());
            }
            (_, None) => {
                let (mechanism, first) = frontend::sasl_initial(body).unwrap();
                let bound = if mechanism == scram::MECHANISM_PLUS { Binding::EndPoint(HASH) } else { Binding::No };
                assert_eq!(mechanism == scram::MECHANISM_PLUS, self.method == Method::ScramPlus);
                let (server, challenge) = scram::Server::start_bound(secret(), first, "nonce", bound).unwrap();
                self.scram = Some(server);
                return ask(&Authentication::SaslContinue(&challenge));
            }
            (_, Some(server)) => {
                let accepted = server.finish(body).unwrap();
                return [ask(&Authentication::SaslFinal(&accepted.message)), welcome()].concat();
            }
        }
        welcome()
    }
}

/// What came of a login, with parameters joined by `=`.
fn tell(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Nothing => None,
        Event::Parameter { name, value } => Some(format!("{name}={value}")),
        Event::Key(key) => Some(format!("key {}", key.pid)),
        Event::Ready => Some("ready".to_owned()),
        Event::Requested => Some("requested".to_owned()),
    }
}

/// A login with what a server answers, which comes `chunk` bytes at a time.
fn run(
    login: &mut Login,
    wire: &mut Wire,
    mut answer: impl FnMut(&[u8]) -> Vec<u8>,
    chunk: usize,
) -> Result<Vec<String>, Error> {
    let mut told: Vec<String> = tell(&login.begin(wire)?).into_iter().collect();
    let mut held = Vec::new();
    let (mut seen_clear, mut seen_sealed) = (0, 0);
    loop {
        let said = [&wire.clear[seen_clear..], &wire.sealed[seen_sealed..]].concat();
        (seen_clear, seen_sealed) = (wire.clear.len(), wire.sealed.len());
        if said.is_empty() || told.iter().any(|event| event == "requested") {
            assert_eq!(held, b"", "all that came was taken");
            return Ok(told);
        }
        for part in answer(&said).chunks(chunk) {
            held.extend_from_slice(part);
            while let Some((count, event)) = login.receive(&held, wire)? {
                told.extend(tell(&event));
                held.drain(..count);
            }
        }
    }
}

/// What comes of a login without TLS to a server that says this, whatever it is told.
fn hostile(login: &mut Login, said: &[u8]) -> (Error, Wire) {
    let mut wire = Wire::default();
    let mut left = Some(said.to_vec());
    let failed = run(login, &mut wire, |_| left.take().unwrap_or_default(), usize::MAX).unwrap_err();
    (failed, wire)
}

const WELCOME: [&str; 4] = ["server_version=18.0", "TimeZone=", "key 7", "ready"];

#[test]
fn every_method_lets_us_in_wherever_the_stream_is_cut() {
    let keys = || Some(Password::stored(&stored_secret(), Some(client_key())));
    let hashed = || Some(Password::stored(&md5::stored("u", PASSWORD.as_bytes()), None));
    for (method, password) in [
        (Method::Trust, None),
        (Method::Cleartext, plain()),
        (Method::Md5, plain()),
        (Method::Md5, hashed()),
        (Method::Scram, plain()),
        (Method::Scram, keys()),
        (Method::ScramPlus, plain()),
        (Method::ScramPlus, keys()),
    ] {
        for chunk in (1..40).chain([usize::MAX]) {
            let tls = method == Method::ScramPlus;
            let mut wire = if tls { wire_with_hash() } else { Wire::default() };
            let mut login = login(SslMode::Prefer, ChannelBinding::Prefer, password.clone());
            let mut server = Server::new(tls, method);
            let told = run(&mut login, &mut wire, |said| server.answer(said), chunk).unwrap();
            assert_eq!(told, WELCOME, "{method:?} {chunk}");
        }
    }
    let speech = welcome();
    for cut in 0..speech.len() {
        let mut wire = Wire::default();
        let mut login = login(SslMode::Disable, ChannelBinding::Prefer, None);
        login.begin(&mut wire).unwrap();
        let (mut at, mut told) = (0, Vec::new());
        for end in [cut, speech.len()] {
            while let Some((count, event)) = login.receive(&speech[at..end], &mut wire).unwrap() {
                told.extend(tell(&event));
                at += count;
            }
        }
        assert_eq!((told.as_slice(), at), (WELCOME.map(str::to_owned).as_slice(), speech.len()), "cut at {cut}");
    }
}

#[test]
fn what_follows_the_login_is_left_alone() {
    let mut wire = Wire::default();
    let mut login = login(SslMode::Disable, ChannelBinding::Prefer, None);
    login.begin(&mut wire).unwrap();
    let speech = [welcome(), b"E".to_vec()].concat();
    let mut at = 0;
    while let Some((count, _)) = login.receive(&speech[at..], &mut wire).unwrap() {
        at += count;
    }
    assert_eq!(at, speech.len() - 1);
}

#[test]
fn the_sslmode_decides_what_is_said_in_the_clear() {
    use SslMode::{Allow, Disable, Prefer, Require, VerifyCa, VerifyFull};
    let question = {
        let mut out = Vec::new();
        startup::write_ssl_request(&mut out);
        out
    };
    for (mode, server_has_tls, asks, encrypted) in [
        (Disable, true, false, Some(false)),
        (Allow, true, false, Some(false)),
        (Prefer, true, true, Some(true)),
        (Prefer, false, true, Some(false)),
        (Require, true, true, Some(true)),
        (Require, false, true, None),
        (VerifyCa, false, true, None),
        (VerifyFull, true, true, Some(true)),
        (VerifyFull, false, true, None),
    ] {
        let mut wire = Wire::default();
        let mut login = login(mode, ChannelBinding::Prefer, plain());
        let mut server = Server::new(server_has_tls, Method::Cleartext);
        let outcome = run(&mut login, &mut wire, |said| server.answer(said), 1);
        assert_eq!(wire.clear.starts_with(&question), asks, "{mode:?}");
        match encrypted {
            Some(encrypted) => {
                assert_eq!(outcome.unwrap(), WELCOME);
                assert_eq!(wire.tls, encrypted, "{mode:?}");
                assert_eq!(wire.clear == question, encrypted, "{mode:?}: all else is over TLS");
            }
            None => {
                assert_eq!(outcome, Err(Error::NoTls));
                assert_eq!((wire.clear, wire.sealed), (question.clone(), Vec::new()), "{mode:?}: nothing else is said");
            }
        }
    }
}

#[test]
fn nothing_leaves_in_the_clear_that_must_not_even_if_tls_only_seems_to_begin() {
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        let key = CancelKey { pid: 1, secret: vec![1, 2, 3, 4] };
        for mut login in [login(mode, ChannelBinding::Prefer, plain()), Login::cancel(mode, &key)] {
            let mut wire = Wire { lies: true, ..Wire::default() };
            let failed = run(&mut login, &mut wire, |_| b"S".to_vec(), 1);
            assert_eq!(failed, Err(Error::Unencrypted));
            assert_eq!(wire.clear.len(), 8, "the question alone");
        }
        // The link loses its TLS between the startup packet and the question for a password.
        let mut wire = Wire::default();
        let mut login = login(mode, ChannelBinding::Prefer, plain());
        login.begin(&mut wire).unwrap();
        login.receive(b"S", &mut wire).unwrap();
        wire.tls = false;
        let asked = ask(&Authentication::CleartextPassword);
        assert_eq!(login.receive(&asked, &mut wire), Err(Error::Unencrypted));
        assert_eq!(wire.clear.len(), 8);
    }
}

#[test]
fn bytes_slipped_in_before_tls_and_strangers_are_refused() {
    for (answer, wanted) in [
        (b"SE".as_slice(), Error::Injected),
        (b"NR", Error::Injected),
        (b"E", Error::Stranger),
        (b"HTTP/1.1 400 Bad Request", Error::Stranger),
    ] {
        let (failed, wire) = hostile(&mut login(SslMode::Prefer, ChannelBinding::Prefer, plain()), answer);
        assert_eq!(failed, wanted);
        assert_eq!(wire.clear.len(), 8, "nothing but the question was said");
    }
    let (failed, _) = hostile(&mut login(SslMode::Disable, ChannelBinding::Prefer, None), b"HTTP/1.1 400");
    assert_eq!(failed, Error::Stranger);
}

#[test]
fn a_cancel_request_goes_as_the_terms_say_and_has_no_answer() {
    let key = CancelKey { pid: 9, secret: vec![4, 3, 2, 1] };
    let mut request = Vec::new();
    startup::write_cancel(&mut request, &key);
    for (mode, answer, clear, sealed) in [
        (SslMode::Disable, b"".as_slice(), request.as_slice(), b"".as_slice()),
        (SslMode::Require, b"S", b"", &request),
        (SslMode::Require, b"N", b"", b""),
    ] {
        let mut wire = Wire::default();
        let mut login = Login::cancel(mode, &key);
        let outcome = run(&mut login, &mut wire, |_| answer.to_vec(), 1);
        let question = if mode == SslMode::Disable { 0 } else { 8 };
        assert_eq!((&wire.clear[question..], wire.sealed.as_slice()), (clear, sealed));
        match answer {
            b"N" => assert_eq!(outcome, Err(Error::NoTls)),
            _ => assert_eq!(outcome.unwrap(), ["requested"]),
        }
        assert!(!login.second_attempt(true));
    }
}

#[test]
fn channel_binding_that_is_required_is_not_bargained_away() {
    let both = vec![scram::MECHANISM_PLUS, scram::MECHANISM];
    for (asked, hash) in [
        (Authentication::Ok, true),
        (Authentication::CleartextPassword, true),
        (Authentication::Md5Password([0; 4]), true),
        (Authentication::Sasl(vec![scram::MECHANISM]), true),
        (Authentication::Sasl(both.clone()), false),
    ] {
        let mut wire = if hash { wire_with_hash() } else { Wire::default() };
        let mut login = login(SslMode::Require, ChannelBinding::Require, plain());
        let mut speech = vec![ask(&asked), b"S".to_vec()];
        let failed = run(&mut login, &mut wire, |_| speech.pop().unwrap(), usize::MAX).unwrap_err();
        assert!(matches!(failed, Error::Unbound(_)), "{asked:?}: {failed:?}");
        assert_eq!((failed.sqlstate(), failed.fault()), ("28000", Fault::Settings));
        let (_, packet) = startup::read(&wire.sealed).unwrap().unwrap();
        assert_eq!(wire.sealed.len(), packet, "{asked:?}: the startup packet and not a byte of a password");
    }
    for (binding, offered, mechanism, header) in [
        (ChannelBinding::Disable, both.clone(), scram::MECHANISM, "n,,"),
        (ChannelBinding::Prefer, both.clone(), scram::MECHANISM_PLUS, "p=tls-server-end-point,,"),
        (ChannelBinding::Prefer, vec![scram::MECHANISM], scram::MECHANISM, "y,,"),
        (ChannelBinding::Require, both, scram::MECHANISM_PLUS, "p=tls-server-end-point,,"),
    ] {
        let mut out = Vec::new();
        let mut exchange = Exchange::new(Account { user: "u".to_owned(), password: plain() }, binding);
        exchange.answer(&Authentication::Sasl(offered), Some(HASH), &mut out).unwrap();
        let (chosen, first) = frontend::sasl_initial(&out[HEADER..]).unwrap();
        assert_eq!(chosen, mechanism, "{binding:?}");
        assert!(first.starts_with(header.as_bytes()), "{binding:?}");
    }
}

#[test]
fn a_server_must_prove_that_it_knows_the_secret() {
    let mut login = login(SslMode::Disable, ChannelBinding::Prefer, plain());
    let mut step = 0;
    let mut scram_server = None;
    // Who has the stored key alone can check the client's proof, but not sign.
    let mut answer = |said: &[u8]| {
        step += 1;
        let body = frame::message(said).ok().flatten().map(|message| message.body).unwrap_or_default();
        match step {
            1 => ask(&Authentication::Sasl(vec![scram::MECHANISM])),
            2 => {
                let stolen = Secret { server_key: [0; 32], ..secret() };
                let (_, first) = frontend::sasl_initial(body).unwrap();
                let (server, challenge) = scram::Server::start(stolen, first, "nonce").unwrap();
                scram_server = Some(server);
                ask(&Authentication::SaslContinue(&challenge))
            }
            _ => {
                let accepted = scram_server.take().unwrap().finish(body).unwrap();
                [ask(&Authentication::SaslFinal(&accepted.message)), welcome()].concat()
            }
        }
    };
    let failed = run(&mut login, &mut Wire::default(), &mut answer, 1).unwrap_err();
    assert_eq!(failed, Error::Wire(crate::Error::Verification));
    assert_eq!((failed.sqlstate(), failed.fault()), ("28000", Fault::Server));
}

#[test]
fn a_server_that_leaves_the_order_of_a_login_is_refused() {
    let scram = ask(&Authentication::Sasl(vec![scram::MECHANISM]));
    let cleartext = ask(&Authentication::CleartextPassword);
    let ok = ask(&Authentication::Ok);
    let message = |tag: u8, body: &[u8]| {
        let mut out = Vec::new();
        frame::write(&mut out, tag, |out| out.extend_from_slice(body));
        out
    };
    let ready = message(b'Z', b"I");
    for (said, wanted) in [
        (ready.clone(), Error::Order(b'Z')),
        ([cleartext.clone(), ready.clone()].concat(), Error::Order(b'Z')),
        (message(b'S', b"a\0b\0"), Error::Order(b'S')),
        (message(b'K', b"12345678"), Error::Order(b'K')),
        ([scram.clone(), ok.clone()].concat(), Error::Unproven),
        ([scram.clone(), ready].concat(), Error::Order(b'Z')),
        ([scram.clone(), cleartext.clone()].concat(), Error::Order(b'R')),
        ([scram.clone(), scram.clone()].concat(), Error::Order(b'R')),
        ([cleartext.clone(), cleartext.clone()].concat(), Error::Order(b'R')),
        ([cleartext, scram].concat(), Error::Order(b'R')),
        (ask(&Authentication::SaslContinue(b"r=x,s=,i=1")), Error::Order(b'R')),
        (ask(&Authentication::SaslFinal(b"v=")), Error::Order(b'R')),
        ([ok.clone(), ok.clone()].concat(), Error::Order(b'R')),
        ([ok.clone(), message(b'D', b"\0\0")].concat(), Error::Order(b'D')),
        ([ok.clone(), message(b'Z', b"T")].concat(), Error::Order(b'Z')),
        (message(0, b""), Error::Order(0)),
        ([ok.clone(), b"S\x00\x01\x00\x05".to_vec()].concat(), Error::TooLong),
        (b"N\x00\x01\x00\x05".to_vec(), Error::Stranger),
        (b"N\x00\x00\x00\x03".to_vec(), Error::Stranger),
        (ask(&Authentication::Other(7)), Error::Method(7)),
        (ask(&Authentication::Sasl(vec!["OAUTHBEARER"])), Error::Mechanisms("OAUTHBEARER".to_owned())),
        (ask(&Authentication::Sasl(vec![scram::MECHANISM_PLUS])), Error::Mechanisms("SCRAM-SHA-256-PLUS".to_owned())),
    ] {
        let (failed, _) = hostile(&mut login(SslMode::Disable, ChannelBinding::Prefer, plain()), &said);
        assert_eq!(failed, wanted, "{said:?}");
    }
    let endless = message(b'N', &[0; 60_000]).repeat(20);
    let (failed, _) = hostile(&mut login(SslMode::Disable, ChannelBinding::Prefer, None), &endless);
    assert_eq!(failed, Error::TooLong);
}

#[test]
fn a_failed_exchange_answers_no_more() {
    let mut exchange = Exchange::new(Account { user: "u".to_owned(), password: plain() }, ChannelBinding::Prefer);
    let mut out = Vec::new();
    exchange.answer(&Authentication::SaslFinal(b"v="), None, &mut out).unwrap_err();
    let later = exchange.answer(&Authentication::CleartextPassword, None, &mut out);
    assert_eq!((later, out), (Err(Error::Order(b'R')), Vec::new()));
}

#[test]
fn a_password_serves_the_methods_that_its_form_can_serve() {
    let scram = || Authentication::Sasl(vec![scram::MECHANISM]);
    let md5 = || Authentication::Md5Password([1; 4]);
    let hash = md5::stored("u", PASSWORD.as_bytes());
    let name = || "u".to_owned();
    for (stored, asked, wanted) in [
        (None, Authentication::CleartextPassword, Error::NoPassword(name())),
        (None, md5(), Error::NoPassword(name())),
        (None, scram(), Error::NoPassword(name())),
        (Some(hash.clone()), Authentication::CleartextPassword, Error::NoPassword(name())),
        (Some(hash), scram(), Error::OnlyMd5(name())),
        (Some(stored_secret()), Authentication::CleartextPassword, Error::NoPassword(name())),
        (Some(stored_secret()), md5(), Error::NoPassword(name())),
        (Some(stored_secret()), scram(), Error::OnlySecret(name())),
    ] {
        let password = stored.map(|stored| Password::stored(&stored, None));
        let (failed, wire) = hostile(&mut login(SslMode::Disable, ChannelBinding::Prefer, password), &ask(&asked));
        assert_eq!(failed, wanted);
        assert_eq!((failed.sqlstate(), failed.fault()), ("28P01", Fault::Settings));
        assert_eq!(startup::read(&wire.clear).unwrap().unwrap().1, wire.clear.len());
    }
    // The key of another secret would only be a wrong proof.
    assert_eq!(Password::stored(&stored_secret(), Some([7; 32])), Password::Secret);
    assert!(matches!(Password::stored(&stored_secret(), Some(client_key())), Password::Keys(_)));
}

#[test]
fn a_second_attempt_is_made_where_another_encryption_may_do_and_never_after_a_password() {
    use SslMode::{Allow, Disable, Prefer, Require, VerifyFull};
    let cleartext = ask(&Authentication::CleartextPassword);
    let lost = Vec::new;
    for (mode, said, again) in [
        (Disable, error("28000"), false),
        (Allow, error("28000"), true),
        (Allow, error("28P01"), false),
        (Allow, lost(), false),
        (Prefer, error("28000"), true),
        (Prefer, error("57P03"), false),
        (Prefer, lost(), true),
        (Prefer, [cleartext.clone(), error("28000")].concat(), false),
        (Prefer, cleartext.clone(), false),
        (Prefer, [ask(&Authentication::Ok), error("28000")].concat(), false),
        (Allow, [cleartext, error("28000")].concat(), false),
        (Require, error("28000"), false),
        (VerifyFull, lost(), false),
    ] {
        let mut wire = Wire::default();
        let mut login = login(mode, ChannelBinding::Prefer, plain());
        let mut server = vec![lost(), said.clone()];
        if login.wants_tls() {
            server.push(b"S".to_vec());
        }
        let _ = run(&mut login, &mut wire, |_| server.pop().unwrap_or_default(), usize::MAX);
        let first = login.wants_tls();
        assert_eq!(login.second_attempt(wire.tls), again, "{mode:?} {said:?}");
        assert_eq!(login.wants_tls() != first, again);
        if again {
            let mut wire = wire_with_hash();
            let mut server = Server::new(true, Method::Trust);
            assert_eq!(run(&mut login, &mut wire, |said| server.answer(said), 1).unwrap(), WELCOME);
            assert_eq!(wire.tls, mode == Allow);
            assert!(!login.second_attempt(wire.tls), "there is no third");
        }
    }
}

#[test]
fn what_the_server_says_is_told_as_it_said_it() {
    let (failed, _) = hostile(&mut login(SslMode::Disable, ChannelBinding::Prefer, None), &error("53300"));
    let report = Report { severity: "FATAL".into(), code: "53300".into(), message: "no".into(), routine: "".into() };
    assert_eq!(failed, Error::Refused(Box::new(report)));
    assert_eq!((failed.to_string().as_str(), failed.sqlstate(), failed.fault()), ("no", "53300", Fault::Refusal));
}

#[test]
fn passwords_are_not_shown() {
    for stored in [PASSWORD.to_owned(), md5::stored("u", PASSWORD.as_bytes()), stored_secret()] {
        let login =
            login(SslMode::Disable, ChannelBinding::Prefer, Some(Password::stored(&stored, Some(client_key()))));
        let shown = format!("{login:?}");
        assert!(!shown.contains(&stored) && !shown.contains(&format!("{:?}", PASSWORD.as_bytes())), "{shown}");
    }
}
