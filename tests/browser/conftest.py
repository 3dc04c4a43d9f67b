"""One server and one browser for all browser tests of a process; a fresh page, signed in, for each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, FloatRect, Page, expect, sync_playwright

from tests.browser.chromium import ARGUMENTS, program, why_not
from tests.browser.playbooks import (
    ASKING,
    BESIDE,
    BOOKING,
    CHAIN,
    FAILING,
    LIMITED,
    PARENT,
    SCHEDULED,
    SLOW,
    STUCK,
    WAITING,
)
from tests.browser.profiles import HEIGHT, WIDTH, SharedProfile, fresh_profile
from tests.browser.serving import Site, site

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "ui" / "test-results"
DOCS = ROOT / "docs" / "pictures"
MANUAL = ROOT / "docs" / "ui.md"
DOCS_BYTES = 120_000  # of one picture of the manual
EXPECTED = ("status of 4", "ERR_INTERNET_DISCONNECTED")  # a refusal that the page shows, a test without a network
# On a busy machine; nothing waits so long where it is right. Shorter while one writes a test.
PATIENCE_MS = int(os.environ.get("NOETL_PATIENCE_MS", "240000"))
# NOETL_SLOW_PAGES=500: every answer reaches the page half a second late, which finds the tests that do not wait for it.
LATE_MS = int(os.environ.get("NOETL_SLOW_PAGES", "0"))
expect.set_options(timeout=PATIENCE_MS)
PLAYBOOKS = (CHAIN, FAILING, WAITING, ASKING, SCHEDULED, STUCK, SLOW, PARENT, BOOKING, BESIDE, LIMITED)
Picture = Callable[..., None]
Visitor = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test may have to install the browser, one runs a playbook of 100,000 events, and each waits patiently
    at several places."""
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if reason := why_not():
        pytest.skip(f"NO BROWSER TEST WAS RUN: {reason}")
    with site(tmp_path_factory.mktemp("site")) as found:
        for text in PLAYBOOKS:
            found.register(text)
        yield found


@pytest.fixture(scope="session")
def browser(here: Site) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program(), args=ARGUMENTS, timeout=PATIENCE_MS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def complaints() -> list[str]:
    """The complaints of the browser about the pages of the present test."""
    return []


@pytest.fixture(scope="session")
def profiles(browser: Browser, here: Site, complaints: list[str]) -> Iterator[tuple[SharedProfile, SharedProfile]]:
    """The administrator's, and one for the first of all others."""
    own, others = (SharedProfile(browser, here, lambda page: _watch(page, here, complaints)) for _ in range(2))
    yield own, others
    own.close()
    others.close()


@pytest.fixture
def visitor(
    browser: Browser, here: Site, profiles: tuple[SharedProfile, SharedProfile], complaints: list[str]
) -> Iterator[Visitor]:
    """Returns a page for the holder of a token, in an empty browser profile of its own; the administrator's profile
    may be open since an earlier test. Every complaint of the browser fails the test: a script that broke, something
    from another host, something the content policy refused."""
    own, others = profiles
    contexts: list[BrowserContext] = []
    complaints.clear()

    def visit(token: str | None = None, path: str = "/") -> Page:
        if token is None:
            return own.lend_tab(path)
        context = fresh_profile(browser, here) if contexts else others.lend()
        contexts.append(context)
        page = context.new_page()
        _watch(page, here, complaints)
        page.goto(f"{here.url}{path}#token={token}")
        page.get_by_role("navigation").wait_for(state="attached")
        return page

    yield visit
    for context in contexts[1:]:
        context.close()
    own.take_back()
    others.take_back()
    assert [one for one in complaints if not any(word in one for word in EXPECTED)] == []


def _watch(page: Page, here: Site, complaints: list[str]) -> None:
    if LATE_MS:
        _delay(page)
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: complaints.append(f"a script broke: {error}"))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: None if _is_ours(asked.url, here) else complaints.append(f"asked {asked.url}"))


def _delay(page: Page) -> None:
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    unlimited = {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
    network.send("Network.emulateNetworkConditions", {**unlimited, "latency": LATE_MS})


def _is_ours(url: str, here: Site) -> bool:
    return url.startswith((here.url + "/", "data:", "blob:"))


PRESSES = "addEventListener('click', (event) => event.isTrusted && (window.presses = (window.presses ?? 0) + 1), true);"


@contextmanager
def presses(page: Page, most: int) -> Iterator[None]:
    """No more clicks than that, on one page that is never reloaded."""
    page.evaluate(f"() => {{ if (window.presses === undefined) {{ {PRESSES} }} window.presses = 0; }}")
    yield
    assert page.evaluate("window.presses") <= most


def is_copied(page: Page, words: str) -> None:
    """Once what was copied is there, which is a moment after it was asked for."""
    until = time.monotonic() + PATIENCE_MS / 1000
    while words not in (found := page.evaluate("navigator.clipboard.readText()")):
        assert time.monotonic() < until, found
        page.wait_for_timeout(20)


def is_told(page: Page, words: str) -> None:
    """Once a notice has said so, whether it is still there or gone already."""
    page.wait_for_function("(words) => window.told.some((one) => one.includes(words))", arg=words)


def is_followed(page: Page, here: Site, execution_id: str) -> None:
    """Once the page has the whole log of an execution that rests."""
    length = here.api.get(f"executions/{execution_id}").raise_for_status().json()["events"]
    expect(page.locator(".where")).to_have_text(f"{length:,} / {length:,}")


@pytest.fixture
def page(visitor: Visitor) -> Page:
    """A page of the administrator's."""
    return visitor()


@pytest.fixture
def open_at(visitor: Visitor) -> Callable[[str], Page]:
    """A page of the administrator's at an address."""
    return lambda path: visitor(path=path)


@pytest.fixture
def picture() -> Picture:
    """Keep what a page looks like under a name, for the manual too where it shows that one. A picture takes a third of
    a second of processor time and checks nothing, so none is taken unless NOETL_PICTURES is set."""

    def take(page: Page, name: str) -> None:
        if not os.environ.get("NOETL_PICTURES"):
            return
        PICTURES.mkdir(parents=True, exist_ok=True)
        taken = page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
        if f"pictures/{name}.png" in MANUAL.read_text("utf-8"):
            DOCS.mkdir(exist_ok=True)
            part: FloatRect = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT // 2}
            fits = len(taken) <= DOCS_BYTES
            (DOCS / f"{name}.png").write_bytes(taken if fits else page.screenshot(animations="disabled", clip=part))

    return take
