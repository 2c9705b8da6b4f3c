"""How results look in a notebook: the guide's notebook as it runs in Jupyter, and tables and bars by themselves."""

import base64
import os
import pathlib
import sys
import types

import howdah
import howdah.dbapi
import nbclient
import nbformat
import pytest
from howdah import notebook
from howdah.training import read_report

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide"
# The pictures in the guide, by what makes them in the notebook.
PICTURES = {"roc_curve": "roc", "learning_curve": "learning", "explain_row": "explanation", "drift": "drift"}
# More cells, for what a short training does not show.
MORE = """
import asyncio, howdah
from howdah.training import read_report

bar = howdah.ProgressBar()
bar(read_report("Round 25 of 100, rmse 0.500000, 15 s left"))
bar.close()

---
connection = await howdah.connect()
await connection.fetch("select n, '<b>' as text from generate_series(1, 60) n")

---
await connection.fetchrow("select 1 as one")

---
[1, 2]

---
await connection.fetch_columns("select 7 as seven")
"""


@pytest.fixture
def jupyter(server, tmp_path, monkeypatch):
    """Runs a notebook against a fresh database."""
    server.psql("drop database if exists notebook with (force)")
    server.psql("create database notebook")
    where = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres", "PGDATABASE": "notebook"}
    where["PGPASSWORD"] = server.password
    # Everything that Jupyter, IPython and matplotlib write.
    for name in ("HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "MPLCONFIGDIR"):
        where[name] = str(tmp_path)
    where["PYTHONPATH"] = os.pathsep.join([str(pathlib.Path(howdah.__file__).parents[1]), *sys.path])
    for name, value in where.items():
        monkeypatch.setenv(name, value)

    def run(cells):
        nbclient.NotebookClient(cells, timeout=60, kernel_name="python3").execute()
        return cells

    yield run
    server.psql("drop database notebook with (force)")


def shown(cell, kind):
    """What a cell shows of a kind."""
    return [output["data"][kind] for output in cell.outputs if kind in output.get("data", {})]


def test_the_guides_notebook_runs_in_jupyter(jupyter):
    text = (GUIDE / "first-notebook.ipynb").read_text()
    guide = nbformat.reads(text, as_version=4)
    nbformat.validate(guide)
    assert not any(cell.get("outputs") for cell in guide.cells), "clear the outputs"
    printed = len(guide.cells)
    guide.cells += [nbformat.v4.new_code_cell(source) for source in MORE.split("---")]
    ran = jupyter(guide)
    codes = [cell for cell in ran.cells[:printed] if cell.cell_type == "code"]
    (rows,) = (
        shown(cell, "text/html") for cell in codes if cell.source.endswith('"select * from pgml.breast_cancer")')
    )
    assert rows[0].count("<tr>") == 51 and "569 rows" in rows[0] and "30 of 31 columns" in rows[0]
    (trained,) = (shown(cell, "text/html") for cell in codes if "connection.train" in cell.source)
    assert "<td>xgboost</td>" in trained[-1]
    for name, picture in PICTURES.items():
        (pictures,) = (shown(cell, "image/png") for cell in codes if f".{name}(" in cell.source)
        assert len(pictures) == 1
        if os.environ.get("HOWDAH_PICTURES"):
            (GUIDE / "notebook").mkdir(exist_ok=True)
            (GUIDE / "notebook" / f"{picture}.png").write_bytes(base64.b64decode(pictures[0]))
    bar, records, record, plain, columns = (shown(cell, "text/html") for cell in ran.cells[printed:])
    assert bar == ['<progress value="25" max="100" style="width: 20em"></progress> 25/100  rmse 0.500000  15 s left']
    assert records[0].count("<td>&lt;b&gt;</td>") == 50 and "60 rows, the first 50 are shown" in records[0]
    assert "<td>1</td>" in record[0] and "1 row<" in record[0]
    assert plain == []
    assert "<th>seven</th>" in columns[0] and "<td>7</td>" in columns[0]


def test_a_table_is_bounded_and_escaped():
    names = [f"<{number}>" for number in range(40)]
    values = [None, "<script>", "x" * 10_000, list(range(10_000)), b"\0" * 10_000, 1.5, {"a": "<"}, *range(33)]
    found = notebook.table(names, [values] * 3, 3)
    assert len(found) < 6000 and "<script>" not in found and "&lt;script&gt;" in found
    assert found.count("<th>") == 30 and found.count("<td>") == 90 and "&lt;29&gt;" in found
    assert "<td><i>NULL</i></td>" in found and "30 of 40 columns are shown" in found


def test_only_records_are_tables():
    assert notebook.records_html([]) is None
    assert notebook.records_html([1, 2]) is None
    assert notebook.records_html([("a",)]) is None


async def test_columns_show_their_first_rows(spec):
    connection = await howdah.connect(**spec)
    columns = await connection.fetch_columns("select n, null::text as nothing from generate_series(1, 1000) n")
    found = columns._repr_html_()
    assert found.count("<tr>") == 51 and "1,000 rows" in found and "<i>NULL</i>" in found
    await connection.close()


def test_a_cursor_shows_the_rows_that_are_left(spec):
    with howdah.dbapi.connect(**spec) as connection:
        cursor = connection.execute("select generate_series(1, 3) as n")
        assert cursor.fetchone() == (1,)
        assert "2 rows" in cursor._repr_html_() and "<td>1</td>" not in cursor._repr_html_()
        assert cursor.fetchall() == [(2,), (3,)]
        assert connection.execute("set work_mem = '1MB'")._repr_html_() is None
        with connection.cursor(stream=True) as streaming:
            assert streaming.execute("select 1")._repr_html_() is None


def test_outside_of_a_notebook_the_bar_is_a_line(monkeypatch):
    # A shell in a terminal has no kernel.
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=object))
    assert notebook.shell() is None
    bar = howdah.ProgressBar()
    bar(read_report("Round 1 of 2, 0 s left"))
    bar.close()
