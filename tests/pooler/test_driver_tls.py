"""The Python driver over TLS: with the pooler, and with PostgreSQL itself."""

import asyncio
import ssl
import sys

import pytest

from devkit.driver import PACKAGE
from devkit.server import Server
from tests.pooler.certificates import self_signed_by_pss
from tests.pooler.process import PASSWORD, SUPERUSER, Pooler
from tests.pooler.secured import Impostor, authentication, tls_settings, tree_with_tls
from tests.pooler.test_tls_clients import tls

sys.path.insert(0, str(PACKAGE))
import howdah


def ask(port, sql="SELECT 42", **how):
    """One question over a connection of its own, and whether that was encrypted."""

    async def main():
        given = {"user": SUPERUSER, "database": "postgres", "host": "127.0.0.1", **how}
        dsn = given.pop("dsn", None)
        connection = await howdah.connect(dsn, port=port, timeout=20, **given)
        try:
            return await connection.fetchval(sql), connection._protocol.is_ssl
        finally:
            await connection.close()

    return asyncio.run(main())


def test_every_way_to_ask_for_tls(tls_server, authority, stranger, certificate):
    trusting = ssl.create_default_context(cafile=authority.root)
    offering = ssl.create_default_context(cafile=authority.root)
    offering.set_alpn_protocols(["postgresql"])
    with Pooler(tls_server, **tls(certificate)) as pooler:
        for how in (
            {"ssl": trusting},
            {"ssl": "require"},
            {"ssl": "prefer"},
            {"dsn": f"postgres://?sslmode=verify-full&sslrootcert={authority.root}"},
            # TLS with the first byte, and no question before it.
            {"ssl": "require", "direct_tls": True},
            {"ssl": offering, "direct_tls": True},
            {"dsn": f"postgres://?sslmode=verify-full&sslnegotiation=direct&sslrootcert={authority.root}"},
        ):
            assert ask(pooler.port, **how) == (42, True), how
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(pooler.port, dsn=f"postgres://?sslmode=verify-full&sslrootcert={stranger.root}")
        with pytest.raises(howdah.ClientConfigurationError):
            ask(pooler.port, ssl="prefer", direct_tls=True)
    with Pooler(tls_server) as pooler:
        assert ask(pooler.port, ssl="prefer") == (42, False)
        with pytest.raises(ConnectionError):
            ask(pooler.port, ssl="require")


def test_a_certificate_proves_who_one_is(tls_server, authority, stranger):
    for who, right in ((authority, True), (stranger, False)):
        shown = who.issue("cert_user")
        dsn = f"postgres://?sslmode=require&sslcert={shown.cert}&sslkey={shown.key}"
        if right:
            assert ask(tls_server.port, "SELECT current_user", dsn=dsn, user="cert_user") == ("cert_user", True)
        else:
            with pytest.raises((howdah.PostgresError, OSError, howdah.InterfaceError)):
                ask(tls_server.port, dsn=dsn, user="cert_user")


def test_scram_is_bound_to_the_channel(tls_server):
    """The server refuses a proof that is bound to another certificate than its own, so a login shows that it is right."""
    for negotiation in ("require", "prefer"):
        how = {"ssl": negotiation, "user": "scram_user", "password": PASSWORD}
        assert ask(tls_server.port, "SELECT current_user", **how) == ("scram_user", True)
    with pytest.raises(howdah.InvalidPasswordError):
        ask(tls_server.port, ssl="require", user="scram_user", password="wrong")


def test_scram_is_bound_to_a_certificate_that_rsassa_pss_has_signed(authority, tmp_path):
    """By the driver and by the pooler: each knows the hash, and uses it."""
    shown = self_signed_by_pss(tmp_path)
    hba = "local all all trust\nhostssl all scram_user 127.0.0.1/32 scram-sha-256\n"
    with tls_settings(authority, hba, shown) as settings, Server(tree_with_tls(), settings) as server:
        server.psql(f"CREATE ROLE scram_user LOGIN PASSWORD '{PASSWORD}'")
        how = {"ssl": "require", "user": "scram_user", "password": PASSWORD}
        assert ask(server.port, "SELECT current_user", **how) == ("scram_user", True)
        strict = {"server_tls_sslmode": "require", "server_channel_binding": "require"}
        entry = {"*": "host=127.0.0.1 dbname=postgres"}
        with Pooler(server, entry, {"scram_user": PASSWORD}, **strict) as pooler:
            assert pooler.psql("SELECT current_user", user="scram_user") == "scram_user"
    # That the driver was let in shows that what it binds to is right, and this that it binds at all.
    both = authentication(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0")
    with Impostor(b"S", both, shown, answers=1) as impostor:
        with pytest.raises((OSError, howdah.PostgresError, howdah.InterfaceError)):
            ask(impostor.port, **how)
        assert b"SCRAM-SHA-256-PLUS\0" in impostor.told[0][1]


def test_much_comes_and_goes_over_tls(tls_server):
    async def main():
        connection = await howdah.connect(host="127.0.0.1", port=tls_server.port, user="tls_user", database="postgres")
        assert connection._protocol.is_ssl
        await connection.execute("CREATE TEMP TABLE much (n int, t text)")
        rows = [(n, "x" * 1000) for n in range(5000)]
        await connection.executemany("INSERT INTO much VALUES ($1, $2)", rows)
        assert await connection.copy_records_to_table("much", records=rows) == "COPY 5000"
        found = await connection.fetch("SELECT * FROM much ORDER BY n")
        assert [tuple(row) for row in found[::2]] == rows
        columns = await connection.fetch_columns("SELECT n FROM much ORDER BY n")
        assert columns["n"].to_pylist()[1::2] == [n for n, _ in rows]
        await connection.close()

    asyncio.run(asyncio.wait_for(main(), 60))
