"""Typing into the editor, which lives in a shadow root of its own."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def type_into_editor(page: Page, text: str) -> None:
    """Put `text` in the place of all that is there."""
    expect(page.locator('.editor[data-ready="true"]')).to_be_visible()
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
