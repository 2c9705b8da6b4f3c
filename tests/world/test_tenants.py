"""An application that keeps its tenants apart by a role, by row level security and by search_path, in transaction pooling:
no request sees another tenant's rows, whatever connection it comes by.
"""

import concurrent.futures
import random

import psycopg
import pytest

from tests.world.tools import two_ways

TENANTS = 8
REQUESTS = 40

SCHEMA = """
    DROP ROLE IF EXISTS app_user, app_admin;
    CREATE ROLE app_user LOGIN NOINHERIT; CREATE ROLE app_admin NOLOGIN; GRANT app_admin TO app_user;
    CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY, tenant int NOT NULL, total int NOT NULL);
    INSERT INTO orders (tenant, total) SELECT t, 100 * t + n FROM generate_series(0, 7) t, generate_series(1, 20) n;
    ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
    -- A setting that a connection has had once is empty there afterwards, in PostgreSQL as behind any pooler.
    CREATE POLICY own ON orders TO app_user
        USING (tenant = nullif(current_setting('app.tenant', true), '')::int)
        WITH CHECK (tenant = nullif(current_setting('app.tenant', true), '')::int);
    CREATE POLICY everything ON orders TO app_admin USING (true);
    GRANT SELECT, INSERT ON orders TO app_user, app_admin;
"""
OWN = "CREATE SCHEMA tenant_{0} CREATE TABLE notes (body text); INSERT INTO tenant_{0}.notes VALUES ('of {0}');"


@pytest.fixture(scope="module")
def url(server):
    """The URL of the application's database through the pooler, with fewer servers than clients."""
    with two_ways(server) as urls:
        database = urls["pooled"].rpartition("/")[2]
        server.psql(SCHEMA, database)
        for tenant in range(TENANTS):
            server.psql(OWN.format(tenant), database)
        server.psql(
            "DO $$ DECLARE s name; BEGIN FOR s IN SELECT nspname FROM pg_namespace WHERE nspname ~ '^tenant_' LOOP"
            " EXECUTE format('GRANT USAGE ON SCHEMA %I TO app_user; GRANT SELECT ON %I.notes TO app_user', s, s);"
            " END LOOP; END $$",
            database,
        )
        yield f"postgres://app_user@{urls['pooled'].partition('@')[2]}"
    server.psql("DROP ROLE app_user, app_admin")


def connected(url):
    """A connection of the application, whose parameters are written into its statements as literals."""
    return psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor)


def by_set_config(connection, tenant):
    """Says who it is once, at the start, as a framework does at each checkout."""
    connection.execute("SELECT set_config('app.tenant', %s, false)", (str(tenant),))
    connection.execute("SELECT pg_catalog.set_config('search_path', %s, false)", (f"tenant_{tenant}, public",))


def by_set(connection, tenant):
    """The same by SET, of both at once."""
    connection.execute(f"SET app.tenant = {tenant}; SET search_path TO tenant_{tenant}, public")


WAYS = {"set_config": by_set_config, "SET": by_set}


def seen(connection):
    """What a request sees: whose orders, and whose notes."""
    orders = connection.execute("SELECT array_agg(DISTINCT tenant), count(*) FROM orders").fetchone()
    return orders, connection.execute("SELECT body FROM notes").fetchall()


def live(url, tenant, way):
    """A tenant's requests, with pauses in which its server connection is another's."""
    chance = random.Random(tenant)
    with connected(url) as connection:
        way(connection, tenant)
        written = 20
        for _ in range(REQUESTS):
            orders, notes = seen(connection)
            assert orders == ([tenant], written) and notes == [(f"of {tenant}",)]
            what = chance.randrange(4)
            if what == 0:
                connection.execute("INSERT INTO orders (tenant, total) VALUES (%s, 0)", (tenant,))
                written += 1
            elif what == 1:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("INSERT INTO orders (tenant, total) VALUES (%s, 0)", (tenant + 1,))
            elif what == 2:
                # For this transaction only; the tenant's own afterwards.
                with connection.transaction():
                    connection.execute("SET LOCAL ROLE app_admin")
                    connection.execute("SELECT set_config('search_path', 'public', true)")
                    assert connection.execute("SELECT count(*) > %s FROM orders", (written,)).fetchone() == (True,)
                    assert connection.execute("SELECT to_regclass('notes')").fetchone() == (None,)
            else:
                with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
                    connection.execute("SELECT set_config('app.tenant', '-1', false)")
                    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
                    connection.execute("SELECT 1 / 0")
    return written - 20


@pytest.mark.parametrize("way", WAYS)
def test_each_request_sees_its_own_tenants_rows(server, url, way):
    database = url.rpartition("/")[2]
    server.psql("DELETE FROM orders WHERE total = 0", database)
    with concurrent.futures.ThreadPoolExecutor(TENANTS) as threads:
        counts = list(threads.map(lambda tenant: live(url, tenant, WAYS[way]), range(TENANTS)))
    assert server.psql("SELECT count(*) FROM orders WHERE total = 0", database) == str(sum(counts))


def test_who_says_nothing_sees_nothing(url):
    for _ in range(TENANTS):
        with connected(url) as connection:
            assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
            assert connection.execute("SELECT current_setting('app.tenant', true)").fetchone()[0] in (None, "")


def test_a_role_lasts_as_long_as_its_session(url):
    with connected(url) as admin, connected(url) as other:
        admin.execute("SET ROLE app_admin")
        for _ in range(5):
            assert admin.execute("SELECT current_user, session_user").fetchone() == ("app_admin", "app_user")
            assert other.execute("SELECT current_user").fetchone() == ("app_user",)
        admin.execute("RESET ROLE")
        assert admin.execute("SELECT count(*) FROM orders").fetchone() == (0,)
