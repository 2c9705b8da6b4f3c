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
    /// The primary serves reads as one of the servers.
    On,
    /// The primary never serves reads.
    Off,
    /// The primary serves reads when no replica does.
    Fallback,
}

impl PrimaryReads {
    /// The server that a read wants.
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

/// The server for statements whose class is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultRole {
    /// Any server.
    Any,
    /// The primary.
    Primary,
    /// A replica.
    Replica,
}

words!(DefaultRole, "any, primary or replica": Any = "any", Primary = "primary", Replica = "replica");

/// The settings by which a database's statements are spread over its servers, and by which these are watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routing {
    /// The strategy by which one of several servers is chosen.
    pub strategy: Strategy,
    /// Whether the primary serves reads.
    pub primary_reads: PrimaryReads,
    /// Whether reads are told from writes.
    pub splitting: bool,
    /// The server for statements when they are not told apart.
    pub default_role: DefaultRole,
    /// The commits that reads must see.
    pub read_your_writes: Consistency,
    /// The limits by which replicas are judged.
    pub limits: Limits,
    /// The time between two questions to a server.
    pub interval: Seconds,
    /// The time that a server may take to answer.
    pub timeout: Seconds,
}

impl Routing {
    /// The server that a statement wants: of a read (`Some(true)`), of another statement, or of one that is not told
    /// apart.
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
