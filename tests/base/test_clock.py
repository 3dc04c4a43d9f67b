"""Moments as text: any number can be written as a time."""

from __future__ import annotations

import pytest

from noetl.base.clock import rfc3339


@pytest.mark.req("TMR-03")
@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (253402300799.0, "9999-12-31T23:59:59.000000Z"),
        (253402300800.0, "9999-12-31T23:59:59.999999Z"),
        (1e300, "9999-12-31T23:59:59.999999Z"),
        (-1e12, "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_a_timestamp_out_of_range_is_formatted_as_the_first_or_last_date(seconds: float, text: str) -> None:
    """One timer with such a moment would keep everybody from reading the list of executions."""
    assert rfc3339(seconds) == text
