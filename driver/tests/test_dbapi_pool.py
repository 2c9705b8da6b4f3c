"""The pool of the synchronous interface: who gets which connection, and what becomes of it."""

import contextlib
import signal
import sys
import threading
import time

import howdah.dbapi as dbapi
import pytest

from driver.tests.blocking import in_process, wait_until


@pytest.fixture
def other(spec):
    with dbapi.connect(**spec, autocommit=True, command_timeout=60) as connection:
        yield connection


@contextlib.contextmanager
def waiting(pool, count, work):
    """So many threads that wait for a connection, one behind the other; each does `work(number, connection)`."""

    def borrow(number):
        try:
            with pool.connection() as connection:
                work(number, connection)
        except dbapi.Error as error:
            work(number, error)

    threads = [threading.Thread(target=borrow, args=(number,)) for number in range(count)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        until(lambda number=number: pool._sizes()["waiting"] == number)
    yield
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def until(condition):
    """Waits for something in this process."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_pool_lends_to_threads(spec):
    with dbapi.Pool(**spec, max_size=3) as pool:
        pids = set()

        def work():
            for _ in range(20):
                with pool.connection() as connection:
                    pids.add(connection.execute("select pg_backend_pid()").fetchone()[0])

        threads = [threading.Thread(target=work) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 1 <= len(pids) <= 3


def test_a_pool_gives_out_connections_as_new(spec, other):
    other.execute("drop table if exists pool_things; create table pool_things (id int primary key)")
    with dbapi.Pool(**spec, max_size=1) as pool:
        with pool.connection() as connection:
            connection.execute("insert into pool_things values (1)")
            connection.execute("set application_name = 'left'")
        with pytest.raises(RuntimeError), pool.connection() as connection:
            connection.execute("insert into pool_things values (2)")
            raise RuntimeError
        borrowed = pool.getconn()
        assert borrowed.execute("show application_name").fetchone() == ("",)
        assert borrowed.execute("select id from pool_things").fetchall() == [(1,)]
        with pytest.raises(dbapi.OperationalError, match="all 1 connections are lent"):
            pool.getconn(timeout=0.05)
        pool.putconn(borrowed)
        with pytest.raises(dbapi.InterfaceError, match="was not lent by this pool"):
            pool.putconn(borrowed)
        assert not borrowed.in_transaction
        borrowed = pool.getconn()
        borrowed.autocommit, borrowed.isolation_level, borrowed.readonly = True, "serializable", True
        borrowed.deferrable, borrowed.row_factory = True, dbapi.dict_row
        pool.putconn(borrowed)
        borrowed = pool.getconn()
        assert not (borrowed.autocommit or borrowed.readonly or borrowed.deferrable)
        assert borrowed.isolation_level is None and borrowed.row_factory is None
        assert borrowed.execute("show transaction_isolation").fetchone() == ("read committed",)
        pool.putconn(borrowed)
        with pool.connection() as connection:
            pid = connection.execute("select pg_backend_pid()").fetchone()[0]
        other.execute("select pg_terminate_backend(%s)", (pid,))
        wait_until(other, "not exists (select from pg_stat_activity where pid = %s)", pid)
        with pool.connection() as connection:
            assert connection.execute("select pg_backend_pid()").fetchone()[0] != pid
    with pytest.raises(dbapi.InterfaceError, match="pool is closed"):
        pool.getconn()


def test_a_pool_prepares_new_connections(spec):
    def configure(connection):
        connection.wait(connection.asynchronous.decode_json())
        connection.execute("select 1")

    with dbapi.Pool(**spec, max_size=2, configure=configure) as pool:
        for _ in range(2):
            one, two = pool.getconn(), pool.getconn()
            for connection in (one, two):
                assert not connection.in_transaction
                assert connection.execute("select '{\"a\": 1}'::jsonb").fetchone() == ({"a": 1},)
                pool.putconn(connection)

    def fail(connection):
        raise RuntimeError("not today")

    with dbapi.Pool(**spec, max_size=1, configure=fail) as pool:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="not today"):
                pool.getconn(timeout=1)


def test_what_configure_sets_is_there_for_each_borrower(spec):
    calls, logged, told = [], [], []

    def configure(connection):
        calls.append(connection)
        connection.add_query_logger(lambda record: logged.append(record.query))
        connection.add_notice_handler(lambda diag: told.append(diag.message_primary))
        connection.execute("set work_mem = '9MB'")
        connection.execute("create temp table scratch (a int)")
        connection.execute("prepare mine as select 1")
        connection.execute("set role pg_monitor")
        connection.commit()
        connection.autocommit, connection.row_factory = True, dbapi.dict_row
        connection.isolation_level = "serializable"

    asked = (
        "select current_setting('work_mem') as memory, current_user::text as role, "
        "to_regclass('pg_temp.scratch')::text as scratch, "
        "(select count(*) from pg_prepared_statements where name = 'mine') as mine"
    )
    found = {"memory": "9MB", "role": "pg_monitor", "scratch": "scratch", "mine": 1}

    def check(connection):
        assert connection.execute(asked).fetchone() == found
        assert connection.autocommit and connection.isolation_level == "serializable"
        assert not connection.in_transaction and connection.notices == []
        logged.clear()
        connection.execute("do $$ begin raise notice 'hear'; end $$")
        assert len(logged) == 1 and told.pop() == "hear" and not told
        connection.notices.clear()

    with dbapi.Pool(**spec, max_size=1, configure=configure) as pool:
        with pool.connection() as connection:
            assert connection.execute(asked).fetchone() == found
        with pool.connection() as connection:
            connection.autocommit, connection.row_factory = False, None
            connection.isolation_level = None
            assert connection.execute("select 1").fetchone() == (1,)
        # Nothing of the session has been changed.
        assert len(calls) == 1
        for _ in range(2):
            with pool.connection() as connection:
                check(connection)
                connection.execute("set work_mem = '5MB'; reset role; discard temp; deallocate mine")
                connection.autocommit, connection.row_factory = False, None
                connection.add_notice_handler(told.append)
        assert len(calls) == 3 and len(set(calls)) == 1
        with pool.connection() as connection:
            check(connection)


# Who is next.


def test_who_waits_is_served_before_who_comes_later(spec):
    served = []
    with dbapi.Pool(**spec, max_size=1) as pool:
        mine = pool.getconn()
        with waiting(pool, 3, lambda number, _: served.append(number)):
            # At once: there is no time for those who wait to wake up.
            pool.putconn(mine)
            mine = pool.getconn()
            assert served == [0, 1, 2]
            pool.putconn(mine)


def test_a_place_that_is_left_goes_to_who_waits(spec, other):
    found = []

    def work(number, connection):
        found.append(connection.execute("select pg_backend_pid()").fetchone()[0])

    with dbapi.Pool(**spec, max_size=1) as pool:
        mine = pool.getconn()
        pid = mine.execute("select pg_backend_pid()").fetchone()[0]
        with waiting(pool, 2, work):
            other.execute("select pg_terminate_backend(%s)", (pid,))
            wait_until(other, "not exists (select from pg_stat_activity where pid = %s)", pid)
            pool.putconn(mine)
        assert len(found) == 2 and found[0] == found[1] != pid


def test_who_waits_learns_why_there_is_no_connection(spec):
    errors = []
    with dbapi.Pool(**spec, max_size=1, timeout=30) as pool:
        mine = pool.getconn()
        pool._options["database"] = "not_there"
        with waiting(pool, 3, lambda _, error: errors.append(str(error))):
            mine.terminate()
            pool.putconn(mine)
    assert errors == ['database "not_there" does not exist'] * 3


def test_the_end_of_a_pool_is_told_to_those_who_wait(spec, other):
    errors = []
    pool = dbapi.Pool(**spec, max_size=1)
    mine = pool.getconn()
    pid = mine.execute("select pg_backend_pid()").fetchone()[0]
    with waiting(pool, 3, lambda _, error: errors.append(str(error))):
        pool.close()
    assert errors == ["the pool is closed"] * 3
    # What is lent goes on to its end.
    assert mine.execute("select 1").fetchone() == (1,)
    pool.putconn(mine)
    assert mine.closed
    wait_until(other, "not exists (select from pg_stat_activity where pid = %s)", pid)


def test_who_is_interrupted_leaves_the_queue(spec):
    main = threading.main_thread().ident
    with dbapi.Pool(**spec, max_size=1) as pool:
        mine = pool.getconn()

        def interrupt():
            until(lambda: pool._sizes()["waiting"] == 1)
            signal.pthread_kill(main, signal.SIGINT)

        usual = signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                pool.getconn()
        finally:
            signal.signal(signal.SIGINT, usual)
        thread.join()
        assert pool._sizes()["waiting"] == 0
        pool.putconn(mine)
        with pool.connection() as connection:
            assert connection is mine


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no such lock to pass around")
def test_lending_does_not_pass_the_interpreter_around(spec):
    """What makes threads queue up for the interpreter in the middle of lending costs more than the query."""
    turns = 0
    over = False

    def other_thread():
        nonlocal turns
        while not over:
            turns += 1
            # It offers the interpreter to whoever wants it.
            time.sleep(0)

    with dbapi.Pool(**spec, min_size=1, autocommit=True) as pool:
        usual = sys.getswitchinterval()
        thread = threading.Thread(target=other_thread)
        thread.start()
        try:
            until(lambda: turns > 0)
            # Nobody is made to give it away, once the other thread waits by the new interval.
            sys.setswitchinterval(100)
            time.sleep(0.05)
            before = turns
            for _ in range(10_000):
                with pool.connection() as connection:
                    pass
            after = turns
        finally:
            sys.setswitchinterval(usual)
            over = True
            thread.join()
    assert connection.closed and after == before


def test_a_pool_begins_anew_in_a_forked_child(spec):
    program = """
    import os, sys, json, threading
    import howdah.dbapi as dbapi
    spec = json.loads(sys.argv[1])
    pool = dbapi.Pool(**spec, min_size=1, max_size=2, timeout=5)
    # One is lent and one is idle, and another thread is about to wait.
    lent = pool.getconn()
    pid = lent.execute("select pg_backend_pid()").fetchone()[0]
    second = pool.getconn()
    thread = threading.Thread(target=lambda: pool.putconn(pool.getconn()))
    thread.start()
    while not pool._sizes()["waiting"]:
        pass
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pool.connection() as one, pool.connection() as two:
                pids = {c.execute("select pg_backend_pid()").fetchone()[0] for c in (one, two)}
                assert len(pids) == 2 and pid not in pids
            # The parent's are not this pool's any more.
            pool.putconn(lent)
            assert pool._sizes()["idle"] == 2 and pool._sizes()["used"] == 0
            pool.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    pool.putconn(second)
    thread.join()
    assert lent.execute("select pg_backend_pid()").fetchone()[0] == pid
    pool.putconn(lent)
    pool.close()
    print("well")
    """
    assert in_process(program, spec) == "well"


def test_threads_in_a_hurry_keep_to_the_size(spec):
    """More threads than connections, with every way of giving one back."""
    with dbapi.Pool(**spec, max_size=3) as pool:
        pids = set()
        failures = []

        def work(number):
            try:
                for turn in range(60):
                    kind = (number + turn) % 5
                    with contextlib.suppress(ZeroDivisionError, dbapi.InterfaceError), pool.connection() as connection:
                        pids.add(connection.execute("select pg_backend_pid()").fetchone()[0])
                        assert pool._places <= 3 and len(pool._lent) <= 3
                        if kind == 1:
                            connection.execute("set application_name = 'left'")
                        elif kind == 2:
                            raise ZeroDivisionError
                        elif kind == 3 and turn % 10 == 3:
                            connection.close()
                        elif kind == 4:
                            connection.autocommit = connection.execute("rollback").description is None
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failures, failures
        assert pool._sizes() == {"idle": pool._places, "used": 0, "waiting": 0, "min_size": 0, "max_size": 3}
        with pool.connection() as connection:
            assert connection.execute("show application_name").fetchone() == ("",)
