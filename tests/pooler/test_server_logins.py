"""How servers are logged in to, by the pools and by the monitor alike: over TLS, verified and bound as the settings say,
and never saying more than that to who only answers in a server's place.
"""

import contextlib

import pytest
from pg8000.exceptions import DatabaseError

from tests.pooler.process import PASSWORD, Pooler, ask, wait_until
from tests.pooler.raw import SSL_REQUEST, message
from tests.pooler.secured import CLEARTEXT, LET_IN, SCRAM, Impostor, startup_alone
from tests.pooler.test_tls_servers import Gate

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


def test_the_monitor_keeps_to_the_sslmode(tls_server, authority, stranger):
    right, wrong = ({"server_tls_ca_file": who.root} for who in (authority, stranger))
    good, bad = (who.issue("cert_user") for who in (authority, stranger))
    good, bad = ({"server_tls_cert_file": pair.cert, "server_tls_key_file": pair.key} for pair in (good, bad))
    for mode, user, host, files, wanted in [
        ("disable", "tls_user", "127.0.0.1", {}, "no encryption"),
        ("allow", "tls_user", "127.0.0.1", {}, ""),
        ("prefer", "plain_user", "127.0.0.1", {}, ""),
        ("require", "plain_user", "127.0.0.1", {}, "SSL encryption"),
        ("verify-ca", "tls_user", "127.0.0.1", wrong, "BadSignature"),
        ("verify-full", "tls_user", "localhost", right, ""),
        # The certificate is for localhost.
        ("verify-full", "tls_user", "127.0.0.1", right, "not valid for"),
        ("require", "cert_user", "127.0.0.1", good, ""),
        ("require", "cert_user", "127.0.0.1", bad, "UnknownCA"),
    ]:
        with cluster(tls_server, tls_server.port, user, host, server_tls_sslmode=mode, **files) as pooler:
            if wanted:
                wait_until(lambda wanted=wanted, pooler=pooler: wanted in replica(pooler)["error"])
                assert replica(pooler)["role"] in ("down", "unasked")
            else:
                wait_until(lambda pooler=pooler: replica(pooler)["role"] == "primary")


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
