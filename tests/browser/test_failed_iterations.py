"""Iterations that failed in a loop that went on: net, header and loop say so, and each leads to its reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, presses
from tests.browser.profiles import move
from tests.browser.serving import Site

PARTIAL = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: partial, path: tests/partial }
workload: { n: 50 }
workflow:
  - step: start
    loop:
      in: "{{ range(workload.n) | list }}"
      iterator: customer
      spec: { mode: parallel }
    spec: { policy: { failure: { mode: best_effort } } }
    tool:
      name: fetch
      kind: python
      args: { customer: "{{ iter.customer }}" }
      code: |
        print("asking for", customer)
        if customer % 7 == 3:
            raise ValueError(f"no such customer: {customer}")
        result = {"customer": customer}
    next: { arcs: [{ step: end }] }
  - step: end
"""
CELL = 11  # pixels of one iteration in a loop of this size


@pytest.fixture(scope="module")
def partial(here: Site) -> str:
    here.register(PARTIAL)
    execution_id = here.start("tests/partial")
    assert here.ended(execution_id) == "completed"
    return execution_id


def test_the_header_and_net_of_a_completed_run_count_failed_iterations(
    open_at: Callable[[str], Page], partial: str, picture: Picture
) -> None:
    page = open_at(f"/executions/{partial}")
    expect(page.locator("header .status")).to_contain_text("completed")
    expect(page.locator(".step", has_text="start")).to_contain_text("7 of 50 failed")
    picture(page, "partial")
    assert findings(page) == []

    page.get_by_role("link", name="7 of 50 iterations failed").click()

    expect(page.get_by_role("tab", name="Loops")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("list", name="Failed iterations of start").get_by_role("listitem")).to_have_count(7)


def test_the_catalogue_counts_the_failed_iterations_of_the_last_run(
    open_at: Callable[[str], Page], partial: str, here: Site, picture: Picture
) -> None:
    page = open_at("/catalog")
    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="tests/partial", exact=True))
    row.scroll_into_view_if_needed()  # a row asks for its runs when it is in sight
    badge = row.get_by_role("link", name="7 of 50 failed", exact=True)
    expect(badge).to_be_visible()
    expect(row.get_by_role("link", name="completed, 7 of 50 failed")).to_be_visible()
    picture(page, "catalogue-partial")
    assert findings(page) == []
    whole = here.start("tests/partial", n=2)
    assert here.ended(whole) == "completed"
    expect(row.get_by_role("link", name="completed", exact=True)).to_be_visible()
    expect(badge).to_have_count(0)  # the newest run has none; the one before still says so
    expect(row.get_by_role("link", name="completed, 7 of 50 failed")).to_be_visible()

    row.get_by_role("link", name="completed, 7 of 50 failed").click()

    expect(page).to_have_url(f"{here.url}/executions/{partial}")


def test_a_failed_iteration_opens_from_the_list_and_shows_its_error(
    open_at: Callable[[str], Page], partial: str, picture: Picture
) -> None:
    page = open_at(f"/executions/{partial}?tab=loops")
    page.get_by_role("list", name="Failed iterations of start").get_by_role(
        "button", name="no such customer: 17"
    ).click()
    panel = page.get_by_role("complementary", name="Iteration 17 of start")
    expect(panel).to_contain_text("ValueError: no such customer: 17")
    expect(panel).to_contain_text("asking for 17")
    expect(panel.get_by_label("Item")).to_contain_text("17")
    picture(page, "iteration")
    assert findings(page) == []

    page.reload()

    expect(panel).to_contain_text("no such customer: 17")
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)


def test_every_cell_of_the_grid_opens_its_iteration(open_at: Callable[[str], Page], partial: str) -> None:
    page = open_at(f"/executions/{partial}?tab=loops")
    page.get_by_role("img", name="start: 43 of 50 iterations done, 7 failed").wait_for()
    page.locator("canvas").click(position={"x": 20 * CELL + 5, "y": 5})
    expect(page.get_by_role("complementary", name="Iteration 20 of start")).to_contain_text("asking for 20")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("complementary", name="Iteration 19 of start")).to_be_visible()


def test_the_timeline_counts_failed_iterations(open_at: Callable[[str], Page], partial: str) -> None:
    page = open_at(f"/executions/{partial}?tab=time")
    expect(page.get_by_role("button", name="start").first).to_contain_text("7 of 50 failed")


HEALING = PARTIAL.replace("tests/partial", "tests/healing").replace("name: partial", "name: healing")


def test_only_the_failed_items_are_rerun_and_other_results_are_reused(
    open_at: Callable[[str], Page], here: Site, picture: Picture
) -> None:
    here.register(HEALING)
    execution_id = here.start("tests/healing")
    assert here.ended(execution_id) == "completed"
    here.register(HEALING.replace("customer % 7 == 3", "customer == 10"))
    page = open_at("/")
    failures = page.locator("section", has=page.get_by_role("heading", name="Recent failures"))
    completed = failures.get_by_role("listitem").filter(has=page.get_by_role("link", name="healing"))
    expect(completed).to_contain_text("Completed, but items of a loop failed")
    picture(page, "home-partial")
    assert findings(page) == []
    with presses(page, 3):
        completed.get_by_role("link", name="7 of 50 failed").click()
        page.get_by_role("button", name="Run failed items again").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("only the 7 items of its loop that failed or did not run")).to_be_checked()
        dialog.get_by_label("Version").fill("2")
        dialog.get_by_label("Version").press("Tab")
        picture(page, "rerun-failed-items")
        assert findings(page) == []
        dialog.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_role("link", name=re.compile("^rerun of ….* from start$"))).to_be_visible()
    expect(page.get_by_role("link", name="1 of 50 iterations failed")).to_be_visible()
    again = page.url.rpartition("/")[2].partition("?")[0]
    here.ended(again)

    results = here.api.get(f"executions/{again}/result", params={"step": "start"}).raise_for_status().json()["result"]
    assert results == [None if n == 10 else {"customer": n} for n in range(50)]
    logs = here.api.get(f"executions/{again}/logs").raise_for_status().json()["lines"]
    assert sorted(line["path"] for line in logs) == [[n] for n in range(3, 50, 7)]

    page.get_by_role("tab", name="Loops").click()
    tab = page.get_by_role("tabpanel")
    expect(tab).to_contain_text("49 done, 43 of them taken over from the earlier run, 1 failed")
    page.locator("canvas").click(position={"x": 5, "y": 5})
    expect(page.get_by_role("complementary", name="Iteration 0 of start")).to_contain_text("It did not run here")
    picture(page, "items-taken-over")
    assert findings(page) == []


def test_compared_runs_show_their_failed_iterations_and_can_be_exchanged(
    open_at: Callable[[str], Page], here: Site, partial: str
) -> None:
    smaller, small = (here.start("tests/partial", n=n) for n in (2, 20))
    for one in (smaller, small):
        assert here.ended(one) == "completed"
    page = open_at(f"/executions/compare?a={smaller}&b={small}")
    steps = page.get_by_role("table", name="Steps of both runs")
    expect(steps).to_contain_text("3 of 20 failed")
    expect(steps).not_to_contain_text("7 of 50 failed")

    page.get_by_label("First run to compare").select_option(partial)

    expect(steps).to_contain_text("7 of 50 failed")
    assert f"a={partial}" in page.url
    assert f"b={small}" in page.url
    assert findings(page) == []
    steps.get_by_role("link", name="3 of 20 failed").click()
    expect(page.get_by_role("list", name="Failed iterations of start").get_by_role("listitem")).to_have_count(3)


CUT = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: cut, path: tests/cut }
workflow:
  - step: start
    loop: { in: "{{ range(50) | list }}", iterator: n, spec: { mode: parallel, max_in_flight: 4 } }
    tool:
      kind: python
      args: { n: "{{ iter.n }}" }
      code: |
        import time
        if n == 0:
            time.sleep(1)
            raise ValueError("no item")
        time.sleep(3600)
"""


def test_items_of_an_ended_run_are_stopped_or_not_run(
    open_at: Callable[[str], Page], here: Site, picture: Picture
) -> None:
    here.register(CUT)
    execution_id = here.start("tests/cut")
    assert here.ended(execution_id) == "failed"
    page = open_at(f"/executions/{execution_id}?tab=loops")

    page.get_by_role("img", name="start: 0 of 50 iterations done, 1 failed").wait_for()

    panel = page.get_by_role("tabpanel", name="Loops")
    expect(panel).to_contain_text("1 failed, 49 not run to their end, of 50")
    expect(panel.locator(".legend")).to_contain_text("stopped")
    expect(panel.locator(".legend")).not_to_contain_text("running")
    picture(page, "loop-cut")
    assert findings(page) == []
    [loop] = here.api.get(f"executions/{execution_id}/loops").raise_for_status().json()["loops"]
    stopped = loop["blocks"]["0"].index("1")
    assert loop["is_over"]
    page.locator("canvas").click(position={"x": stopped * CELL + 5, "y": 5})
    one = page.get_by_role("complementary", name=f"Iteration {stopped} of start")
    expect(one.locator(".status").first).to_contain_text("cancelled")


MANY = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: many, path: tests/many }
workflow:
  - step: load
    loop: { in: "{{ range(600) | list }}", iterator: n, spec: { mode: parallel } }
    spec: { policy: { failure: { mode: best_effort } } }
    tool:
      kind: python
      args: { n: "{{ iter.n }}" }
      code: |
        print("loading", n)
        if n % 100 == 99:
            raise ValueError(f"no country for {n}")
    next: { arcs: [{ step: check }] }
  - step: check
    tool: { kind: python, code: "raise RuntimeError('too few were loaded')" }
executor: { spec: { entry_step: load } }
"""


@pytest.fixture(scope="module")
def many(here: Site) -> str:
    """A run whose log has more entries than a page of it."""
    here.register(MANY)
    execution_id = here.start("tests/many")
    assert here.ended(execution_id) == "failed"
    return execution_id


def test_long_logs_are_searched_filtered_and_downloaded_in_full(
    open_at: Callable[[str], Page], many: str, here: Site
) -> None:
    page = open_at(f"/executions/{many}?tab=logs")
    entries = page.get_by_role("tabpanel").get_by_role("listitem").filter(has=page.locator("pre"))
    newest = here.api.get(f"executions/{many}/logs", params={"limit": 1000}).raise_for_status().json()["lines"][-2]
    expect(page.get_by_role("tabpanel")).to_contain_text("500 entries so far")
    page.get_by_label("failed only").check()
    expect(entries).to_have_count(7)
    expect(page.get_by_role("tabpanel")).to_contain_text("7 entries")
    page.get_by_label("failed only").uncheck()

    page.get_by_label("Find in logs").fill(newest["stdout"].strip())

    expect(entries).to_have_count(1)
    page.get_by_label("Find in logs").fill("")
    page.get_by_label("Iteration").fill(str(newest["path"][0]))
    page.get_by_label("Iteration").press("Enter")
    expect(entries).to_have_count(1)
    assert findings(page) == []
    page.get_by_label("Iteration").fill("")
    page.get_by_label("Iteration").press("Enter")
    expect(page.get_by_role("tabpanel")).to_contain_text("500 entries so far")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()
    assert Path(saved.value.path()).read_text("utf-8").count("loading ") == 600


def test_loops_are_shown_when_the_chosen_step_has_none_and_the_step_filter_is_visible(
    open_at: Callable[[str], Page], many: str
) -> None:
    page = open_at("/")
    with presses(page, 2):  # the link to the failure chooses the step that failed, which has no loop
        page.get_by_role("listitem").filter(has_text="too few were loaded").get_by_role("link", name="many").click()
        page.get_by_role("tab", name="Loops").click()
        expect(page.get_by_role("list", name="Failed iterations of load").get_by_role("listitem")).to_have_count(6)
    expect(page.get_by_role("tabpanel")).to_contain_text("No loop of check has started; all loops are shown.")
    assert findings(page) == []

    page.get_by_role("tabpanel").get_by_role("button", name="load", exact=True).click()

    page.get_by_role("button", name="step load ✕").click()
    expect(page.get_by_role("button", name="step load ✕")).to_have_count(0)
    expect(page.get_by_role("list", name="Failed iterations of load")).to_be_visible()


HELD = (
    PARTIAL.replace("tests/partial", "tests/held")
    .replace("name: partial", "name: held")
    .replace(
        "next: { arcs: [{ step: end }] }",
        'next: { arcs: [{ step: pay }] }\n  - step: pay\n    message: { name: paid, correlation: { order: "held" } }',
    )
)


def test_the_list_counts_failed_iterations_of_a_running_execution_and_links_to_them(
    open_at: Callable[[str], Page], here: Site, picture: Picture
) -> None:
    here.register(HELD)
    page = open_at("/executions")
    expect(page.get_by_role("heading", level=1)).to_have_text("Executions")

    execution_id = here.start("tests/held")

    row = page.locator("tbody tr", has_text=execution_id[-8:])
    expect(row.get_by_role("link", name="7 of 50 failed")).to_be_visible()
    expect(row).to_contain_text("running")
    picture(page, "partial-list")
    assert findings(page) == []
    for path, where in (("/", "section"), ("/catalog/playbook/tests/held", "tbody tr")):
        move(page, path)
        badge = page.locator(where).get_by_role("link", name="7 of 50 failed").first
        expect(badge).to_be_visible()
        picture(page, f"partial-{where.partition(' ')[0]}")
        assert findings(page) == []
    here.until_waiting(execution_id, "pay")
    here.api.post("messages", json={"name": "paid", "correlation": {"order": "held"}})
    assert here.ended(execution_id) == "completed"
    with presses(page, 1):
        badge.click()
        expect(page.get_by_role("list", name="Failed iterations of start").get_by_role("listitem")).to_have_count(7)
