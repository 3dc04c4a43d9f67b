"""Typing into the editor, which lives in a shadow root of its own."""

from __future__ import annotations

import itertools

from playwright.sync_api import Locator, Page, expect

PAUSE_MS = 500
MOST_MOVEMENTS = 300  # several minutes: one is enough on a machine that is not busy


def type_into_editor(page: Page, text: str) -> None:
    """Put `text` in the place of all that is there."""
    expect(page.locator('.editor[data-ready="true"]')).to_be_visible()
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def hover_until_explained(page: Page, line: Locator) -> None:
    """Move the mouse over a line until the editor shows its tooltip. The editor asks once per movement, and drops
    the question when its text is checked or drawn again meanwhile, as on a busy machine; then the mouse is moved
    again."""
    places = itertools.cycle([20, 24])
    for _ in range(MOST_MOVEMENTS):
        if page.locator(".cm-documentation").is_visible():
            return
        line.hover(position={"x": next(places), "y": 8})
        page.wait_for_timeout(PAUSE_MS)
    text = line.inner_text()
    raise AssertionError(f'no tooltip (.cm-documentation) after {MOST_MOVEMENTS} movements of the mouse over "{text}"')
