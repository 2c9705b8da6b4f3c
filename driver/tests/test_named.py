"""Parameters by name: what is a parameter, and what only looks like one."""

import howdah
import pytest
from howdah import exceptions, named
from howdah.named import bind, bind_many


@pytest.mark.parametrize(
    ("query", "named", "text", "arguments"),
    [
        ("select 1", {}, "select 1", ()),
        ("select :a", {"a": 1}, "select $1", (1,)),
        ("select :a, :b, :a", {"a": 1, "b": 2}, "select $1, $2, $1", (1, 2)),
        ("select :b, :a", {"a": 1, "b": 2}, "select $1, $2", (2, 1)),
        ("select :a::int", {"a": 1}, "select $1::int", (1,)),
        ("select x::text, :a", {"a": 1}, "select x::text, $1", (1,)),
        ("select ':a', :a", {"a": 1}, "select ':a', $1", (1,)),
        ("select 'it''s :a', :a", {"a": 1}, "select 'it''s :a', $1", (1,)),
        (r"select e'\':a', :a", {"a": 1}, r"select e'\':a', $1", (1,)),
        ('select ":a", :a', {"a": 1}, 'select ":a", $1', (1,)),
        ("select 1 -- :b\n, :a", {"a": 1}, "select 1 -- :b\n, $1", (1,)),
        ("select /* :b /* :c */ :d */ :a", {"a": 1}, "select /* :b /* :c */ :d */ $1", (1,)),
        ("select $$:b$$, $tag$ $$ :b $tag$, :a", {"a": 1}, "select $$:b$$, $tag$ $$ :b $tag$, $1", (1,)),
        ("select days[1:n], :a", {"a": 1}, "select days[1:n], $1", (1,)),
        ("select days[:low::int:high] , :a", {"a": 1, "low": 2}, "select days[$1::int:high] , $2", (2, 1)),
        ("call f(x := :a)", {"a": 1}, "call f(x := $1)", (1,)),
        ("select :größe", {"größe": 1}, "select $1", (1,)),
        ("select :a_1+:a_12", {"a_1": 1, "a_12": 2}, "select $1+$2", (1, 2)),
        ("select name$:a", {"a": 1}, "select name$$1", (1,)),
    ],
)
def test_names_become_numbers(query, named, text, arguments):
    assert bind(query, named) == (text, arguments)


def test_a_name_without_a_value_is_an_error():
    with pytest.raises(exceptions.InterfaceError, match="no value for the parameter :b"):
        bind("select :a, :b", {"a": 1})


def test_a_value_without_a_name_is_an_error():
    with pytest.raises(exceptions.InterfaceError, match="no parameters :b, :c"):
        bind("select :a", {"a": 1, "b": 2, "c": 3})


def test_values_by_name_and_by_position_are_an_error():
    with pytest.raises(exceptions.InterfaceError, match="not both"):
        bind("select :a, $1", {"a": 1}, (2,))


@pytest.mark.parametrize("kind", [list, iter])
def test_many_lists_may_have_names(kind):
    text, rows = bind_many("insert into t values (:b, :a)", kind([{"a": 1, "b": 2}, {"b": 4, "a": 3}]))
    assert text == "insert into t values ($1, $2)"
    assert list(rows) == [(2, 1), (4, 3)]
    for rows in ([(1, 2)], []):
        text, same = bind_many("insert into t values ($1, ':a')", kind(rows))
        assert text == "insert into t values ($1, ':a')"
        assert list(same) == rows
    for wrong in ({"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 2}, (1, 2)):
        _, rows = bind_many("insert into t values (:b, :a)", kind([{"a": 1, "b": 2}, wrong]))
        with pytest.raises(exceptions.InterfaceError, match="element #1"):
            list(rows)


async def test_the_server_gets_what_the_names_mean(spec):
    connection = await howdah.connect(**spec)
    await connection.execute("create temp table named (a int, b text)")
    await connection.executemany("insert into named values (:a, :b)", ({"a": n, "b": str(n)} for n in range(1000)))
    rows = await connection.fetchmany("insert into named values (:a, null) returning a", [{"a": -1}, {"a": -2}])
    assert [row["a"] for row in rows] == [-1, -2]
    async with connection.transaction():
        cursor = connection.cursor("select a from named where a >= :low order by a", low=990)
        assert [row["a"] async for row in cursor] == list(range(990, 1000))
    columns = await connection.fetch_columns("select a from named where b = :b", b="7")
    assert columns["a"].to_pylist() == [7]
    await connection.close()


async def test_a_prepared_statement_takes_names(spec):
    connection = await howdah.connect(**spec)
    text = "select :a::int + :b::int as sum, (array[7, 8, 9])[1:2] as slice, ':a' as text"
    statement = await connection.prepare(text)
    assert statement.get_query() == text
    assert tuple(await statement.fetchrow(b=2, a=40)) == (42, [7, 8], ":a")
    assert await statement.fetchval(40, 2) == 42
    assert [row["sum"] for row in await statement.fetch(a=1, b=2)] == [3]
    assert [row["sum"] for row in await statement.fetchmany([{"b": 1, "a": 1}, {"a": 2, "b": 2}])] == [2, 4]
    assert await statement.explain(a=1, b=2)
    async with connection.transaction():
        assert [row["sum"] async for row in statement.cursor(a=1, b=1)] == [2]
    for values, message in (
        ({"a": 1}, "no value for the parameter :b"),
        ({"a": 1, "b": 2, "c": 3}, "no parameters :c"),
    ):
        with pytest.raises(howdah.InterfaceError, match=message):
            await statement.fetch(**values)
    with pytest.raises(howdah.InterfaceError, match="not both"):
        await statement.fetch(1, b=2)
    await connection.close()


@pytest.mark.parametrize(
    "query",
    [
        "select days[1:n] from flights",
        "select json_object('a':b, 'c':d) from flights",
        "select f(a := 1), ':x', $1::int",
    ],
)
def test_what_is_sql_already_is_prepared_as_it_is(query):
    assert named.find(query) == (query, ())


def test_numbers_and_names_do_not_mix():
    with pytest.raises(howdah.InterfaceError, match="not both"):
        named.find("select $1::int, :a")
    with pytest.raises(howdah.InterfaceError, match="not both"):
        named.bind("select $1::int, :a", {"a": 1})
    assert named.bind("select $a$ $1 $a$, x$1, :a from t", {"a": 1}) == ("select $a$ $1 $a$, x$1, $1 from t", (1,))
