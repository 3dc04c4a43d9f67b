"""Many tabs of one browser: they share one live connection, and each of them works and follows what happens."""

from __future__ import annotations

import re

import httpx2
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE_MS, Visitor
from tests.browser.serving import Site

AT_ONCE = 6  # connections that a browser keeps to one host over HTTP/1.1
FEW, MANY = AT_ONCE + 2, 30  # tabs; few are already more than could have a connection each


def streams(here: Site) -> int:
    """How many live streams the server writes to."""
    told = httpx2.get(f"{here.url}/metrics", headers={"Authorization": f"Bearer {here.token}"}).raise_for_status().text
    found = re.search(r"^noetl_streams (\d+)", told, re.MULTILINE)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("number_of_tabs", [FEW, pytest.param(MANY, marks=pytest.mark.deep)])
def test_tabs_share_one_connection_and_all_follow_their_executions(
    number_of_tabs: int, visitor: Visitor, here: Site
) -> None:
    before = streams(here)
    waiting = [here.start("tests/waiting", order=9000 + number) for number in range(AT_ONCE + 2)]
    first = visitor(path=f"/executions/{waiting[0]}")
    context = first.context
    tabs = [first]
    for number in range(1, number_of_tabs):
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE_MS)
        tab.goto(f"{here.url}/executions/{waiting[number % len(waiting)]}" if number % 3 else f"{here.url}/executions")
        tabs.append(tab)
    for tab in tabs:
        expect(tab.get_by_role("heading", level=1)).not_to_have_text("")

    for number in range(len(waiting)):
        here.until_waiting(waiting[number], "pay")
        here.api.post("messages", json={"name": "paid", "correlation": {"order": 9000 + number}}).raise_for_status()

    for number, tab in enumerate(tabs):
        if number % 3:
            expect(tab.locator("header .status")).to_have_text(re.compile("completed"))
            expect(tab.locator(".step.completed")).to_have_count(3)
        else:
            row = tab.locator("tbody tr", has_text=waiting[0][-8:])
            expect(row if number else tab.locator("header .status")).to_contain_text("completed")
    assert streams(here) <= before + 1
