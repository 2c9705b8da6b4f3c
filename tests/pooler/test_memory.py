"""What an idle client costs, beside its socket in the kernel."""

import contextlib
import re
import resource
import ssl

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import Raw, query, values

CLIENTS = 1500
WARM = 100


@pytest.fixture(autouse=True)
def many_files():
    """Lets this process, and what it starts, open enough files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 10_000), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def memory(process):
    """The memory that a process has for itself, in bytes: not that of its program, of which other tests may run copies."""
    with open(f"/proc/{process.pid}/smaps_rollup") as file:
        return int(re.search(r"^Anonymous:\s+(\d+) kB", file.read(), re.MULTILINE)[1]) * 1024


@pytest.mark.parametrize(("secured", "most"), [(False, 2 * 1024), (True, 12 * 1024)], ids=["plain", "tls"])
def test_an_idle_client_costs_little(server, certificate, secured, most):
    settings = {"max_client_conn": 2 * CLIENTS, "default_pool_size": 5}
    context = None
    if secured:
        settings |= {"client_tls_sslmode": "require"}
        settings |= {"client_tls_cert_file": certificate.cert, "client_tls_key_file": certificate.key}
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with Pooler(server, **settings) as pooler, contextlib.ExitStack() as stack:

        def add(count):
            for number in range(count):
                client = stack.enter_context(Raw(pooler.port, context=context))
                client.send(query(f"SELECT {number}"))
                assert values(client.until(b"Z")) == [str(number)]

        add(WARM)
        # The catalog of the database, a megabyte or more, is no client's.
        pooler.wait_for_catalog()
        before = memory(pooler.process)
        add(CLIENTS)
        each = (memory(pooler.process) - before) / CLIENTS
        print(f"{each:.0f} bytes a client")
        assert each <= most
