//! The three formats: what they say, what they refuse.

use std::path::Path;

use balancer::{Configured, Strategy};

use super::*;
use pooling::catalog::hubless::{Comment, Hubless};
use pooling::config::*;

fn ini(text: &str) -> Result<Config, String> {
    ini::read(text, Path::new("pgbouncer.ini"))
}

fn howdah(text: &str) -> Result<Config, String> {
    toml_file::read(&text.parse().unwrap())
}

fn pgcat(text: &str) -> Result<Config, String> {
    pgcat::read(&text.parse().unwrap())
}

#[test]
fn a_pgbouncer_ini_is_read_with_pgbouncers_defaults() {
    let config = ini("
        ; a comment
        [databases]
        app = host=10.0.0.1,10.0.0.2 port=5433 dbname=real password='it''s' pool_size=7 pool_mode=session
        * = host=/run/postgresql
        [users]
        bob = pool_mode=transaction max_user_connections=3
        [pgbouncer]
        listen_addr = 127.0.0.1, ::1
        server_idle_timeout = 0.5
        max_client_conn=500
    ")
    .unwrap();
    let app = config.database("app").unwrap();
    assert_eq!((app.hosts.len(), app.port, app.dbname.as_deref()), (2, Some(5433), Some("real")));
    assert_eq!(app.password.as_deref(), Some("it's"));
    assert!(config.database("anything").unwrap().wildcard);
    assert_eq!(config.pool_size("app", "eve"), 7);
    assert_eq!(config.pool_size("other", "eve"), 20);
    assert_eq!(config.pool_mode("app", "eve"), PoolMode::Session);
    assert_eq!(config.pool_mode("app", "bob"), PoolMode::Transaction);
    assert_eq!(config.settings.listen_addr.0, ["127.0.0.1", "::1"]);
    assert_eq!(config.settings.max_client_conn, 500);
    assert_eq!(config.settings.server_idle_timeout.0.as_millis(), 500);
    assert_eq!((config.settings.pool_mode, config.settings.auth_type), (PoolMode::Session, AuthType::Md5));
    assert_eq!(config.settings.query_wait_timeout, Seconds::whole(120));
    assert!(config.remarks.is_empty(), "{:?}", config.remarks);
}

#[test]
fn unknown_settings_of_pgbouncer_are_named_and_not_fatal() {
    let text = "[pgbouncer]\nverbose = 2\nmax_clientconn = 5\n[databases]\na = application_name=x\n";
    let config = ini(text).unwrap();
    assert_eq!(
        config.remarks,
        [
            "verbose is a setting of PgBouncer that has no effect here",
            "unknown setting max_clientconn has no effect; did you mean max_client_conn?",
            "database a: application_name has no effect here",
        ]
    );
}

#[test]
fn what_an_ini_cannot_mean_is_an_error_that_says_where() {
    for (text, message) in [
        ("[databases]\na = hots=x", "line 2: database a: there is no setting hots; did you mean host?"),
        (
            "[databases]\na = host=x pool_sise=3",
            "line 2: database a: there is no setting pool_sise; did you mean pool_size?",
        ),
        ("[databases]\na = just host=x", "line 2: database a: there is no setting just host"),
        ("[users]\nbob = pool_mod=session", "line 2: user bob: there is no setting pool_mod; did you mean pool_mode?"),
        ("[pgbouncer]\npool_mode = query", "line 2: pool_mode = query: expected session, transaction or statement"),
        (
            "[pgbouncer]\nauth_type = pam",
            "line 2: auth_type = pam: expected any, trust, plain, md5, scram-sha-256, cert or hba (pam and ldap are not supported)",
        ),
        (
            "[pgbouncer]\nmax_client_conn = -1",
            "line 2: max_client_conn = -1: expected a whole number from 0 to 2147483647",
        ),
        (
            "[pgbouncer]\ndefault_pool_size = 18446744073709551615",
            "line 2: default_pool_size = 18446744073709551615: expected a whole number from 0 to 2147483647",
        ),
        (
            "[pgbouncer]\nsyslog_facility = mail",
            "line 2: syslog_facility = mail: expected auth, authpriv, daemon, user, or local0 to local7",
        ),
        ("[pgbouncer]\ndns_max_ttl = -1", "line 2: dns_max_ttl = -1: expected a number of seconds, 0 or more"),
        ("[nothing]\na = b", "line 2: there is no section [nothing]"),
        ("[pgbouncer]\nnonsense", "line 2: expected key = value"),
        ("[databases]\na = password='x", "line 2: a quote is not closed"),
        ("%include /nowhere/at/all", "line 1: cannot read /nowhere/at/all: No such file or directory (os error 2)"),
    ] {
        assert_eq!(ini(text).unwrap_err(), message);
    }
}

#[test]
fn a_time_beyond_all_measure_is_a_long_one() {
    let config = ini("[pgbouncer]\ndns_max_ttl = 1e15\n").unwrap();
    assert_eq!(config.settings.dns_max_ttl, Seconds::whole(1_000_000_000));
}

#[test]
fn a_users_file_keeps_quotes_and_refuses_open_ones() {
    let users = userlist::read("; c\n\"a\"\"b\" \"p\"\"w\"\n\"c\" \"md5x\" rest\n\n").unwrap();
    assert_eq!(users, [("a\"b".to_owned(), "p\"w".to_owned()), ("c".to_owned(), "md5x".to_owned())]);
    assert_eq!(userlist::read("\n\"a").unwrap_err(), "line 2: a quote is not closed");
    assert_eq!(userlist::read("a b").unwrap_err(), "line 1: expected \"user\" \"password\"");
}

#[test]
fn unknown_keys_of_howdah_toml_are_errors_with_the_nearest_name() {
    for (text, message) in [
        ("[pooler]\npool_mod = 'session'", "[pooler] has no key pool_mod; did you mean pool_mode?"),
        ("[databases.a]\nhots = 'x'", "[databases.a] has no key hots; did you mean host?"),
        ("[poler]\na = 1", "there is no section [poler]; did you mean pooler?"),
        ("[pooler]\nzzzzzzzz = 1", "[pooler] has no key zzzzzzzz"),
        ("[pooler]\nlisten_port = 99999", "[pooler] listen_port = 99999: expected a number from 0 to 65535"),
    ] {
        assert_eq!(howdah(text).unwrap_err(), message);
    }
}

#[test]
fn howdah_toml_starts_from_defaults_of_today() {
    let config = howdah(
        "[pooler]\nlisten_addr = ['127.0.0.1', '::1']\n[databases.app]\nhost = 'db'\npool_size = 3\n[users.bob]\npassword = 'x'\n",
    )
    .unwrap();
    assert_eq!(config.settings.pool_mode, PoolMode::Transaction);
    assert_eq!(config.settings.auth_type, AuthType::Scram);
    assert_eq!(config.settings.listen_addr.0.len(), 2);
    assert_eq!(config.pool_size("app", "bob"), 3);
    assert_eq!(config.passwords.get("bob").map(String::as_str), Some("x"));
}

const PGCAT: &str = "
[general]
port = 6433
admin_username = 'admin'
admin_password = 'secret'
connect_timeout = 5000
[pools.app]
pool_mode = 'session'
[pools.app.users.0]
username = 'bob'
password = 'pw'
pool_size = 9
[pools.app.shards.0]
database = 'real'
servers = [['10.0.0.1', 5433, 'primary'], ['10.0.0.2', 5433, 'replica']]
";

#[test]
fn a_pgcat_toml_of_one_shard_is_read() {
    let config = pgcat(PGCAT).unwrap();
    let app = config.database("app").unwrap();
    assert_eq!((app.hosts.as_slice(), app.port), (&["10.0.0.1".to_owned()][..], Some(5433)));
    assert_eq!(config.pool_size("app", "bob"), 9);
    assert_eq!(config.pool_mode("app", "bob"), PoolMode::Session);
    assert_eq!(config.passwords.get("admin").map(String::as_str), Some("secret"));
    assert_eq!(config.settings.query_wait_timeout, Seconds::whole(5));
    let servers: Vec<_> = app.servers.iter().map(|server| (server.host.as_str(), server.port, server.role)).collect();
    assert_eq!(servers, [("10.0.0.1", 5433, Configured::Primary), ("10.0.0.2", 5433, Configured::Replica)]);
    let routing = config.routing(app);
    assert_eq!(
        (routing.strategy, routing.primary_reads, routing.splitting, routing.default_role),
        (Strategy::Random, PrimaryReads::Off, false, DefaultRole::Any)
    );
    assert_eq!((routing.limits.ban_millis, routing.timeout), (60_000, Seconds::whole(1)));
    assert_eq!(config.cluster_of("app"), Some("app"));
    assert!(config.remarks.is_empty(), "{:?}", config.remarks);
}

#[test]
fn pgcats_settings_of_balancing_are_the_same_here() {
    let more = "
[general]
ban_time = 7
healthcheck_timeout = 250
healthcheck_delay = 100
[pools.app]
load_balancing_mode = 'loc'
default_role = 'replica'
query_parser_enabled = true
query_parser_read_write_splitting = true
primary_reads_enabled = true
query_parser_max_length = 9
[pools.app.shards.0]
database = 'real'
servers = [['10.0.0.1', 5433, 'replica'], ['10.0.0.2', 5433, 'Replica']]
";
    let config = pgcat(more).unwrap();
    let app = config.database("app").unwrap();
    let routing = config.routing(app);
    assert_eq!(
        (routing.strategy, routing.primary_reads, routing.splitting, routing.default_role),
        (Strategy::LeastOutstanding, PrimaryReads::On, true, DefaultRole::Replica)
    );
    assert_eq!((routing.limits.ban_millis, routing.limits.patience_millis), (7000, 250));
    assert_eq!(app.servers.len(), 2);
    assert_eq!(config.remarks, ["pools.app: query_parser_max_length is not supported and has no effect"]);
    let broken = PGCAT.replace("'replica'", "'secondary'");
    assert_eq!(pgcat(&broken).unwrap_err(), "pools.app: secondary is not a role: expected primary, replica or auto");
}

#[test]
fn a_database_of_several_servers_is_read() {
    let config = howdah(
        "[pooler]\nban_time = 3\n[databases.app]\nmax_replica_lag = 0.5\nload_balancing = 'weighted'\nprimary_reads = 'off'\n\
         servers = [{host = 'a'}, {host = 'b', port = 6000, role = 'primary'}, {host = 'c', weight = 3}]\n\
         [[databases.'*'.servers]]\nhost = 'd'\n[databases.plain]\nhost = 'x'\n",
    )
    .unwrap();
    let app = config.database("app").unwrap();
    assert_eq!((app.servers.len(), app.servers[0].port, app.servers[2].weight), (3, 5432, 3));
    assert_eq!((app.hosts.as_slice(), app.port), (&["b".to_owned()][..], Some(6000)));
    let routing = config.routing(app);
    assert_eq!((routing.limits.lag_millis, routing.limits.lag_bytes), (Some(500), None));
    assert_eq!((routing.limits.ban_millis, routing.interval), (3000, Seconds::millis(500)));
    assert_eq!((routing.strategy, routing.primary_reads), (Strategy::Weighted, PrimaryReads::Off));
    assert_eq!(config.clusters().map(|(name, _)| name).collect::<Vec<_>>(), ["app", "*"]);
    assert_eq!((config.cluster_of("plain"), config.cluster_of("other")), (None, Some("*")));
}

#[test]
fn servers_that_make_no_sense_are_errors_that_say_why() {
    for (servers, message) in [
        ("servers = []", "[databases.a] servers is empty"),
        ("servers = 'x'", "[databases.a] servers = \"x\": expected a list of {host = ..., port = ..., role = ...}"),
        ("servers = [{port = 1}]", "[databases.a] servers: a server has no host"),
        ("servers = [{hots = 'x'}]", "[databases.a] servers: a server has no key hots; did you mean host?"),
        (
            "servers = [{host = 'x', role = 'master'}]",
            "[databases.a] servers: role = \"master\": expected auto, primary or replica",
        ),
        ("servers = [{host = 'x'}, {host = 'x'}]", "[databases.a] has the server x:5432 twice"),
        (
            "servers = [{host = 'x', role = 'primary'}, {host = 'y', role = 'primary'}]",
            "[databases.a] has two primaries",
        ),
        ("servers = [{host = 'x'}]\nhost = 'y'", "[databases.a] has servers and host: expected one of them"),
        ("server = [{host = 'x'}]", "[databases.a] has no key server; did you mean servers?"),
        (
            "load_balancing = 'best'",
            "[databases.a] load_balancing = \"best\": expected random, round_robin, least_outstanding or weighted",
        ),
    ] {
        assert_eq!(howdah(&format!("[databases.a]\n{servers}")).unwrap_err(), message);
    }
}

#[test]
fn a_pgcat_tomls_tls_becomes_sslmodes() {
    let with = |more: &str| pgcat(&PGCAT.replace("connect_timeout = 5000", more)).unwrap().settings;
    assert_eq!((with("").client_tls_sslmode, with("").server_tls_sslmode), (SslMode::Disable, SslMode::Disable));
    let settings = with("tls_certificate = 'c.pem'\ntls_private_key = 'k.pem'\nserver_tls = true");
    assert_eq!((settings.client_tls_sslmode, settings.server_tls_sslmode), (SslMode::Prefer, SslMode::Prefer));
    assert_eq!((&*settings.client_tls_cert_file, &*settings.client_tls_key_file), ("c.pem", "k.pem"));
    let settings = with("verify_server_certificate = true\nserver_tls = true");
    assert_eq!((settings.server_tls_sslmode, &*settings.server_tls_ca_file), (SslMode::VerifyFull, "system"));
}

/// A pool of two shards, with this in its section.
fn two_shards(more: &str) -> Result<Config, String> {
    let shards = format!("{PGCAT}[pools.app.shards.1]\ndatabase = 'b'\nservers = [['x', 1, 'primary']]\n");
    let mut config = pgcat(&shards.replace("pool_mode = 'session'", more))?;
    config.complete_hubless().map(|()| config)
}

#[test]
fn a_pgcat_toml_of_several_shards_is_an_entry_and_one_for_each() {
    let more = "query_parser_enabled = true\nquery_parser_read_write_splitting = true\nautomatic_sharding_key = '*.id'\n\
                sharding_function = 'sha1'\ndefault_shard = 'shard_1'\nshard_id_regex = 'shard: (\\d+)'\nregex_search_limit = 9";
    let config = two_shards(more).unwrap();
    let names: Vec<_> = config.databases.keys().collect();
    assert_eq!(names, ["app", "app_shard_0", "app_shard_1"]);
    let app = config.database("app").unwrap();
    assert_eq!(app.shards, ["app_shard_0", "app_shard_1"]);
    assert_eq!((app.dbname.as_deref(), app.hosts.as_slice()), (Some("b"), &["x".to_owned()][..]), "its default shard");
    assert_eq!(app.automatic_sharding_key.as_deref(), Some("*.id"));
    assert_eq!((config.pool_size("app_shard_1", "bob"), config.pool_size("app_shard_0", "bob")), (9, 9));
    let first = config.database("app_shard_0").unwrap();
    assert_eq!((first.dbname.as_deref(), first.servers.len(), first.admits("alice")), (Some("real"), 2, false));
    let rule = Hubless::of(app).unwrap();
    assert_eq!((rule.shards(), rule.keyed("1"), rule.keyed("x")), (2, Some(1), None));
    assert_eq!(rule.comment(b"shard: 1"), Some(Comment::Shard("1")));
    assert_eq!(rule.comment(b"/* shard: 1 */"), None, "it is behind the limit");
    assert!(config.remarks.is_empty(), "{:?}", config.remarks);
}

#[test]
fn what_is_wrong_with_shards_is_told() {
    for (more, message) in [
        ("default_shard = 'shard_99'", "database app: default_shard = shard_99: it has the shards shard_0 to shard_1"),
        (
            "default_shard = 'first'",
            "pools.app.default_shard = \"first\": expected shard_0 or another number, random, or random_healthy",
        ),
        ("sharding_function = 'md5'", "pools.app.sharding_function = \"md5\": expected pg_bigint_hash or sha1"),
        (
            "shard_id_regex = '('",
            "pools.app.shard_id_regex = \"(\": expected a regular expression with a group, as in /\\* shard: (\\d+) \\*/",
        ),
        (
            "query_parser_enabled = true\nquery_parser_read_write_splitting = true\nautomatic_sharding_key = 'id'",
            "database app: automatic_sharding_key = id: expected table.column, or *.column",
        ),
    ] {
        assert_eq!(two_shards(more).unwrap_err(), message);
    }
    let gap = PGCAT.replace("shards.0", "shards.2");
    let gap = format!("{gap}[pools.app.shards.0]\ndatabase = 'b'\nservers = [['x', 1, 'primary']]\n");
    assert_eq!(pgcat(&gap).unwrap_err(), "pools.app has 2 shards and none of the number 1");
    let config = two_shards("automatic_sharding_key = 'data.id'").unwrap();
    assert_eq!(config.database("app").unwrap().automatic_sharding_key, None);
    assert!(config.remarks.iter().any(|remark| remark.contains("automatic_sharding_key")), "{:?}", config.remarks);
    for (text, message) in [
        ("[databases.a]\ndefault_shard = 'random'", "database a: default_shard needs sharding_function"),
        (
            "[databases.a]\nsharding_function = 'sha1'",
            "database a: sharding_function needs a database with a name, and its shards",
        ),
        ("[databases.a]\nsharding_function = 'sha1'\nshards = ['b']", "database a: its shard b has no entry"),
        (
            "[databases.a]\nsharding_function = 'sha1'\nshards = ['b', 'b']\n[databases.b]\nhost = 'x'",
            "database a: its shard b is named twice",
        ),
        (
            "[databases.a]\nhost = 'x'\nsharding_function = 'sha1'\nshards = ['b']\n[databases.b]\nhost = 'x'",
            "database a: it cannot have host beside sharding_function: its shards have places of their own",
        ),
    ] {
        assert_eq!(howdah(text).unwrap().complete_hubless().unwrap_err(), message);
    }
}

#[test]
fn every_setting_reads_what_it_shows() {
    let mut settings = Settings::default();
    for shown in Settings::default().show() {
        assert_eq!(settings.set(shown.name, &shown.value), Some(Ok(())), "{}", shown.name);
        assert!(shown.meaning.len() > 10, "{} says what it means", shown.name);
    }
    assert_eq!(settings, Settings::default());
}

/// Whatever a file holds, its reader gives a configuration or a message.
#[test]
fn damaged_files_are_told_and_harm_nobody() {
    let ini_text = "; c\n[databases]\na = host='x''y' port=5433 pool_size=7\n* = \n[users]\nb = pool_mode=session\n\
                    [pgbouncer]\nlisten_addr = *, ::1\nserver_lifetime = 0.5\nunix_socket_mode = 0770\n";
    let toml_text =
        "[pooler]\nlisten_addr = ['a', 'b']\n[databases.\"*\"]\nport = 5432\n[users.b]\npassword = '${A:-b}'\n";
    let users = "\"a\"\"b\" \"p\" x\n; c\n\"c\" \"md5\"\n";
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap()
    };
    let (mut good, mut bad) = (0, 0);
    for round in 0..6_000 {
        let original = [ini_text, toml_text, PGCAT, users][round % 4];
        let mut bytes = original.as_bytes().to_vec();
        for _ in 0..=random(4) {
            let place = random(bytes.len());
            match random(4) {
                0 => bytes[place] = b"\0[]='\"\n${}%;\xff-9e"[random(16)],
                1 => drop(bytes.drain(place..(place + random(9)).min(bytes.len()))),
                2 => bytes.truncate(place),
                _ => {
                    let end = (place + random(20)).min(bytes.len());
                    let piece = bytes[place..end].to_vec();
                    let to = random(bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
            if bytes.is_empty() {
                bytes.push(b'x');
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let table = || text.parse::<toml::Table>().map_err(|error| error.to_string());
        let outcome = match round % 4 {
            0 => ini(&text).map(|_| ()),
            1 => table().and_then(|mut table| {
                environment::put_in(&mut table, &|_| None)?;
                toml_file::read(&table).map(|_| ())
            }),
            2 => table().and_then(|table| pgcat::read(&table).map(|_| ())),
            _ => userlist::read(&text).map(|_| ()),
        };
        match outcome {
            Ok(()) => good += 1,
            Err(message) => {
                assert!(!message.is_empty());
                bad += 1;
            }
        }
    }
    assert!(good > 500 && bad > 500, "{good} good, {bad} bad");
}
