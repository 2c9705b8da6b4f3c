"""Tools that change schemas, beside one another: through the pooler they end where they end without it."""

import shutil

import pytest

from tests.world.tools import HERE, class_path, dump, in_go, python, run, two_ways

MIGRATIONS = HERE / "migrations"


def django(url, _folder):
    """All of Django's own, and those of a small application: forward, back, and forward again."""
    manage = ["-m", "django"]
    place = {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(MIGRATIONS / "django")}
    python(*manage, "migrate", "--verbosity=0", **place)
    assert "No changes detected" in python(*manage, "makemigrations", "--check", **place)
    python(*manage, "migrate", "--verbosity=0", "shop", "zero", **place)
    python(*manage, "migrate", "--verbosity=0", **place)
    said = python(*manage, "showmigrations", "--plan", **place)
    assert "[X]  shop.0003_index" in said and "[ ]" not in said
    dumped = python(*manage, "dumpdata", "shop", "--natural-primary", **place)
    assert dumped.count('"shop.customer"') == dumped.count('"shop.order"') == 500


def alembic(url, folder):
    """Forward, back and forward again, in transactions and outside of them."""
    ini = folder / "alembic.ini"
    ini.write_text(f"[alembic]\nscript_location = {MIGRATIONS / 'alembic'}\n")
    for way in (["upgrade", "head"], ["downgrade", "base"], ["upgrade", "head"]):
        python("-m", "alembic", "--config", ini, *way, DATABASE_URL=url)
    assert "two (head)" in python("-m", "alembic", "--config", ini, "current", DATABASE_URL=url)


def flyway(url, _folder):
    """With its lock in a transaction, and with the one of the session, which CREATE INDEX CONCURRENTLY needs."""
    place, database = url.removeprefix("postgres://").split("@")
    user, password = place.split(":")
    jdbc = f"jdbc:postgresql://{database}"
    program = HERE / "java" / "Migrate.java"
    said = run(["java", "-cp", class_path(), program, jdbc, user, password, MIGRATIONS / "flyway"])
    assert said.endswith("migrated\n")


def golang_migrate(url, _folder):
    """Up, down and up again, under its lock of the session."""
    said = run([in_go("migrate"), f"{url}?sslmode=disable", MIGRATIONS / "golang"])
    assert said == "migrated\n"


@pytest.mark.parametrize("migrate", [django, alembic, flyway, golang_migrate])
def test_migrations_end_with_the_same_schema(server, tmp_path, migrate):
    dumped = {}
    with two_ways(server) as urls:
        for way, url in urls.items():
            folder = tmp_path / way
            folder.mkdir()
            migrate(url, folder)
            dumped[way] = dump(server, url.rpartition("/")[2], "--schema-only")
            shutil.rmtree(folder)
    assert len(dumped["direct"].splitlines()) > 50
    assert dumped["pooled"] == dumped["direct"]
