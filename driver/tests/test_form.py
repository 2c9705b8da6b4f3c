"""The package as those see it who read it, or check types: its types, its stubs, its reference, what is generated."""

import importlib.util
import io
import os
import pathlib
import subprocess
import sys

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


def test_a_strictly_typed_program_can_use_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import howdah


async def main() -> int:
    async with howdah.create_pool("postgres://localhost", max_lifetime=60) as pool:
        async with pool.acquire() as connection, connection.transaction(isolation="serializable"):
            status: str = await connection.execute("select 1")
            rows = await connection.fetch("select :a::int as a", a=1)
            print(status, rows[0]["a"])
        try:
            await pool.execute("select 1 / 0")
        except howdah.DivisionByZeroError as error:
            print(error.sqlstate)
        return pool.get_statistics().waited
"""
    )
    check("mypy", "--strict", f"--cache-dir={tmp_path}", str(program))


def test_the_generated_stubs_are_fresh():
    for path, text in tool("generate_stubs").stubs().items():
        assert path.read_text() == text, f"run driver/tools/generate_stubs.py: {path} is stale"


def test_the_reference_is_fresh():
    page = io.StringIO()
    tool("generate_reference").main(page)
    path = DRIVER.parent / "docs" / "reference" / "python.md"
    assert path.read_text() == page.getvalue(), "run driver/tools/generate_reference.py > docs/reference/python.md"
