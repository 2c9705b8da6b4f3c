//! How a database's statements are spread over its servers.

use balancer::{Configured, Limits, Strategy, Want};
use classify::Consistency;

use super::value::{Seconds, Value, words};

impl Value for Strategy {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text {
            "random" => Ok(Self::Random),
            "round_robin" => Ok(Self::RoundRobin),
            // PgCat's names for it beside our own.
            "least_outstanding" | "least_outstanding_connections" | "loc" => Ok(Self::LeastOutstanding),
            "weighted" => Ok(Self::Weighted),
            _ => Err("random, round_robin, least_outstanding or weighted"),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round_robin",
            Self::LeastOutstanding => "least_outstanding",
            Self::Weighted => "weighted",
        }
        .to_owned()
    }
}

impl Value for Configured {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "primary" => Ok(Self::Primary),
            "replica" => Ok(Self::Replica),
            _ => Err("auto, primary or replica"),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto",
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
        .to_owned()
    }
}

/// Whether the primary serves reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrimaryReads {
    /// As one of the servers.
    On,
    /// Never.
    Off,
    /// When no replica does.
    Fallback,
}

impl PrimaryReads {
    /// What a read wants.
    pub fn want(self) -> Want {
        match self {
            Self::On => Want::Any,
            Self::Off => Want::Replica,
            Self::Fallback => Want::ReplicaOrPrimary,
        }
    }
}

impl Value for PrimaryReads {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text {
            "fallback" => Ok(Self::Fallback),
            _ => match bool::read(text) {
                Ok(true) => Ok(Self::On),
                Ok(false) => Ok(Self::Off),
                Err(_) => Err("on, off or fallback"),
            },
        }
    }

    fn show(&self) -> String {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Fallback => "fallback",
        }
        .to_owned()
    }
}

words!(Consistency, "session, database or off": Session = "session", Database = "database", Off = "off");

/// Where statements go that nobody has told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultRole {
    /// To any server.
    Any,
    /// To the primary.
    Primary,
    /// To a replica.
    Replica,
}

words!(DefaultRole, "any, primary or replica": Any = "any", Primary = "primary", Replica = "replica");

/// How a database's statements are spread over its servers, and how these are watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routing {
    /// By what one of several servers is chosen.
    pub strategy: Strategy,
    /// Whether the primary serves reads.
    pub primary_reads: PrimaryReads,
    /// Whether reads are told from writes.
    pub splitting: bool,
    /// Where statements go when they are not.
    pub default_role: DefaultRole,
    /// Which commits reads must see.
    pub read_your_writes: Consistency,
    /// By what replicas are judged.
    pub limits: Limits,
    /// How often a server is asked.
    pub interval: Seconds,
    /// How long it may take to answer.
    pub timeout: Seconds,
}

impl Routing {
    /// What a statement wants: known to be a read (`Some(true)`), known to be more, or not told apart.
    pub fn want(&self, is_read: Option<bool>) -> Want {
        match is_read {
            Some(true) => self.primary_reads.want(),
            Some(false) => Want::Write,
            None => match self.default_role {
                DefaultRole::Any => Want::Any,
                DefaultRole::Primary => Want::Write,
                DefaultRole::Replica => self.primary_reads.want(),
            },
        }
    }
}
