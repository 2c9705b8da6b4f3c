"""The console's page of SQL: whose rights a statement has, how it ends, and what is kept of it."""

import csv
import html
import json
import re
import threading
import time
from pathlib import Path

import pytest

from tests.consoles import CUSTOMERS, Visitor, browser, one_world, running, tab, text_of, visit

__all__ = ["browser", "tab", "visit"]


@pytest.fixture(scope="module")
def world(server):
    with one_world(server, CUSTOMERS) as made:
        yield made


def test_sql_is_run_as_oneself(visit):
    visitor = visit("ana")
    said = text_of(visitor.post("/sql/run", {"text": "SELECT current_user AS me, 1.5 AS x, NULL::int AS y;"}))
    assert "ana" in said and "1.5" in said and "1 row" in said
    assert "42703" in visitor.post("/sql/run", {"text": "SELECT nothing"}).text
    assert "42601" in visitor.post("/sql/run", {"text": "SELECT 1; SELECT 2"}).text
    assert "42501" in visit("eve").post("/sql/run", {"text": "SELECT * FROM customers"}).text
    assert "Seq Scan" in visitor.post("/sql/run", {"text": "SELECT * FROM customers", "plan": "1"}).text
    assert "data-chart" in visitor.post("/sql/run", {"text": "SELECT g, g * g AS y FROM generate_series(1, 9) g"}).text
    said = text_of(visitor.post("/sql/run", {"text": "SELECT g, '<b>' FROM generate_series(1, 100000) g"}))
    assert "the first of more" in said and "<b>" in said


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM customers",
        "SET TRANSACTION READ WRITE",
        "DO $$ BEGIN SET TRANSACTION READ WRITE; DELETE FROM customers; END $$",
        "WITH x AS (DELETE FROM customers RETURNING *) SELECT * FROM x",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT pgml.deploy(1)",
    ],
)
def test_sql_of_a_read_only_console_cannot_write(visit, world, text):
    answer = visit("ana").post("/sql/run", {"text": text})
    assert 'class="fault"' in answer.text, text_of(answer)
    assert world.database.sql("SELECT count(*) FROM customers") == "4000"


def test_what_ends_a_transaction_does_not_open_the_next(visit, world):
    visitor = visit("ana")
    for text in (
        "COMMIT",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET default_transaction_read_only = off",
    ):
        visitor.post("/sql/run", {"text": text})
        assert "25006" in visitor.post("/sql/run", {"text": "DELETE FROM customers"}).text
    assert world.database.sql("SELECT count(*) FROM customers") == "4000"


def test_sql_with_actions_writes_what_the_user_may(visit, world):
    visitor = visit("ana", acting=True)
    assert "CREATE TABLE" in visitor.post("/sql/run", {"text": "CREATE TABLE written (a int)"}).text
    assert "INSERT 0 2" in visitor.post("/sql/run", {"text": "INSERT INTO written VALUES (1), (2)"}).text
    said = text_of(visitor.post("/sql/run", {"text": "DELETE FROM written RETURNING a"}))
    assert "2 rows" in said and world.database.sql("SELECT count(*) FROM written") == "0"
    assert "22012" in visitor.post("/sql/run", {"text": "SELECT 1 / 0"}).text
    visitor.post("/sql/run", {"text": "INSERT INTO written VALUES (3)"})
    plan = visitor.post("/sql/run", {"text": "EXPLAIN ANALYZE DELETE FROM written", "plan": "1"}).text
    assert "Delete on written" in plan and world.database.sql("SELECT count(*) FROM written") == "1"


def test_long_statements_leave_the_pages_alone(world, visit):
    visitor = visit("ana", acting=True)
    slow = [
        threading.Thread(
            target=visitor.post, args=("/sql/run", {"text": "SELECT pg_sleep(60)", "run": f"slow {number}"})
        )
        for number in range(8)
    ]
    for thread in slow:
        thread.start()
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'"
    deadline = time.monotonic() + 30
    while world.database.sql(asleep) != "8":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert visitor.get("/").status_code == 200
    assert "8 statements of yours are running" in text_of(visitor.post("/sql/run", {"text": "SELECT 1"}))
    for number in range(8):
        visitor.post("/sql/cancel", {"run": f"slow {number}"})
    for thread in slow:
        thread.join()
    assert "1 row" in text_of(visitor.post("/sql/run", {"text": "SELECT 1"}))


def test_a_long_statement_ends_by_time_or_by_cancel(world, visit, server):
    with running(f"postgresql://127.0.0.1:{server.port}/console", sql_seconds=0.5) as (address, _):
        visitor = Visitor(world, address)
        with visitor.http:
            visitor.login("ana")
            assert "57014" in visitor.post("/sql/run", {"text": "SELECT pg_sleep(60)"}).text
    visitor = visit("ana", acting=True)
    answers = []
    slow = threading.Thread(
        target=lambda: answers.append(visitor.post("/sql/run", {"text": "SELECT pg_sleep(60)", "run": "mine"}))
    )
    slow.start()
    deadline = time.monotonic() + 15
    while slow.is_alive():
        assert time.monotonic() < deadline
        visitor.post("/sql/cancel", {"run": "mine"})
        time.sleep(0.05)
    slow.join()
    assert "Cancelled" in answers[0].text


def test_a_result_can_be_saved_as_csv(visit):
    answer = visit("ana").post(
        "/sql/csv", {"text": 'SELECT g AS "a,b", \'x"\' AS c, NULL AS d FROM generate_series(1, 3000) g'}
    )
    lines = answer.text.splitlines()
    assert answer.headers["content-type"].startswith("text/csv")
    assert lines[:2] == ['"a,b",c,d', '1,"x""",'] and len(lines) == 3001
    assert visit("ana").post("/sql/csv", {"text": "SELECT nothing"}).status_code == 400


VALUES = {
    "'infinity'::timestamp": "infinity",
    "date '0044-03-15 BC'": "0044-03-15 BC",
    "interval '1 mon 1 day 01:02:03'": "1 mon 1 day 01:02:03",
    "0.1::real": "0.1",
    "int4range(1, 5)": "[1,5)",
    "b'101'": "101",
    "row(1, 'a b')": '(1,"a b")',
    "point(1, 2)": "(1,2)",
    "array['a', NULL, 'b,c']": '{a,NULL,"b,c"}',
    "NULL": "NULL",
    "true": "t",
}


def test_values_are_shown_and_saved_as_psql_writes_them(visit):
    visitor = visit("ana")
    for value, shown in VALUES.items():
        found = visitor.post("/sql/run", {"text": f"SELECT {value} AS v"}).text
        assert f">{html.escape(shown, quote=False)}</" in found.replace("&#34;", '"').replace("&#39;", "'"), value
        saved = visitor.post("/sql/csv", {"text": f"SELECT {value} AS v, '' AS empty"}).text
        assert next(csv.reader([saved.splitlines()[1]]))[0] == ("" if value == "NULL" else shown)
        assert saved.splitlines()[1].endswith(',""')


def test_a_result_is_plotted_by_what_it_begins_with(visit):
    visitor = visit("ana")

    def plotted(text):
        page = visitor.post("/sql/run", {"text": text}).text
        chart = re.search(r'data-chart="([^"]+)"', page)
        return page, json.loads(html.unescape(chart[1])) if chart else None

    page, chart = plotted("SELECT city, count(*) AS n, avg(age) - 47 AS older FROM customers GROUP BY 1 ORDER BY 1")
    assert chart is None and page.count('<table class="bars">') == 2 and page.count('class="bar down"') >= 1
    assert re.search(r'title="Basel">Basel</th>.*?<td class="n">1000</td>', page)
    page, chart = plotted("SELECT count(*), city FROM customers GROUP BY 2")
    assert chart is None and page.count('<table class="bars">') == 1
    page, chart = plotted(
        "SELECT * FROM (VALUES (date '2024-01-03', 2, 'NaN'::float8), ('infinity', 3, 0), ('2024-01-01', 1, 5)) AS v"
    )
    assert chart["time"] and [line["y"] for line in chart["lines"]] == [[1, 2], [5, None]]
    assert chart["lines"][0]["x"] == [1704067200, 1704240000]
    _, chart = plotted(
        "SELECT timestamptz '2024-01-01 00:00:00.5+00' + g * interval '1 h', g FROM generate_series(0, 2) g"
    )
    assert chart["lines"][0]["x"] == [1704067200.5, 1704070800.5, 1704074400.5]
    _, chart = plotted("SELECT age, count(*) FROM customers GROUP BY 1")
    assert not chart["time"] and chart["x"] == "age" and len(chart["lines"][0]["x"]) == 60
    _, chart = plotted("SELECT g FROM generate_series(1, 3) g")
    assert chart["x"] == "row"


def test_an_error_shows_its_line(visit):
    visitor = visit("ana")
    found = html.unescape(visitor.post("/sql/run", {"text": "SELECT 1,\n  nothing\nFROM pgml.models"}).text)
    assert "LINE 2:   nothing\n          ^" in found
    assert "A cell has one statement" in visitor.post("/sql/run", {"text": "SELECT 1; SELECT 2"}).text


# In a browser


def test_a_file_of_statements_is_opened_as_cells_which_a_reload_keeps(tab):
    page = tab("/sql")
    file = "SELECT ';' AS a; -- one; of three\nSELECT $q$;$q$, E'\\';' ;\n/* ; */ SELECT 3 AS third;\n"
    page.set_input_files("#open", {"name": "some.sql", "mimeType": "text/plain", "buffer": file.encode()})
    assert page.locator("#cells textarea").count() == 3
    page.reload()
    assert page.locator("#cells textarea").nth(2).input_value() == "/* ; */ SELECT 3 AS third"
    page.locator("#cells textarea").nth(1).fill("SELECT 1 / 0")
    page.locator("#cells .cell").nth(1).get_by_text("Save as CSV").click()
    page.locator("#cells .cell").nth(1).locator(".fault").get_by_text("division by zero").wait_for()
    with page.expect_download() as saved:
        page.locator("#cells .cell").nth(2).get_by_text("Save as CSV").click()
    assert Path(saved.value.path()).read_text() == "third\n3\n"


def test_a_notebook_is_kept_in_the_browser_and_saved_as_a_file(tab, tmp_path):
    page = tab("/sql")
    page.on("dialog", lambda dialog: dialog.accept("my first" if dialog.type == "prompt" else ""))
    page.fill(".cell textarea", "SELECT 1 AS one -- 1;")
    page.click("#add")
    page.fill(".cell textarea >> nth=1", "SELECT 'two' AS two;")
    page.click(".run >> nth=1")
    page.wait_for_selector(".result >> nth=1 >> text=two")
    page.click(".run >> nth=0")
    page.wait_for_selector(".result >> nth=0 >> text=one")
    page.click("[data-notebook=save]")
    with page.expect_download() as download:
        page.click("[data-notebook=download]")
    assert download.value.suggested_filename == "my first.sql"
    download.value.save_as(tmp_path / "saved.sql")
    assert (tmp_path / "saved.sql").read_text() == "SELECT 1 AS one -- 1;\n;\n\n-- %%\nSELECT 'two' AS two;\n"
    page.click(".remove >> nth=0")
    page.reload()
    page.select_option("#notebook", "my first")
    page.wait_for_function("document.querySelector('.cell textarea').value.includes('two')")
    assert page.locator("#cells .cell").count() == 1
    page.click("[data-notebook=delete]")
    page.set_input_files("#open", tmp_path / "saved.sql")
    page.wait_for_selector("#cells .cell >> nth=1")
    assert page.locator("#notebook option").count() == 1
