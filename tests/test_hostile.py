"""A part of what tests/hostile.py does for as long as is wanted."""

import random

from tests.hostile import OWNER, STRANGER, arena, random_calls, walk


def test_no_call_of_any_function_does_more_than_fail(server):
    with arena(server) as place:
        roll = random.Random(1)
        place.run(walk(place.found, place.enums, roll, share=0.1), roll)
        calls = random_calls(place.found, place.enums, roll)
        place.run((next(calls) for _ in range(1000)), roll)
        place.reset()
        place.check()
        states = {caller.role: caller.states for caller in place.callers}
    # What was called did what it is for, was refused, and met the timeout.
    assert len(place.found) > 60 and place.calls > 3000
    assert states[OWNER]["00000"] > 100 and states[STRANGER]["42501"] > 100, states
    assert states[OWNER]["57014"] > 0 and len(states[OWNER]) > 15, states
