"""Upload: what a CSV file is taken for, and that it becomes a table with the values that it has, or nothing."""

import csv
import io
import json
import random
import re

import pytest

from howdah_console import csvfile
from tests.conftest import fresh
from tests.consoles import PASSWORD, PENGUINS, World, browser, running, tab, text_of, visit

__all__ = ["browser", "tab", "visit"]


@pytest.fixture(scope="module")
def world(server):
    """A database in which ana may make tables and eve may not, and two consoles."""
    with fresh(server, "upload") as database:
        server.psql("".join(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}';" for name in ("ana", "eve")))
        try:
            database.sql("GRANT CREATE ON SCHEMA public TO ana")
            dsn = f"postgresql://127.0.0.1:{server.port}/upload"
            with running(dsn) as (reading, _), running(dsn, actions=True) as (acting, _):
                yield World(database, reading, acting, None)
        finally:
            database.sql("DROP OWNED BY ana, eve CASCADE")
            database.sql("DROP ROLE ana, eve")


def look(visitor, text, **chosen):
    """What the console takes a file for: {column: type}, and the page."""
    fields = {"sample": text.decode(), "whole": "1", "file": "some file.csv", **chosen}
    page = visitor.post("/train/upload/look", fields, **{"HX-Request": "true"})
    names = re.findall(r'class="column" value="([^"]*)"', page.text)
    types = re.findall(r'class="type".*?<option selected>([^<]+)</option>', page.text, re.DOTALL)
    return dict(zip(names, types, strict=True)), page


def upload(visitor, text, columns, **chosen):
    """Sends a file as the browser does."""
    plan = {"delimiter": ",", "encoding": "UTF8", "missing": "", "header": True, "schema": "public"}
    plan |= {"numbers": "plain", "dates": "iso", **chosen}
    plan = json.dumps({**plan, "columns": list(columns.items())})
    headers = {"X-CSRF-Token": visitor.token, "HX-Request": "true", "X-Plan": plan}
    return visitor.http.post("/train/upload", content=text, headers=headers)


def test_a_files_columns_and_types_are_inferred(visit):
    visitor = visit("ana", acting=True)
    found, page = look(visitor, PENGUINS)
    assert found == {
        "species": "text",
        "body_mass_g": "bigint",
        "flipper": "double precision",
        "_2007": "text",
        "sex": "text",
        "seen_on": "date",
        "seen_on_2": "text",
    }
    assert re.search(r'<option value="NA" selected>', page.text) and 'value="some_file"' in page.text
    assert look(visitor, b"1,2\n3,4\n")[0] == {"column_1": "bigint", "column_2": "bigint"}
    assert look(visitor, b"1,2\n3,4\n", header="1")[0] == {"_1": "bigint", "_2": "bigint"}
    assert "empty" in look(visitor, b"")[1].text
    assert visit("ana").get("/train/upload").status_code == 403
    said = look(visit("eve", acting=True), PENGUINS)[1]
    assert "no schema that you may make a table in" in text_of(said)


def test_a_file_becomes_a_table_or_nothing(visit, world):
    visitor = visit("ana", acting=True)
    found, _ = look(visitor, PENGUINS)
    plan = {"table": "Pen's guins", "delimiter": ";", "missing": "NA"}
    answer = upload(visitor, PENGUINS, found, **plan)
    assert answer.headers["hx-redirect"].startswith("/train/table?relation="), answer.text
    rows = world.database.sql('SELECT species, flipper, _2007 FROM "Pen\'s guins" ORDER BY _2007').splitlines()
    assert rows == ["Adelie|181.5|007", "Chin;strap|190|011", "Gentoo||012"]
    assert "Chin;strap" in text_of(visitor.get(answer.headers["hx-redirect"]))
    assert "42P07" in upload(visitor, PENGUINS, found, **plan).text
    answer = upload(visitor, PENGUINS, found | {"sex": "bigint"}, **{**plan, "table": "not_made"})
    assert "22P02" in answer.text and "Line 3, column sex" in text_of(answer)
    assert world.database.sql("SELECT to_regclass('not_made') IS NULL") == "t"
    assert "42501" in upload(visit("eve", acting=True), PENGUINS, found, **{**plan, "table": "not_made"}).text
    assert "not complete" in upload(visitor, PENGUINS, {"a": "int); DROP TABLE customers; --"}, table="x").text
    assert "not complete" in upload(visitor, PENGUINS, {}, table="x").text
    assert "not complete" in upload(visitor, PENGUINS, found, table=7).text
    latin = "name\nZürich\n".encode("latin-1")
    assert "not in UTF-8" in text_of(upload(visitor, latin, {"name": "text"}, table="towns"))
    upload(visitor, latin, {"name": "text"}, table="towns", encoding="WIN1252")
    assert world.database.sql("SELECT name FROM towns") == "Zürich"
    many = b"a,b\n" + b"".join(b"%d,%d.5\n" % (row, row) for row in range(300_000))
    upload(visitor, many, {"a": "bigint", "b": "double precision"}, table="many")
    assert world.database.sql("SELECT count(*), sum(b)::bigint FROM many") == "300000|45000000000"


def chosen_by(page):
    """What the form has chosen for each way to read the file."""
    picks = re.findall(r'<select name="(\w+)" data-again>(.*?)</select>', page.text, re.DOTALL)
    found = {name: re.search(r'value="([^"]*)" selected', options) for name, options in picks}
    return {name: text_of_value(match[1]) for name, match in found.items() if match}


def text_of_value(value):
    """The value of an attribute."""
    return value.replace("&#39;", "'").replace("&amp;", "&")


def make(visitor, world, text, table, more=None, **chosen):
    """Uploads a file as the form says by itself, with more types; the rows, or what is said."""
    found, page = look(visitor, text, **({"encoding": chosen["encoding"]} if "encoding" in chosen else {}))
    plan = {**chosen_by(page), **chosen, "table": table}
    plan["header"] = plan["header"] == "1"
    answer = upload(visitor, text, found | (more or {}), **plan)
    if "hx-redirect" not in answer.headers:
        return text_of(answer)
    return world.database.sql(f'SELECT * FROM "{table}"').splitlines()


def test_numbers_and_dates_are_read_as_the_file_writes_them(visit, world):
    visitor = visit("ana", acting=True)
    german = "Datum;Fläche;Miete;Zeit\n31.01.2024;111,37;1.931,60 €;1.2.2024 9:05\n01.02.2024;80;905,46 €;\n"
    wanted = ["2024-01-31|111.37|1931.60|2024-02-01 09:05:00", "2024-02-01|80|905.46|"]
    for place, (encoding, data) in enumerate(
        [("UTF8", german.encode()), ("UTF8", german.encode("utf-8-sig")), ("UTF16", german.encode("utf-16"))]
    ):
        found, _ = look(visitor, german.encode())
        assert found == {
            "datum": "date",
            "fläche": "double precision",
            "miete": "double precision",
            "zeit": "timestamp",
        }
        plan = {"delimiter": ";", "encoding": encoding, "numbers": "comma", "dates": "day", "table": f"german_{place}"}
        upload(visitor, data, found | {"miete": "numeric"}, **plan)
        assert world.database.sql(f"SELECT * FROM german_{place}").splitlines() == wanted
    us = b'day,amount,share,n\n01/31/2024,"$1,000.50",5%,"1,234"\n2/1/2024,"-$7",10.5%,"12"\n'
    assert make(visitor, world, us, "us") == ["2024-01-31|1000.5|5|1234", "2024-02-01|-7|10.5|12"]
    _, page = look(visitor, b"day\n01/02/2024\n")
    assert "does not tell days from months" in text_of(page)
    assert "does not tell" not in text_of(look(visitor, us)[1])
    large = b"id\n12345678901234567890\n12345678901234567891\n"
    assert make(visitor, world, large, "large") == ["12345678901234567890", "12345678901234567891"]


def test_a_blank_cell_is_missing_whatever_the_mark(visit, world):
    visitor = visit("ana", acting=True)
    churn = b"charges,city,n\n29.85,Bern,1\n ,,NA\n1889.5,NA,3\n"
    assert make(visitor, world, churn, "churn") == ["29.85|Bern|1", "||", "1889.5||3"]


def test_names_that_are_words_of_sql_are_quoted(visit, world):
    rows = make(visit("ana", acting=True), world, b"carat,table,order\n0.23,55,1\n", "user")
    assert rows == ["0.23|55|1"]


def test_a_column_that_counts_the_rows_is_left_out(visit, world):
    visitor = visit("ana", acting=True)
    indexed = b",a,b\n1,x,2\n2,y,3\n3,z,4\n"
    found, page = look(visitor, indexed)
    assert found == {"column_1": "left out", "a": "text", "b": "bigint"} and "counts the rows" in text_of(page)
    assert make(visitor, world, indexed, "indexed") == ["x|2", "y|3", "z|4"]
    assert look(visitor, b",a\n1,x\n3,y\n")[0]["column_1"] == "bigint"
    assert "not complete" in upload(visitor, indexed, dict.fromkeys(found, "left out"), table="x").text


def test_what_does_not_fit_is_told_by_its_line(visit, world):
    visitor = visit("ana", acting=True)
    ragged = b"a,b,c\n1,2,3\n4,5\n6,7,8,9\n1,2,3\n"
    said = text_of(look(visitor, ragged)[1])
    assert (
        "Line 3 has 2 fields, and the first line 3." in said and "Line 4 has 4 fields" in said and "all 2" not in said
    )
    assert "Line 3 has 2 fields, and the first line 3." in make(visitor, world, ragged, "bad")
    # Blank lines are left out, and a cell may have several.
    late = b'a,b\n\n1,"x\ny\nz"\n\n\n2,u\n"three",v\n'
    said = make(visitor, world, late, "bad", {"a": "bigint"})
    assert 'Line 9, column a: "three"' in said and "22P02" in said
    grouped = b'a\n"1,234.5"\n"12,34"\n'
    assert look(visitor, grouped)[0] == {"a": "text"}
    said = make(visitor, world, grouped, "bad", {"a": "numeric"}, numbers="grouped")
    assert "Line 3, column a: “12,34” is no number written as 1,234.56." in said
    said = make(visitor, world, b"a\n5%\n0.5\n", "bad", {"a": "numeric"})
    assert "Line 3, column a: “0.5” is in another unit than the rows before, which have “%”." in said
    said = make(visitor, world, b"a\n31.01.2024\n", "bad", {"a": "date"}, dates="month")
    assert 'Line 2, column a: "31.01.2024"' in said
    assert "22021" in make(visitor, world, b"a\nx\0y\n", "bad")
    assert world.database.sql("SELECT to_regclass('bad') IS NULL") == "t"


@pytest.mark.parametrize(
    ("values", "styles", "kind"),
    [
        ("1 -2 +3", "", "bigint"),
        ("007 1", "", "text"),
        ("1 2.5 1e5 inf NaN", "", "double precision"),
        ("1,5 2", "comma", "double precision"),
        ("1,234 5,678", "grouped", "bigint"),
        ("1,234 5,67", "comma", "double precision"),
        ("1.234.567 2", "comma", "bigint"),
        ("1'234.5 2", "grouped", "double precision"),
        ("1.5 2,5", "", "text"),
        ("12.34,5 1", "", "text"),
        ("$5 $6.50", "", "double precision"),
        ("$5 €6", "", "text"),
        ("5% 6", "", "text"),
        ("$ 1", "", "text"),
        ("2024-01-31", "iso", "date"),
        ("2024-02-30", "", "text"),
        ("31.1.2024 1.2.2024", "day", "date"),
        ("31/01/2024 2024-01-31", "day", "date"),
        ("01/31/2024 12/1/2024", "month", "date"),
        ("01/02/2024", "month", "date"),
        ("13/13/2024", "", "text"),
        ("31.01.24", "", "text"),
        ("2024-01-31T10:00Z", "iso", "timestamptz"),
        ("2024-01-31T10:00 2024-01-31T25:00", "", "text"),
        ("yes No t FALSE", "", "boolean"),
        ("", "", "text"),
    ],
)
def test_the_type_of_a_column(values, styles, kind):
    column = values.split(" ")
    missing, numbers, dates = csvfile.styles_of([column], ",")
    assert csvfile.type_of(csvfile.known_of(column, missing), numbers, dates) == kind
    assert not styles or styles in (numbers, dates)


def unescaped(cell):
    """A cell of COPY's text format; NULL is empty."""
    plain = {"\\": "\\", "t": "\t", "n": "\n", "N": ""}
    return re.sub(r"\\(.)", lambda match: plain[match[1]], cell)


def test_a_file_in_pieces_has_the_same_rows():
    texts = ["a", "", "x,y", 'say "hi"', "two\nlines", "a\r\nb", "back\\slash", "tab\there", "Zürich", "“quoted”"]
    chance = random.Random(7)
    for encoding in ("utf-8", "utf-16"):
        rows = [[chance.choice(texts) for _ in range(3)] for _ in range(300)]
        file = io.StringIO(newline="")
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
        data = file.getvalue().encode(encoding)
        given = {"delimiter": ",", "missing": "", "header": False, "numbers": "plain"}
        kinds = [("a", "text"), ("b", "text"), ("c", "text")]
        reading = csvfile.Reading(kinds, encoding="UTF8" if encoding == "utf-8" else "UTF16", **given)
        copied, at = b"", 0
        while at < len(data):
            size = chance.choice([1, 2, 7, 100, 1000])
            copied += reading.feed(data[at : at + size])
            at += size
        copied = (copied + reading.feed(b"", last=True)).decode()
        found = [[unescaped(cell) for cell in line.split("\t")] for line in copied.split("\n")[:-1]]
        assert found == [[cell.replace("\r\n", "\n") for cell in row] for row in rows]
        # Each row is known by the line in which it begins.
        lines = [1]
        for row in rows:
            lines.append(lines[-1] + 1 + sum(cell.count("\n") for cell in row))
        assert [reading.line_of(place + 1) for place in range(300)] == lines[:-1]


def test_a_quote_that_is_not_closed_is_told(monkeypatch):
    monkeypatch.setattr(csvfile, "LONGEST", 1000)
    before = csv.field_size_limit(1000)
    try:
        given = {"delimiter": ",", "encoding": "UTF8", "missing": "", "header": False, "numbers": "plain"}
        for data, part in [
            (b'1\n"' + b"x\n" * 1000, "Line 2 has a quote that is not closed"),
            (b"x" * 5000, "Line 1 is longer"),
        ]:
            with pytest.raises(csvfile.Unreadable, match=part):
                csvfile.Reading([("a", "text")], **given).feed(data)
    finally:
        csv.field_size_limit(before)


# In a browser


def test_a_file_is_uploaded_in_the_browser(tab, world):
    page = tab("/train/upload", acting=True)
    page.set_input_files("#file", {"name": "penguins.csv", "mimeType": "text/csv", "buffer": PENGUINS})
    page.wait_for_selector("#plan table")
    page.select_option("[name=header]", "0")
    page.wait_for_selector(".column[value=column_1]")
    page.select_option("[name=header]", "1")
    page.wait_for_selector(".column[value=species]")
    page.select_option(".type >> nth=0", "bigint")
    page.click("text=Make the table")
    page.wait_for_selector("#outcome >> text=22P02")
    page.select_option(".type >> nth=0", "text")
    page.click("text=Make the table")
    page.wait_for_selector("h1 >> text=Train from penguins")
    assert world.database.sql("SELECT count(*) FROM penguins") == "3"


def test_a_file_of_utf_16_is_uploaded_in_the_browser(tab, world):
    page = tab("/train/upload", acting=True)
    data = "Straße;Miete\nKönigsallee;1.931,60\n".encode("utf-16")
    page.set_input_files("#file", {"name": "mieten.csv", "mimeType": "text/csv", "buffer": data})
    page.wait_for_selector(".column[value=straße]")
    assert page.input_value("[name=encoding]") == "UTF16" and page.input_value("[name=numbers]") == "comma"
    page.select_option("[name=encoding]", "WIN1252")
    page.wait_for_selector(".column:not([value=straße])")
    page.select_option("[name=encoding]", "UTF16")
    page.wait_for_selector(".column[value=straße]")
    page.click("text=Make the table")
    page.wait_for_selector("h1 >> text=Train from mieten")
    assert world.database.sql("SELECT * FROM mieten") == "Königsallee|1931.6"
