"""Parameters by name: what is a parameter, and what only looks like one."""

import pytest
from howdah import exceptions
from howdah.named import bind


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
