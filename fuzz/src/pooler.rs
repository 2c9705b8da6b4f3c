//! What the targets of the pooler check: each function takes hostile input and checks the outcome. A panic is a find.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use classify::Classifier;
use classify::parameter::assigned;
use pooling::model::lexing::Lexing;
use pooling::model::session::Pending;
use pooling::model::statement::Statements;
use wire::startup::Startup;

use howdah_pooler::files::{self, userlist as users};
use howdah_pooler::tls::{Acceptor, Certificate, Connector, Session};
use pooling::config::{Settings, SslMode, Value};
use pooling::hba::{Hba, Visitor};
use pooling::state::login::{Introduction, options_of};

/// A startup packet's parameters.
pub fn startup(startup: &Startup<'_>) {
    let _ = Introduction::read(startup, &Settings::default());
    for &(name, value) in &startup.parameters {
        parameter(name, value);
        if let Ok(options) = options_of(value) {
            options.iter().for_each(|(name, value)| parameter(name, value));
        }
    }
}

/// A parameter and its value: what is made of it for a SET ends where its literals end.
pub fn parameter(name: &str, value: &str) {
    for name in [name, "search_path"] {
        let sql = assigned(name, value);
        let mut left = sql.as_str();
        loop {
            let escaped = left.starts_with('E');
            left = left.strip_prefix('E').unwrap_or(left).strip_prefix('\'').unwrap();
            loop {
                let at = left.find(|c| c == '\'' || escaped && c == '\\').unwrap();
                let (quote, rest) = left.split_at(at);
                assert!(escaped || !quote.contains('\\'));
                left = if rest.starts_with('\\') {
                    rest.strip_prefix("\\\\").unwrap()
                } else if let Some(doubled) = rest.strip_prefix("''") {
                    doubled
                } else {
                    left = &rest[1..];
                    break;
                };
            }
            match left.strip_prefix(", ") {
                Some(next) => left = next,
                None => break,
            }
        }
        assert_eq!(left, "");
    }
}

/// The text of a statement.
pub fn sql(sql: &[u8]) {
    let verdict = Classifier::new(1).classify(sql, true).clone();
    let mut pending = Pending::default();
    for tag in [&b"SET"[..], b"RESET", b"SAVEPOINT", b"ROLLBACK", b"RELEASE", b"COMMIT", b"DISCARD ALL"] {
        for place in 0..3 {
            pending.finished(tag, verdict.kind_of(place));
        }
    }
    pending.keep();
    pending.take();
}

/// The definition of a prepared statement and its text.
pub fn prepare(definition: &[u8]) {
    let mut statements = Statements::default();
    let first = statements.share(definition, 0, Lexing::Conforming);
    assert_eq!(statements.share(definition, 0, Lexing::Conforming).id, first.id);
}

/// An HBA file.
pub fn hba(text: &str) {
    let Ok(hba) = Hba::read(text) else { return };
    for address in [None, Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), Some(IpAddr::V6(Ipv6Addr::LOCALHOST))] {
        for tls in [false, true] {
            let _ = hba.method(&Visitor { address, tls, physical: false, database: "app", user: "bob" });
        }
    }
}

/// A users file; what was read of it is read again the same.
pub fn userlist(text: &str) {
    let Ok(read) = users::read(text) else { return };
    if read.iter().any(|(name, password)| [name, password].iter().any(|word| word.contains(['\n', '\r']))) {
        return;
    }
    let quoted = |text: &str| text.replace('"', "\"\"");
    let lines = read.iter().map(|(name, password)| format!("\"{}\" \"{}\"\n", quoted(name), quoted(password)));
    assert_eq!(users::read(&lines.collect::<String>()).unwrap(), read);
}

/// A `pgbouncer.ini`; files are not included.
pub fn pgbouncer_ini(text: &str) {
    if !text.contains("%include") {
        config("pgbouncer.ini", text);
    }
}

/// A `howdah.toml` or `pgcat.toml`.
pub fn toml(text: &str) {
    config("howdah.toml", text);
}

/// What is shown of each setting is a value that it takes, and the same.
fn config(name: &str, text: &str) {
    let Ok(config) = files::parse(Path::new(name), text) else { return };
    // The one name that pgcat.toml has for it may hold anything.
    for shown in config.settings.show().into_iter().filter(|shown| shown.name != "admin_users") {
        let mut settings = config.settings.clone();
        let taken = settings.set(shown.name, &shown.value);
        assert_eq!(taken, Some(Ok(())), "{} = {}", shown.name, shown.value);
        assert!(settings == config.settings, "{} = {}", shown.name, shown.value);
    }
    let _ = (config.database("app"), config.pool_size("app", "bob"), config.pool_mode("app", "bob"));
}

/// A certificate.
pub fn certificate(der: &[u8]) {
    let Some(certificate) = Certificate::read(der) else { return };
    let _ = (certificate.common_name(), certificate.has_alternative_names(), certificate.public_key());
    let _ = (certificate.end_point(), certificate.is_valid_at(0), certificate.is_valid_at(253_402_300_799));
}

/// Two sides of TLS that talk, told by `plan` what is said and what becomes of it on the way.
pub fn tls(plan: &[u8]) {
    static SIDES: OnceLock<[(Arc<Acceptor>, Arc<Connector>); 2]> = OnceLock::new();
    let sides = SIDES.get_or_init(|| ["tlsv1.3", "tlsv1.2"].map(sides));
    let Some((&first, plan)) = plan.split_first() else { return };
    let (acceptor, connector) = &sides[usize::from(first % 2)];
    let client = Session::connect(connector, "localhost").unwrap();
    let server = Session::accept(acceptor, b"", b"").unwrap();
    let mut talk = [Side::new(client), Side::new(server)];
    let mut tampered = false;
    let mut plan = plan.iter().copied();
    while let (Some(step), Some(amount)) = (plan.next(), plan.next()) {
        let [client, server] = &mut talk;
        let (here, there) = if step & 1 == 0 { (client, server) } else { (server, client) };
        match step / 2 % 6 {
            // So much arrives; more is the usual.
            0 => there.receive(&mut here.way, usize::from(amount)),
            1 => there.receive(&mut here.way, usize::MAX),
            2 if here.session.is_open() && !here.session.has_ended() => {
                let said: Vec<u8> = (0..usize::from(amount) * 97).map(|at| at as u8).collect();
                if here.session.seal(&said).is_ok() {
                    here.said.extend(said);
                }
                here.send();
            }
            3 => {
                tampered |= !here.way.is_empty();
                let at = usize::from(amount) % here.way.len().max(1);
                let with = plan.next().unwrap_or(1).max(1);
                if let Some(byte) = here.way.get_mut(at) {
                    *byte ^= with;
                }
            }
            4 => {
                tampered |= amount > 0;
                let slipped_in: Vec<u8> = plan.by_ref().take(usize::from(amount)).collect();
                let rest = here.way.split_off(here.way.len().min(usize::from(step / 16) * 5));
                here.way.extend(slipped_in);
                here.way.extend(rest);
            }
            _ => {
                here.ended |= here.session.is_open();
                let _ = here.session.say_end();
                here.send();
            }
        }
    }
    if !tampered {
        let [client, server] = &mut talk;
        for _ in 0..4 {
            server.receive(&mut client.way, usize::MAX);
            client.receive(&mut server.way, usize::MAX);
        }
        // Who has said that it ends hears no more.
        assert!(client.heard == server.said || client.ended);
        assert!(server.heard == client.said || server.ended);
    }
    let [client, server] = &talk;
    assert!(tampered || !client.failed && !server.failed);
    assert!(server.said.starts_with(&client.heard) && client.said.starts_with(&server.heard));
}

struct Side {
    session: Session,
    /// Bytes on their way to the other side.
    way: VecDeque<u8>,
    said: Vec<u8>,
    heard: Vec<u8>,
    failed: bool,
    ended: bool,
}

impl Side {
    fn new(session: Session) -> Self {
        let mut side =
            Self { session, way: VecDeque::new(), said: Vec::new(), heard: Vec::new(), failed: false, ended: false };
        side.send();
        side
    }

    fn send(&mut self) {
        let count = self.session.to_send().len();
        self.way.extend(self.session.to_send());
        self.session.sent(count);
    }

    /// As a connection does it: what is held first, no more than a buffer at once, nothing after the end.
    fn receive(&mut self, way: &mut VecDeque<u8>, most: usize) {
        let mut most = most.min(way.len());
        while most > 0 && !self.session.has_ended() {
            let mut input = self.session.held.clone();
            let room = 65_536_usize.saturating_sub(input.len()).min(most);
            if room == 0 {
                self.failed = true;
                return;
            }
            input.extend(way.drain(..room));
            most -= room;
            let mut plain = vec![0; 65_536];
            match self.session.receive(&mut input, &mut plain) {
                Ok(count) => self.heard.extend_from_slice(&plain[..count]),
                Err(_) => self.failed = true,
            }
            self.send();
        }
        let _ = (self.session.describe(), self.session.alpn(), self.session.end_point());
    }
}

/// Contexts of both sides, for one version of TLS, with a certificate made for this.
fn sides(version: &str) -> (Arc<Acceptor>, Arc<Connector>) {
    let folder = std::env::temp_dir().join(format!("howdah-fuzz-{}-{version}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (cert, key) = (folder.join("cert"), folder.join("key"));
    let arguments = "req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -days 2 -subj /CN=localhost -keyout";
    let made = Command::new("openssl").args(arguments.split(' ')).arg(&key).arg("-out").arg(&cert).output().unwrap();
    assert!(made.status.success(), "openssl: {made:?}");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let settings = Settings {
        client_tls_sslmode: SslMode::Require,
        client_tls_cert_file: text(&cert),
        client_tls_key_file: text(&key),
        client_tls_protocols: version.to_owned(),
        server_tls_sslmode: SslMode::read("verify-full").unwrap(),
        server_tls_ca_file: text(&cert),
        ..Settings::default()
    };
    let acceptor = Acceptor::read(&settings, settings.client_tls_sslmode, &mut Vec::new()).unwrap();
    let connector = Connector::read(&settings, settings.server_tls_sslmode, &mut Vec::new()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    (Arc::new(acceptor), Arc::new(connector))
}
