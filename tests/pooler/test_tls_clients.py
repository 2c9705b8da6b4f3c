"""TLS with clients: who gets it, who must have it, what of it is refused."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import os
import pwd
import shutil
import signal
import socket
import ssl
import struct
import threading
import time

import psycopg
import pytest

from tests.pooler.certificates import serial_of
from tests.pooler.process import PASSWORD, Pooler, ask, wait_until
from tests.pooler.raw import SSL_REQUEST, Raw, code, message, query, values
from tests.pooler.test_strangers import memory


def tls(pair, sslmode="require", **more):
    """The settings for TLS with clients."""
    return {
        "client_tls_sslmode": sslmode,
        "client_tls_cert_file": pair.cert,
        "client_tls_key_file": pair.key,
        **more,
    }


def trusting(authority, *protocols):
    """A client's context that verifies in full."""
    context = ssl.create_default_context(cafile=authority.root)
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


def test_psql_verifies_in_full_and_the_console_shows_tls(tls_server, authority, certificate):
    with Pooler(tls_server, **tls(certificate)) as pooler:
        done = pooler.psql("\\conninfo", sslmode="verify-full", sslrootcert=authority.root)
        assert "SSL connection (protocol: TLSv1.3" in done
        with Raw(pooler.port, context=trusting(authority)) as client:
            client.send(query("SELECT 42"))
            assert values(client.until(b"Z")) == ["42"]
            shown = [row["tls"] for row in pooler.show("CLIENTS") if row["database"] == "postgres"]
            assert shown == ["TLSv1.3/TLS_AES_256_GCM_SHA384"]


def half_a_hello(size):
    """So many bytes of a ClientHello of 60 kB, as records."""
    hello = b"\x01" + (60_000).to_bytes(3, "big") + b"\3\3" + bytes(size - 6)
    pieces = [hello[at : at + 8_000] for at in range(0, size, 8_000)]
    return b"".join(b"\x16\3\1" + struct.pack("!H", len(piece)) + piece for piece in pieces)


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "asked"])
def test_half_a_hello_is_held_up_to_a_bound(server, certificate, direct):
    peers = 400

    def begin(stack, size):
        peer = stack.enter_context(Raw(pooler.port, login=False))
        if not direct:
            peer.send(SSL_REQUEST)
            assert peer.socket.recv(1) == b"S"
        peer.send(half_a_hello(size))
        return peer

    with Pooler(server, max_client_conn=2 * peers, log_disconnections=0, **tls(certificate)) as pooler:
        with contextlib.ExitStack() as stack:
            begin(stack, 8_000)
            before = memory(pooler.process)
            held = [begin(stack, 16_000) for _ in range(peers)]
            refused = [begin(stack, 50_000) for _ in range(peers)]
            assert all(peer.is_closed() for peer in refused)
            grown = memory(pooler.process) - before
            print(f"{grown / peers:.1f} KiB a peer that is held")
            assert grown < peers * 32
            # They wait for the rest, and are refused with it.
            assert not any(peer.waiting(0) for peer in held)
            held[0].send(half_a_hello(16_000))
            assert held[0].is_closed()
        with Raw(pooler.port, context=ssl._create_unverified_context()) as client:
            assert client.value("SELECT 1") == "1"


def test_a_client_refuses_what_it_does_not_trust(tls_server, authority, stranger, certificate):
    old = authority.issue("the pooler", "IP:127.0.0.1", "20200101000000Z", "20210101000000Z")
    elsewhere = authority.issue("the pooler", "IP:127.0.0.2,DNS:elsewhere")
    for pair, root, complaint in [
        (certificate, stranger.root, "certificate verify failed"),
        (old, authority.root, "certificate verify failed"),
        (elsewhere, authority.root, "does not match host name"),
    ]:
        with Pooler(tls_server, **tls(pair)) as pooler:
            done = pooler.psql("SELECT 1", sslmode="verify-full", sslrootcert=root, check=False)
            assert done.returncode != 0 and complaint in done.stderr
            assert pooler.psql("SELECT 1", sslmode="require") == "1"


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
                body = struct.pack("!HH", 3, 0) + b"user\0scram_user\0database\0postgres\0\0"
                client.send(struct.pack("!i", len(body) + 4) + body)
                assert client.next() == (b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0")
                client.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
                kind, body = client.next()
                assert kind == b"E" and code(body) == "08P01"


def test_cancel_requests_come_over_tls(tls_server, authority, certificate):
    with Pooler(tls_server, **tls(certificate)) as pooler:
        with Raw(pooler.port, context=trusting(authority)) as client:
            key = next(body for kind, body in client.greeting if kind == b"K")
            client.send(query("SELECT pg_sleep(30)"))
            wait_until(
                lambda: "1" in tls_server.psql("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sl'")
            )
            begin = time.monotonic()
            with Raw(pooler.port, login=False, context=trusting(authority)) as canceller:
                canceller.send(struct.pack("!ii", 16, 80877102) + key)
                assert canceller.is_closed()
            kind, body = client.until(b"E")[-1]
            assert kind == b"E"
            assert code(body) == "57014" and time.monotonic() - begin < 10
            client.until(b"Z")
            client.send(query("SELECT 7"))
            assert values(client.until(b"Z")) == ["7"]


def test_libpq_hears_that_its_cancel_requests_were_received(tls_server, certificate):
    # Since version 17 it waits for the end of TLS, as psycopg asks it to; psql does likewise.
    assert psycopg.pq.version() >= 170000
    with Pooler(tls_server, **tls(certificate)) as pooler:
        place = f"host=127.0.0.1 port={pooler.port} user=both_user dbname=postgres sslmode=require"
        with psycopg.connect(place, autocommit=True) as client:
            for number in range(5):
                sleeps = f"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ '^SELECT {number}, pg_sl'"
                asked = []

                def cancel(sleeps=sleeps, asked=asked):
                    wait_until(lambda: tls_server.psql(sleeps) == "1")
                    client.cancel_safe(timeout=10)
                    asked.append(True)

                thread = threading.Thread(target=cancel)
                thread.start()
                with pytest.raises(psycopg.errors.QueryCanceled):
                    client.execute(f"SELECT {number}, pg_sleep(30)")
                thread.join(10)
                assert asked == [True]


def test_certificates_are_read_again_on_reload(tls_server, authority, tmp_path):
    here = tmp_path / "pooler.crt", tmp_path / "pooler.key"

    def show(pair):
        shutil.copy(pair.cert, here[0])
        shutil.copy(pair.key, here[1])

    def serial():
        with Raw(pooler.port, context=trusting(authority)) as client:
            return serial_of(client.socket.getpeercert(binary_form=True))

    show(authority.issue("one", "IP:127.0.0.1"))
    files = {"client_tls_cert_file": here[0], "client_tls_key_file": here[1]}
    with Pooler(tls_server, client_tls_sslmode="require", **files) as pooler:
        first = serial()
        with Raw(pooler.port, context=trusting(authority)) as stays:
            show(authority.issue("two", "IP:127.0.0.1"))
            assert serial() == first, "not before it is told to"
            pooler.reload()
            second = serial()
            assert second != first
            stays.send(query("SELECT 1"))
            assert values(stays.until(b"Z")) == ["1"]
        here[0].write_text("nonsense")
        assert "client_tls_cert_file" in pooler.psql("RELOAD", "pgbouncer", check=False, sslmode="require").stderr
        assert serial() == second, "a broken file leaves the old one in force"


def test_direct_tls_names_the_protocol(tls_server, authority, certificate):
    with Pooler(tls_server, **tls(certificate)) as pooler:
        with Raw(pooler.port, context=trusting(authority, "postgresql"), direct=True) as client:
            assert client.socket.selected_alpn_protocol() == "postgresql"
            client.send(query("SELECT 3"))
            assert values(client.until(b"Z")) == ["3"]
        with Raw(pooler.port, context=trusting(authority), direct=True, login=False) as client:
            body = struct.pack("!HH", 3, 0) + b"user\0postgres\0\0"
            client.send(struct.pack("!i", len(body) + 4) + body)
            kind, body = client.next()
            assert kind == b"E" and b"ALPN" in body
        with pytest.raises(ssl.SSLError, match="no application protocol"):
            Raw(pooler.port, context=trusting(authority, "http/1.1"), direct=True)
    with Pooler(tls_server) as pooler:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Raw(pooler.port, context=trusting(authority, "postgresql"), direct=True)


def test_what_is_not_tls_ends_that_connection_alone(tls_server, authority, certificate):
    startup = struct.pack("!iHH", 17, 3, 0) + b"user\0x\0\0\0"
    hello = b"\x16\x03\x01"
    with Pooler(tls_server, **tls(certificate)) as pooler:
        with Raw(pooler.port, context=trusting(authority)) as bystander:
            for garbage in [
                startup,
                b"\0" * 100,
                b"\xff" * 70_000,
                hello + b"\0\0",
                hello + b"\x40\x01" + b"\1" * 0x4001,
                hello + b"\0\x04" + b"\x01\xff\xff\xff",
                b"\x17\x03\x03\0\x20" + b"\0" * 32,
                b"\x15\x03\x03\0\x02\x02\x28",
            ]:
                for asked in (True, False):
                    if not asked and garbage[:1] != b"\x16":
                        continue
                    with Raw(pooler.port, login=False) as client:
                        if asked:
                            client.send(SSL_REQUEST)
                            assert client.socket.recv(1) == b"S"
                        with contextlib.suppress(OSError):
                            client.send(garbage)
                            client.socket.shutdown(socket.SHUT_WR)
                            while client.socket.recv(65536):
                                pass
            # What comes with the request cannot have been encrypted.
            with Raw(pooler.port, login=False) as client:
                client.send(SSL_REQUEST + startup)
                kind, body = client.next()
                assert kind == b"E" and b"before the answer" in body
            # Asking for TLS within TLS.
            with Raw(pooler.port, login=False, context=trusting(authority)) as client:
                client.send(SSL_REQUEST)
                assert client.next()[0] == b"E"
            bystander.send(query("SELECT 5"))
            assert values(bystander.until(b"Z")) == ["5"]
        assert pooler.process.poll() is None


def test_half_open_handshakes_end_with_the_login_timeout(tls_server, authority, certificate):
    with Pooler(tls_server, client_login_timeout=1, **tls(certificate)) as pooler:
        half_open = [Raw(pooler.port, login=False) for _ in range(3)]
        half_open[1].send(SSL_REQUEST)
        assert half_open[1].socket.recv(1) == b"S"
        half_open[2].send(b"\x16\x03\x01\x02\x00\x01")
        with Raw(pooler.port, login=False, context=trusting(authority)) as handshaken:
            begin = time.monotonic()
            assert handshaken.next()[0] == b"E"
            for client in half_open[1:]:
                assert client.socket.recv(100) == b""
            assert time.monotonic() - begin < 5
        for client in half_open:
            client.socket.close()


def test_rows_and_copies_of_any_size_pass(tls_server, certificate):
    with Pooler(tls_server, default_pool_size=2, **tls(certificate)) as pooler:
        sql = "SELECT repeat(chr(65 + i % 26), i * 37 % 40000) FROM generate_series(1, 1500) i"
        direct = tls_server.psql(sql)
        assert pooler.psql(sql, sslmode="require") == direct
        into = (
            "CREATE TEMP TABLE t (x text); COPY t FROM STDIN;\n"
            + direct
            + "\n\\.\nSELECT md5(string_agg(x, '\n')) FROM t;"
        )
        assert pooler.psql(into, sslmode="require") == tls_server.psql(into)
        long = "x" * 3_000_000
        assert pooler.psql(f"SELECT md5('{long}')", sslmode="require") == tls_server.psql(f"SELECT md5('{long}')")


def test_a_slow_reader_over_tls_costs_a_bounded_amount_and_gets_all(tls_server, authority, certificate):
    with Pooler(tls_server, default_pool_size=2, **tls(certificate)) as pooler:
        with Raw(pooler.port, context=trusting(authority)) as client:
            client.send(query("SELECT repeat('x', 1000000) FROM generate_series(1, 40)"))
            time.sleep(0.5)
            assert pooler.psql("SELECT 1", sslmode="require") == "1"
            held = [int(row["send_avail"]) for row in pooler.show("SOCKETS") if row["database"] == "postgres"]
            assert max(held) < 2_000_000
            assert sum(len(body) for kind, body in client.until(b"Z") if kind == b"D") > 40_000_000


def test_many_clients_of_many_databases_move_between_workers(tls_server, authority, certificate):
    with Pooler(tls_server, {f"d{i}": "dbname=postgres" for i in range(4)}, workers=3, **tls(certificate)) as pooler:
        failures = []

        def work(number):
            try:
                for turn in range(5):
                    with Raw(pooler.port, f"d{number % 4}", context=trusting(authority)) as client:
                        for statement in range(10):
                            wanted = f"{number}-{turn}-{statement}"
                            client.send(query(f"SELECT '{wanted}'"))
                            assert values(client.until(b"Z")) == [wanted]
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=[number]) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


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

        local = {"host": pooler.folder}
        assert outcome("plain_user", **local) == "plain_user"
        assert 'peer authentication failed for user "scram_user"' in outcome("scram_user", **local)
        assert "peer authentication failed" in outcome("nobody_known", **local)
        by_certificate = {"sslmode": "require", "sslcert": shown.cert, "sslkey": shown.key}
        assert outcome("plain_user", **by_certificate) == "plain_user"
        assert outcome("plain_user", sslmode="require", sslcert="/nowhere", sslkey="/nowhere").count("certificate") >= 1
        # Without a map both names are the same.
        hba.write_text("local all all peer\n")
        pooler.reload()
        assert "peer authentication failed" in outcome("plain_user", **local)
        # A map that is not there keeps the file from being taken over.
        hba.write_text("local all all peer map=nowhere\n")
        pooler.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "map=nowhere: there is no such map in auth_ident_file" in pooler.log.read_text())


def test_drivers_log_in_with_channel_binding(tls_server, authority, certificate):
    settings = tls(certificate, auth_type="scram-sha-256")
    with Pooler(tls_server, users={"scram_user": PASSWORD}, **settings) as pooler:
        with pooler.connect(user="scram_user", password=PASSWORD, ssl_context=trusting(authority)) as connection:
            assert ask(connection, "SELECT current_user") == [("scram_user",)]
