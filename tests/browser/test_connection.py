"""The server goes away, comes back, or comes back as another version: the page stays, says so, and continues."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import httpx2
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import PATIENCE_MS, ROOT, Picture
from tests.browser.serving import Site
from tests.browser.way import Way


@pytest.fixture
def way(here: Site) -> Iterator[Way]:
    found = Way(here.url)
    yield found
    found.cut()


@pytest.fixture
def page(browser: Browser, here: Site, way: Way) -> Iterator[Page]:
    """A page that reaches the server by a way that can be cut."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_MS)
    opened.goto(f"{way.url}/#token={here.token}")
    expect(opened.get_by_role("heading", level=1)).to_have_text("Home")
    # What is cut before the first answers have come is a page that was never connected.
    expect(opened.get_by_role("main").get_by_role("heading", level=2).first).to_be_visible()
    yield opened
    context.close()


def test_a_connection_accepted_during_a_partition_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.create_connection
    with socket.create_server(("127.0.0.1", 0)) as server:
        way = Way(f"http://127.0.0.1:{server.getsockname()[1]}")

        def late(address: tuple[str, int]) -> socket.socket:
            far = connect(address)
            way.cut()
            return far

        monkeypatch.setattr("tests.browser.way.socket.create_connection", late)
        with connect(("127.0.0.1", way.port), timeout=60) as near, suppress(ConnectionResetError):
            assert near.recv(1) == b""


def menu(page: Page, name: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()


def addresses() -> list[str]:
    """One of each screen of the router, and one that none has; what is not there has a screen of its own too."""
    text = (ROOT / "ui" / "src" / "screens" / "index.ts").read_text("utf-8")
    routes = re.findall(r'^  \w+: "(/[^"]*)"', text, re.MULTILINE)
    return [one.replace("*path", "tests/chain").replace(":id", "none") for one in routes] + ["/nonsense"]


# A screen is made anew for each address, so what was marked on the one before is gone with it.
LEAVE = """(path) => {
  for (const part of document.querySelectorAll("main > :not(.lost)")) part.dataset.left = "true";
  history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
}"""


def visit(page: Page, path: str) -> None:
    page.evaluate(LEAVE, path)
    expect(page.locator("main > [data-left]")).to_have_count(0)
    expect(page.locator("main > :not(.lost)").first).to_be_attached()


def test_every_screen_shows_a_lost_connection_and_recovers(page: Page, way: Way, picture: Picture) -> None:
    lost = page.get_by_role("status").filter(has_text="Connection lost")
    for path in addresses()[1:]:  # so that the script of each is here; the first is
        visit(page, path)
        expect(lost).to_have_count(0)

    way.cut()

    expect(lost).to_be_visible()  # on a screen that asks the server for nothing
    for path in (*addresses(), "/"):
        visit(page, path)
        expect(lost, path).to_be_visible()
        expect(page.get_by_role("alert").filter(has_text="could not be loaded")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    picture(page, "connection-lost")
    way.mend()
    expect(lost).to_have_count(0)


def test_a_screen_that_fails_to_load_keeps_the_menu_and_loads_later(page: Page, way: Way, picture: Picture) -> None:
    way.cut()
    menu(page, "Workers")  # it was never opened, so its script is not here

    waiting = page.get_by_role("alert").filter(has_text="could not be loaded")
    expect(waiting).to_be_visible()
    expect(page.get_by_role("navigation")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Connection lost")).to_be_visible()
    picture(page, "screen-lost")
    menu(page, "Home")
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    menu(page, "Workers")
    expect(waiting).to_be_visible()
    way.mend()

    expect(page.get_by_role("heading", level=1)).to_have_text("Workers and pools")
    expect(waiting).to_have_count(0)


def other_version(here: Site) -> Callable[[Route], None]:
    """Answers scripts that ask for the page as another version would: its script has another name."""
    text = re.sub(r"assets/index-[^\"]+\.js", "assets/index-NEW.js", httpx2.get(here.url).text)

    def answer(route: Route) -> None:
        if route.request.resource_type == "document":
            route.continue_()
        else:
            route.fulfill(body=text, content_type="text/html")

    return answer


def test_an_outdated_page_reloads_when_a_screen_script_is_missing(page: Page, here: Site) -> None:
    gone = re.compile(r"assets/Workers-.*\.js")
    page.route(re.compile(r":\d+/$"), other_version(here))
    page.route(gone, lambda route: route.fulfill(status=404))
    page.on("domcontentloaded", lambda _: page.unroute(gone))
    page.evaluate("window.isOld = true")

    menu(page, "Workers")

    expect(page.get_by_role("heading", level=1)).to_have_text("Workers and pools")
    assert page.evaluate("window.isOld") is None
    assert page.url.endswith("/workers")


def test_after_an_upgrade_the_page_shows_a_notice_and_the_next_screen_is_new(page: Page, here: Site, way: Way) -> None:
    page.evaluate("window.isOld = true")
    way.cut()
    expect(page.get_by_role("status").filter(has_text="Connection lost")).to_be_visible()
    page.route(re.compile(r":\d+/$"), other_version(here))
    way.mend()

    expect(page.get_by_role("status").filter(has_text="new version")).to_be_visible()
    menu(page, "Executions")

    expect(page.get_by_role("heading", level=1)).to_have_text("Executions")
    page.wait_for_function("() => window.isOld === undefined")


def test_an_ended_session_leads_to_the_sign_in_page(page: Page, way: Way) -> None:
    way.cut()
    expect(page.get_by_role("status").filter(has_text="Connection lost")).to_be_visible()
    page.context.clear_cookies()
    way.mend()

    expect(page.get_by_label("Token")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("session has ended")
