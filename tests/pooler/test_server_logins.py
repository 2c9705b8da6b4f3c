"""How servers are logged in to, by the pools and by the monitor alike: over TLS, verified and bound as the settings say,
and never saying more than that to who only answers in a server's place.
"""

import contextlib

import pytest
from pg8000.exceptions import DatabaseError

from devkit.server import Server
from tests.pooler.process import PASSWORD, Pooler, ask, wait_until
from tests.pooler.raw import SSL_REQUEST, message
from tests.pooler.secured import (
    CLEARTEXT,
    LET_IN,
    SCRAM,
    Impostor,
    startup_alone,
    tls_settings,
    tree_with_tls,
)
from tests.pooler.test_tls_servers import Gate

# Nobody comes in by TCP without TLS, and everybody in another way.
HBA = """
local all all trust
local replication all trust
hostssl all scram_user 127.0.0.1/32 scram-sha-256
hostssl all cert_user 127.0.0.1/32 cert
hostssl all tls_user 127.0.0.1/32 trust
hostnossl all plain_user 127.0.0.1/32 trust
"""
ASKING = "application_name = 'howdah monitor'"
SECURED = (
    f"SELECT string_agg(DISTINCT ssl::text, ',') FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE {ASKING}"
)


@pytest.fixture(scope="module")
def two(authority):
    """A primary and a replica that let nobody in by TCP but over TLS."""
    with (
        tls_settings(authority, HBA) as settings,
        Server(tree_with_tls(), settings) as primary,
        primary.replica() as replica,
    ):
        primary.psql(
            f"""CREATE ROLE scram_user LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE cert_user LOGIN;
            CREATE ROLE tls_user LOGIN; CREATE ROLE plain_user LOGIN"""
        )
        primary.wait_for_replay(replica)
        yield [primary, replica]


def cluster(places, user="scram_user", host="localhost", **settings):
    """A howdah.toml with the database `app` on servers at these ports, whose users and monitor are one."""
    lines = "".join(f'{name} = "{value}"\n' for name, value in settings.items())
    servers = ", ".join(f'{{ host = "{host}", port = {port} }}' for port in places)
    return f"""[pooler]
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
servers = [{servers}]
"""


@contextlib.contextmanager
def running(server, text):
    """A pooler with this howdah.toml."""
    with Pooler(server, name="howdah.toml", text=text) as pooler:
        yield pooler


def roles(pooler):
    """What the servers are taken for."""
    return sorted(row["role"] for row in pooler.show("REPLICAS"))


def complaint(pooler):
    """Why the first server cannot be asked."""
    return pooler.show("REPLICAS")[0]["error"]


def strict(authority, **more):
    """The settings that let nobody stand between."""
    return {"server_tls_sslmode": "verify-full", "server_tls_ca_file": authority.root, **more}


def test_a_cluster_that_takes_nothing_but_tls_works(two, authority):
    with contextlib.ExitStack() as stack:
        gates = [stack.enter_context(Gate(server.port)) for server in two]
        text = cluster([gate.port for gate in gates], **strict(authority, server_channel_binding="require"))
        pooler = stack.enter_context(running(two[0], text))
        wait_until(lambda: roles(pooler) == ["primary", "replica"])
        assert [server.psql(SECURED) for server in two] == ["true", "true"], "the monitor's own connections"
        with pooler.connect("app") as connection:
            cursor = connection.cursor()
            cursor.execute("CREATE TEMP TABLE t (n int)")
            cursor.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
            assert cursor.fetchone()[0] is True
        assert [gate.plain for gate in gates] == [0, 0]


def test_the_monitor_keeps_to_the_sslmode(two, authority, stranger):
    known, ports = ["primary", "replica"], [server.port for server in two]
    for mode, user, host, root, wanted in [
        ("disable", "tls_user", "127.0.0.1", None, "no encryption"),
        ("allow", "tls_user", "127.0.0.1", None, known),
        ("prefer", "plain_user", "127.0.0.1", None, known),
        ("require", "plain_user", "127.0.0.1", None, "SSL encryption"),
        ("verify-ca", "tls_user", "127.0.0.1", stranger.root, "BadSignature"),
        ("verify-full", "tls_user", "localhost", authority.root, known),
        # The certificate is for localhost.
        ("verify-full", "tls_user", "127.0.0.1", authority.root, "not valid for"),
    ]:
        files = {"server_tls_ca_file": root} if root else {}
        with running(two[0], cluster(ports, user, host, server_tls_sslmode=mode, **files)) as pooler:
            if wanted == known:
                wait_until(lambda: roles(pooler) == known)
            else:
                wait_until(lambda wanted=wanted: wanted in complaint(pooler))
                # The other server is "unknown" until it was asked, too.
                wait_until(lambda: set(roles(pooler)) <= {"down", "unasked"})


def test_the_monitor_shows_the_poolers_certificate(two, authority, stranger):
    for who, passes in [(authority, True), (stranger, False)]:
        pair = who.issue("cert_user")
        files = {"server_tls_cert_file": pair.cert, "server_tls_key_file": pair.key}
        text = cluster([server.port for server in two], "cert_user", **strict(authority, **files))
        with running(two[0], text) as pooler:
            wait_until(lambda wanted="primary" if passes else "down": wanted in roles(pooler))


def test_a_login_that_takes_too_long_is_given_up():
    """The server takes the connection and says nothing more."""
    for answer, says in [(None, b""), (b"N", b"")]:
        with Impostor(answer, says) as silent:
            mode = "prefer" if answer else "disable"
            text = cluster([silent.port], host="127.0.0.1", server_tls_sslmode=mode)
            text = text.replace("[databases", "server_connect_timeout = 0.3\nhealthcheck_timeout = 60\n[databases")
            with running(None, text) as pooler:
                wait_until(lambda pooler=pooler: "server_connect_timeout" in pooler.log.read_text())


HOSTILE = {
    "no TLS": (b"N", CLEARTEXT),
    "no answer but a question for the password": (None, CLEARTEXT),
    "bytes behind the answer": (b"S" + CLEARTEXT, b""),
    "a certificate of nobody": (b"S", CLEARTEXT),
}


@pytest.mark.parametrize("how", HOSTILE)
@pytest.mark.parametrize("who", ["the monitor", "a pool"])
def test_who_answers_in_a_servers_place_is_told_nothing(how, who, tls_server, authority, stranger):
    answer, says = HOSTILE[how]
    with (
        Impostor(answer, says, stranger.issue("localhost")) as impostor,
        stack_of(who, tls_server, impostor, authority),
    ):
        wait_until(lambda: impostor.count >= 2)
    for clear, sealed in impostor.told:
        assert SSL_REQUEST.startswith(clear), "the question alone"
        assert sealed == b""


@contextlib.contextmanager
def stack_of(who, server, impostor, authority, **more):
    """A pooler that speaks to the impostor, as its monitor or as a pool does."""
    settings = strict(authority) | more
    if who == "the monitor":
        with running(server, cluster([impostor.port], **settings)) as pooler:
            yield pooler
    else:
        entry = f"host=localhost port={impostor.port} dbname=postgres user=scram_user password='{PASSWORD}'"
        settings |= {"server_login_retry": "0.1", "min_pool_size": 1}
        with Pooler(server, {"app": entry}, **settings) as pooler:
            pooler.psql("SELECT 1", "app", check=False)
            yield pooler


@pytest.mark.parametrize("who", ["the monitor", "a pool"])
@pytest.mark.parametrize("says", [CLEARTEXT, SCRAM], ids=["cleartext", "scram"])
def test_who_decrypts_in_between_is_told_no_password_where_scram_must_be_bound(who, says, tls_server, authority):
    """The certificate is of a trusted authority, and still not the server's: its SCRAM cannot be passed on."""
    settings = {"server_tls_sslmode": "require", "server_channel_binding": "require"}
    with (
        Impostor(b"S", says, authority.issue("localhost")) as impostor,
        stack_of(who, tls_server, impostor, authority, **settings) as pooler,
    ):
        wait_until(lambda: impostor.count >= 2)
        wait_until(lambda: "server_channel_binding = require" in pooler.log.read_text())
    for clear, sealed in impostor.told:
        assert SSL_REQUEST.startswith(clear)
        assert sealed == b"" or startup_alone(sealed), "no answer to what was asked"


@pytest.mark.parametrize("who", ["the monitor", "a pool"])
def test_a_server_that_lets_in_without_the_proof_that_it_began_is_refused(who, tls_server, authority):
    settings = {"server_tls_sslmode": "disable"}
    for says in (SCRAM + LET_IN, message(b"Z", b"I"), message(b"S", b"a\0b\0")):
        with (
            Impostor(None, says) as impostor,
            stack_of(who, tls_server, impostor, authority, **settings) as pooler,
        ):
            wait_until(lambda pooler=pooler: complained(pooler.log.read_text()))


def complained(log):
    """Whether the log says that a server has left the order of a login."""
    return "without proving" in log or "out of turn" in log


def secret(server, password):
    """A SCRAM secret of a password, with a salt of its own."""
    server.psql(f"CREATE ROLE whoever LOGIN PASSWORD '{password}'")
    found = server.psql("SELECT rolpassword FROM pg_authid WHERE rolname = 'whoever'")
    server.psql("DROP ROLE whoever")
    return found


def finds(stored):
    """An entry's own `auth_query`, which finds this for everybody."""
    return f"auth_query='SELECT $1::text, ''{stored}'''"


@pytest.mark.parametrize("kept", ["plain", "secrets"])
def test_a_password_found_in_one_database_does_not_take_the_place_of_anothers(tls_server, kept):
    """Two tenants, on one worker, each with a user of the same name."""
    right = tls_server.psql("SELECT rolpassword FROM pg_authid WHERE rolname = 'scram_user'")
    stored = [PASSWORD, "another"] if kept == "plain" else [right, secret(tls_server, "another")]
    databases = {name: f"host=127.0.0.1 dbname=postgres {finds(text)}" for name, text in zip("ab", stored, strict=True)}
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
        wait_until(lambda: asked_again(connection) == "scram_user")


def asked_again(connection):
    """Who the client is for the server, or that it has lost one."""
    try:
        return ask(connection, "SELECT current_user")[0][0]
    except DatabaseError as error:
        return str(error)
