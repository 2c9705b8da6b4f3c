"""The SQL of the guide runs as it stands, with the addresses of real servers."""

import re

from devkit.places import ROOT

GUIDE = ROOT / "docs" / "guide" / "sharding.md"
# Nothing that a test may change on servers of others, and what would wait.
LEFT_OUT = ("ALTER SYSTEM",)
# A reader has more orders to train from than the guide inserts.
ROWS = "INSERT INTO orders (customer_id, placed, total) SELECT 1 + i % 3, date '2026-01-01' + i, i FROM generate_series(1, 200) i"


def test_the_guide_runs(bare_fleet):
    fleet = bare_fleet
    fleet.sql("DROP SCHEMA contrib CASCADE; DROP EXTENSION IF EXISTS howdah_shards")
    printed = []
    try:
        for block in re.findall(r"^```sql\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
            if block.startswith(LEFT_OUT):
                continue
            for number, server in enumerate([fleet.hub, *fleet.shards.values()]):
                host = "hub" if number == 0 else f"db{number}"
                block = block.replace(
                    f"host={host}.internal dbname=app user=howdah password=secret", fleet.conninfo(server)
                )
            if "pgml.train" in block:
                fleet.sql(ROWS)
            printed.append(fleet.sql(block))
    finally:
        for server in [fleet.hub, *fleet.shards.values()]:
            if server.psql("SELECT count(*) FROM pg_roles WHERE rolname = 'web'") == "1":
                server.psql("DROP OWNED BY web CASCADE; ", fleet.database)
                server.psql("DROP ROLE web")
    assert len(printed) == 7
    assert len(re.findall(r"^\d+\|\d", printed[4], re.MULTILINE)) > 60
    assert "Ada|30.00\nEdsger|30.00\n" in printed[2] and "customers|31|" in printed[2]
    assert fleet.sql("SELECT shard FROM howdah_shards.routes WHERE table_name = 'orders' AND slot = 0") == "s2"
