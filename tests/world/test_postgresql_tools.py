"""PostgreSQL's own tools do through the pooler, in transaction mode, byte for byte what they do directly."""

import hashlib
import json
import re
import subprocess

import pytest

from devkit import postgres
from devkit.server import SUPERUSER, Server, environment
from tests.pooler.process import Pooler

# The tools differ from version to version, in what they say before they begin.
EACH_VERSION = True

# What a dump must get right: names that mean another thing under another search_path.
SOURCE = """
CREATE SCHEMA app AUTHORIZATION app;
CREATE TABLE app.orders (id int PRIMARY KEY, who text);
INSERT INTO app.orders VALUES (1, 'APP');
CREATE TABLE public.orders (id int PRIMARY KEY, who text);
INSERT INTO public.orders VALUES (1, 'PUBLIC');
CREATE VIEW public.report AS SELECT who FROM app.orders;
CREATE FUNCTION app.total() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM app.orders';
CREATE TYPE app.mood AS ENUM ('sad', 'ok');
CREATE TABLE app.lines (id int GENERATED ALWAYS AS IDENTITY, "order" int REFERENCES app.orders, mood app.mood,
    at timestamptz DEFAULT '2026-01-02 03:04:05+00', price numeric(10, 2), raw bytea);
INSERT INTO app.lines ("order", mood, price, raw)
    SELECT 1, 'ok', n / 7.0, decode(md5(n::text), 'hex') FROM generate_series(1, 2000) AS n;
CREATE INDEX ON app.lines (price);
CLUSTER app.lines USING lines_price_idx;
CREATE MATERIALIZED VIEW app.sums AS SELECT mood, sum(price) FROM app.lines GROUP BY mood;
CREATE SEQUENCE app.s START 5;
SELECT nextval('app.s');
COMMENT ON TABLE app.orders IS 'it''s ''quoted'' \\';
GRANT SELECT ON app.orders TO reader;
ALTER TABLE app.orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON app.orders USING (who = current_user);
SELECT lo_from_bytea(4711, 'large');
"""

# A dump of today carries a password of its own for psql's restricted mode, another one each time.
RESTRICTED = re.compile(r"^\\(un)?restrict .*$", re.M)


class Ways:
    """A server, and how its tools reach it: directly and through the pooler."""

    def __init__(self, server, pooler, folder):
        self.server = server
        self.folder = folder
        self.places = {
            "direct": ["-h", server.socket_folder, "-p", str(server.port)],
            "pooled": ["-h", "127.0.0.1", "-p", str(pooler.port)],
        }

    def run(self, way, tool, *arguments, user=SUPERUSER, text=None):
        """What a tool prints and says; it must succeed."""
        command = [self.server.tree.program(tool), *self.places[way], "-U", user, *map(str, arguments)]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, env=environment(), check=False, timeout=120
        )
        assert done.returncode == 0, f"{tool} {way}: {done.stderr}"
        return RESTRICTED.sub("", done.stdout), done.stderr

    def same(self, tool, *arguments, **options):
        """What a tool prints and says, the same on both ways."""
        direct, pooled = (self.run(way, tool, *arguments, **options) for way in self.places)
        assert pooled == direct
        return direct[0]


@pytest.fixture(scope="module")
def ways(major, tmp_path_factory):
    with Server(postgres.tree(major)) as server, Pooler(server, default_pool_size=6) as pooler:
        server.psql("CREATE ROLE app SUPERUSER LOGIN; CREATE ROLE reader LOGIN; CREATE DATABASE src OWNER app")
        server.psql("ALTER DATABASE src SET search_path = app, public")
        server.psql(SOURCE, "src")
        yield Ways(server, pooler, tmp_path_factory.mktemp("tools"))


@pytest.mark.parametrize(
    "arguments",
    [[], ["--inserts", "--rows-per-insert=100"], ["--schema-only", "--clean", "--if-exists"], ["-b", "-Fp"]],
)
def test_a_dump(ways, arguments):
    for user in (SUPERUSER, "app"):
        text = ways.same("pg_dump", *arguments, "src", user=user)
        assert "set_config('search_path', '', false)" in text and "FROM app.orders" in text


def test_a_dump_of_all_databases_and_roles(ways):
    assert "CREATE ROLE reader" in ways.same("pg_dumpall")


def restored(ways, way, name):
    """The text of a restored database, by a dump that nobody has been between."""
    assert ways.run("direct", "psql", "-qAtc", "SELECT who FROM report", name)[0] == "APP\n"
    return ways.run("direct", "pg_dump", name)[0].replace(name, "dst")


def test_what_is_restored(ways):
    texts = set()
    for dumped in ways.places:
        folder = ways.folder / f"dump-{dumped}"
        ways.run(dumped, "pg_dump", "-Fd", "-j", "3", "-f", folder, "src")
        plain = ways.run(dumped, "pg_dump", "src")[0]
        for way in ways.places:
            name = f"dst_{dumped}_{way}"
            ways.run(way, "createdb", name)
            ways.run(way, "pg_restore", "-j", "3", "-d", name, folder)
            texts.add(restored(ways, way, name))
            name = f"plain_{dumped}_{way}"
            ways.run(way, "createdb", name)
            ways.run(way, "psql", "-X", "-v", "ON_ERROR_STOP=1", "-q", "-d", name, text=plain)
            texts.add(restored(ways, way, name))
    assert len(texts) == 1


def test_maintenance(ways):
    for tool, *arguments in [
        ("vacuumdb", "-e", "-z", "src"),
        ("vacuumdb", "-e", "-Z", "-j", "2", "-t", "app.lines", "-t", "app.orders", "src"),
        ("vacuumdb", "--analyze-in-stages", "src"),
        ("reindexdb", "-e", "src"),
        ("reindexdb", "-e", "--concurrently", "-t", "app.lines", "src"),
        ("clusterdb", "-e", "src"),
    ]:
        # In which order tables of one size come is chance.
        direct, pooled = (sorted("".join(ways.run(way, tool, *arguments)).splitlines()) for way in ways.places)
        assert pooled == direct
    if "amcheck" in ways.server.psql("SELECT name FROM pg_available_extensions"):
        ways.server.psql("CREATE EXTENSION amcheck", "src")
        ways.same("pg_amcheck", "-d", "src")


def test_databases_and_roles(ways):
    for way in ways.places:
        said = ways.run(way, "createuser", "-e", "--createdb", "made"), ways.run(way, "dropuser", "-e", "made")
        said += ways.run(way, "createdb", "-e", "made"), ways.run(way, "dropdb", "-e", "-f", "made")
        assert "DROP DATABASE" in said[-1][0]


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_pgbench(ways, protocol):
    for way in ways.places:
        name = f"bench_{protocol}_{way}"
        ways.server.psql(f"CREATE DATABASE {name}")
        ways.run(way, "pgbench", "-i", "-q", "-s", "1", name)
        # A thread for each client: pgbench waits in the middle of a transaction for what another of the thread prepares.
        said = ways.run(way, "pgbench", "-n", "-M", protocol, "-c", "8", "-j", "8", "-t", "25", name)[0]
        assert "number of transactions actually processed: 200/200" in said
        sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), \
            (SELECT count(*) FROM pgbench_history)"
        assert ways.run("direct", "psql", "-qAtc", sums, name)[0] == "t|200\n"


def test_psql(ways):
    script = r"""\d
\dt+ app.*
\d+ app.lines
\dv+ public.*
\sf app.total
\du
\l src
\dn+
\dp app.*
\ds app.*
\dT app.*
\dx
SELECT set_config('app.user', 'x', false);
SELECT current_setting('app.user');
\set FETCH_COUNT 100
SELECT id, price FROM app.lines ORDER BY id;
\gdesc
SELECT 1 AS a, 'x' AS b \gset
SELECT :a, :'b';
\copy app.lines (id, price) TO stdout WITH (FORMAT csv)
SELECT 1 \; SELECT 2;
SELECT $1::int + 1 \bind 41 \g
BEGIN; SELECT 1/0; ROLLBACK;
\encoding
\conninfo_is_no_command
"""
    if ways.server.tree.major < 16:
        script = script.replace("SELECT $1::int + 1 \\bind 41 \\g\n", "")
    ways.same("psql", "-X", "-a", "-d", "src", text=script)


def test_a_base_backup(ways):
    names = []
    for way in ways.places:
        folder = ways.folder / f"base-{way}"
        ways.run(way, "pg_basebackup", "-D", folder, "-c", "fast", "-X", "stream", "--manifest-checksums=SHA256")
        files = json.loads((folder / "backup_manifest").read_text())["Files"]
        assert len(files) > 900
        for file in files:
            digest = hashlib.sha256((folder / file["Path"]).read_bytes()).hexdigest()
            assert digest == file["Checksum"], file
        assert list((folder / "pg_wal").glob("0*"))
        names.append({file["Path"] for file in files})
    assert names[0] == names[1]
