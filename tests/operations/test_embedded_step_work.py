"""What a step of an embedded run costs, in calls of functions: a count that a busy machine does not change."""

from __future__ import annotations

import pytest

from bench.step_cost import calls

# Measured with CPython 3.11: 893 and 705. Later versions make fewer calls for the same code.
MOST_OF_CHAIN, MOST_OF_CROWD = 930, 740


@pytest.mark.parametrize(
    ("workload", "steps_of_one", "most"), [("chain", 1, MOST_OF_CHAIN), ("crowd", 3, MOST_OF_CROWD)]
)
def test_a_step_makes_no_more_calls_than_it_did(workload: str, steps_of_one: int, most: int) -> None:
    """Whoever asks at every step for what is known of the net finds it here."""
    size = 20

    number = sum(of[1] for of in calls(workload, size).values())

    assert number / (size * steps_of_one) <= most
