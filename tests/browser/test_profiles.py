"""The browser profile that tests share: nothing of one test reaches the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.profiles import SharedProfile
from tests.browser.serving import Site

FOUND = "() => [document.cookie, localStorage.length, sessionStorage.length, typeof window.left]"


@pytest.fixture
def profile(browser: Browser, here: Site) -> Iterator[SharedProfile]:
    made = SharedProfile(browser, here)
    yield made
    made.close()


def test_what_a_page_kept_is_gone_for_the_next_test(profile: SharedProfile, here: Site) -> None:
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
def test_a_profile_that_was_itself_changed_is_used_once(profile: SharedProfile, change: str) -> None:
    page = (context := profile.lend()).new_page()
    if change == "script":
        page.context.add_init_script("window.left = 4;")
    elif change == "clock":
        page.clock.install()
    else:
        page.context.set_offline(True)

    profile.take_back()

    assert profile.lend() is not context
