"""Statements on the hub answer as one plain server answers, or are refused with a reason."""

import random
import re

import pytest

from devkit import Problem

SCHEMA = """
CREATE TABLE countries (id int PRIMARY KEY, name text);
INSERT INTO countries VALUES (1, 'Peru'), (2, 'Chad'), (3, 'Oman');
CREATE TABLE customers (tenant int, id int, name text NOT NULL, country int, born date, PRIMARY KEY (tenant, id));
CREATE TABLE orders (tenant int, id int, customer int, total numeric(10, 2) CHECK (total >= 0), tags text[], doc jsonb, PRIMARY KEY (tenant, id));
INSERT INTO customers SELECT i % 17, i, 'name ' || i % 30, 1 + i % 3, date '1970-01-01' + i * 37 FROM generate_series(1, 200) i;
INSERT INTO orders SELECT i % 17, i, 1 + (i * 7) % 200, i * 1.25, ARRAY['a' || i % 3, 'b'], jsonb_build_object('n', i, 'odd', i % 2 = 1)
    FROM generate_series(1, 600) i;
"""
SHARD = """
SELECT FROM howdah_shards.distribute_table('customers', 'tenant', 8);
SELECT FROM howdah_shards.distribute_table('orders', 'tenant', colocate_with => 'customers');
"""
STATEMENTS = [
    "SELECT * FROM customers WHERE tenant = 3 AND id = 20",
    "SELECT * FROM orders WHERE tenant IN (1, 2, 16) ORDER BY id LIMIT 20 OFFSET 3",
    "SELECT count(*), sum(total), avg(total), min(id), max(id), stddev_pop(total) FROM orders",
    "SELECT tenant, count(*), count(DISTINCT customer), array_agg(id ORDER BY id) FILTER (WHERE total < 100) FROM orders GROUP BY tenant HAVING count(*) > 35",
    "SELECT c.name, k.name, sum(o.total) FROM orders o JOIN customers c ON c.tenant = o.tenant AND c.id = o.customer JOIN countries k ON k.id = c.country GROUP BY 1, 2",
    "SELECT c.id, o.id FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.total > 700",
    "SELECT name FROM customers c WHERE EXISTS (SELECT FROM orders o WHERE o.tenant = c.tenant AND o.customer = c.id)",
    "SELECT name FROM customers WHERE (tenant, id) NOT IN (SELECT tenant, customer FROM orders)",
    "WITH best AS (SELECT tenant, max(total) AS t FROM orders GROUP BY tenant) SELECT o.* FROM orders o JOIN best b ON b.tenant = o.tenant AND b.t = o.total",
    "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i, (SELECT count(*) FROM orders WHERE tenant = i) FROM n",
    "SELECT tenant, id, rank() OVER (PARTITION BY tenant ORDER BY total DESC), lag(total) OVER (ORDER BY id) FROM orders WHERE id < 100",
    "SELECT DISTINCT ON (tenant) tenant, id, total FROM orders ORDER BY tenant, total DESC, id",
    "SELECT name FROM customers WHERE tenant < 5 UNION SELECT name FROM countries EXCEPT SELECT 'name 3'",
    "SELECT grouping(tenant), tenant, country, count(*) FROM customers GROUP BY GROUPING SETS ((tenant), (country), ())",
    "SELECT id, doc->'n', tags[1] FROM orders WHERE doc @> '{\"odd\": true}' AND 'a1' = ANY (tags) AND id < 60",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total), string_agg(DISTINCT tags[1], ',') FROM orders",
    "SELECT * FROM customers WHERE born BETWEEN '1975-01-01' AND '1976-01-01' AND name LIKE 'name 1%'",
    "SELECT t, x.* FROM generate_series(1, 4) t, LATERAL (SELECT id FROM orders WHERE tenant = t ORDER BY total DESC LIMIT 2) x",
    "INSERT INTO orders VALUES (1, 9001, 5, 1), (2, 9002, 6, 2), (NULL, 9003, 6, 2) RETURNING *",
    "INSERT INTO orders (tenant, id, customer, total) SELECT tenant, id + 10000, customer, total + 1 FROM orders WHERE total < 50 RETURNING id",
    "INSERT INTO orders (tenant, id, total) VALUES (1, 9004, -1)",
    "INSERT INTO customers (tenant, id) VALUES (1, 9005)",
    "INSERT INTO customers VALUES (3, 20, 'again', 1, NULL)",
    "INSERT INTO customers VALUES (3, 20, 'again', 1, NULL) ON CONFLICT DO NOTHING",
    "INSERT INTO customers VALUES (3, 20, 'again', 1, NULL) ON CONFLICT (tenant, id) DO UPDATE SET name = excluded.name",
    "UPDATE orders SET total = total * 2 WHERE tenant = 4 RETURNING id, total",
    "UPDATE orders o SET total = o.total + 1 FROM customers c WHERE c.tenant = o.tenant AND c.id = o.customer AND c.country = 2",
    "UPDATE orders SET doc = doc || '{\"seen\": 1}' WHERE id % 5 = 0",
    "UPDATE orders SET tenant = tenant + 1 WHERE id < 100",
    "UPDATE orders SET total = -1 WHERE id = 18",
    "DELETE FROM orders WHERE tenant = 5 AND id % 2 = 0 RETURNING id",
    "DELETE FROM orders o USING customers c WHERE c.tenant = o.tenant AND c.id = o.customer AND c.name = 'name 7'",
    "BEGIN; DELETE FROM orders; SAVEPOINT a; INSERT INTO orders VALUES (1, 1, 1, 1); ROLLBACK TO a; ROLLBACK",
    "BEGIN; SELECT id FROM orders WHERE tenant = 6 ORDER BY id LIMIT 1 FOR UPDATE; UPDATE orders SET total = 5 WHERE tenant = 6 AND total < 30; COMMIT",
    "BEGIN; DECLARE c CURSOR FOR SELECT id FROM orders ORDER BY id; MOVE 10 IN c; FETCH 5 FROM c; COMMIT",
    "PREPARE p (int, numeric) AS SELECT id FROM orders WHERE tenant = $1 AND total > $2; EXECUTE p (7, 100); EXECUTE p (8, 700)",
    "COPY (SELECT * FROM orders ORDER BY id) TO STDOUT",
    "COPY customers FROM STDIN;\n1\t9100\tcopied\t1\t2000-01-01\n2\t9101\tcopied\t1\t2000-01-01\n\\.\nSELECT count(*) FROM customers",
    "MERGE INTO orders o USING customers c ON false WHEN NOT MATCHED THEN DO NOTHING",
    "SELECT tableoid::regclass IS NOT NULL FROM customers WHERE tenant = 1 LIMIT 1",
    "TRUNCATE orders; SELECT count(*) FROM orders",
]
# What the hub refuses, by the beginning of the statement, and its reason.
REFUSED = {
    "INSERT INTO customers VALUES (3, 20, 'again', 1, NULL) ON CONFLICT (": "there is no unique or exclusion constraint matching the ON CONFLICT specification",
    "UPDATE orders SET tenant = tenant + 1": "violates partition constraint",
    "MERGE INTO orders": "cannot execute MERGE on relation",
}
STATE = "SELECT * FROM customers ORDER BY id; SELECT * FROM orders ORDER BY id"


def said(sql, statement):
    """The rows that a statement answers with, in any order unless it says one, or its error without the numbers of slots."""
    try:
        lines = sql(statement).splitlines()
        return lines if "ORDER BY" in statement else sorted(lines)
    except Problem as problem:
        return re.sub(r"_s\d+", "", str(problem).splitlines()[0])


def test_the_hub_answers_as_one_server(fleet):
    plain = f"{fleet.database}_plain"
    fleet.hub.psql(f"CREATE DATABASE {plain}")
    try:
        one = lambda text: fleet.hub.psql(text, plain)  # noqa: E731
        one(SCHEMA)
        fleet.sql(SCHEMA + SHARD)
        for statement in STATEMENTS:
            reason = next((reason for start, reason in REFUSED.items() if statement.startswith(start)), None)
            if reason:
                with pytest.raises(Problem, match=reason):
                    fleet.sql(statement)
                continue
            assert said(fleet.sql, statement) == said(one, statement), statement
            if not statement.startswith(("SELECT", "WITH")):
                assert fleet.sql(STATE) == one(STATE), statement
    finally:
        fleet.hub.psql(f"DROP DATABASE {plain}")


def test_random_conditions_find_the_same_rows(fleet):
    draw = random.Random(20261129)
    fleet.sql(SCHEMA + "CREATE TABLE plain AS SELECT * FROM orders;" + SHARD)
    atoms = ["tenant = {n}", "tenant IN ({n}, {m})", "tenant > {n}", "tenant IS NULL", "tenant = id % 17", "tenant + 0 = {n}",
             "id = {m}", "total < {m}", "customer = ANY (ARRAY[{n}, {m}])", "doc->>'odd' = 'true'", "tags @> ARRAY['a1']",
             "(tenant, id) = ({n}, {m})", "tenant = (SELECT min(id) FROM countries)", "tenant BETWEEN {n} AND {n} + 2"]  # fmt: skip
    conditions = []
    for _ in range(150):
        parts = [
            draw.choice(atoms).format(n=draw.randint(0, 18), m=draw.randint(0, 600)) for _ in range(draw.randint(1, 4))
        ]
        parts = [f"NOT ({part})" if draw.random() < 0.15 else part for part in parts]
        text = parts[0]
        for part in parts[1:]:
            text = f"({text}) {draw.choice(['AND', 'OR'])} {part}"
        conditions.append(text)
    ask = "SELECT (SELECT string_agg(id::text, ' ' ORDER BY id) FROM {} WHERE {})"
    found = [
        fleet.sql(";".join(ask.format(table, condition) for condition in conditions)).splitlines()
        for table in ("orders", "plain")
    ]
    for condition, sharded, whole in zip(conditions, *found, strict=True):
        assert sharded == whole, condition
