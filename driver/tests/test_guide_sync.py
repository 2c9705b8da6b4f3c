"""The examples of docs/guide/python-sync.md, as they are printed, one after the other."""

import pathlib
import re

import howdah.sqlalchemy

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "python-sync.md"


def test_the_examples_run_as_printed(server):
    assert howdah.sqlalchemy.HowdahDialect.driver == "howdah"
    server.psql("drop database if exists guide_sync with (force)")
    server.psql("create database guide_sync")
    url = server.url("guide_sync")
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(examples) >= 9
    names = {"__name__": "guide"}
    for example in examples:
        example = re.sub(r'"postgres://[^"]*"', repr(url), example)
        example = re.sub(r'"postgresql\+howdah://[^"]*"', repr(re.sub(r"^\w+", "postgresql+howdah", url)), example)
        exec(compile(example, str(GUIDE), "exec", dont_inherit=True), names)
    assert names["connection"].closed
