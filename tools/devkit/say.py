"""What the tools print: one line a step, and how long the long ones took."""

import contextlib
import sys
import time


def step(text):
    """Announces a step."""
    print(f"==> {text}", flush=True)


def note(text):
    """Says something about the step under way."""
    print(f"    {text}", flush=True)


def complain(text):
    """Says what went wrong, to standard error."""
    print(f"error: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def timed(text):
    """Announces a step, and when it is done says how long it took if that was noticeable."""
    step(text)
    start = time.monotonic()
    yield
    took = time.monotonic() - start
    if took >= 1.0:
        note(f"done in {took:.0f} s")
