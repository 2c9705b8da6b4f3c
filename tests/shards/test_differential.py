"""A short run of random statements, through the pooler and on one plain database; `differential` runs longer."""

from tests.shards.differential import comparison


def test_each_statement_is_answered_as_by_one_server_or_refused(shard_servers):
    hub, shards = shard_servers
    lines = []
    with comparison(hub, shards, lambda *texts, **_: lines.extend(texts)) as compared:
        found = compared.run(seed=20261129, first=0, last=400)
        shares = compared.shares()
    assert not found, "\n".join(lines)
    assert all(shares[name] > 50 for name in ("hub", *shards, "done", "error", "refused")), shares
