"""The delay before a repeated request: it grows, is bounded, and respects the server."""

from __future__ import annotations

from noetl.base.durations import LONGEST_DELAY_S, retry_delay_s


def test_a_retry_delay_grows_and_honours_the_delay_the_server_asks_for() -> None:
    assert retry_delay_s(3, spread=lambda: 1.0) > retry_delay_s(1, spread=lambda: 1.0)
    assert retry_delay_s(50, spread=lambda: 1.0) == LONGEST_DELAY_S
    assert retry_delay_s(0, "7", spread=lambda: 0.0) == 7.0
