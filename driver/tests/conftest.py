"""What the driver's tests share: tests that are coroutines, on asyncio's loop and on uvloop, and a server to talk to."""

import asyncio
import contextlib
import faulthandler
import gc
import inspect
import sys

import howdah
import pytest
import uvloop

from devkit import postgres
from devkit.check import versions_for
from devkit.server import Server, end_on_signals, hear_interrupts

SECONDS = 90


def pytest_addoption(parser):
    # Registered by tests/conftest.py already when both are run together.
    with contextlib.suppress(ValueError):
        parser.addoption("--pg", type=int, action="append", help="a PostgreSQL to test on (again for more)")


def pytest_configure():
    end_on_signals()
    hear_interrupts()


def pytest_generate_tests(metafunc):
    if "major" in metafunc.fixturenames:
        chosen = versions_for(metafunc.module, metafunc.config.getoption("--pg") or postgres.majors())
        metafunc.parametrize("major", chosen, ids=[f"pg{major}" for major in chosen], scope="session")
    if inspect.iscoroutinefunction(metafunc.function):
        metafunc.fixturenames.append("event_loop_kind")
        metafunc.parametrize("event_loop_kind", ["asyncio", "uvloop"])


async def end_connections(loop):
    """Ends what a failed test left open on this loop."""
    for left in gc.get_objects():
        if type(left) is howdah.Connection and left._loop is loop and not left.is_closed():
            left.terminate()
    await asyncio.sleep(0.05)


def end_tasks(loop):
    """Ends what a test left running on a loop; asyncio's own Runner is not in every Python that is tested."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs a test that is a coroutine on a loop of its own; what the loop complains of fails the test."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    new_loop = (
        uvloop.new_event_loop if pyfuncitem.callspec.params["event_loop_kind"] == "uvloop" else asyncio.new_event_loop
    )
    complaints = []
    # Also ends what hangs outside of Python, where no exception can be raised: uvloop's closing of a loop.
    faulthandler.dump_traceback_later(SECONDS + 30, exit=True, file=sys.__stderr__)

    async def run():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        try:
            await asyncio.wait_for(pyfuncitem.obj(**arguments), SECONDS)
        except BaseException:
            # A loop of uvloop waits for ever at its end for a transport that the failure's traceback keeps.
            await end_connections(loop)
            raise
        gc.collect()
        await asyncio.sleep(0)

    loop = new_loop()
    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(run())
    finally:
        end_tasks(loop)
        asyncio.set_event_loop(None)
        loop.close()
        faulthandler.cancel_dump_traceback_later()
    expected = getattr(pyfuncitem.obj, "expected_complaint", None)
    unexpected = [context for context in complaints if expected is None or expected not in context["message"]]
    assert not unexpected, unexpected
    return True


@pytest.fixture(scope="session")
def server(major):
    """A server of this major version, shared by the tests."""
    with Server(
        postgres.tree(major), settings={"max_connections": "200", "max_prepared_transactions": "10"}
    ) as running:
        yield running


@pytest.fixture
def spec(server):
    """Arguments for `howdah.connect`."""
    return {
        "host": "127.0.0.1",
        "port": server.port,
        "user": "postgres",
        "password": server.password,
        "database": "postgres",
    }
