"""A part of what tests/flat.py does a million times."""

from tests.flat import grown
from tests.hostile import arena

# What one leak of some bytes a prediction, or of some hundred a failure, would be far above.
ALLOWANCE = 500_000


def test_predictions_and_failures_leave_no_memory_behind(server):
    with arena(server) as place:
        _, predictions, failures = grown(place, 100_000, 200)
    assert predictions < ALLOWANCE and failures < ALLOWANCE, (predictions, failures)
