"""Ids of events: they follow from their cause, and sort about as things happen."""

from __future__ import annotations

import pytest

from noetl.base.ids import derived, derived_after


@pytest.mark.req("EVT-02")
def test_what_follows_from_an_event_sorts_after_it() -> None:
    """An index of such ids grows at its end: a commit writes a page of it instead of one for every event."""
    ids = [derived("request")]
    for ordinal in range(300):
        ids.append(derived_after(ids[-1], "x", ordinal))

    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {len(one) for one in ids} == {32}


@pytest.mark.req("EVT-06")
def test_the_same_cause_and_parts_give_the_same_id() -> None:
    assert derived_after("00ab", "x", 1) == derived_after("00ab", "x", 1)
    assert derived_after("00ab", "x", 1) != derived_after("00ab", "x", 2)


@pytest.mark.parametrize("cause", ["a name of one's own", "ffffffff", ""])
def test_any_cause_will_do(cause: str) -> None:
    assert derived_after(cause, "x") == "00000000" + derived("x")[:24]
