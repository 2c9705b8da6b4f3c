//! The types that settings have, and how they are read and shown.

use std::time::Duration;

pub use wire::login::{ChannelBinding, SslMode};

/// A type of setting: read from the text of a configuration file, shown as `SHOW CONFIG` shows it.
pub trait Value: Sized {
    /// Reads the value; the error says what is expected.
    fn read(text: &str) -> Result<Self, &'static str>;
    /// The value as text, which `read` takes.
    fn show(&self) -> String;
}

/// A setting that is one of a few words.
macro_rules! words {
    ($type:ident, $expected:literal: $($variant:ident = $word:literal),+) => {
        impl Value for $type {
            fn read(text: &str) -> Result<Self, &'static str> {
                // PgBouncer takes them in any case.
                $(if text.eq_ignore_ascii_case($word) {
                    return Ok(Self::$variant);
                })+
                Err($expected)
            }

            fn show(&self) -> String {
                match self {
                    $(Self::$variant => $word,)+
                }
                .to_owned()
            }
        }
    };
}
pub(super) use words;

impl Value for bool {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "on" | "yes" | "true" => Ok(true),
            "0" | "off" | "no" | "false" => Ok(false),
            _ => Err("1 or 0"),
        }
    }

    fn show(&self) -> String {
        if *self { "1" } else { "0" }.to_owned()
    }
}

impl Value for usize {
    fn read(text: &str) -> Result<Self, &'static str> {
        // As with PgBouncer, sums of two are far from the largest `usize`.
        let hexadecimal = text.strip_prefix("0x").map(|digits| Self::from_str_radix(digits, 16));
        let number = hexadecimal.unwrap_or_else(|| text.parse()).ok().filter(|number| *number <= 2_147_483_647);
        number.ok_or("a whole number from 0 to 2147483647")
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for u16 {
    fn read(text: &str) -> Result<Self, &'static str> {
        text.parse().map_err(|_| "a number from 0 to 65535")
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for String {
    fn read(text: &str) -> Result<Self, &'static str> {
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

/// A span of time; in files a number of seconds, fractions allowed. For time limits, zero means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl Seconds {
    /// This number of whole seconds.
    pub const fn whole(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// A span, or some thirty years if it is longer: a moment plus the span must be a valid time.
    pub fn at_most_ages(span: Duration) -> Self {
        Self(span.min(Duration::from_secs(1_000_000_000)))
    }

    /// This number of milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// The limit, unless it is zero.
    pub fn limit(self) -> Option<Duration> {
        (!self.0.is_zero()).then_some(self.0)
    }
}

impl Value for Seconds {
    fn read(text: &str) -> Result<Self, &'static str> {
        let seconds: f64 = text.parse().map_err(|_| "a number of seconds")?;
        Duration::try_from_secs_f64(seconds).map(Self::at_most_ages).map_err(|_| "a number of seconds, 0 or more")
    }

    fn show(&self) -> String {
        self.0.as_secs_f64().to_string()
    }
}

/// A comma-separated list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List(pub Vec<String>);

impl List {
    /// Whether `name` is in it.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|item| item == name)
    }
}

impl Value for List {
    fn read(text: &str) -> Result<Self, &'static str> {
        Ok(Self(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()))
    }

    fn show(&self) -> String {
        self.0.join(", ")
    }
}

/// The permissions of a file, in octal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode(pub u32);

impl Value for FileMode {
    fn read(text: &str) -> Result<Self, &'static str> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        mode.map(Self).ok_or("permissions in octal digits, as 0770")
    }

    fn show(&self) -> String {
        format!("{:04o}", self.0)
    }
}

/// The form of the lines of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// The lines are text.
    Plain,
    /// The lines are JSON, an object each.
    Json,
}

words!(LogFormat, "plain or json": Plain = "plain", Json = "json");

/// The part of the system that lines in the system's log come from, in syslog's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are syslog's own")]
pub enum SyslogFacility {
    User = 1,
    Daemon = 3,
    Auth = 4,
    AuthPriv = 10,
    Local0 = 16,
    Local1,
    Local2,
    Local3,
    Local4,
    Local5,
    Local6,
    Local7,
}

words!(
    SyslogFacility, "auth, authpriv, daemon, user, or local0 to local7":
    Auth = "auth", AuthPriv = "authpriv", Daemon = "daemon", User = "user", Local0 = "local0", Local1 = "local1",
    Local2 = "local2", Local3 = "local3", Local4 = "local4", Local5 = "local5", Local6 = "local6", Local7 = "local7"
);

/// The clients that a graceful end waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// The end waits for each client until it leaves by itself.
    WaitForClients,
    /// The end waits for each client until it has nothing under way.
    WaitForServers,
    /// The end waits for no client.
    AtOnce,
}

words!(
    Shutdown, "wait_for_clients, wait_for_servers or at_once":
    WaitForClients = "wait_for_clients", WaitForServers = "wait_for_servers", AtOnce = "at_once"
);

/// The time at which a client's server connection is checked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// The connection is checked in when the client disconnects.
    Session,
    /// The connection is checked in when the client's transaction ends.
    Transaction,
    /// The connection is checked in when the transaction ends, and transaction blocks are not allowed.
    Statement,
}

impl PoolMode {
    /// Whether server connections go from client to client while these stay.
    pub fn lends(self) -> bool {
        self != Self::Session
    }
}

words!(
    PoolMode, "session, transaction or statement":
    Session = "session", Transaction = "transaction", Statement = "statement"
);

/// The order in which the several hosts of an entry are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostOrder {
    /// Each connection uses the next host.
    RoundRobin,
    /// Each connection uses the first host that works.
    First,
}

words!(HostOrder, "round-robin or disable": RoundRobin = "round-robin", First = "disable");

/// The method by which clients prove their identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthType {
    /// The client proves nothing, and the user need not be known.
    Any,
    /// The client proves nothing, but the user must be known.
    Trust,
    /// The client sends the password as it is.
    Plain,
    /// The client answers by MD5; by SCRAM if the stored password is a SCRAM secret.
    Md5,
    /// The client answers by SCRAM-SHA-256.
    Scram,
    /// The client has a certificate whose common name is the user's, or stands for the user by a map of names.
    Cert,
    /// The process at the other end of a Unix socket runs as the user's account, or as one that stands for the user by
    /// a map of names: in an HBA file.
    Peer,
    /// The HBA file gives the method.
    Hba,
}

impl Value for AuthType {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text.to_ascii_lowercase().as_str() {
            "any" => Ok(Self::Any),
            "trust" => Ok(Self::Trust),
            "plain" => Ok(Self::Plain),
            "md5" => Ok(Self::Md5),
            "scram-sha-256" => Ok(Self::Scram),
            "cert" => Ok(Self::Cert),
            "hba" => Ok(Self::Hba),
            _ => Err("any, trust, plain, md5, scram-sha-256, cert or hba (pam and ldap are not supported)"),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Any => "any",
            Self::Trust => "trust",
            Self::Plain => "plain",
            Self::Md5 => "md5",
            Self::Scram => "scram-sha-256",
            Self::Cert => "cert",
            Self::Peer => "peer",
            Self::Hba => "hba",
        }
        .to_owned()
    }
}

impl Value for SslMode {
    fn read(text: &str) -> Result<Self, &'static str> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name().eq_ignore_ascii_case(text))
            .ok_or("disable, allow, prefer, require, verify-ca or verify-full")
    }

    fn show(&self) -> String {
        self.name().to_owned()
    }
}

words!(ChannelBinding, "disable, prefer or require": Disable = "disable", Prefer = "prefer", Require = "require");
