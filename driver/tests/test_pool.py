"""What pools do beyond asyncpg's: no needless reset, fairness, ages, health, numbers."""

import asyncio
import random

import howdah
import pytest

from driver.tests.chaos import ChaosProxy


def pool_of(spec, size=1, **options):
    return howdah.create_pool(**spec, min_size=size, max_size=size, **options)


async def test_an_unchanged_session_is_not_reset(spec):
    async with pool_of(spec) as pool:
        for _ in range(10):
            assert await pool.fetchval("select 1") == 1
        async with pool.acquire() as connection, connection.transaction():
            await connection.fetch("select count(*) from pg_class where oid = $1", 1)
        numbers = pool.get_statistics()
        assert (numbers.resets, numbers.resets_spared, numbers.acquired) == (0, 11, 11)


@pytest.mark.parametrize(
    ("change", "question", "original"),
    [
        ("set work_mem = '7MB'", "show work_mem", "4MB"),
        ("select set_config('work_mem', '7MB', false)", "show work_mem", "4MB"),
        ("do $$ begin perform set_config('work_mem', '7MB', false); end $$", "show work_mem", "4MB"),
        ("select pg_advisory_lock(77)", "select count(*) from pg_locks where locktype = 'advisory'", 0),
        ("listen chaos", "select count(*) from pg_listening_channels()", 0),
        ("declare c cursor with hold for select 1", "select count(*) from pg_cursors where name = 'c'", 0),
    ],
)
async def test_what_one_leaves_the_next_does_not_find(spec, change, question, original):
    async with pool_of(spec) as pool:
        for way in (pool.execute, pool.fetch):
            await way(change)
            assert await pool.fetchval(question) == original
        assert pool.get_statistics().resets >= 2


async def test_a_setting_changed_out_of_sight_is_seen_when_the_server_reports_it(spec):
    connection = await howdah.connect(**spec)
    await connection.execute(
        """
        create or replace function pg_temp_hide() returns int language plpgsql as
        $$ begin perform set_config('application_name', 'changed', false); return 1; end $$;
        create or replace view hidden_change as select pg_temp_hide() as n
        """
    )
    try:
        async with pool_of(spec, server_settings={"application_name": "as it was"}) as pool:
            assert await pool.fetchval("select n from hidden_change") == 1
            assert await pool.fetchval("show application_name") == "as it was"
    finally:
        await connection.execute("drop view hidden_change; drop function pg_temp_hide()")
        await connection.close()


async def test_an_open_transaction_does_not_reach_the_next(spec):
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    async with pool_of(spec) as pool:
        async with pool.acquire() as connection:
            await connection.execute("begin")
            await connection.execute("create table never (a int)")
        assert await pool.fetchval("select to_regclass('never')") is None
        async with pool.acquire() as connection:
            assert not connection.is_in_transaction()
    assert len(complaints) == 1
    assert "active transaction" in complaints[0]


async def test_first_come_first_served(spec):
    async with pool_of(spec) as pool:
        order = []

        async def use(number):
            async with pool.acquire() as connection:
                order.append(number)
                await connection.fetchval("select 1")

        async def greedy():
            for _ in range(50):
                async with pool.acquire():
                    order.append("greedy")

        tasks = [asyncio.ensure_future(use(number)) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.gather(greedy(), *tasks)
        assert [number for number in order if number != "greedy"] == list(range(20))
        # Who comes again and again waits behind who was there before.
        assert "greedy" not in order[:20]


async def test_a_place_that_is_not_taken_goes_to_the_next(spec):
    async with pool_of(spec) as pool:
        held = await pool.acquire()
        waiting = [asyncio.ensure_future(pool.acquire()) for _ in range(5)]
        await asyncio.sleep(0)
        # Cancelled in the same turn in which the place is given to it.
        release = asyncio.ensure_future(pool.release(held))
        await asyncio.sleep(0)
        waiting[0].cancel()
        await release
        for task in waiting[1:]:
            await pool.release(await asyncio.wait_for(task, 5))
        assert pool.get_statistics().waiting == 0
        assert pool.get_idle_size() == 1


async def test_a_connection_that_ends_while_it_is_given_back_leaves_its_place_to_the_next(spec):
    async with pool_of(spec, reset=lambda connection: asyncio.sleep(0)) as pool:
        old = await pool.acquire()
        releasing = asyncio.ensure_future(pool.release(old))
        await asyncio.sleep(0)
        # The release has been asked for, and has not begun.
        pool._holders[0]._con.terminate()
        new = await pool.acquire()
        await releasing
        assert await new.fetchval("select 1") == 1
        await pool.release(new)
        assert pool.get_idle_size() == 1


async def test_an_old_connection_is_replaced(spec):
    async with pool_of(spec, max_lifetime=0.2, max_lifetime_jitter=0) as pool:
        first = await pool.fetchval("select pg_backend_pid()")
        assert await pool.fetchval("select pg_backend_pid()") == first
        await asyncio.sleep(0.3)
        assert await pool.fetchval("select pg_backend_pid()") != first
        assert pool.get_size() == 1


async def test_ages_differ_by_chance(spec):
    async with pool_of(spec, size=8, max_lifetime=100, max_lifetime_jitter=0.5) as pool:
        now = asyncio.get_running_loop().time()
        ages = {holder._expires - now for holder in pool._holders}
        assert len(ages) == 8
        assert all(49 < age <= 100 for age in ages)


async def test_a_connection_that_does_not_answer_is_replaced(spec):
    async with ChaosProxy(spec["host"], spec["port"]) as proxy:
        through = {**spec, "port": proxy.port, "ssl": False}
        async with pool_of(through, health_check_interval=0.1, health_check_timeout=0.2) as pool:
            assert await pool.fetchval("select 1") == 1
            await asyncio.sleep(0.15)
            assert await pool.fetchval("select 1") == 1
            assert pool.get_statistics().health_checks_failed == 0
            proxy.stalled = True
            asyncio.get_running_loop().call_later(0.5, setattr, proxy, "stalled", False)
            await asyncio.sleep(0.15)
            assert await asyncio.wait_for(pool.fetchval("select 2"), 60) == 2
            assert pool.get_statistics().health_checks_failed == 1


async def test_numbers_tell_who_waited(spec):
    async with pool_of(spec) as pool:
        await asyncio.gather(*(pool.execute("select pg_sleep(0.05)") for _ in range(4)))
        numbers = pool.get_statistics()
        assert numbers.acquired == 4
        assert numbers.waited == 3
        assert numbers.wait_seconds > 0.2
        assert (numbers.size, numbers.idle, numbers.in_use) == (1, 1, 0)
        assert numbers.connections_opened == 1


async def test_named_parameters_reach_the_connection(spec):
    async with pool_of(spec) as pool:
        assert await pool.fetchval("select :a::int + :b::int", a=1, b=2) == 3
        assert await pool.fetchrow("select :a::text as x", a="y") == ("y",)
        assert await pool.fetch("select :a::text", a="y") == [("y",)]


async def test_a_cancelled_query_leaves_its_connection_usable(spec):
    async with pool_of(spec) as pool:
        before = await pool.fetchval("select pg_backend_pid()")
        task = asyncio.ensure_future(pool.fetchval("select pg_sleep(30)"))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.wait_for(pool.fetchval("select pg_backend_pid()"), 5) == before


async def test_a_thousand_tasks_outlive_the_killing_of_their_backends(spec):
    rng = random.Random(5)
    ends = {"right": 0, "killed": 0}
    async with pool_of(spec, size=10) as pool:
        killer = await howdah.connect(**spec)
        over = False

        async def work(number):
            for _ in range(5):
                try:
                    if number % 3:
                        assert await pool.fetchval("select $1::int", number) == number
                    else:
                        async with pool.acquire() as connection, connection.transaction():
                            assert await connection.fetchval("select $1::int", number) == number
                    ends["right"] += 1
                except (howdah.PostgresError, howdah.InterfaceError, OSError):
                    ends["killed"] += 1

        async def kill():
            while not over:
                pids = await killer.fetch(
                    "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
                )
                if pids:
                    await killer.execute("select pg_terminate_backend($1)", rng.choice(pids)[0])
                await asyncio.sleep(0.02)

        killing = asyncio.ensure_future(kill())
        await asyncio.gather(*(work(number) for number in range(1000)))
        over = True
        await killing
        await killer.close()
        assert ends["right"] + ends["killed"] == 5000
        assert ends["right"] > 4000
        # And the pool is whole.
        assert sorted(await asyncio.gather(*(pool.fetchval("select $1::int", n) for n in range(100)))) == list(
            range(100)
        )
        assert pool.get_statistics().in_use == 0
        assert pool.get_statistics().waiting == 0
        # A place whose connection is being opened anew, to reach the smallest size, is not free meanwhile.
        while pool._queue.qsize() < 10:
            await asyncio.sleep(0.01)
        assert pool._queue.qsize() == 10


async def test_a_pool_has_what_its_connections_have_beside_asyncpg(spec):
    async with howdah.create_pool(**spec, min_size=1, max_size=2) as pool:
        await pool.execute("drop table if exists pooled")
        await pool.execute("create table pooled (n int, name text)")

        async def fill(connection):
            await connection.execute("insert into pooled select g, g::text from generate_series(1, 3) g")
            return connection.is_in_transaction()

        assert await pool.run_transaction(fill)
        columns = await pool.fetch_columns("select * from pooled where n > :least", least=1)
        assert await pool.copy_columns_to_table("pooled", source=columns) == "COPY 2"
        assert await pool.fetchval("select sum(n) from pooled") == 11
        await pool.execute("drop table pooled")
        assert pool.get_idle_size() == pool.get_size()


async def test_json_is_decoded_for_a_whole_pool(spec):
    async with howdah.create_pool(**spec, min_size=1, max_size=2, init=howdah.Connection.decode_json) as pool:
        assert await pool.fetchval("select $1::jsonb", {"a": [1]}) == {"a": [1]}
        assert await pool.fetchval("select '{\"b\": null}'::json") == {"b": None}
