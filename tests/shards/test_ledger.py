"""A short run of the ledger; `ledger` runs longer."""

from tests.shards import fleet as fleets
from tests.shards.ledger import ledger


def test_a_ledger_stays_balanced_while_servers_and_the_pooler_are_killed(major):
    with fleets.servers(major) as (hub, shards), ledger(hub, shards) as made:
        made.run(seconds=20, every=2.5, seed=20261129)
        report, faults = made.report(), made.faults()
    assert not faults, (faults[:10], report)
    assert sum(made.kills.values()) >= 4 and made.kills["pooler"] < sum(made.kills.values()), report
    assert report["committed"] > 100 and report["unknown"] < report["committed"], report


def test_slots_move_under_load_without_an_error_but_those_to_be_repeated(shard_servers):
    with ledger(*shard_servers, lease="1 second") as made:
        made.run(seconds=8, every=60, moves=True)
        report, faults = made.report(), made.faults()
    assert not faults, (faults[:10], report)
    assert made.moves and set(report["errors"]) <= {"40001"}, report
