"""What somebody without a password can cause, learn and leave behind: as little as can be."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from devkit.server import SUPERUSER, environment
from tests.pooler.process import PASSWORD, PROGRAM, Pooler, wait_until
from tests.pooler.raw import Raw, code, message, query, startup, values
from tests.pooler.strangers import Stranger, md5_answer

SCRAM = {"auth_type": "scram-sha-256"}
QUIET = {"log_connections": 0, "log_disconnections": 0, "log_pooler_errors": 0}
# Connections that have not logged in may be so many beyond max_client_conn.
RESERVE = 100


def stored(server, user):
    """What pg_authid has for a role."""
    return server.psql(f"SELECT rolpassword FROM pg_authid WHERE rolname = '{user}'")


def outcome(pooler, database="postgres", user="scram_user", password=PASSWORD, **parameters):
    """What the server says who one is, or the complaint."""
    done = pooler.psql("SELECT current_user", database, user, password, check=False, **parameters)
    return done.stdout.strip() or done.stderr.strip()


def memory(process):
    """The resident memory of a process, in KiB."""
    return int(re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)[1])


def sockets(process):
    """How many sockets a process has open."""
    folder = f"/proc/{process.pid}/fd"
    count = 0
    for number in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"{folder}/{number}").startswith("socket:")
    return count


def test_refused_logins_leave_no_memory(server):
    """Nothing stays, and no server is asked."""
    database = "x" * 9000
    with Pooler(server, {"app": "dbname=postgres"}, {"bob": "pw"}, **SCRAM, **QUIET, workers=2) as pooler:

        def refuse(numbers):
            for number in numbers:
                with Raw(pooler.port, login=False) as client:
                    client.send(startup(f"{number:08}{database}", f"user{number}"))
                    assert client.next() is not None

        refuse(range(1000))
        before = memory(pooler.process)
        refuse(range(1000, 5000))
        assert memory(pooler.process) - before < 1500


def test_new_names_under_a_wildcard_cause_few_connections_and_pools(with_users):
    settings = {**SCRAM, "auth_user": SUPERUSER, "workers": 2}
    with Pooler(with_users, {"*": ""}, {}, **settings) as pooler:
        for number in range(60):
            with Stranger(pooler.port, database=f"nodb{number}") as stranger:
                kind, body = stranger.next()
                assert kind == b"R" or code(body) == "53300"
        attempts = set(re.findall(r'database "(nodb\d+)" does not exist', pooler.log.read_text()))
        assert 0 < len(attempts) <= 16
        unproven = [
            line
            for line in pooler.show("POOLS", user="pgbouncer", host=pooler.folder)
            if line["database"].startswith("nodb")
        ]
        assert len(unproven) <= 16
        wait_until(lambda: outcome(pooler) == "scram_user")
        wait_until(
            lambda: (
                not any(
                    "nodb" in line["database"] for line in pooler.show("POOLS", user="pgbouncer", host=pooler.folder)
                )
            )
        )
        assert "set auth_dbname" in pooler.log.read_text()


def test_with_auth_dbname_new_names_cause_none(with_users):
    settings = {**SCRAM, "auth_user": SUPERUSER, "auth_dbname": "postgres"}
    with Pooler(with_users, {"*": ""}, {}, **settings) as pooler:
        for number in range(60):
            with Stranger(pooler.port, database=f"nodb{number}") as stranger:
                assert stranger.prove("wrong")[0] == "28P01"
        assert "nodb" not in str(pooler.show("POOLS", user="pgbouncer", host=pooler.folder))
        assert "does not exist" not in pooler.log.read_text()
        assert outcome(pooler) == "scram_user"
        # Whoever has a password is told.
        assert "does not exist" in outcome(pooler, "nodb")
        assert "does not exist" in outcome(pooler, "nodb")


def test_whoever_leaves_while_a_password_is_looked_up_costs_no_server_connection(with_users):
    slow = "SELECT $1, (SELECT rolpassword FROM pg_authid WHERE rolname = $1::text) FROM pg_sleep(1)"
    settings = {**SCRAM, "auth_user": SUPERUSER, "auth_query": slow, "default_pool_size": 1}
    with Pooler(with_users, {"postgres": ""}, {}, **settings) as pooler:
        pid = "SELECT pid FROM pg_stat_activity WHERE query ~ 'FROM pg_sleep' AND query !~ 'pg_stat_activity'"
        seen = set()
        for _ in range(2):
            with Stranger(pooler.port, "somebody"):
                wait_until(lambda: with_users.psql(f"{pid} AND state = 'active'") != "")
                seen.add(with_users.psql(pid))
            wait_until(lambda: with_users.psql(f"{pid} AND state = 'active'") == "")
        assert outcome(pooler) == "scram_user"
        assert len(seen) == 1, seen
        assert with_users.psql(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {seen.pop()}") == "1"


def test_silent_connections_are_bounded_and_the_oldest_go(server):
    with Pooler(server, max_client_conn=5) as pooler, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(Raw(pooler.port, login=False)) for _ in range(5 + RESERVE + 40)]
        wait_until(lambda: sockets(pooler.process) <= 5 + RESERVE + 10)
        assert all(client.is_closed() for client in silent[:30])
        assert pooler.psql("SELECT 1") == "1"
        silent[-1].send(startup("postgres"))
        silent[-1].until(b"Z")
        assert pooler.log.read_text().count("to make room") == 1


def test_unfinished_logins_take_no_clients_place(server):
    with Pooler(server, users={SUPERUSER: "pw"}, **SCRAM, max_client_conn=2) as pooler:
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(Stranger(pooler.port)).begin()
            first, second, third = (stack.enter_context(Stranger(pooler.port)) for _ in range(3))
            assert first.prove("pw") is None and second.prove("pw") is None
            # It began before the pooler was full.
            assert third.prove("pw")[0] == "53300"
            with Stranger(pooler.port) as late:
                assert late.outcome()[0] == "53300"
        wait_until(lambda: outcome(pooler, user=SUPERUSER, password="pw") == SUPERUSER)


# Users and databases that do not exist look like those that do.
def test_an_unknown_user_is_asked_for_scram_as_others_are(with_users):
    users = {"plain": "secret", "secret": stored(with_users, "scram_user"), "empty": ""}
    users["hash"] = stored(with_users, "md5_user")
    with Pooler(with_users, users=users, **SCRAM) as pooler:
        seen = {}
        for user in ("plain", "secret", "empty", "hash", "nobody", "somebody"):
            with Stranger(pooler.port, user) as one, Stranger(pooler.port, user) as other:
                said, again = one.begin(), other.begin()
                assert len(said["s"]) == 24 and said["i"] == "4096", user
                assert said["s"] == again["s"], "the salt stays"
                seen[user] = said["s"]
            with Stranger(pooler.port, user) as stranger:
                wrong = ("28P01", f'password authentication failed for user "{user}"')
                assert stranger.prove("wrong") == wrong
        assert len(set(seen.values())) == len(seen)
        # The client hears no reason, the log does.
        log = pooler.log.read_text()
        for user, why in (("plain", "password is wrong"), ("nobody", "no such user"), ("hash", "is an MD5 hash")):
            assert re.search(rf"/{user}@\S+ login refused: [^\n]*{why}", log), log
    with Pooler(with_users, users=users, **SCRAM) as pooler, Stranger(pooler.port, "nobody") as stranger:
        assert stranger.begin()["s"] != seen["nobody"], "each process has a secret of its own"


@pytest.mark.parametrize("kept", ["md5_user", "scram_user"])
def test_under_md5_an_unknown_user_is_asked_as_most_are(with_users, kept):
    password = stored(with_users, kept)
    with Pooler(with_users, users={"md5_user": password, "other": password}, auth_type="md5") as pooler:
        for user in ("md5_user", "nobody"):
            with Stranger(pooler.port, user) as stranger:
                if kept == "md5_user":
                    asked = stranger.asked()
                    assert asked[:4] == b"\0\0\0\5" and len(asked) == 8
                    stranger.send(md5_answer(user, "wrong", asked[4:]))
                assert (stranger.outcome() if kept == "md5_user" else stranger.prove("wrong"))[0] == "28P01"
        assert outcome(pooler, user="md5_user") == "md5_user"


@pytest.mark.parametrize("looked_up", [False, True], ids=["file", "auth_query"])
def test_a_missing_database_is_told_behind_the_password_alone(with_users, looked_up):
    users = {} if looked_up else {"scram_user": stored(with_users, "scram_user")}
    settings = {"auth_user": SUPERUSER} if looked_up else {}
    with Pooler(with_users, {"app": "dbname=postgres"}, users, **SCRAM, **settings) as pooler:
        told = []
        for database in ("app", "none"):
            with Stranger(pooler.port, "scram_user", database) as stranger:
                told.append(stranger.prove("wrong"))
        assert told[0] == told[1] and told[0][0] == "28P01"
        with Stranger(pooler.port, "scram_user", "none") as client:
            assert client.prove(PASSWORD) == ("3D000", "no such database: none")
        assert outcome(pooler, "app") == "scram_user"


@pytest.mark.parametrize("limit", ["max_user_client_connections", "max_db_client_connections", "disabled"])
def test_limits_are_told_behind_the_password_alone(with_users, limit):
    users = {"scram_user": stored(with_users, "scram_user"), "other": "pw"}
    settings = {} if limit == "disabled" else {limit: 1}
    databases = {"app": "dbname=postgres", "two": "dbname=postgres"}
    with Pooler(with_users, databases, users, **SCRAM, **settings) as pooler, contextlib.ExitStack() as stack:
        if limit == "disabled":
            pooler.psql("DISABLE app", "pgbouncer", "pgbouncer", host=pooler.folder)
        else:
            assert stack.enter_context(Stranger(pooler.port, "scram_user", "app")).prove(PASSWORD) is None
        with Stranger(pooler.port, "scram_user", "app") as stranger:
            assert stranger.prove("wrong")[0] == "28P01"
        with Stranger(pooler.port, "scram_user", "app") as client:
            assert client.prove(PASSWORD)[0] == ("57P03" if limit == "disabled" else "53300")


def test_what_a_server_says_of_auth_query_is_not_told(with_users):
    settings = {**SCRAM, "auth_user": SUPERUSER, "auth_query": "SELECT 1 FROM secret_place WHERE $1 = ''"}
    for more in ({}, {"auth_dbname": "postgres"}):
        with Pooler(with_users, {"postgres": ""}, {}, **settings, **more) as pooler:
            for _ in range(3):
                complaint = outcome(pooler)
                assert "FATAL" in complaint and "secret_place" not in complaint
            assert 'relation "secret_place" does not exist' in pooler.log.read_text()
            assert pooler.log.read_text().count("new connection to server") == 1, "a failure costs no connection"


def test_many_passwords_are_derived_in_the_background(server):
    """Whoever comes before the turn of its password waits for that alone; a change on RELOAD counts at once."""
    users = {f"user{number}": f"password {number}" for number in range(500)}
    with Pooler(server, {"app": "dbname=postgres user=postgres"}, users, **SCRAM) as pooler:
        for number in (0, 250, 499):
            with Stranger(pooler.port, f"user{number}", "app") as client:
                assert client.prove(f"password {number}") is None
        with Stranger(pooler.port, "nobody", "app") as stranger:
            assert stranger.prove("wrong")[0] == "28P01"
        users["user250"] = "another"
        pooler.reload()
        for password, right in (("password 250", False), ("another", True)):
            with Stranger(pooler.port, "user250", "app") as client:
                assert (client.prove(password) is None) is right


# Who comes in, and who does not.
@pytest.mark.parametrize("auth_type", ["plain", "md5", "scram-sha-256"])
def test_an_empty_password_is_none(server, auth_type):
    with Pooler(server, users={"bob": "", "other": "pw"}, auth_type=auth_type) as pooler:
        with Stranger(pooler.port, "bob") as stranger:
            if auth_type == "scram-sha-256":
                assert stranger.prove("")[0] == "28P01"
                return
            asked = stranger.asked()
            stranger.send(message(b"p", b"\0") if auth_type == "plain" else md5_answer("bob", "", asked[4:]))
            assert stranger.outcome()[0] == "28P01"


def test_what_follows_a_login_at_once_is_not_lost_on_the_way_to_the_workers(server):
    databases = dict.fromkeys("abc", "dbname=postgres")
    with Pooler(server, databases, workers=3) as pooler:
        for name in (*databases, *databases):
            with Raw(pooler.port, login=False) as client:
                client.send(startup(name), query(f"SELECT '{name}'"))
                client.until(b"Z")
                assert values(client.until(b"Z")) == [name]


def test_wildcard_databases_are_served_by_all_workers_and_come_back(server):
    with Pooler(server, {"*": "dbname=postgres"}, workers=3, autodb_idle_timeout=1) as pooler:
        for _ in range(2):
            for number in range(6):
                assert pooler.psql(f"SELECT {number}", f"db{number}") == str(number)
            wait_until(lambda: "db5" not in str(pooler.show("POOLS", user="pgbouncer", host=pooler.folder)))


def test_users_of_auth_query_come_to_the_console_by_auth_dbname(with_users):
    settings = {**SCRAM, "auth_user": SUPERUSER, "stats_users": "scram_user"}
    shown = {"database": "pgbouncer", "user": "scram_user", "password": PASSWORD}
    with Pooler(with_users, {"app": "dbname=postgres"}, {}, **settings, auth_dbname="app") as pooler:
        assert "howdah" in pooler.psql("SHOW VERSION", **shown)
        assert "password authentication failed" in outcome(pooler, "pgbouncer", password="wrong")
        refused = outcome(pooler, "pgbouncer", user="md5_user")
        assert "password authentication failed" in refused, "SCRAM has no use for an MD5 hash"
    # Otherwise whoever owns a server could make himself an administrator of the pooler.
    with Pooler(with_users, {"app": "dbname=postgres"}, {}, **settings) as pooler:
        assert "password authentication failed" in pooler.psql("SHOW VERSION", **shown, check=False).stderr


def test_trust_lets_in_whom_auth_query_finds_without_a_password(with_users):
    with_users.psql("DROP ROLE IF EXISTS bare; CREATE ROLE bare LOGIN")
    with Pooler(with_users, {"postgres": ""}, {}, auth_type="trust", auth_user=SUPERUSER) as pooler:
        assert outcome(pooler, user="bare", password=None) == "bare"
        assert '"trust" authentication failed' in outcome(pooler, user="nobody", password=None)
    with Pooler(with_users, {"postgres": ""}, {}, **SCRAM, auth_user=SUPERUSER) as pooler:
        assert "password authentication failed" in outcome(pooler, user="bare", password="x")


@pytest.mark.parametrize("limit", ["max_user_client_connections", "max_client_conn"])
def test_an_administrator_comes_to_the_console_when_it_is_full(server, limit):
    with Pooler(server, {"*": ""}, {SUPERUSER: "pw", "bob": "pw"}, **SCRAM, **{limit: 1}) as pooler:
        with Stranger(pooler.port) as client:
            assert client.prove("pw") is None
            with Stranger(pooler.port) as other:
                assert (other.outcome() if limit == "max_client_conn" else other.prove("pw"))[0] == "53300"
            assert "howdah" in pooler.psql("SHOW VERSION", "pgbouncer", password="pw")


def test_ignored_parameters_are_ignored_in_options_too(server):
    with Pooler(server, ignore_startup_parameters="no_such_parameter") as pooler:
        assert pooler.psql("SELECT 1", options="-c no_such_parameter=1 -c work_mem=1MB") == "1"
        assert pooler.psql("SHOW work_mem", options="-c no_such_parameter=1 -c work_mem=1MB") == "1MB"


@pytest.mark.parametrize("place", ["setting", "database"])
def test_the_console_cannot_be_asked_for_passwords(tmp_path, place):
    settings = ["auth_user = asker", *(["auth_dbname = pgbouncer"] if place == "setting" else [])]
    entry = "app = " + ("auth_dbname=pgbouncer" if place == "database" else "")
    path = tmp_path / "pgbouncer.ini"
    path.write_text("\n".join(["[databases]", entry, "[pgbouncer]", "listen_addr = 127.0.0.1", *settings]) + "\n")
    done = subprocess.run([PROGRAM, "check", path], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 1
    assert "auth_dbname = pgbouncer: this is the console" in done.stderr


def test_a_bad_option_costs_no_server_connection(server):
    """Neither a value that does not hold, nor what is no option at all."""
    with Pooler(server, default_pool_size=1) as pooler:
        backend = pooler.psql("SELECT pg_backend_pid()")
        done = pooler.psql("SELECT 1", check=False, options="-c work_mem=garbage")
        assert 'invalid value for parameter "work_mem": "garbage"' in done.stderr
        done = pooler.psql("SELECT 1", check=False, options="garbage")
        told = "only '-c config=val' and '--config=val' are allowed, not \"garbage\""
        assert f"FATAL:  unsupported options startup parameter: {told}" in done.stderr
        assert pooler.psql("SELECT pg_backend_pid()") == backend
