//! The decisions about a cluster, for the threads that send statements.

use crate::{MAX_SERVERS, ServerId};

/// What a server is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing has been heard of it yet.
    Unknown,
    /// It is written to.
    Primary,
    /// It serves reads, unless it is banned.
    Replica,
    /// It is a replica too far behind to serve reads.
    Lagging,
    /// It is a standby that has replayed what its primary never wrote: of use to nobody until it has been rewound.
    Diverged,
    /// It says that it is a primary, but another one is or was after it: neither read nor written.
    Stale,
    /// It belongs to another cluster: neither read nor written.
    Foreign,
    /// It lives, but could not be asked, and the configuration does not say what it is.
    Unasked,
    /// It does not answer.
    Down,
}

impl Standing {
    /// The word for it that is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::Lagging => "lagging",
            Self::Diverged => "diverged",
            Self::Stale => "stale primary",
            Self::Foreign => "foreign",
            Self::Unasked => "unasked",
            Self::Down => "down",
        }
    }
}

/// A server in a [`View`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub id: ServerId,
    /// Name, address, or the folder of a Unix socket.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Its share under [`crate::Strategy::Weighted`].
    pub weight: u32,
    /// What it is taken for.
    pub standing: Standing,
    /// Whether it is kept from reads.
    pub banned: bool,
    /// Whether it is configured never to be written to.
    pub only_read: bool,
}

/// A server that may serve reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reader {
    pub id: ServerId,
    pub weight: u32,
}

/// What has been decided at some moment. It does not change; a later decision is another view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    servers: Vec<Listed>,
    primary: Option<ServerId>,
    /// Replicas that serve reads, and behind them the primary where it may be read.
    readers: Vec<Reader>,
    replicas: usize,
}

impl View {
    pub(crate) fn new(servers: Vec<Listed>) -> Self {
        let reader = |server: &Listed| Reader { id: server.id, weight: server.weight };
        let of = |standing| servers.iter().filter(move |server| server.standing == standing && !server.banned);
        let mut readers: Vec<Reader> = of(Standing::Replica).map(reader).collect();
        let replicas = readers.len();
        readers.extend(of(Standing::Primary).map(reader));
        let primary = servers.iter().find(|server| server.standing == Standing::Primary).map(|server| server.id);
        Self { servers, primary, readers, replicas }
    }

    /// The server that is written to; `None` while there is none.
    pub fn primary(&self) -> Option<ServerId> {
        self.primary
    }

    /// All servers, in the order of the configuration.
    pub fn servers(&self) -> &[Listed] {
        &self.servers
    }

    /// One server.
    pub fn server(&self, id: ServerId) -> Option<&Listed> {
        self.servers.iter().find(|server| server.id == id)
    }

    /// Whether this server may serve reads as a replica now.
    pub fn serves_reads(&self, id: ServerId) -> bool {
        self.replicas().iter().any(|reader| reader.id == id)
    }

    /// Whether this server gets any statements now: as the primary, or as one that may be read.
    pub fn serves(&self, id: ServerId) -> bool {
        self.primary == Some(id) || self.readers.iter().any(|reader| reader.id == id)
    }

    /// Whether what is under way on this server may go on there: not where it is down, deposed, diverged or of another
    /// cluster. One that lags, is banned or is configured no more only gets nothing new.
    pub fn keeps(&self, id: ServerId) -> bool {
        !self.server(id).is_some_and(|server| {
            matches!(server.standing, Standing::Down | Standing::Stale | Standing::Diverged | Standing::Foreign)
        })
    }

    /// Whether no server can be asked: each is down, or lets nobody ask.
    pub fn is_dead(&self) -> bool {
        self.servers.iter().all(|server| matches!(server.standing, Standing::Down | Standing::Unasked))
    }

    /// A place to count by [`ServerId::index`].
    pub fn counters(&self) -> Vec<u32> {
        vec![0; self.servers.iter().map(|server| server.id.index() + 1).max().unwrap_or(0).min(MAX_SERVERS)]
    }

    pub(crate) fn replicas(&self) -> &[Reader] {
        self.readers.get(..self.replicas).unwrap_or_default()
    }

    pub(crate) fn readers(&self) -> &[Reader] {
        &self.readers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(place: usize, standing: Standing) -> Listed {
        Listed {
            id: ServerId(place as u8),
            host: "h".to_owned(),
            port: 5432,
            weight: 1,
            standing,
            banned: standing == Standing::Replica,
            only_read: false,
        }
    }

    #[test]
    fn only_servers_that_are_of_no_use_are_let_go() {
        let server = |(place, standing)| listed(place, standing);
        let cases = [
            (Standing::Unknown, true),
            (Standing::Primary, true),
            (Standing::Replica, true),
            (Standing::Lagging, true),
            (Standing::Unasked, true),
            (Standing::Diverged, false),
            (Standing::Stale, false),
            (Standing::Foreign, false),
            (Standing::Down, false),
        ];
        let view = View::new(cases.iter().map(|&(standing, _)| standing).enumerate().map(server).collect());
        for (place, (standing, kept)) in cases.into_iter().enumerate() {
            assert_eq!(view.keeps(ServerId(place as u8)), kept, "{standing:?}");
        }
        assert!(view.keeps(ServerId(60)), "it is configured no more");
    }

    #[test]
    fn a_view_is_dead_when_no_server_can_be_asked() {
        let view = |standings: &[Standing]| {
            let server = |(place, &standing): (usize, &Standing)| listed(place, standing);
            View::new(standings.iter().enumerate().map(server).collect())
        };
        assert!(view(&[Standing::Down, Standing::Unasked]).is_dead());
        for alive in [Standing::Unknown, Standing::Primary, Standing::Replica, Standing::Lagging, Standing::Stale] {
            assert!(!view(&[Standing::Down, alive]).is_dead(), "{alive:?}");
        }
    }
}
