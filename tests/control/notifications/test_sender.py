"""How long a notice is tried before it is a dead letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.control.notifications.sender import MOST_ATTEMPTS, pause_after

PAGE = Path(__file__).parents[3] / "docs" / "notifications.md"
NUMBERS = {10: "ten", 12: "twelve"}


@pytest.mark.req("NTF-05")
def test_a_destination_can_be_away_as_long_as_the_documentation_says() -> None:
    hours = sum(pause_after(attempts) for attempts in range(1, MOST_ATTEMPTS)) / 3600
    page = " ".join(PAGE.read_text().split())
    said = f"tries to send a notice {NUMBERS[MOST_ATTEMPTS]} times with growing delays, over more than two hours"

    assert 2 < hours < 2.5
    assert said in page
