"""The list of executions: filters with an address, views, keys, many at once, and rows that change by themselves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, Visitor, is_told
from tests.browser.serving import Site

Open = Callable[[str], Page]


def test_filters_are_in_the_address_and_saved_as_a_view(open_at: Open, here: Site) -> None:
    here.ended(here.start("tests/failing"))
    page = open_at("/executions")
    page.get_by_role("button", name="failed", exact=True).click()
    expect(page).to_have_url(f"{here.url}/executions?status=failed")
    expect(page.locator("tbody .status", has_text="completed")).to_have_count(0)
    expect(page.locator("tbody tr").first).to_contain_text("failing")
    page.get_by_role("button", name="Save view").click()
    page.get_by_role("dialog", name="Save this view").get_by_label("Name").fill("bad ones")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("link", name="bad ones").click()
    expect(page).to_have_url(f"{here.url}/executions?status=failed")
    page.reload()
    expect(page.get_by_role("link", name="bad ones")).to_be_visible()


def test_the_list_uses_the_times_of_its_address_in_the_shown_time_zone(open_at: Open, here: Site) -> None:
    here.ended(here.start("tests/chain", n=3))
    page = open_at("/executions?until=2001-01-01T00:00:00.000Z")
    expect(page.get_by_role("heading", name="No execution matches")).to_be_visible()
    page.evaluate("localStorage.setItem('noetl.zone', 'Asia/Tokyo')")
    page.reload()
    expect(page.get_by_label("until")).to_have_value("2001-01-01T09:00")
    page.get_by_label("since").fill("2000-12-31T09:00")
    page.get_by_label("until").fill("")
    expect(page).to_have_url(f"{here.url}/executions?since=2000-12-31T00%3A00%3A00.000Z")
    expect(page.locator("tbody tr").first).to_be_visible()


def test_a_search_text_matches_path_and_id(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/slow")
    page = open_at("/executions")
    page.get_by_label("Find by name, path or id").fill(execution_id)
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("tests/slow")


def test_the_list_shows_a_new_execution_and_its_end_without_a_reload(open_at: Open, here: Site) -> None:
    page = open_at("/executions")
    expect(page.get_by_role("heading", level=1)).to_have_text("Executions")
    execution_id = here.start("tests/waiting", order=31)
    row = page.locator("tbody tr", has_text=execution_id[-8:])
    expect(row).to_contain_text("running")
    here.until_waiting(execution_id, "pay")
    here.api.post("messages", json={"name": "paid", "correlation": {"order": 31}})
    expect(row).to_contain_text("completed")


@pytest.mark.req("SRV-07", "SRV-11")
def test_several_executions_are_paused_resumed_and_cancelled_together(open_at: Open, here: Site) -> None:
    ids = [here.start("tests/slow") for _ in range(3)]
    page = open_at("/executions?path=tests%2Fslow")
    for one in ids:
        page.get_by_label(f"Select {one}").check()
    bar = page.get_by_role("toolbar")
    expect(bar).to_contain_text("3 selected")
    page.set_viewport_size({"width": 1280, "height": 300})
    page.mouse.move(700, 200)
    page.mouse.wheel(0, 2000)
    page.wait_for_function("() => scrollY > 200")  # past the place where the bar stands at first
    expect(bar).to_be_in_viewport(ratio=1)
    page.set_viewport_size({"width": 1280, "height": 800})
    bar.get_by_role("button", name="Pause").click()
    expect(page.locator("tbody tr", has_text=ids[0][-8:])).to_contain_text("paused")
    expect(bar).to_have_count(0)
    for one in ids:
        page.get_by_label(f"Select {one}").check()
    bar.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog", name="Cancel 3 executions?").get_by_role("button", name="Cancel execution").click()
    is_told(page, "Cancelled 3 of 3")
    for one in ids:
        expect(page.locator("tbody tr", has_text=one[-8:])).to_contain_text("cancelled")


def test_a_list_is_navigated_and_opened_by_keyboard(open_at: Open, here: Site) -> None:
    here.start("tests/slow")
    page = open_at("/executions")
    page.locator("tbody tr").first.wait_for()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("toolbar")).to_contain_text("1 selected")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Net")).to_be_visible()


def test_keyboard_shortcuts_open_screens_and_the_search(page: Page) -> None:
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(seconds=1))  # for the second key is waited for some time only
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.clock.resume()
    expect(page.get_by_role("heading", level=1)).to_have_text("Executions")
    page.keyboard.press("/")
    expect(page.get_by_label("Find by name, path or id")).to_be_focused()
    page.keyboard.press("Tab")
    page.get_by_role("main").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("this list")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_skip_link_reaches_the_content_and_a_new_screen_gets_the_focus(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.get_by_role("navigation").get_by_role("link", name="Workers").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers and pools")
    expect(page.locator("#content")).to_be_focused()


def test_the_menu_opens_and_closes_on_a_narrow_screen(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 780})
    expect(page.get_by_role("link", name="Workers")).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Workers").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers and pools")
    expect(page.get_by_role("link", name="Tasks", exact=True)).to_be_hidden()


def test_every_state_can_be_chosen_on_a_phone(open_at: Open, here: Site, picture: Picture) -> None:
    page = open_at("/executions")
    page.set_viewport_size({"width": 390, "height": 780})
    states = page.get_by_role("group", name="State").get_by_role("button")
    expect(states).to_have_count(6)
    for state in states.all():
        expect(state).to_be_in_viewport(ratio=1)
        # The container cuts what it has no room for, and scrolls without a bar on most phones.
        assert state.evaluate(
            "(one) => one.getBoundingClientRect().right <= one.parentElement.getBoundingClientRect().right"
        )
    picture(page, "executions-phone")
    assert findings(page) == []

    page.get_by_role("button", name="cancelled", exact=True).click()

    expect(page).to_have_url(f"{here.url}/executions?status=cancelled")


def test_actions_that_the_role_forbids_are_not_offered(visitor: Visitor, here: Site) -> None:
    execution_id = here.start("tests/slow")
    page = visitor(here.make_token("vic", "viewer"), f"/executions/{execution_id}")
    expect(page.get_by_role("tab", name="Net")).to_be_visible()
    for name in ("Pause", "Cancel", "Run again"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_a_wrong_token_is_refused_and_a_right_one_is_accepted(visitor: Visitor, here: Site) -> None:
    page = visitor()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").fill("noetl_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Token").fill(here.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    assert "token" not in page.url


def test_the_list_is_filtered_by_playbook_and_by_label(open_at: Open, here: Site) -> None:
    here.register(
        "apiVersion: noetl.io/v10\nkind: Playbook\n"
        "metadata: { name: labelled, path: tests/labelled, labels: { team: blue } }\nworkflow: [{ step: start }]\n"
    )
    here.ended(here.start("tests/labelled"))
    page = open_at("/executions")

    page.get_by_label("Label, key=value").fill("team=blue")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Label, key=value").fill("team=red")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No execution matches")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    page.get_by_label("Path of the playbook").fill("tests/label*")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_two_runs_of_a_playbook_are_compared_from_the_list(open_at: Open, here: Site) -> None:
    first, second = here.start("tests/failing"), here.start("tests/failing")
    assert [here.ended(first), here.ended(second)] == ["failed", "failed"]
    page = open_at("/executions?path=tests%2Ffailing")
    row = page.get_by_label(f"Select {second}")
    before = row.bounding_box()
    row.check()
    bar = page.get_by_role("toolbar")
    expect(bar).to_contain_text("1 selected")
    assert row.bounding_box() == before, "the row moved away from under the pointer"
    expect(bar.get_by_role("button", name="Pause")).to_be_disabled()
    expect(bar.get_by_role("button", name="Compare")).to_have_count(0)
    page.get_by_label(f"Select {first}").check()
    bar.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("region", name="First run")).to_contain_text(first[-8:])
    expect(page.get_by_role("region", name="Second run")).to_contain_text(second[-8:])


def test_an_unknown_tab_in_the_address_shows_the_net(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/failing")
    page = open_at(f"/executions/{execution_id}?tab=timeline")
    expect(page.get_by_role("tab", name="Net")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel", name="Net")).to_be_visible()
