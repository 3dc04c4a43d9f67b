"""One server and one browser for all browser tests of a process; a fresh page, signed in, for each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.chromium import ARGUMENTS, program, why_not
from tests.browser.serving import Site, site

PICTURES = Path(__file__).parents[2] / "ui" / "test-results"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All on one worker: one server and one browser are enough for two cores."""
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if reason := why_not():
        pytest.skip(f"NO BROWSER TEST WAS RUN: {reason}")
    with site(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture(scope="session")
def browser(here: Site) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program(), args=ARGUMENTS)
        yield opened
        opened.close()


class Complaints(list[str]):
    """What the browser complained about: scripts that broke, resources that were refused."""


@pytest.fixture
def page(browser: Browser, here: Site) -> Iterator[Page]:
    """A page of the administrator's. Whatever the browser complains about fails the test."""
    opened = browser.new_page(viewport={"width": 1360, "height": 860})
    opened.set_default_timeout(15_000)
    complaints = Complaints()
    opened.on("pageerror", lambda error: complaints.append(f"a script broke: {error}"))
    opened.on("console", lambda said: complaints.append(f"{said.text} ({said.location})") if said.type == "error" else None)
    opened.goto(f"{here.url}/#token={here.token}")
    opened.get_by_role("navigation").wait_for()
    yield opened
    opened.close()
    assert [one for one in complaints if "status of 4" not in one] == []  # a refusal that the page shows is no fault


@pytest.fixture
def picture(page: Page) -> Callable[[str], None]:
    """Keep what the page looks like under a name."""

    def take(name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
        if os.environ.get("NOETL_PICTURES"):
            kept = Path(__file__).parents[2] / "docs" / "pictures"
            kept.mkdir(exist_ok=True)
            page.screenshot(path=kept / f"{name}.png", animations="disabled")

    return take
