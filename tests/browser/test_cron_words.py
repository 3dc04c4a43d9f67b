"""Schedules are said in words where they are shown, with their cron text beside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.profiles import move
from tests.browser.serving import Site

Open = Callable[[str], Page]
WEEKDAYS = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: morning, path: tests/morning }
trigger: { timer: { cron: "0 6 * * 1-5", spec: { timezone: Europe/Berlin, missed: none, overlap: skip } } }
workflow:
  - step: start
    tool: { kind: noop }
"""


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_a_schedule_is_described_in_words_next_to_its_cron_expression(
    open_at: Open, here: Site, picture: Picture, width: int, height: int
) -> None:
    here.register(WEEKDAYS)
    page = open_at("/")
    page.set_viewport_size({"width": width, "height": height})
    move(page, "/schedules")

    row = page.get_by_role("row").filter(has_text="tests/morning")
    expect(row).to_contain_text("every weekday at 06:00")
    expect(row.locator("code", has_text="0 6 * * 1-5")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        picture(page, f"cron-words-{width}-{scheme}")
        assert findings(page) == []

    row.get_by_role("link", name="tests/morning").click()
    expect(page.locator("main")).to_contain_text("every weekday at 06:00")


def test_a_cron_expression_is_described_while_it_is_typed(open_at: Open, here: Site) -> None:
    here.register(WEEKDAYS)
    page = open_at("/schedules")
    page.get_by_role("row").filter(has_text="tests/morning").get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog")
    words = dialog.get_by_role("status", name="In words")
    expect(words).to_have_text("every weekday at 06:00")

    dialog.get_by_label("Times", exact=True).fill("*/10 8-17 * * *")
    expect(words).to_have_text("every 10 minutes from 08:00 to 17:50")

    dialog.get_by_label("Times", exact=True).fill("soon")
    expect(words).to_be_empty()
