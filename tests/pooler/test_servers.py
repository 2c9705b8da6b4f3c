"""Databases on several servers: what the monitor finds out about them, and what the console tells of it."""

import contextlib
import re
import time

from devkit import postgres
from devkit.server import Server
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import Raw, startup
from tests.pooler.trio import Trio


@contextlib.contextmanager
def watched(trio, **options):
    """A pooler in front of the three, which it knows."""
    with Pooler(trio.primary, name="howdah.toml", text=trio.toml(**options)) as pooler:
        wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
        yield pooler


def roles(pooler):
    """What each server is taken for, in the order of the configuration."""
    return [row["role"] for row in pooler.show("REPLICAS")]


def place(pooler, server):
    """The row of one server."""
    return next(row for row in pooler.show("REPLICAS") if row["port"] == str(server.port))


def seconds_until(true, limit=10):
    """How long it takes until `true()` is."""
    started = time.monotonic()
    wait_until(true, limit)
    return time.monotonic() - started


def test_roles_are_found_and_shown(steady_trio):
    with watched(steady_trio, roles=("auto", "primary", "auto")) as pooler:
        # The second is configured as the primary, but says that it is none.
        wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
        rows = pooler.show("REPLICAS")
        assert [(row["reads"], row["writes"]) for row in rows] == [("0", "1"), ("1", "0"), ("1", "0")]
        assert [row["configured"] for row in rows] == ["auto", "primary", "auto"]
        assert {row["timeline"] for row in rows} == {"1"}
        system = steady_trio.primary.psql("SELECT system_identifier FROM pg_control_system()")
        assert {row["system_identifier"] for row in rows} == {system}
        assert all(int(row["answered_ms_ago"]) < 2000 and row["error"] == "" for row in rows)
        assert [row["database"] for row in rows] == ["app"] * 3


def test_a_promotion_is_noticed_within_two_seconds_and_the_old_primary_is_left_alone(trio):
    one, two = trio.replicas
    with watched(trio) as pooler:
        port = trio.primary.port
        trio.primary.stop("immediate")
        wait_until(lambda: roles(pooler)[0] == "down")
        one.psql("SELECT pg_promote(false)")
        wait_until(lambda: one.psql("SELECT pg_is_in_recovery()") == "f")
        assert seconds_until(lambda: roles(pooler)[1] == "primary") < 2
        assert place(pooler, one)["timeline"] == "2", "known before the checkpoint that ends the recovery"
        trio.primary.start(port=port)
        wait_until(lambda: roles(pooler)[0] == "stale primary")
        assert (place(pooler, trio.primary)["reads"], place(pooler, trio.primary)["writes"]) == ("0", "0")
        one.stop("immediate")
        wait_until(lambda: roles(pooler)[1] == "down")
        time.sleep(1)
        assert [row["writes"] for row in pooler.show("REPLICAS")] == ["0", "0", "0"], "nobody takes its place"
        # An administrator may vouch for it.
        pooler.psql(f"UNBAN {trio.primary.socket_folder}:{port}", "pgbouncer")
        assert roles(pooler)[0] == "primary"
        assert two.psql("SELECT pg_is_in_recovery()") == "t"


def test_of_two_independent_servers_the_configured_primary_gets_all_writes(major):
    with Server(postgres.tree(major)) as primary, Server(postgres.tree(major)) as other:
        for server in (primary, other):
            server.psql("CREATE TABLE written (a int)")
        for listed, roles in (([primary, other], ("primary", "auto")), ([other, primary], ("auto", "primary"))):
            text = Trio(primary, [other]).toml("query_wait_timeout = 1", servers=listed, roles=roles)
            with Pooler(primary, name="howdah.toml", text=text) as pooler:
                for _ in range(3):
                    pooler.psql("INSERT INTO written VALUES (1)", "app")
        assert [server.psql("SELECT count(*) FROM written") for server in (primary, other)] == ["6", "0"]
        # It is not written to instead either.
        with Pooler(primary, name="howdah.toml", text=text) as pooler:
            pooler.psql("INSERT INTO written VALUES (1)", "app")
            primary.stop("immediate")
            refused = pooler.psql("INSERT INTO written VALUES (1)", "app", check=False)
            assert "there is no primary now" in refused.stderr
        assert other.psql("SELECT count(*) FROM written") == "0"


def test_a_replica_that_lags_leaves_and_comes_back(steady_trio):
    one = steady_trio.replicas[0]
    for limit in ("max_replica_lag_bytes = 100000", "max_replica_lag = 1"):
        with watched(steady_trio, app=limit) as pooler:
            one.psql("SELECT pg_wal_replay_pause()")
            steady_trio.primary.psql("CREATE TABLE t AS SELECT generate_series(1, 20000) AS a")
            wait_until(lambda: roles(pooler) == ["primary", "lagging", "replica"])
            row = place(pooler, one)
            assert row["reads"] == "0" and int(row["lag_bytes"]) > 100000 and row["banned"] == "0"
            one.psql("SELECT pg_wal_replay_resume()")
            wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
            assert int(place(pooler, one)["lag_bytes"]) < 100000
            steady_trio.primary.psql("DROP TABLE t")


def test_a_replica_that_dies_is_banned_and_returns(steady_trio):
    one = steady_trio.replicas[0]
    with watched(steady_trio, app="ban_time = 3") as pooler:
        port = one.port
        one.stop("immediate")
        # Its connection ends, so it is asked again at once and not at the next interval.
        assert seconds_until(lambda: roles(pooler)[1] == "down") < 1
        ban = pooler.show("BANS")[0]
        assert ban["reason"].startswith("FailedHealthCheck") and ban["ban_duration_seconds"] == "3"
        assert place(pooler, one)["error"] != ""
        started = time.monotonic()
        one.start(port=port)
        wait_until(lambda: roles(pooler)[1] == "replica")
        if time.monotonic() - started < 1.5:
            assert place(pooler, one)["reads"] == "0", "it lives, but its ban stands"
        wait_until(lambda: place(pooler, one)["reads"] == "1")
        assert pooler.show("BANS") == []


def test_a_user_whom_a_replica_refuses_bans_it_for_nobody(steady_trio):
    steady_trio.primary.psql("CREATE ROLE barred NOLOGIN")
    steady_trio.catch_up()
    with watched(steady_trio, app="ban_time = 3600") as pooler:
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                client = stack.enter_context(Raw(pooler.port, "app", user="barred", login=False))
                client.send(startup("app", "barred"))
            wait_until(lambda: pooler.log.read_text().count("not permitted to log in") >= 3)
            assert pooler.show("BANS") == []
        assert [place(pooler, one)["reads"] for one in steady_trio.replicas] == ["1", "1"]
    steady_trio.primary.psql("DROP ROLE barred")


def test_ban_and_unban(steady_trio):
    one = steady_trio.replicas[0]
    with watched(steady_trio) as pooler:
        host = f"{one.socket_folder}:{one.port}"
        told = pooler.psql(f"BAN {host} 60", "pgcat", flags=["-F", " "])
        assert told == f"app * replica {one.socket_folder}"
        row = pooler.show("BANS", "pgcat")[0]
        assert (row["db"], row["reason"], row["ban_duration_seconds"]) == ("app", "AdminBan", "60")
        assert 55 <= int(row["ban_remaining_seconds"]) <= 60
        assert (place(pooler, one)["reads"], place(pooler, one)["banned"]) == ("0", "1")
        assert pooler.psql(f"UNBAN {host}", "pgcat", flags=["-F", " "]) == f"app * replica {one.socket_folder}"
        assert pooler.show("BANS") == [] and place(pooler, one)["reads"] == "1"
        assert pooler.psql(f"UNBAN {host}", "pgcat") == ""
        pooler.psql(f"BAN {host} 1", "pgcat")
        wait_until(lambda: place(pooler, one)["reads"] == "1")


def test_servers_are_asked_as_whoever_may(steady_trio):
    """Without superuser rights, by SCRAM over TCP; and as the first client's user, who waits for the answer."""
    primary = steady_trio.primary
    primary.psql("CREATE ROLE asker LOGIN PASSWORD 'secret'")
    steady_trio.catch_up()
    text = re.sub(r'host = "[^"]*"', 'host = "localhost"', steady_trio.toml()) + '[users.asker]\npassword = "WRONG"\n'
    text = text.replace('monitor_user = "postgres"', 'monitor_user = "asker"')
    with Pooler(primary, name="howdah.toml", text=text) as pooler:
        wait_until(lambda: roles(pooler) == ["unasked"] * 3)
        assert "password authentication failed" in pooler.show("REPLICAS")[0]["error"]
        pooler.text = text.replace("WRONG", "secret")
        pooler.reload()
        wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
    text = text.replace('monitor_user = "asker"', "").replace("WRONG", "secret")
    with Pooler(primary, name="howdah.toml", text=text) as pooler:
        wait_until(lambda: "set monitor_user" in pooler.show("REPLICAS")[0]["error"])
        assert pooler.psql("SELECT 1", "app", user="asker") == "1"
        wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
    primary.psql("DROP ROLE asker")


def test_a_reload_changes_who_is_watched(steady_trio):
    with watched(steady_trio) as pooler:
        before = place(pooler, steady_trio.replicas[1])
        pooler.text = steady_trio.toml(servers=[steady_trio.primary, steady_trio.replicas[1]])
        pooler.reload()
        wait_until(lambda: roles(pooler) == ["primary", "replica"])
        assert place(pooler, steady_trio.replicas[1])["port"] == before["port"]
        asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'howdah monitor'"
        wait_until(lambda: steady_trio.replicas[0].psql(asked) == "0")
        pooler.psql("SET healthcheck_interval = 0.05", "pgbouncer")
        time.sleep(0.3)
        assert all(int(row["answered_ms_ago"]) < 300 for row in pooler.show("REPLICAS"))
