"""The examples of docs/guide/python-sync.md, as they are printed, one after the other."""

import pathlib
import re

import howdah.dbapi
import howdah.sqlalchemy
import pytest

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "python-sync.md"


def test_the_examples_run_as_printed(server):
    assert howdah.sqlalchemy.HowdahDialect.driver == "howdah"
    server.psql("drop database if exists guide_sync with (force)")
    server.psql("create database guide_sync")
    server.psql("create extension pgml", "guide_sync")
    url = server.url("guide_sync")
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(examples) >= 9
    names = {"__name__": "guide"}
    for example in examples:
        example = re.sub(r'"postgres://[^"]*"', repr(url), example)
        example = re.sub(r'"postgresql\+howdah://[^"]*"', repr(re.sub(r"^\w+", "postgresql+howdah", url)), example)
        exec(compile(example, str(GUIDE), "exec", dont_inherit=True), names)
    assert names["connection"].closed


def test_the_names_of_psycopg2_that_the_guide_lists_do_not_exist(spec):
    for name in ("dbname", "connect_timeout", "sslmode", "application_name", "cursor_factory"):
        assert f"`connect({name}=" in GUIDE.read_text() or f"`{name}=" in GUIDE.read_text()
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            howdah.dbapi.connect(**spec, **{name: "5"})
    for kind, name in (("cursor", "copy_from"), ("cursor", "copy_to"), ("connection", "set_session")):
        assert f"`{kind}.{name}(" in GUIDE.read_text()
        assert not hasattr({"cursor": howdah.dbapi.Cursor, "connection": howdah.dbapi.Connection}[kind], name)
    assert "`connection.get_backend_pid()`" in GUIDE.read_text()
    assert not hasattr(howdah.dbapi.Connection, "get_backend_pid")
