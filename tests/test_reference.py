"""docs/reference/sql.md and settings.md say what the extension has: they are made from the catalog of a server.

`make test UPDATE=1` writes it anew.
"""

import pytest

from devkit import Problem, postgres
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


def page(database):
    """The text of the reference page."""
    lines = [
        "# SQL reference",
        "",
        "Made from the comments in the extension by `make test UPDATE=1`; a test holds it to them. The hyperparameters of",
        "`pgml.train` are in [algorithms.md](algorithms.md) and [xgboost-hyperparameters.md](xgboost-hyperparameters.md), the settings in",
        "[settings.md](settings.md).",
        "",
        "## Functions",
        "",
    ]
    for name, arguments, result, volatility, parallel, comment in rows(database, FUNCTIONS):
        returns = f" RETURNS {result}" if result else ""
        sort = "aggregate" if name in AGGREGATES else f"{volatility}, {parallel}"
        lines += [f"`pgml.{name}({arguments}){returns}`", f": {comment}. ({sort})", ""]
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
        "Made from the extension by `make test UPDATE=1`; a test holds it to `pg_settings`. A setting of the configuration is for",
        "postgresql.conf or `ALTER SYSTEM` (after `LOAD 'pgml'`, where the connection has not used it yet), and holds when",
        "the configuration is read again (`pg_reload_conf()`).",
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
        # The catalog functions word a few types otherwise in other versions; the extension is the same.
        assert rows(database, FUNCTIONS)
        return
    check("sql.md", page(database), request)


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
