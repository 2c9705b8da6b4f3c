"""docs/reference/sql.md and settings.md say what the extension has: they are made from the catalog of a server, and the
examples in sql.md from what a server answers to docs/reference/examples.sql.

`make test UPDATE=1` writes them anew.
"""

import itertools
import re

import pytest

from devkit import Problem, examples, postgres
from devkit.places import ROOT

REFERENCE = ROOT / "docs" / "reference"
MEMBERS = """
    SELECT d.objid FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid
    WHERE e.extname = 'pgml' AND d.deptype = 'e' AND d.classid = '{}'::regclass
"""
FUNCTIONS = f"""
    SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
           CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
           CASE p.proparallel WHEN 's' THEN 'parallel safe' WHEN 'r' THEN 'parallel restricted'
                ELSE 'parallel unsafe' END,
           obj_description(p.oid, 'pg_proc')
    FROM pg_proc p
    WHERE p.oid IN ({MEMBERS.format("pg_proc")}) AND obj_description(p.oid, 'pg_proc') IS NOT NULL
    ORDER BY p.proname, pg_get_function_arguments(p.oid)
"""
RELATIONS = f"""
    SELECT c.relname, CASE c.relkind WHEN 'v' THEN 'view' ELSE 'table' END, obj_description(c.oid, 'pg_class'),
           (SELECT string_agg(format('`%s` %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum)
            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
    FROM pg_class c
    WHERE c.oid IN ({MEMBERS.format("pg_class")}) AND c.relkind IN ('r', 'v')
    ORDER BY 2, 1
"""
ENUMS = f"""
    SELECT t.typname, string_agg('`' || e.enumlabel || '`', ', ' ORDER BY e.enumsortorder)
    FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
    WHERE t.oid IN ({MEMBERS.format("pg_type")}) GROUP BY 1 ORDER BY 1
"""
SETTINGS = """
    LOAD 'pgml';
    SELECT name, vartype, boot_val, min_val, max_val, unit,
           CASE context WHEN 'superuser' THEN 'superusers' WHEN 'sighup' THEN 'the configuration' ELSE 'every role' END,
           short_desc, extra_desc
    FROM pg_settings WHERE name LIKE 'pgml.%' ORDER BY name
"""
AGGREGATES = ("predict_agg", "sum", "min", "max", "min_abs", "max_abs")
UNITS = {None: "", "MB": " MB"}


def rows(database, query):
    with database.connect() as own:
        cursor = own.cursor()
        *before, last = [part for part in query.split(";") if part.strip()]
        for statement in before:
            cursor.execute(statement)
        cursor.execute(last)
        return cursor.fetchall()


def examples_shown(database, functions):
    """The examples of each function as the page has them, by its name."""
    sections = examples.read()
    without = sorted(functions - set(sections))
    if without:
        pytest.fail(
            f"docs/reference/examples.sql lacks an example of {', '.join(without)}: add a section that begins with "
            f'"--- {without[0]}" and has a statement or two, then make test UPDATE=1',
            pytrace=False,
        )
    superfluous = sorted(set(sections) - functions - {examples.SETUP})
    if superfluous:
        pytest.fail(f"docs/reference/examples.sql has examples of no function: {superfluous}", pytrace=False)
    answers = examples.answers(database.server, database.name, sections)
    shown = {name: examples.markdown(section, answers[name]) for name, section in sections.items()}
    return shown, "\n".join(statement.sql for statement in sections[examples.SETUP].statements)


def page(database):
    """The text of the reference page."""
    functions = rows(database, FUNCTIONS)
    shown, setup = examples_shown(database, {name for name, *_ in functions})
    lines = [
        "# SQL reference",
        "",
        "Made by `make test UPDATE=1` from the comments in the extension and from what a server answers to the statements of",
        "[examples.sql](examples.sql); a test holds it to both. The hyperparameters of",
        "`pgml.train` are in [algorithms.md](algorithms.md) and [xgboost-hyperparameters.md](xgboost-hyperparameters.md), the settings in",
        "[settings.md](settings.md).",
        "",
        "## Functions",
        "",
        "The examples use these models of built-in data sets:",
        "",
        f"```sql\n{setup}\n```",
        "",
    ]
    for name, overloads in itertools.groupby(functions, key=lambda function: function[0]):
        lines += [f"### {name}", ""]
        for _, arguments, result, volatility, parallel, comment in overloads:
            returns = f" RETURNS {result}" if result else ""
            sort = "aggregate" if name in AGGREGATES else f"{volatility}, {parallel}"
            lines += [f"`pgml.{name}({arguments}){returns}`", f": {comment}. ({sort})", ""]
        lines.append(shown[name])
    lines += ["## Tables and views", "", "| name | what it holds | columns |", "|---|---|---|"]
    for name, kind, comment, columns in rows(database, RELATIONS):
        lines.append(f"| `pgml.{name}` ({kind}) | {comment} | {columns} |")
    lines += ["", "## Types", "", "| type | labels |", "|---|---|"]
    lines += [f"| `pgml.{name}` | {labels} |" for name, labels in rows(database, ENUMS)]
    return "\n".join(lines) + "\n"


def settings_page(database):
    """The text of the page of the settings."""
    lines = [
        "# Settings",
        "",
        "Made from the extension by `make test UPDATE=1`; a test holds it to `pg_settings`. Set a setting of the configuration",
        "in postgresql.conf or by `ALTER SYSTEM` (after `LOAD 'pgml'`, if the connection has not used the extension yet). It",
        "takes effect when the configuration is reloaded (`pg_reload_conf()`).",
        "",
        "| setting | default | limits | who may set it | meaning |",
        "|---|---|---|---|---|",
    ]
    for name, kind, default, least, most, unit, who, short, extra in rows(database, SETTINGS):
        limits = f"{least} to {most}{UNITS[unit]}" if kind == "integer" else "text"
        meaning = f"{short} {extra or ''}".strip()
        lines.append(f"| `{name}` | `{default}{UNITS[unit]}` | {limits} | {who} | {meaning} |")
    return "\n".join(lines) + "\n"


def check(page, text, request):
    page = REFERENCE / page
    if request.config.getoption("--update-expected"):
        page.write_text(text)
    if page.read_text() != text:
        pytest.fail(f"{page.relative_to(ROOT)} is not what the extension says: make test UPDATE=1", pytrace=False)


def test_the_sql_reference_is_what_the_extension_says(database, major, request):
    if major != postgres.NEWEST:
        # The catalog functions word a few types otherwise in other versions; the extension and its answers are the same.
        shown, _ = examples_shown(database, {name for name, *_ in rows(database, FUNCTIONS)})
        text = (REFERENCE / "sql.md").read_text()
        differ = [example for name, example in shown.items() if name != examples.SETUP and example not in text]
        assert not differ, "\n".join(differ)
        return
    check("sql.md", page(database), request)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--- add\nSELECT 1\n--- divide\nSELECT 2;\n", "line 3: the statement before it lacks its semicolon"),
        ("--- add\nSELECT 1\n", "the last statement lacks its semicolon"),
        ("--- add\nSELECT 1;\n--- add\n", "line 3: there are two sections of add"),
        ("--- add, twice\nSELECT 1;\n", "line 1: a section begins with"),
    ],
    ids=["semicolon", "last_semicolon", "twice", "heading"],
)
def test_a_section_of_examples_that_cannot_be_read_is_named(text, message):
    with pytest.raises(Problem, match=message):
        examples.read(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--- add\nSELECT 1;\n\n--- divide\nSELECT 2;\nSELECT 1 / 0;\n", "section divide:\nSELECT 1 / 0;\n.*by zero"),
        ("--- add\nSELECT 1;\n-- error\nSELECT 2;\n", "section add, does not fail:\nSELECT 2;"),
    ],
    ids=["fails", "does_not_fail"],
)
def test_an_example_that_does_not_do_what_it_is_to_is_named(database, text, message):
    with pytest.raises(Problem, match=message):
        examples.answers(database.server, database.name, examples.read(text))


def test_a_function_without_an_example_is_named(database):
    with pytest.raises(pytest.fail.Exception, match='lacks an example of no_such: add a section.*"--- no_such"'):
        examples_shown(database, {"add", "no_such"})


def test_the_settings_are_what_the_extension_says(database, request):
    check("settings.md", settings_page(database), request)


def test_every_setting_has_a_sentence_and_limits_that_hold(database):
    settings = rows(database, SETTINGS)
    assert settings
    for name, kind, default, least, most, _, who, short, _ in settings:
        assert short.endswith(".") and len(short.split()) > 3, name
        if kind != "integer":
            continue
        assert int(least) <= int(default) <= int(most), name
        for value in (int(least) - 1, int(most) + 1):
            # The configuration refuses what it would not take at the start of the server.
            change = "SET" if who == "every role" else "ALTER SYSTEM SET"
            with pytest.raises(
                Problem, match="is outside the valid range|exceeds integer range|out of range|invalid value"
            ):
                database.sql(f"LOAD 'pgml'; {change} {name} = {value}")


def test_no_setting_of_the_prefix_is_made_up(database):
    with pytest.raises(Problem, match='invalid configuration parameter name "pgml.nothing"'):
        database.sql("LOAD 'pgml'; SET pgml.nothing = 1")


def test_sqlstates_have_the_names_that_postgresql_gives_them():
    share = postgres.tree(postgres.NEWEST).bin.parent / "share"
    errcodes = next(share.rglob("errcodes.txt")).read_text()
    known = set(re.findall(r"^(\w{5}) +[A-Z] +ERRCODE_(\w+)", errcodes, re.MULTILINE))
    ours = re.findall(r'const (\w+): &str = "(\w+)";', (ROOT / "crates/wire/src/sqlstate.rs").read_text())
    assert ours and {(code, name) for name, code in ours} <= known
