"""Loading, empty and known are three states: loading data is not shown as empty, and ended executions are not shown as
live."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Picture
from tests.browser.held_requests import Held
from tests.browser.profiles import move
from tests.browser.serving import Site


@pytest.fixture(scope="module")
def quiet(here: Site) -> str:
    """A run without loops that prints nothing and has no variables."""
    execution_id = here.start("tests/waiting", order=31)
    here.until_waiting(execution_id, "pay")
    here.api.post("messages", json={"name": "paid", "correlation": {"order": 31}}).raise_for_status()
    assert here.ended(execution_id) == "completed"
    return execution_id


CASES = {
    "logs": ("/executions/{id}?tab=logs", "**/logs?*", "Nothing was printed"),
    "timeline": ("/executions/{id}?tab=time", "**/steps", "No step has started"),
    "data": ("/executions/{id}?tab=data", "**/state*", "{}"),
    "loops": ("/executions/{id}?tab=loops", "**/loops?*", "No loop has started"),
    "audit": ("/audit", "**/api/audit*", "No entries yet"),
    "messages": ("/messages", "**/api/waits*", "Nothing is waiting"),
}


@pytest.mark.parametrize("name", CASES)
def test_data_that_is_loading_is_not_shown_as_empty(name: str, page: Page, here: Site, quiet: str) -> None:
    path, pattern, empty = CASES[name]
    held = Held(page, pattern)
    move(page, path.format(id=quiet))
    # The page and the execution load too, and say so: what counts is the place where the data will stand.
    place = page.get_by_role("tabpanel" if "tab=" in path else "main")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(place.get_by_role("status").filter(has_text="Loading").first).to_be_visible()
    expect(place.get_by_text(empty)).to_have_count(0)

    held.let_go()

    expect(page.get_by_role("status").filter(has_text="Loading")).to_have_count(0)
    if name not in ("audit", "timeline", "messages"):
        expect(page.get_by_text(empty).first).to_be_visible()


def test_the_final_state_of_a_run_arrives_before_its_log(page: Page, here: Site, picture: Picture) -> None:
    execution_id = here.start("tests/chain", n=12)
    assert here.ended(execution_id) == "completed"
    held = Held(page, "**/events?*")
    move(page, f"/executions/{execution_id}")

    expect(page.locator(".step.completed")).to_have_count(3)
    expect(page.locator(".slider")).to_contain_text("loading events")
    expect(page.locator(".slider")).not_to_contain_text("live")
    picture(page, "loading-log")
    page.get_by_role("tab", name="Data").click()
    expect(page.get_by_role("tabpanel")).to_contain_text('greeted "world"')

    held.let_go()
    expect(page.locator(".slider")).not_to_contain_text("loading")


def test_an_earlier_event_shows_the_result_at_that_event(open_at: Callable[[str], Page], here: Site) -> None:
    execution_id = here.start("tests/chain", n=3)
    assert here.ended(execution_id) == "completed"
    page = open_at(f"/executions/{execution_id}?tab=data")
    result = page.get_by_role("region", name="Result", exact=True)
    expect(result).to_contain_text("Hello, world!")

    page.get_by_label("Moment that is shown").fill("10")

    expect(result).to_contain_text("There was none yet")
    expect(page.get_by_role("region", name="ctx")).to_contain_text("after event 10")
