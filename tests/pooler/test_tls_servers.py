"""TLS with servers: libpq's sslmodes, what they verify, what they fall back to; and logins to who is no server."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import socket
import subprocess

import pytest
from pg8000.exceptions import DatabaseError

from devkit.server import Server
from tests.pooler.certificates import Authority
from tests.pooler.interpose import Listener, pump
from tests.pooler.process import PASSWORD, Pooler, ask, wait_until
from tests.pooler.raw import SSL_REQUEST, Raw, code, message, query
from tests.pooler.secured import CLEARTEXT, LET_IN, SCRAM, Impostor, startup_alone, tls_settings, tree_with_tls

SECURED = "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"

BUSY = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ '^SELECT pg_sl'"


class Gate(Listener):
    """In front of a server: nothing but TLS passes."""

    def __init__(self, port):
        super().__init__()
        self.target, self.plain = port, 0

    def _begin(self, near):
        first = near.recv(8, socket.MSG_WAITALL)
        if first == SSL_REQUEST:
            far = socket.create_connection(("127.0.0.1", self.target))
            far.sendall(first)
            self._start(pump, far, near)
            pump(near, far)
        else:
            self.plain += 1
            near.close()

    def _end(self):
        """Those that are open end with the pooler."""


def by_tcp(host="127.0.0.1", **options):
    """An entry that leads to the server by TCP."""
    return {"*": " ".join([f"host={host}", "dbname=postgres", *(f"{key}={value}" for key, value in options.items())])}


def outcome(server, user, mode, host="127.0.0.1", password=None, **settings):
    """What a client gets of the server in this mode: how it is secured, or the error."""
    with Pooler(server, by_tcp(host), server_tls_sslmode=mode, **settings) as pooler:
        done = pooler.psql(SECURED, user=user, password=password, check=False)
        return done.stdout.strip() or done.stderr


def test_certificates_of_version_1_are_verified_as_by_libpq(authority, stranger, tmp_path):
    shown, apart = authority.issue("localhost", version=1), Authority(tmp_path, "Another authority")
    hba = "host all all 127.0.0.1/32 trust\nhost all all ::1/128 trust\nlocal all all trust\n"
    with tls_settings(authority, hba, shown) as settings, Server(tree_with_tls(), settings) as server:
        text = subprocess.run(["openssl", "x509", "-in", shown.cert, "-noout", "-text"], capture_output=True)
        assert b"Version: 1 (0x0)" in text.stdout
        ca = {"server_tls_ca_file": authority.root}
        assert outcome(server, "postgres", "verify-full", "localhost", **ca) == "t|TLSv1.3"
        assert "not valid for" in outcome(server, "postgres", "verify-full", **ca)
        # By its name the stranger could be the issuer; the other one could not.
        assert "BadSignature" in outcome(server, "postgres", "verify-ca", server_tls_ca_file=stranger.root)
        told = outcome(server, "postgres", "verify-ca", server_tls_ca_file=apart.root)
        assert "add that one, or issue the server a certificate of version 3" in told


def test_a_server_that_has_no_tls_is_told_from_one_that_has(server):
    with Pooler(server, {"*": f"host=127.0.0.1 password={server.password}"}, server_tls_sslmode="prefer") as pooler:
        assert pooler.psql("SELECT 1") == "1"
        assert "tls" in pooler.show("SERVERS")[0] and pooler.show("SERVERS")[0]["tls"] == ""
    with Pooler(server, by_tcp(), server_tls_sslmode="require") as pooler:
        assert "the server does not support TLS" in pooler.psql("SELECT 1", check=False).stderr


def test_a_unix_socket_needs_no_tls_in_any_mode(tls_server, authority):
    with Pooler(tls_server, server_tls_sslmode="verify-full", server_tls_ca_file=authority.root) as pooler:
        assert pooler.psql(SECURED) == "f|"


def test_scram_with_servers_is_bound_to_the_channel(tls_server, authority, certificate):
    secret = tls_server.psql("SELECT rolpassword FROM pg_authid WHERE rolname = 'scram_user'")
    shown = {"client_tls_sslmode": "allow", "client_tls_cert_file": certificate.cert}
    shown["client_tls_key_file"] = certificate.key
    for stored in (PASSWORD, secret):
        for binding in ("disable", "prefer", "require"):
            settings = {"users": {"scram_user": stored}, "auth_type": "scram-sha-256", **shown}
            settings["server_channel_binding"] = binding
            assert outcome(tls_server, "scram_user", "require", password=PASSWORD, **settings) == "t|TLSv1.3"
    with Pooler(tls_server, by_tcp(), server_channel_binding="require", server_tls_sslmode="require") as pooler:
        done = pooler.psql("SELECT 1", user="tls_user", check=False)
        assert "server_channel_binding = require" in done.stderr, "a login without SCRAM is no login"


def test_cancel_requests_go_to_servers_over_tls(tls_server, authority):
    """A server on whose port nothing but TLS passes: a cancel request in plain would not arrive."""
    with Gate(tls_server.port) as gate:
        entry = {"*": f"host=localhost port={gate.port} dbname=postgres user=tls_user"}
        settings = {"server_tls_sslmode": "verify-full", "server_tls_ca_file": authority.root}
        with Pooler(tls_server, entry, **settings) as pooler, Raw(pooler.port) as client:
            client.send(query("SELECT pg_sleep(60)"))
            wait_until(lambda: tls_server.psql(BUSY) == "1")
            client.cancel(pooler.port)
            assert code(client.until(b"E")[-1][1]) == "57014"
            client.until(b"Z")
            assert client.value("SELECT 1") == "1"
        assert gate.plain == 0


def test_other_settings_of_tls_reach_open_connections_by_reload(tls_server):
    with Pooler(tls_server, by_tcp(), server_tls_sslmode="disable") as pooler:
        with pooler.connect(user="both_user") as connection:
            assert ask(connection, SECURED)[0][0] is False
            pooler.reload(server_tls_sslmode="require")
            # Workers take it each in their own time.
            wait_until(lambda: ask(connection, SECURED)[0][0] is True)
            assert pooler.show("SERVERS")[0]["tls"].startswith("TLSv1.3/")


def test_settings_that_cannot_work_are_refused_at_the_start(tls_server, authority, tmp_path):
    pair, other = authority.issue("a"), authority.issue("b")
    empty = tmp_path / "empty"
    empty.touch()
    for settings, complaint in [
        ({"client_tls_sslmode": "require"}, "client_tls_cert_file and client_tls_key_file must be set"),
        ({"client_tls_sslmode": "sometimes"}, "expected disable, allow, prefer, require, verify-ca or verify-full"),
        ({"server_tls_sslmode": "verify-full"}, "server_tls_ca_file must be set"),
        ({"server_tls_sslmode": "verify-ca", "server_tls_ca_file": empty}, "has no certificate"),
        ({"server_tls_cert_file": pair.cert}, "go together"),
        ({"server_tls_cert_file": pair.cert, "server_tls_key_file": other.key}, "it is not the key of the certificate"),
        ({"server_tls_cert_file": pair.cert, "server_tls_key_file": empty}, "server_tls_key_file"),
        ({"auth_type": "cert"}, "client_tls_sslmode must be verify-ca or verify-full"),
        ({"auth_type": "hba", "auth_hba_file": "/nowhere"}, "auth_hba_file: cannot read /nowhere"),
    ]:
        with pytest.raises(Exception, match="did not start") as refusal:
            with Pooler(tls_server, **settings):
                pass
        assert complaint in str(refusal.value)


def test_pgbench_runs_over_tls_on_both_sides(tls_server, certificate):
    shown = {"client_tls_cert_file": certificate.cert, "client_tls_key_file": certificate.key}
    modes = {"client_tls_sslmode": "require", "server_tls_sslmode": "require"}
    # pgbench waits for one client's PQprepare with another's transaction open, so each must have its own server.
    with Pooler(tls_server, by_tcp(user="tls_user"), default_pool_size=10, **modes, **shown) as pooler:
        tls_server.run("pgbench", "-i", "-q", "-s", "1", "postgres")
        tls_server.psql("GRANT ALL ON ALL TABLES IN SCHEMA public TO tls_user")
        for mode in ("simple", "extended", "prepared"):
            done = pooler.pgbench("-M", mode, "-c", "10", "-t", "50", "-n", variables={"PGSSLMODE": "require"})
            assert "number of transactions actually processed: 500/500" in done.stdout
        assert pooler.show("SERVERS")[0]["tls"].startswith("TLSv1.3/")


# By the pools and by the monitor alike, which never say more than that to who only answers in a server's place


BOTH = pytest.mark.parametrize("who", ["the monitor", "a pool"])


def cluster(server, port, user="scram_user", host="localhost", **settings):
    """A pooler with the database `app` on a server at this port, whose users and monitor are one."""
    lines = "".join(f'{name} = "{value}"\n' for name, value in settings.items())
    text = f"""[pooler]
listen_port = @PORT@
unix_socket_dir = ""
auth_type = "any"
healthcheck_interval = 0.1
server_login_retry = 0.2
{lines}
[databases.app]
dbname = "postgres"
user = "{user}"
password = "{PASSWORD}"
servers = [{{ host = "{host}", port = {port} }}]
"""
    return Pooler(server, name="howdah.toml", text=text)


def replica(pooler):
    """What is known of the server."""
    return pooler.show("REPLICAS")[0]


def strict(authority, **more):
    """The settings that let nobody stand between."""
    return {"server_tls_sslmode": "verify-full", "server_tls_ca_file": authority.root, **more}


def test_a_cluster_that_takes_nothing_but_tls_works(tls_server, authority):
    settings = strict(authority, server_channel_binding="require")
    with Gate(tls_server.port) as gate, cluster(tls_server, gate.port, **settings) as pooler:
        wait_until(lambda: replica(pooler)["role"] == "primary")
        assert pooler.psql("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", "app") == "t"
        assert gate.plain == 0


def test_modes_reach_servers_as_libpq_would(tls_server, authority, stranger):
    tls, plain, here = "t|TLSv1.3", "f|", "127.0.0.1"
    right, wrong = ({"server_tls_ca_file": who.root} for who in (authority, stranger))
    good, bad = (who.issue("cert_user") for who in (authority, stranger))
    good, bad = ({"server_tls_cert_file": pair.cert, "server_tls_key_file": pair.key} for pair in (good, bad))
    for mode, user, host, files, wanted in [
        ("disable", "both_user", here, {}, plain),
        ("allow", "both_user", here, {}, plain),
        ("prefer", "both_user", here, {}, tls),
        ("require", "both_user", here, {}, tls),
        # pg_hba.conf lets them in only so, and the modes that may try both ways find it.
        ("disable", "tls_user", here, {}, "no encryption"),
        ("allow", "tls_user", here, {}, tls),
        ("prefer", "plain_user", here, {}, plain),
        ("require", "plain_user", here, {}, "SSL encryption"),
        ("require", "tls_user", here, wrong, tls),
        ("verify-ca", "tls_user", here, right, tls),
        # By its name the stranger could be the issuer.
        ("verify-ca", "tls_user", here, wrong, "BadSignature"),
        # The certificate is for localhost, by its common name alone.
        ("verify-full", "tls_user", "localhost", right, tls),
        ("verify-full", "tls_user", here, right, "not valid for"),
        ("require", "cert_user", here, good, tls),
        ("require", "cert_user", here, bad, "UnknownCA"),
        ("require", "cert_user", here, {}, "certificate"),
    ]:
        with cluster(tls_server, tls_server.port, user, host, server_tls_sslmode=mode, **files) as pooler:
            if wanted in (tls, plain):
                wait_until(lambda pooler=pooler: replica(pooler)["role"] == "primary")
                assert pooler.psql(SECURED, "app") == wanted, (mode, user)
            else:
                wait_until(lambda wanted=wanted, pooler=pooler: wanted in replica(pooler)["error"])
                assert replica(pooler)["role"] in ("down", "unasked")


@pytest.mark.parametrize(("answer", "mode"), [(None, "disable"), (b"N", "prefer")])
def test_a_login_that_takes_too_long_is_given_up(answer, mode):
    """The server takes the connection and says nothing more."""
    limits = {"server_connect_timeout": 0.3, "healthcheck_timeout": 60}
    with (
        Impostor(answer) as silent,
        cluster(None, silent.port, host="127.0.0.1", server_tls_sslmode=mode, **limits) as pooler,
    ):
        wait_until(lambda: "server_connect_timeout" in pooler.log.read_text())


@contextlib.contextmanager
def meets(who, server, impostor, authority, **more):
    """A pooler that speaks to the impostor twice, as its monitor or as a pool does."""
    settings = strict(authority) | more
    if who == "the monitor":
        made = cluster(server, impostor.port, **settings)
    else:
        entry = f"host=localhost port={impostor.port} dbname=postgres user=scram_user password='{PASSWORD}'"
        made = Pooler(server, {"app": entry}, server_login_retry="0.1", min_pool_size=1, **settings)
    with made as pooler:
        if who == "a pool":
            pooler.psql("SELECT 1", "app", check=False)
        wait_until(lambda: impostor.count >= 2)
        yield pooler


HOSTILE = {
    "no TLS": (b"N", CLEARTEXT),
    "no answer but a question for the password": (None, CLEARTEXT),
    "bytes behind the answer": (b"S" + CLEARTEXT, b""),
    "a certificate of nobody": (b"S", CLEARTEXT),
}


@pytest.mark.parametrize("how", HOSTILE)
@BOTH
def test_who_answers_in_a_servers_place_is_told_nothing(how, who, tls_server, authority, stranger):
    answer, says = HOSTILE[how]
    with Impostor(answer, says, stranger.issue("localhost")) as impostor, meets(who, tls_server, impostor, authority):
        pass
    for clear, sealed in impostor.told:
        assert SSL_REQUEST.startswith(clear), "the question alone"
        assert sealed == b""


@pytest.mark.parametrize("says", [CLEARTEXT, SCRAM], ids=["cleartext", "scram"])
@BOTH
def test_who_decrypts_in_between_is_told_no_password_where_scram_must_be_bound(who, says, tls_server, authority):
    """The certificate is of a trusted authority, and still not the server's: its SCRAM cannot be passed on."""
    settings = {"server_tls_sslmode": "require", "server_channel_binding": "require"}
    with (
        Impostor(b"S", says, authority.issue("localhost")) as impostor,
        meets(who, tls_server, impostor, authority, **settings) as pooler,
    ):
        wait_until(lambda: "server_channel_binding = require" in pooler.log.read_text())
    for clear, sealed in impostor.told:
        assert SSL_REQUEST.startswith(clear)
        assert sealed == b"" or startup_alone(sealed), "no answer to what was asked"


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (SCRAM + LET_IN, "without proving"),
        (message(b"Z", b"I"), "out of turn"),
        (message(b"S", b"a\0b\0"), "out of turn"),
    ],
)
@BOTH
def test_a_server_that_lets_in_without_the_proof_that_it_began_is_refused(who, says, why, tls_server, authority):
    with (
        Impostor(None, says) as impostor,
        meets(who, tls_server, impostor, authority, server_tls_sslmode="disable") as pooler,
    ):
        wait_until(lambda: why in pooler.log.read_text())


def test_a_password_found_in_one_database_does_not_take_the_place_of_anothers(tls_server):
    """Two tenants, on one worker, each with a user of the same name."""
    databases = {
        name: f"host=127.0.0.1 dbname=postgres auth_query='SELECT $1::text, ''{password}'''"
        for name, password in (("a", PASSWORD), ("b", "another"))
    }
    settings = {"auth_type": "scram-sha-256", "auth_user": "asker", "workers": 1, "server_login_retry": "0.1"}
    with (
        Pooler(tls_server, databases, {"asker": PASSWORD}, **settings) as pooler,
        pooler.connect("a", "scram_user", PASSWORD) as connection,
    ):
        before = ask(connection, "SELECT pg_backend_pid()")[0][0]
        # The other tenant's user is let in by the pooler, and not by this server.
        refused = pooler.psql("SELECT 1", "b", "scram_user", "another", check=False).stderr
        assert "cannot connect to the server: password authentication failed" in refused
        assert tls_server.psql(f"SELECT pg_terminate_backend({before})") == "t"
        wait_until(lambda: is_served(connection))


def is_served(connection):
    """Whether the client is served, as the user that it is."""
    with contextlib.suppress(DatabaseError):
        return ask(connection, "SELECT current_user") == [("scram_user",)]
    return False
