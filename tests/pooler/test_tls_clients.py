"""TLS with clients: who gets it, who must have it, what of it is refused."""

import os
import pwd
import shutil
import signal
import ssl
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from devkit.server import SUPERUSER, environment
from tests.pooler.process import PASSWORD, Pooler, wait_until
from tests.pooler.raw import Raw, code, message, startup


def tls(pair, sslmode="require", **more):
    """The settings for TLS with clients."""
    return {"client_tls_sslmode": sslmode, "client_tls_cert_file": pair.cert, "client_tls_key_file": pair.key, **more}


def trusting(authority, *protocols):
    """A client's context that verifies in full."""
    context = ssl.create_default_context(cafile=authority.root)
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


@pytest.fixture(scope="module")
def secured(tls_server, certificate):
    """A pooler that speaks to nobody without TLS."""
    with Pooler(tls_server, **tls(certificate)) as running:
        yield running


def test_psql_verifies_in_full_and_the_console_shows_tls(secured, authority):
    done = secured.psql("\\conninfo", sslmode="verify-full", sslrootcert=authority.root)
    assert "SSL connection (protocol: TLSv1.3" in done
    with Raw(secured.port, context=trusting(authority)) as client:
        assert client.value("SELECT 42") == "42"
        shown = [row["tls"] for row in secured.show("CLIENTS") if row["database"] == "postgres"]
        assert shown == ["TLSv1.3/TLS_AES_256_GCM_SHA384"]


def test_modes_decide_who_must_speak_tls(tls_server, certificate):
    for mode, plain_passes in [("allow", True), ("prefer", True), ("require", False)]:
        with Pooler(tls_server, **tls(certificate, mode)) as pooler:
            assert pooler.psql("SELECT 1", sslmode="require") == "1"
            done = pooler.psql("SELECT 1", sslmode="disable", check=False)
            assert (done.returncode == 0) == plain_passes
            assert plain_passes or "SSL required" in done.stderr
            # There is no TLS on Unix sockets, and none is asked for.
            assert pooler.psql("SELECT 1", host=pooler.folder, sslmode="prefer") == "1"
    with Pooler(tls_server) as pooler:
        assert pooler.psql("SELECT 1", sslmode="prefer") == "1"
        assert "does not support SSL" in pooler.psql("SELECT 1", sslmode="require", check=False).stderr


def test_a_client_certificate_proves_who_one_is(tls_server, authority, stranger, certificate):
    users = {"cert_user": "", "scram_user": ""}
    settings = tls(certificate, "verify-full", client_tls_ca_file=authority.root, auth_type="cert")
    good, other = authority.issue("cert_user"), stranger.issue("cert_user")
    old = authority.issue("cert_user", begin="20200101000000Z", end="20210101000000Z")
    with Pooler(tls_server, users=users, **settings) as pooler:

        def try_as(user, pair):
            more = {"sslcert": pair.cert, "sslkey": pair.key} if pair else {"sslcert": "/nowhere", "sslkey": "/nowhere"}
            return pooler.psql("SELECT user", user=user, check=False, sslmode="require", **more)

        assert try_as("cert_user", good).stdout.strip() == "cert_user"
        assert "certificate authentication failed" in try_as("scram_user", good).stderr
        for pair in (other, old, None):
            assert try_as("cert_user", pair).returncode != 0
        assert try_as("cert_user", good).returncode == 0


@pytest.mark.parametrize("stored", ["plain", "secret"])
def test_scram_is_bound_to_the_channel(tls_server, certificate, stored):
    secret = tls_server.psql("SELECT rolpassword FROM pg_authid WHERE rolname = 'scram_user'")
    users = {"scram_user": PASSWORD if stored == "plain" else secret}
    settings = tls(certificate, "allow", auth_type="scram-sha-256")
    with Pooler(tls_server, users=users, **settings) as pooler:
        login = {"user": "scram_user", "password": PASSWORD}
        assert pooler.psql("SELECT user", sslmode="require", channel_binding="require", **login) == "scram_user"
        assert pooler.psql("SELECT user", sslmode="require", channel_binding="disable", **login) == "scram_user"
        done = pooler.psql("SELECT 1", sslmode="disable", channel_binding="require", check=False, **login)
        assert done.returncode != 0
        login["password"] = "wrong"
        done = pooler.psql("SELECT 1", sslmode="require", channel_binding="require", check=False, **login)
        assert "password authentication failed" in done.stderr


def test_a_client_that_was_not_told_of_channel_binding_has_been_lied_to(tls_server, authority, certificate):
    settings = tls(certificate, auth_type="scram-sha-256")
    with Pooler(tls_server, users={"scram_user": PASSWORD}, **settings) as pooler:
        for first in [b"y,,n=,r=abc", b"p=tls-unique,,n=,r=abc", b"p=tls-server-end-point,,n=,r=abc"]:
            with Raw(pooler.port, login=False, context=trusting(authority)) as client:
                client.send(startup("postgres", "scram_user"))
                assert client.next() == (b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0")
                client.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
                assert code(client.until(b"E")[-1][1]) == "08P01"


def test_libpq_hears_that_its_cancel_requests_were_received(tls_server, secured):
    # Since version 17 it waits for the end of TLS, as psycopg asks it to; psql does likewise.
    assert psycopg.pq.version() >= 170000
    sleeps = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(31)'"
    place = f"host=127.0.0.1 port={secured.port} user=both_user dbname=postgres sslmode=require"
    with psycopg.connect(place, autocommit=True) as client, ThreadPoolExecutor(1) as beside:

        def cancel():
            wait_until(lambda: tls_server.psql(sleeps) == "1")
            client.cancel_safe(timeout=10)

        asked = beside.submit(cancel)
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute("SELECT pg_sleep(31)")
        asked.result()


def test_certificates_are_read_again_on_reload(tls_server, authority, tmp_path):
    here = tmp_path / "pooler.crt", tmp_path / "pooler.key"

    def show(name):
        pair = authority.issue(name, "IP:127.0.0.1")
        shutil.copy(pair.cert, here[0])
        shutil.copy(pair.key, here[1])

    def serial():
        with Raw(pooler.port, context=trusting(authority)) as client:
            return client.socket.getpeercert()["serialNumber"]

    show("one")
    files = {"client_tls_cert_file": here[0], "client_tls_key_file": here[1]}
    with Pooler(tls_server, client_tls_sslmode="require", **files) as pooler:
        first = serial()
        with Raw(pooler.port, context=trusting(authority)) as stays:
            show("two")
            assert serial() == first, "not before it is told to"
            pooler.reload()
            second = serial()
            assert second != first
            assert stays.value("SELECT 1") == "1"
        here[0].write_text("nonsense")
        assert "client_tls_cert_file" in pooler.psql("RELOAD", "pgbouncer", check=False, sslmode="require").stderr
        assert serial() == second, "a broken file leaves the old one in force"


def test_direct_tls_names_the_protocol(tls_server, secured, authority):
    with Raw(secured.port, context=trusting(authority, "postgresql"), direct=True) as client:
        assert client.socket.selected_alpn_protocol() == "postgresql"
        assert client.value("SELECT 3") == "3"
    with Raw(secured.port, context=trusting(authority), direct=True, login=False) as client:
        client.send(startup("postgres"))
        assert b"ALPN" in client.until(b"E")[-1][1]
    with pytest.raises(ssl.SSLError, match="no application protocol"):
        Raw(secured.port, context=trusting(authority, "http/1.1"), direct=True)
    with Pooler(tls_server) as pooler, pytest.raises((ssl.SSLError, ConnectionError)):
        Raw(pooler.port, context=trusting(authority, "postgresql"), direct=True)


def test_rows_and_copies_of_any_size_pass(tls_server, secured):
    sql = "SELECT repeat(chr(65 + i % 26), i * 37 % 40000) FROM generate_series(1, 1500) i"
    rows = tls_server.psql(sql)
    assert secured.psql(sql, sslmode="require") == rows
    into = f"CREATE TEMP TABLE t (x text); COPY t FROM STDIN;\n{rows}\n\\.\nSELECT md5(string_agg(x, '')) FROM t;"
    assert secured.psql(into, sslmode="require") == tls_server.psql(into)


def test_versions_and_ciphers_are_as_configured(tls_server, certificate):
    settings = {"client_tls_protocols": "tlsv1.2", "client_tls_ciphers": "ECDHE-ECDSA-AES128-GCM-SHA256"}
    with Pooler(tls_server, **tls(certificate), **settings) as pooler:
        done = pooler.psql("\\conninfo", sslmode="require")
        assert "protocol: TLSv1.2, cipher: ECDHE-ECDSA-AES128-GCM-SHA256" in done
        assert (
            pooler.psql("SELECT 1", sslmode="require", ssl_min_protocol_version="TLSv1.3", check=False).returncode != 0
        )


def test_an_hba_file_says_who_comes_in_and_how(tls_server, authority, certificate, tmp_path):
    hba = tmp_path / "hba"
    hba.write_text(
        """local all all trust
        host all plain_user all reject
        hostssl postgres cert_user 127.0.0.0/8 cert
        hostssl all scram_user 127.0.0.1/32 scram-sha-256
        hostnossl all tls_user all password
        """
    )
    users = dict.fromkeys(["plain_user", "cert_user", "scram_user", "tls_user"], PASSWORD)
    more = {"auth_type": "hba", "auth_hba_file": hba, "client_tls_ca_file": authority.root}
    shown = authority.issue("cert_user")
    with Pooler(tls_server, users=users, **tls(certificate, "allow"), **more) as pooler:

        def outcome(user, sslmode, password=PASSWORD, **parameters):
            parameters = {"sslcert": "/nowhere", "sslkey": "/nowhere"} | parameters
            done = pooler.psql("SELECT 1", user=user, password=password, sslmode=sslmode, check=False, **parameters)
            return done.stdout.strip() or done.stderr

        assert "no line of the HBA file" in outcome("plain_user", "require")
        assert outcome("plain_user", "disable", host=pooler.folder) == "1"
        assert outcome("scram_user", "require") == "1"
        assert "no line of the HBA file" in outcome("scram_user", "disable")
        assert "password authentication failed" in outcome("scram_user", "require", "wrong")
        assert outcome("tls_user", "disable") == "1"
        assert "no line of the HBA file" in outcome("tls_user", "require")
        assert outcome("cert_user", "require", sslcert=shown.cert, sslkey=shown.key) == "1"
        assert "certificate authentication failed" in outcome("cert_user", "require")
        hba.write_text("host all plain_user all trust\n")
        pooler.reload()
        assert outcome("plain_user", "require") == "1"
        assert "no line of the HBA file" in outcome("scram_user", "require")


def test_a_map_of_names_says_who_may_come_in_as_whom(tls_server, authority, certificate, tmp_path):
    """By the account behind a Unix socket, and by the name in a certificate."""
    account = pwd.getpwuid(os.getuid()).pw_name
    hba, ident = tmp_path / "hba", tmp_path / "ident"
    hba.write_text("local postgres all peer map=people\nhostssl all all all cert map=certified\n")
    ident.write_text(f'people {account} plain_user\npeople somebody all\ncertified "the robot" all\n')
    users = dict.fromkeys(["plain_user", "scram_user"], PASSWORD)
    more = {"auth_type": "hba", "auth_hba_file": hba, "auth_ident_file": ident, "client_tls_ca_file": authority.root}
    shown = authority.issue("the robot")
    with Pooler(tls_server, users=users, **tls(certificate, "allow"), **more) as pooler:

        def outcome(user, **parameters):
            done = pooler.psql("SELECT current_user", user=user, check=False, **parameters)
            return done.stdout.strip() or done.stderr

        assert outcome("plain_user", host=pooler.folder) == "plain_user"
        assert 'peer authentication failed for user "scram_user"' in outcome("scram_user", host=pooler.folder)
        by_certificate = {"sslmode": "require", "sslcert": shown.cert, "sslkey": shown.key}
        assert outcome("plain_user", **by_certificate) == "plain_user"
        # Without a map both names are the same.
        hba.write_text("local all all peer\n")
        pooler.reload()
        assert "peer authentication failed" in outcome("plain_user", host=pooler.folder)
        # A map that is not there keeps the file from being taken over.
        hba.write_text("local all all peer map=nowhere\n")
        pooler.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "map=nowhere: there is no such map in auth_ident_file" in pooler.log.read_text())


# Logins from end to end: libpq to the pooler, the pooler to a server that asks for it by TCP


BY_TCP = {"*": "host=127.0.0.1 dbname=postgres"}
SECURED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


def stored(server, user):
    """What pg_authid has for a role."""
    return server.psql(f"SELECT rolpassword FROM pg_authid WHERE rolname = '{user}'")


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
    with Pooler(tls_server, BY_TCP, {"asker": PASSWORD}, **settings, **tls(certificate, "allow")) as pooler:
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
    with Pooler(tls_server, BY_TCP, server_tls_sslmode="require", **tls(certificate, "allow")) as pooler:
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
