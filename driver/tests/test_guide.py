"""The examples of docs/guide/python.md, as they are printed, one after the other."""

import ast
import asyncio
import inspect
import pathlib
import re

import duckdb
import howdah
import numpy
import polars
import pyarrow
import pytest
import xgboost

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "python.md"
# Takes asyncpg's place for the rest of the process: the tests of users' stacks do that in one of their own.
ELSEWHERE = "install_as_asyncpg"


class Printed(Exception):
    """Ends an example that would go on for ever, once it has printed something."""


async def run(example, names):
    result = eval(compile(example, str(GUIDE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.iscoroutine(result):
        await result


async def test_the_examples_run_as_printed(server, monkeypatch):
    server.psql("drop database if exists guide with (force)")
    server.psql("create database guide")
    server.psql("create extension pgml", "guide")
    url = server.url("guide")
    # For the example that leaves everything to the environment.
    for name, value in (("HOST", "127.0.0.1"), ("PORT", str(server.port)), ("USER", "postgres")):
        monkeypatch.setenv(f"PG{name}", value)

    def display(*_):
        raise Printed

    names = {"asyncio": asyncio, "howdah": howdah, "duckdb": duckdb, "numpy": numpy, "polars": polars}
    names |= {"pyarrow": pyarrow, "xgboost": xgboost, "print": display}
    for example in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        if ELSEWHERE in example:
            continue
        example = re.sub(r'"postgres://[^"]*"', repr(url), example)
        if "print(" not in example:
            await run(example, names)
            continue
        running = asyncio.ensure_future(run(example, names))
        await asyncio.sleep(0.2)
        await names["connection"].execute("notify orders, 'one'")
        with pytest.raises(Printed):
            await running
    assert await names["connection"].fetchval("select seats from flights where id = 1") == 99
    await names["connection"].close()
