"""The browser profile and the tab that tests share: nothing of one test reaches the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.playbooks import CHAIN
from tests.browser.profiles import HEIGHT, WIDTH, SharedProfile
from tests.browser.serving import Site

FOUND = "() => [document.cookie, localStorage.length, sessionStorage.length, typeof window.left]"
LEFT_IN_TAB = """() => [innerWidth, innerHeight, matchMedia("(prefers-color-scheme: dark)").matches,
  matchMedia("print").matches, window.told, Object.keys(localStorage).length, scrollY]"""


@pytest.fixture
def profile(browser: Browser, here: Site) -> Iterator[SharedProfile]:
    made = SharedProfile(browser, here)
    yield made
    made.close()


def test_browser_storage_of_one_test_is_cleared_for_the_next(profile: SharedProfile, here: Site) -> None:
    address = f"{here.url}/favicon.svg"
    page = (context := profile.lend()).new_page()
    page.goto(address)
    page.evaluate("document.cookie = 'a=1'; localStorage.b = 2; sessionStorage.c = 3; window.left = 4;")
    assert page.evaluate(FOUND) == ["a=1", 1, 1, "number"]

    profile.take_back()

    assert page.is_closed()
    assert profile.lend() is context
    page = context.new_page()
    page.goto(address)
    assert page.evaluate(FOUND) == ["", 0, 0, "undefined"]


@pytest.mark.parametrize("change", ["script", "clock", "network"])
def test_a_modified_browser_profile_is_not_reused(profile: SharedProfile, change: str) -> None:
    page = (context := profile.lend()).new_page()
    if change == "script":
        page.context.add_init_script("window.left = 4;")
    elif change == "clock":
        page.clock.install()
    else:
        page.context.set_offline(True)

    profile.take_back()

    assert profile.lend() is not context


def test_a_returned_tab_is_reset_to_its_initial_state(profile: SharedProfile, here: Site) -> None:
    here.register(CHAIN)
    tab = profile.lend_tab("/catalog/edit/tests/chain")
    tab.set_viewport_size({"width": 390, "height": 300})
    tab.emulate_media(color_scheme="dark", media="print")
    tab.route("**/api/catalog*", lambda route: route.abort())
    tab.evaluate("localStorage['noetl.draft.tests/chain'] = 'a: 1'; window.told.push('said')")

    profile.take_back()

    assert profile.lend_tab("/catalog") is tab
    expect(tab.get_by_role("link", name="tests/chain", exact=True)).to_be_visible()
    assert tab.evaluate(LEFT_IN_TAB) == [WIDTH, HEIGHT, False, False, [], 0, 0]


def test_a_tab_that_cannot_be_reset_is_closed(profile: SharedProfile) -> None:
    changes: dict[str, Callable[[Page], object]] = {
        "setting": lambda tab: tab.get_by_role("button", name="dark").click(),
        "session": lambda tab: tab.context.clear_cookies(),
        "script": lambda tab: tab.add_init_script("window.left = 4;"),
        "listener": lambda tab: tab.on("response", lambda answer: None),
        "dialog": lambda tab: tab.keyboard.press("?"),
    }
    for name, change in changes.items():
        tab = profile.lend_tab("/settings")
        expect(tab.locator("html")).not_to_have_attribute("data-theme", "dark")
        change(tab)

        profile.take_back()

        assert tab.is_closed(), name
