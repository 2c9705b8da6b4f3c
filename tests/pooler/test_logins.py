"""Every way to log in, from end to end: libpq to the pooler, the pooler to a server that asks for it by TCP.

Exchanges of passwords by themselves are in `test_auth`, what belongs to TLS in `test_tls_clients` and
`test_tls_servers`; here is what becomes of them together.
"""

import shutil
import subprocess

import pytest

from devkit.server import SUPERUSER, environment
from tests.pooler.process import PASSWORD, Pooler, wait_until

BY_TCP = {"*": "host=127.0.0.1 dbname=postgres"}
SECURED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


def stored(server, user):
    """What pg_authid has for a role."""
    return server.psql(f"SELECT rolpassword FROM pg_authid WHERE rolname = '{user}'")


def shown(pair, sslmode="allow", **more):
    """The settings for TLS with clients."""
    return {"client_tls_sslmode": sslmode, "client_tls_cert_file": pair.cert, "client_tls_key_file": pair.key, **more}


def outcome(pooler, user, password=PASSWORD, **parameters):
    """The user as the server sees it, or the complaint."""
    done = pooler.psql("SELECT current_user", user=user, password=password, check=False, **parameters)
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize("kept", ["plain", "hash"])
def test_servers_that_ask_for_md5_and_for_passwords_are_answered(tls_server, kept):
    users = {"md5_user": PASSWORD if kept == "plain" else stored(tls_server, "md5_user"), "word_user": PASSWORD}
    with Pooler(tls_server, BY_TCP, users, auth_type="md5") as pooler:
        assert outcome(pooler, "md5_user") == "md5_user"
        assert "password authentication failed" in outcome(pooler, "md5_user", "wrong")
        assert outcome(pooler, "word_user") == "word_user"
    users["word_user"] = stored(tls_server, "word_user")
    with Pooler(tls_server, BY_TCP, users, auth_type="scram-sha-256") as pooler:
        assert "no password is known" in outcome(pooler, "word_user"), "a secret is not a password"


@pytest.mark.parametrize("sslmode", ["disable", "require"])
def test_auth_query_finds_secrets_that_serve_clients_and_servers(tls_server, certificate, sslmode):
    """The pooler knows one user's password alone; all others log in on both sides by their own keys."""
    settings = {"auth_type": "scram-sha-256", "auth_user": "asker", "server_tls_sslmode": "prefer"}
    with Pooler(tls_server, BY_TCP, {"asker": PASSWORD}, **settings, **shown(certificate)) as pooler:
        for _ in range(2):
            assert outcome(pooler, "scram_user", sslmode=sslmode) == "scram_user"
        assert "password authentication failed" in outcome(pooler, "scram_user", "wrong", sslmode=sslmode)
        assert "password authentication failed" in outcome(pooler, "nobody", sslmode=sslmode)
        assert outcome(pooler, "asker", sslmode=sslmode) == "asker"
        if sslmode == "require":
            bound = {"sslmode": sslmode, "channel_binding": "require"}
            assert outcome(pooler, "scram_user", **bound) == "scram_user"
        assert pooler.psql(SECURED, user="scram_user", password=PASSWORD, sslmode=sslmode) == "t"


def test_auth_query_may_have_a_database_and_a_text_of_its_own(tls_server):
    tls_server.psql(
        """CREATE DATABASE secrets;
        CREATE FUNCTION pooler_lookup(INOUT name text, OUT secret text) SECURITY DEFINER LANGUAGE sql AS
        'SELECT rolname::text, rolpassword::text FROM pg_catalog.pg_authid WHERE rolname = name AND rolcanlogin'"""
    )
    settings = {"auth_type": "scram-sha-256", "auth_user": "asker", "auth_dbname": "secrets_here"}
    settings["auth_query"] = "SELECT name, secret FROM pooler_lookup($1)"
    databases = {"app": "host=127.0.0.1 dbname=secrets", "secrets_here": "host=127.0.0.1 dbname=postgres"}
    settings["server_tls_sslmode"] = "require"
    with Pooler(tls_server, databases, {"asker": PASSWORD}, **settings) as pooler:
        done = pooler.psql("SELECT current_user, current_database()", "app", user="scram_user", password=PASSWORD)
        assert done == "scram_user|secrets"
    settings["auth_query"] = "SELECT no_such_column"
    with Pooler(tls_server, databases, {"asker": PASSWORD}, **settings) as pooler:
        done = pooler.psql("SELECT 1", "app", user="scram_user", password=PASSWORD, check=False)
        assert done.returncode != 0
        assert pooler.process.poll() is None


def test_a_hostile_user_name_says_nothing_to_auth_query(tls_server):
    """The name goes as a parameter, and a search_path from the startup packet does not reach the lookup."""
    settings = {"auth_type": "scram-sha-256", "auth_user": "asker", "server_tls_sslmode": "require"}
    tls_server.psql(
        """CREATE SCHEMA trap;
        CREATE VIEW trap.pg_shadow AS SELECT 'intruder'::name AS usename, ''::text AS passwd;
        GRANT USAGE ON SCHEMA trap TO public; GRANT SELECT ON trap.pg_shadow TO public"""
    )
    with Pooler(tls_server, BY_TCP, {"asker": PASSWORD}, **settings) as pooler:
        trapped = {"options": "-csearch_path=trap,pg_catalog"}
        for name in ["x' OR true --", "intruder", "scram_user'; DROP ROLE both_user; --"]:
            done = pooler.psql("SELECT 1", user=name, password="", check=False, **trapped)
            assert "password" in done.stderr
        shown_path = pooler.psql("SHOW search_path", user="scram_user", password=PASSWORD, **trapped)
        assert shown_path == "trap, pg_catalog"
        assert tls_server.psql("SELECT count(*) FROM pg_roles WHERE rolname = 'both_user'") == "1"
        assert outcome(pooler, "scram_user") == "scram_user"


def test_the_poolers_own_certificate_is_read_again_on_reload(tls_server, authority, stranger, tmp_path):
    here = tmp_path / "own.crt", tmp_path / "own.key"

    def use(pair):
        shutil.copy(pair.cert, here[0])
        shutil.copy(pair.key, here[1])

    use(stranger.issue("cert_user"))
    files = {"server_tls_cert_file": here[0], "server_tls_key_file": here[1], "server_tls_sslmode": "require"}
    with Pooler(tls_server, BY_TCP, **files) as pooler:
        assert "cert_user" not in outcome(pooler, "cert_user", None).splitlines()
        use(authority.issue("cert_user"))
        pooler.reload()
        # A server that has just failed is left alone for server_login_retry.
        wait_until(lambda: outcome(pooler, "cert_user", None) == "cert_user")


def test_psql_cancels_over_tls(tls_server, certificate):
    with Pooler(tls_server, BY_TCP, server_tls_sslmode="require", **shown(certificate)) as pooler:
        assert interrupted(pooler, tls_server, host="127.0.0.1", sslmode="require")


def interrupted(pooler, server, **place):
    """Whether a psql that gets a SIGINT ends its statement, and the next one finds nothing amiss."""
    command = [server.tree.program("psql"), "--no-psqlrc", "-qAt", "-d"]
    words = {"port": pooler.port, "user": "both_user"} | place
    command.append(" ".join(f"{name}='{value}'" for name, value in {"dbname": "postgres", **words}.items()))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment(), **pipes) as psql:
        psql.stdin.write("SELECT 'interrupt', pg_sleep(30);\n")
        psql.stdin.flush()
        busy = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ '^SELECT .interrupt'"
        wait_until(lambda: server.psql(busy) == "1")
        psql.send_signal(2)
        error = psql.communicate(timeout=20)[1]
    return "canceling statement due to user request" in error and pooler.psql("SELECT 1", **words) == "1"


@pytest.mark.parametrize("version", ["3.0", "latest"])
def test_libpq_18_negotiates_and_cancels(server, version):
    """Its cancel request carries the longer key of 3.2."""
    versions = {"min_protocol_version": "3.0", "max_protocol_version": version} if server.tree.major >= 18 else {}
    with Pooler(server) as pooler:
        assert interrupted(pooler, server, host="127.0.0.1", user=SUPERUSER, **versions)
