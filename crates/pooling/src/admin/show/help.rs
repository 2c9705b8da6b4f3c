//! SHOW HELP: the commands, as a notice.

use crate::admin::show::view::{Columns, Row, View};

/// The text of the notice.
pub const TEXT: &str = "Console usage
\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION
\tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS
\tSHOW LISTS|MEM|STATE|SOCKETS|ACTIVE_SOCKETS|FDS|PREPARED
\tSHOW DNS_HOSTS|DNS_ZONES|PEERS|PEER_POOLS
\tSHOW REPLICAS|SHARDS|BANS|SHAPES|EVENTS
\tSET key = value
\tRELOAD
\tPAUSE [<db>]
\tRESUME [<db>]
\tSUSPEND
\tDISABLE <db>
\tENABLE <db>
\tRECONNECT [<db>]
\tKILL [<db>]
\tKILL_CLIENT <client_id>
\tWAIT_CLOSE [<db>]
\tBAN <host>[:<port>] [<seconds>]
\tUNBAN <host>[:<port>]
\tSHUTDOWN [WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS]";

/// No columns: the help is a notice.
pub const COLUMNS: Columns = &[];

/// No rows.
pub fn rows(_: &View<'_>) -> Vec<Row> {
    Vec::new()
}
