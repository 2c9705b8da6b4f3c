//! The tables of SHOW, one in each file. Columns have PgBouncer's names, or PgCat's for the console's name `pgcat`
//! ([`Dialect`]).

mod bans;
mod clients;
mod config;
mod databases;
mod dns_hosts;
mod dns_zones;
mod events;
mod fds;
pub mod help;
mod lists;
mod mem;
mod peers;
mod pgcat;
mod pools;
mod prepared;
mod replicas;
mod shapes;
mod shards;
mod sockets;
mod state;
mod stats;
mod totals;
mod users;
mod version;
pub mod view;

use crate::admin::order::Look;
use crate::admin::show::view::{Columns, Dialect, Row, Table, View};
pub use stats::a_second;

macro_rules! shows {
    ($($name:ident $word:literal $looks:literal $columns:path, $rows:path;)+) => {
        /// The views of SHOW.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Show {
            $(#[doc = concat!("SHOW ", $word)] $name,)+
        }

        impl Show {
            /// All views with their words.
            pub const ALL: &'static [(&'static str, Self)] = &[$(($word, Self::$name),)+];

            /// The view of a word, in capitals.
            pub fn read(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// Whether all workers must be asked.
            pub fn looks(self) -> bool {
                match self {
                    $(Self::$name => $looks,)+
                }
            }

            /// The columns, and the function that makes the rows.
            fn table(self, dialect: Dialect) -> Table {
                let own = match dialect {
                    Dialect::PgBouncer => None,
                    Dialect::PgCat => pgcat::of(self),
                    Dialect::Howdah => match self {
                        Self::Clients => Some(clients::own()),
                        Self::Pools => Some(pools::own()),
                        Self::Servers => Some(clients::own_servers()),
                        _ => None,
                    },
                };
                own.unwrap_or(match self {
                    $(Self::$name => ($columns, $rows),)+
                })
            }

            /// The columns.
            pub fn columns(self, dialect: Dialect) -> Columns {
                self.table(dialect).0
            }

            /// The rows.
            pub fn rows(self, view: &View<'_>, dialect: Dialect) -> Vec<Row> {
                self.table(dialect).1(view)
            }
        }
    };
}

impl Show {
    /// The part of a snapshot that the view needs.
    pub fn at(self) -> Look {
        match self {
            Self::Shapes => Look::Shapes,
            Self::Pools | Self::Prepared | Self::Stats | Self::StatsTotals | Self::StatsAverages | Self::Totals => {
                Look::Pools
            }
            _ => Look::Whole,
        }
    }
}

shows! {
    Help "HELP" false help::COLUMNS, help::rows;
    Bans "BANS" false bans::COLUMNS, bans::rows;
    Clients "CLIENTS" true clients::COLUMNS, clients::rows;
    Config "CONFIG" false config::COLUMNS, config::rows;
    Databases "DATABASES" true databases::COLUMNS, databases::rows;
    DnsHosts "DNS_HOSTS" false dns_hosts::COLUMNS, dns_hosts::rows;
    DnsZones "DNS_ZONES" false dns_zones::COLUMNS, dns_zones::rows;
    Events "EVENTS" false events::COLUMNS, events::rows;
    Fds "FDS" true fds::COLUMNS, fds::rows;
    Lists "LISTS" true lists::COLUMNS, lists::rows;
    Mem "MEM" true mem::COLUMNS, mem::rows;
    Peers "PEERS" false peers::COLUMNS, peers::rows;
    PeerPools "PEER_POOLS" false peers::POOLS_COLUMNS, peers::rows;
    Pools "POOLS" true pools::COLUMNS, pools::rows;
    Prepared "PREPARED" true prepared::COLUMNS, prepared::rows;
    Replicas "REPLICAS" false replicas::COLUMNS, replicas::rows;
    Servers "SERVERS" true clients::COLUMNS, clients::servers;
    Shapes "SHAPES" true shapes::COLUMNS, shapes::rows;
    Shards "SHARDS" false shards::COLUMNS, shards::rows;
    Sockets "SOCKETS" true sockets::COLUMNS, sockets::rows;
    ActiveSockets "ACTIVE_SOCKETS" true sockets::COLUMNS, sockets::active;
    State "STATE" false state::COLUMNS, state::rows;
    Stats "STATS" true stats::COLUMNS, stats::rows;
    StatsTotals "STATS_TOTALS" true stats::PLAIN_COLUMNS, stats::totals;
    StatsAverages "STATS_AVERAGES" true stats::PLAIN_COLUMNS, stats::averages;
    Totals "TOTALS" true totals::COLUMNS, totals::rows;
    Users "USERS" false users::COLUMNS, users::rows;
    Version "VERSION" false version::COLUMNS, version::rows;
}
