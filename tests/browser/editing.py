"""Typing into the editor, which lives in a shadow root of its own."""

from __future__ import annotations

import itertools

from playwright.sync_api import Locator, Page, expect


def type_into_editor(page: Page, text: str) -> None:
    """Put `text` in the place of all that is there."""
    expect(page.locator('.editor[data-ready="true"]')).to_be_visible()
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def hover_until_told(page: Page, line: Locator) -> None:
    """Move the mouse over a line until the editor shows its tooltip. The editor asks once per movement, and drops
    the question when its text is checked or drawn again meanwhile, as on a busy machine; then the mouse is moved
    again."""
    places = itertools.cycle([20, 24])
    while not page.locator(".cm-documentation").is_visible():
        line.hover(position={"x": next(places), "y": 8})
        page.wait_for_timeout(500)
