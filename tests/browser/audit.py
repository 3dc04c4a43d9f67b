"""An audit of a page as it stands: names, structure, focus, contrast, width (`audit.js`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from playwright.sync_api import Page


@cache
def _script() -> str:
    text = Path(__file__).with_name("audit.js").read_text("utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("//"))


def findings(page: Page) -> list[str]:
    found: list[str] = page.evaluate(_script())
    return found
