"""Programs of many clients on a sharded database, through the pooler: they read the same as on one server."""

import os
import sys
from urllib.parse import urlsplit

import pytest

from devkit.places import ROOT
from tests.shards.conftest import shard_servers  # noqa: F401 (a fixture)
from tests.world.shop import shop
from tests.world.tools import HERE, class_path, in_go, in_node, in_python, run

PYTHON = ("psycopg", "psycopg-client", "psycopg-prepared", "howdah", "asyncpg", "howdah-asyncio")
ALCHEMY = ("sqlalchemy-psycopg", "sqlalchemy-howdah")


@pytest.fixture(scope="module")
def urls(shard_servers):  # noqa: F811
    """The shop's databases."""
    with shop(*shard_servers) as made:
        yield made


def of_python(driver):
    """A program of Python."""
    return lambda url, base: [sys.executable, HERE / "shop" / "python_shop.py", url, base, driver]


def django(*words):
    """Django's ORM."""
    return lambda url, base: [sys.executable, HERE / "shop" / "django_shop.py", url, base, *words]


def of_old_python(program, *words):
    """A program that needs Django 4.2 or psycopg2."""
    return lambda url, base: [
        "env",
        f"PYTHONPATH={in_python('django4')}",
        sys.executable,
        HERE / "shop" / program,
        url,
        base,
        *words,
    ]


def java(url, base):
    """Java's pgjdbc."""
    parts = urlsplit(url)
    place = f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}"
    return ["java", "-cp", class_path(), HERE / "java" / "Shop.java", place, parts.username, parts.password, base]


CLIENTS = {
    "django": django(),
    "django bound": django("bound"),
    "django 4": of_old_python("django4_shop.py"),
    "psycopg2": of_old_python("python_shop.py", "psycopg2"),
    **{driver: of_python(driver) for driver in (*PYTHON, *ALCHEMY)},
    "node": lambda url, base: ["node", in_node("shop.js"), url, base],
    "go": lambda url, base: [in_go("shop"), f"{url}?sslmode=disable", base],
    "java": java,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reads_what_it_reads_on_one_server(urls, client):
    base = 1000 * (1 + list(CLIENTS).index(client))
    path = f"{ROOT / 'driver' / 'python'}:{os.environ.get('PYTHONPATH', '')}"
    plain, pooled = (run(CLIENTS[client](urls[way], base), PYTHONPATH=path).splitlines() for way in ("plain", "pooled"))
    assert plain and pooled == plain
