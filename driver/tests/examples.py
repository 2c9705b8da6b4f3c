"""How many random examples a test tries: few by default, HOWDAH_EXAMPLES times as many for a long run."""

import os

FACTOR = float(os.environ.get("HOWDAH_EXAMPLES", "1"))


def examples(count):
    """That many examples, times the factor asked for; at least one."""
    return max(1, round(count * FACTOR))
