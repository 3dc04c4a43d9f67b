"""Home: what failed and why, one click away from the details."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.serving import Site

Open = Callable[[str], Page]
REVIEW = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: review, path: tests/review }
workflow:
  - step: start
    human_task: { title: "Approve the invoice?", assignee: { role: boss }, due_date: 2d }
"""
MINE = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: mine, path: tests/mine }
workflow:
  - step: start
    human_task: { title: "Look at the invoice", assignee: { user: admin } }
"""
ENDLESS = "document.getAnimations().filter((one) => one.effect.getComputedTiming().iterations === Infinity).length"


def test_a_recent_failure_shows_its_step_and_error_and_links_to_its_logs(
    open_at: Open, here: Site, picture: Picture
) -> None:
    execution_id = here.start("tests/failing")
    assert here.ended(execution_id) == "failed"
    page = open_at("/")
    failures = page.locator("section", has=page.get_by_role("heading", name="Recent failures"))
    expect(failures.get_by_role("listitem").first).to_contain_text("Failed in step start: ")
    expect(failures.get_by_role("listitem").first).to_contain_text("no luck")
    picture(page, "home-failures")
    assert findings(page) == []

    failures.get_by_role("link", name="failing").first.click()

    expect(page).to_have_url(f"{here.url}/executions/{execution_id}?tab=logs&step=start")
    expect(page.get_by_role("alert")).to_contain_text("Failed in step start: ")
    expect(page.locator("pre.error").first).to_contain_text("no luck")


def test_a_user_without_tasks_gets_a_link_to_all_open_tasks(page: Page, here: Site) -> None:
    here.until_waiting(here.start("tests/asking"), "approve")
    page.get_by_role("link", name="All open tasks").click()

    expect(page.get_by_role("row", name="asking, step approve").first).to_contain_text("human role boss")


def test_the_menu_and_the_name_stay_visible_while_scrolling(page: Page, here: Site) -> None:
    page.set_viewport_size({"width": 1280, "height": 480})
    page.get_by_role("heading", name="Recent failures").wait_for()
    page.mouse.move(700, 300)
    page.mouse.wheel(0, 400)
    page.wait_for_function("() => scrollY > 100")

    for name in ("NoETL", "Home"):
        expect(page.get_by_role("link", name=name, exact=True)).to_be_in_viewport(ratio=1)


def test_a_running_execution_shows_its_start_time(open_at: Open, here: Site) -> None:
    here.start("tests/slow")
    page = open_at("/")

    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="slow", exact=True)).first
    expect(row).to_contain_text("started ")


def test_an_execution_waiting_for_a_person_shows_its_task_and_no_timer(
    open_at: Open, here: Site, picture: Picture
) -> None:
    here.register(REVIEW)
    execution_id = here.start("tests/review")
    here.until_waiting(execution_id, "start")
    page = open_at("/")

    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="review", exact=True)).first
    expect(row).to_contain_text("Waiting for: Approve the invoice?")
    expect(row).not_to_contain_text("next timer")
    picture(page, "home-waiting")
    assert findings(page) == []
    here.api.post(f"executions/{execution_id}/cancel", json={}).raise_for_status()
    expect(page.get_by_role("link", name="Approve the invoice?")).to_have_count(0)


def test_the_running_sign_is_animated_only_without_reduced_motion(page: Page, here: Site) -> None:
    here.start("tests/slow")
    expect(page.locator(".running .sign").first).to_be_visible()
    assert page.evaluate(ENDLESS) == 0

    page.emulate_media(reduced_motion="no-preference")

    assert page.evaluate(ENDLESS) > 0


ORDER = "() => [...document.querySelectorAll('main h2, main .tiles')].map((one) => one.textContent.trim().slice(0, 15))"


def test_a_phone_shows_failures_and_tasks_first_and_counts_tasks_in_the_banner(
    page: Page, here: Site, picture: Picture
) -> None:
    here.register(MINE)
    execution_id = here.start("tests/mine")
    here.until_waiting(execution_id, "start")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("banner").get_by_role("link", name="Tasks, 1 for you")).to_be_visible()
    expect(page.locator("main h2").first).to_have_text("Recent failures")
    assert page.evaluate(ORDER)[:3] == ["Recent failures", "Your tasks", "Running"]
    picture(page, "home-phone")
    assert findings(page) == []

    page.set_viewport_size({"width": 1280, "height": 800})

    expect(page.locator("main h2").first).to_have_text("Last 24 hours")
    expect(page.get_by_role("banner").get_by_role("link", name="Tasks")).to_have_count(0)
    picture(page, "home-wide")
    assert findings(page) == []
    here.api.post(f"executions/{execution_id}/cancel", json={}).raise_for_status()


def test_hours_without_runs_are_not_tab_stops(page: Page, here: Site) -> None:
    here.ended(here.start("tests/failing"))
    hours = page.locator(".trend li")
    expect(hours.last.get_by_role("link")).to_be_visible()
    expect(hours.first.get_by_role("img")).to_have_attribute("aria-label", re.compile(": 0 "))
    expect(hours.first.get_by_role("link")).to_have_count(0)


def test_closing_the_search_restores_the_focus(page: Page) -> None:
    for name in ("All open tasks", "by day"):
        where = page.locator("main").get_by_text(name, exact=True)
        where.focus()
        page.keyboard.press("Control+k")
        expect(page.get_by_role("combobox")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(where).to_be_focused()
