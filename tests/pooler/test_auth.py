"""Passwords: of clients to the pooler, of the pooler to servers."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import time

import pytest

from devkit import Problem
from devkit.server import SUPERUSER
from tests.pooler.process import PASSWORD, Pooler

EACH_VERSION = True


def stored(server, user):
    return server.psql(f"SELECT rolpassword FROM pg_authid WHERE rolname = '{user}'")


def by_tcp(server, **options):
    """An entry that leads to the server by TCP, where it asks for passwords."""
    more = " ".join(f"{key}={value}" for key, value in options.items())
    return {"*": f"host=127.0.0.1 {more}"}


@pytest.mark.parametrize(
    ("kept", "auth_type"),
    [("plain", "plain"), ("plain", "md5"), ("plain", "scram-sha-256"), ("secret", "md5"), ("secret", "scram-sha-256")],
)
def test_a_password_or_what_the_server_keeps_of_it_serves_clients_and_servers(with_users, kept, auth_type):
    user = "scram_user"
    users = {user: PASSWORD if kept == "plain" else stored(with_users, user)}
    with Pooler(with_users, by_tcp(with_users), users, auth_type=auth_type) as pooler:
        for _ in range(2):
            assert pooler.psql("SELECT user", user=user, password=PASSWORD) == user
        for other, password in ((user, "wrong"), ("nobody", PASSWORD)):
            done = pooler.psql("SELECT 1", user=other, password=password, check=False)
            assert f'password authentication failed for user "{other}"' in done.stderr


def test_an_md5_hash_serves_clients_by_md5_alone(with_users):
    users = {"md5_user": stored(with_users, "md5_user")}
    for auth_type, password, code in (("md5", PASSWORD, 0), ("md5", "wrong", 2), ("scram-sha-256", PASSWORD, 2)):
        with Pooler(with_users, users=users, auth_type=auth_type) as pooler:
            assert pooler.psql("SELECT 1", user="md5_user", password=password, check=False).returncode == code


def test_auth_query_finds_who_is_not_in_the_file(with_users):
    with Pooler(with_users, users={}, auth_type="md5", auth_user=SUPERUSER) as pooler:
        for user in ("scram_user", "md5_user"):
            assert pooler.psql("SELECT user", user=user, password=PASSWORD) == user
            assert pooler.psql("SELECT 1", user=user, password="wrong", check=False).returncode != 0
        assert pooler.psql("SELECT 1", user="no'body", password="x", check=False).returncode != 0


def test_trust_wants_a_known_user_and_any_wants_none(with_users):
    with Pooler(with_users, users={"scram_user": ""}, auth_type="trust") as pooler:
        assert pooler.psql("SELECT user", user="scram_user") == "scram_user"
        refused = pooler.psql("SELECT 1", user="md5_user", check=False).stderr
        assert 'FATAL:  "trust" authentication failed for user "md5_user"' in refused, "it was asked for no password"
    with Pooler(with_users, auth_type="any") as pooler:
        assert pooler.psql("SELECT user", user="md5_user") == "md5_user"


def test_a_wrong_password_for_the_server_is_told_to_the_client(with_users):
    with Pooler(with_users, by_tcp(with_users), {"scram_user": "wrong"}, auth_type="trust") as pooler:
        with pytest.raises(Problem, match='password authentication failed for user "scram_user"'):
            pooler.psql("SELECT 1", user="scram_user")


def test_a_failure_that_lasts_is_logged_once_and_so_is_its_end(with_users):
    with_users.psql("SET password_encryption = 'scram-sha-256'; CREATE ROLE late_user LOGIN PASSWORD 'before'")
    settings = {"auth_type": "trust", "server_login_retry": "0.1"}
    database = {"app": "dbname=postgres host=127.0.0.1"}
    with Pooler(with_users, database, {"late_user": "after"}, **settings) as pooler:
        for _ in range(5):
            assert pooler.psql("SELECT 1", "app", user="late_user", check=False).returncode != 0
            time.sleep(0.2)
        with_users.psql("SET password_encryption = 'scram-sha-256'; ALTER ROLE late_user PASSWORD 'after'")
        assert pooler.psql("SELECT 1", "app", user="late_user") == "1"
        lines = [line for line in pooler.log.read_text().splitlines() if "late_user: " in line or " on " in line]
        failed = [line for line in lines if "password authentication failed" in line]
        assert len(failed) == 1 and "WARNING app/late_user: " in failed[0], failed
        assert sum("LOG app/late_user: server connections can be made again" in line for line in lines) == 1, lines
    with_users.psql("DROP ROLE late_user")


def test_unknown_databases_and_limits_are_told(with_users):
    with Pooler(with_users, {"app": "dbname=postgres"}, max_client_conn=1) as pooler:
        assert "no such database: other" in pooler.psql("SELECT 1", "other", check=False).stderr
        with pooler.connect("app"):
            assert "max_client_conn" in pooler.psql("SELECT 1", "app", user="second", check=False).stderr
        assert pooler.psql("SELECT 1", "app") == "1"
