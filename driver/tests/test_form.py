"""The package as those see it who read it, or check types: its types, its stubs, its reference, what is generated."""

import importlib.util
import inspect
import io
import os
import pathlib
import re
import subprocess
import sys

import howdah
import pytest
from howdah import _typing

DRIVER = pathlib.Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(DRIVER / "python")}


def tool(name):
    """A module of driver/tools."""
    spec = importlib.util.spec_from_file_location(name, DRIVER / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(*command):
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=DRIVER,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_are_strict(tmp_path):
    check("mypy", "--strict", f"--cache-dir={tmp_path}", "python/howdah")


def test_the_stubs_say_what_is_there(tmp_path):
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\ncache_dir = {tmp_path}\n")
    check(
        "mypy.stubtest",
        "howdah",
        "--concise",
        "--allowlist=tests/stubtest_allowlist.txt",
        f"--mypy-config-file={config}",
    )


PROGRAM = DRIVER / "tests" / "types_program.py"


def told(*command):
    """The lines of the program about which a checker says something, each with what it says."""
    done = subprocess.run(
        [sys.executable, "-m", *command, str(PROGRAM)],
        cwd=DRIVER,
        env={**ENVIRONMENT, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = re.findall(rf"{PROGRAM.name}:(\d+).*?\berror: ?(.*)", done.stdout.replace(" - error", " error"))
    assert found, done.stdout + done.stderr
    return {int(line): message for line, message in found}


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_checker_of_types_tells_each_mistake_and_nothing_else(checker, tmp_path):
    if checker == "mypy":
        messages = told("mypy", "--strict", f"--cache-dir={tmp_path}")
    else:
        messages = told("pyright", "--pythonpath", sys.executable)
    lines = PROGRAM.read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert {number: lines[number - 1].strip() for number in wrong - messages.keys()} == {}
    assert {number: messages[number] for number in messages.keys() - wrong} == {}


def test_the_options_have_the_arguments_of_connect():
    options = _typing.ConnectOptions.__optional_keys__
    assert (
        options | {"dsn", "loop", "connection_class", "record_class"}
        == inspect.signature(howdah.connect).parameters.keys()
    )
    pools = _typing.PoolOptions.__optional_keys__ - options
    assert pools <= inspect.signature(howdah.Pool).parameters.keys()


def test_the_generated_stubs_are_fresh():
    for path, text in tool("generate_stubs").stubs().items():
        assert path.read_text() == text, f"run driver/tools/generate_stubs.py: {path} is stale"


def test_the_reference_is_fresh():
    page = io.StringIO()
    tool("generate_reference").main(page)
    path = DRIVER.parent / "docs" / "reference" / "python.md"
    assert path.read_text() == page.getvalue(), "run driver/tools/generate_reference.py > docs/reference/python.md"
