"""What SHOW commands tell: PgBouncer's columns as its release 1.25 has them, and those of our own commands."""

_COUNTS = [
    "server_assignment_count", "xact_count", "query_count", "received", "sent", "xact_time", "query_time",
    "wait_time", "client_parse_count", "server_parse_count", "bind_count",
]  # fmt: skip
_SHORT = {"received": "recv"}
_LONG = {"received": "bytes_received", "sent": "bytes_sent"}
_PLAIN = ["database", *(_LONG.get(name, name) for name in _COUNTS)]
_CONNECTION = [
    "type", "user", "database", "replication", "state", "addr", "port", "local_addr", "local_port", "connect_time",
    "request_time", "wait", "wait_us", "close_needed", "ptr", "link", "remote_pid", "tls", "application_name",
    "prepared_statements", "id",
]  # fmt: skip
_SOCKET = [
    *_CONNECTION, "recv_pos", "pkt_pos", "pkt_remain", "send_pos", "send_remain", "pkt_avail", "send_avail",
]  # fmt: skip

PGBOUNCER = {
    "CLIENTS": _CONNECTION,
    "CONFIG": ["key", "value", "default", "changeable"],
    "DATABASES": [
        "name", "host", "port", "database", "force_user", "pool_size", "min_pool_size", "reserve_pool_size",
        "server_lifetime", "pool_mode", "load_balance_hosts", "max_connections", "current_connections",
        "max_client_connections", "current_client_connections", "paused", "disabled",
    ],
    "DNS_HOSTS": ["hostname", "ttl", "addrs"],
    "DNS_ZONES": ["zonename", "serial", "count"],
    "FDS": [
        "fd", "task", "user", "database", "addr", "port", "cancel", "link", "client_encoding", "std_strings",
        "datestyle", "timezone", "password", "scram_client_key", "scram_server_key",
    ],
    "LISTS": ["list", "items"],
    "MEM": ["name", "size", "used", "free", "memtotal"],
    "PEERS": ["peer_id", "host", "port", "pool_size"],
    "PEER_POOLS": [
        "peer_id", "cl_active_cancel_req", "cl_waiting_cancel_req", "sv_active_cancel", "sv_login",
    ],
    "POOLS": [
        "database", "user", "cl_active", "cl_waiting", "cl_active_cancel_req", "cl_waiting_cancel_req", "sv_active",
        "sv_active_cancel", "sv_being_canceled", "sv_idle", "sv_used", "sv_tested", "sv_login", "maxwait",
        "maxwait_us", "pool_mode", "load_balance_hosts",
    ],
    "SERVERS": _CONNECTION,
    "SOCKETS": _SOCKET,
    "ACTIVE_SOCKETS": _SOCKET,
    "STATE": ["key", "value"],
    "STATS": [
        "database", *(f"total_{name}" for name in _COUNTS), *(f"avg_{_SHORT.get(name, name)}" for name in _COUNTS),
    ],
    "STATS_TOTALS": _PLAIN,
    "STATS_AVERAGES": _PLAIN,
    "TOTALS": ["name", "value"],
    "USERS": [
        "name", "pool_size", "reserve_pool_size", "pool_mode", "max_user_connections", "current_connections",
        "max_user_client_connections", "current_client_connections",
    ],
    "VERSION": ["version"],
    # Not commands, but drivers ask for them.
    "client_encoding": ["client_encoding"],
    "datestyle": ["datestyle"],
    "default_transaction_isolation": ["default_transaction_isolation"],
    "standard_conforming_strings": ["standard_conforming_strings"],
    "timezone": ["timezone"],
}  # fmt: skip

OWN = {
    # PgCat's.
    "BANS": [
        "db", "user", "role", "host", "reason", "ban_time", "ban_duration_seconds", "ban_remaining_seconds",
    ],
    "REPLICAS": [
        "database", "host", "port", "role", "configured", "weight", "reads", "writes", "banned", "lag_bytes",
        "lag_ms", "lsn", "timeline", "system_identifier", "latency_ms", "answered_ms_ago", "error",
    ],
    "PREPARED": [
        "database", "user", "statements", "client_parse_count", "server_parse_count", "bind_count",
    ],
}  # fmt: skip

# What columns were called in releases before.
OLD_NAMES = {("DATABASES", "reserve_pool"): "reserve_pool_size"}
# Commands that releases before did not have.
YOUNG = {"STATE", "PEERS", "PEER_POOLS", "default_transaction_isolation"}

# Under the console's name `pgcat`: those of PgCat 1.2, where they are others.
PGCAT = {
    "CLIENTS": [
        "client_id", "database", "user", "application_name", "state", "transaction_count", "query_count",
        "error_count", "age_seconds", "maxwait", "maxwait_us",
    ],
    "POOLS": [
        "database", "user", "pool_mode", "cl_idle", "cl_active", "cl_waiting", "cl_cancel_req", "sv_active",
        "sv_idle", "sv_used", "sv_tested", "sv_login", "maxwait", "maxwait_us",
    ],
    "STATS": [
        "instance", "database", "user", "total_xact_count", "total_query_count", "total_received", "total_sent",
        "total_xact_time", "total_query_time", "total_wait_time", "total_errors", "avg_xact_count",
        "avg_query_count", "avg_recv", "avg_sent", "avg_errors", "avg_xact_time", "avg_query_time", "avg_wait_time",
    ],
}  # fmt: skip
