"""What operators look for in lists and at the head of an execution: items that did not run, reasons of failures,
reruns, and the people it waits for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.audit import findings, out_of_reach
from tests.browser.conftest import PATIENCE_MS, Picture, Visitor, presses
from tests.browser.profiles import move
from tests.browser.remote_workers import administrator, remote_worker
from tests.browser.serving import Site, site
from tests.waiting import until

Open = Callable[[str], Page]
STOPPED = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: stopped, path: tests/stopped }
workflow:
  - step: start
    loop: { in: "{{ range(20) | list }}", iterator: x }
    tool: { kind: python, args: { x: "{{ iter.x }}" }, code: "result = 1 / (3 - x)" }
    next: { arcs: [{ step: end, when: "{{ event.name == 'step.failed' }}" }] }
  - step: end
"""
PASSED = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: passed, path: tests/passed }
workflow:
  - step: start
    loop: { in: "{{ range(20) | list }}", iterator: x }
    tool:
      kind: python
      args: { x: "{{ iter.x }}" }
      code: "result = 1 / (x % 5)"
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: continue } }] } }
"""
REASONS = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: reasons, path: tests/reasons }
workload: { at: call }
workflow:
  - step: start
    next: { arcs: [{ step: call, when: "{{ workload.at == 'call' }}" }, { step: check }] }
  - step: call
    tool: { kind: http, url: "http://127.0.0.1:9/nowhere" }
  - step: check
    tool: { kind: python, code: "raise ValueError('no luck')" }
"""
DUE = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: due, path: tests/due }
workflow:
  - step: start
    human_task: { title: "Look at it", assignee: { role: keeper }, due_date: 2h }
"""


@pytest.fixture(scope="module")
def stopped(here: Site) -> str:
    here.register(STOPPED)
    execution_id = here.start("tests/stopped")
    assert here.ended(execution_id) == "completed"
    return execution_id


def test_node_head_and_list_say_how_many_items_were_not_run(open_at: Open, stopped: str, picture: Picture) -> None:
    page = open_at(f"/executions/{stopped}")
    expect(page.locator(".step", has_text="start")).to_contain_text("1 of 20 failed, 16 not run")
    expect(page.get_by_role("link", name="1 of 20 iterations failed, 16 were not run to their end")).to_be_visible()
    picture(page, "unrun")
    assert findings(page) == []

    move(page, "/executions?text=tests/stopped")

    expect(page.get_by_role("link", name="1 of 20 failed, 16 not run")).to_be_visible()
    assert findings(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("link", name="1 of 20 failed, 16 not run")).to_be_visible()
    assert out_of_reach(page) == []


def test_items_that_went_on_after_an_error_are_counted(open_at: Open, here: Site, picture: Picture) -> None:
    here.register(PASSED)
    execution_id = here.start("tests/passed")
    assert here.ended(execution_id) == "completed"

    page = open_at(f"/executions/{execution_id}")

    expect(page.locator(".step", has_text="start")).to_contain_text("4 passed over after an error")
    picture(page, "passed-over")
    assert findings(page) == []
    page.locator("header").get_by_role("link", name="4 passed over after an error").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("20 done, 0 failed, 4 passed over after an error, of 20")
    assert findings(page) == []
    move(page, "/executions?text=tests/passed")
    expect(page.get_by_role("link", name="4 passed over after an error")).to_be_visible()
    assert findings(page) == []


def test_the_list_leads_from_a_run_to_its_rerun_and_back(open_at: Open, here: Site, stopped: str) -> None:
    told = here.api.post(f"executions/{stopped}/rerun", json={}).raise_for_status().json()
    again = str(told["execution_id"])
    here.ended(again)
    page = open_at("/executions?text=tests/stopped")

    page.get_by_role("link", name=f"run again: …{again[-8:]}").click()

    expect(page.locator("header code")).to_have_text(again)
    move(page, "/executions?text=tests/stopped")
    assert findings(page) == []
    page.get_by_role("link", name=f"rerun of …{stopped[-8:]}").click()
    expect(page.locator("header code")).to_have_text(stopped)


def test_a_run_that_waits_for_a_person_says_so_and_not_when_its_next_timer_is(
    open_at: Open, here: Site, picture: Picture
) -> None:
    here.register(DUE)
    execution_id = here.start("tests/due")
    here.until_waiting(execution_id, "start")

    page = open_at("/executions?text=tests/due")

    row = page.locator("tbody tr", has_text=execution_id[-8:])
    expect(row.get_by_role("link", name="waits for a person")).to_be_visible()
    expect(row).not_to_contain_text("next timer")
    picture(page, "list-person")
    assert findings(page) == []
    row.get_by_role("link", name="waits for a person").click()
    expect(page.get_by_role("link", name="Look at it")).to_be_visible()
    here.api.post(f"executions/{execution_id}/cancel", json={}).raise_for_status()


def test_a_run_that_waits_for_a_message_says_so(open_at: Open, here: Site, picture: Picture) -> None:
    execution_id = here.start("tests/waiting", order=4711)
    here.until_waiting(execution_id, "pay")
    page = open_at("/executions?text=tests/waiting")

    row = page.locator("tbody tr", has_text=execution_id[-8:])
    expect(row.get_by_role("link", name="waits for a message", exact=True)).to_be_visible()
    picture(page, "list-message")
    assert findings(page) == []
    row.get_by_role("link", name="waits for a message").click()

    expect(page.get_by_role("tabpanel", name="Explain")).to_contain_text("paid")
    here.api.post(f"executions/{execution_id}/cancel", json={}).raise_for_status()


def test_failed_executions_are_narrowed_by_step_and_error(open_at: Open, here: Site, picture: Picture) -> None:
    here.register(REASONS)
    called, checked = [here.start("tests/reasons") for _ in range(2)], here.start("tests/reasons", at="check")
    assert {here.ended(one) for one in (*called, checked)} == {"failed"}
    kinds = {one: here.api.get(f"executions/{one}").json()["error"]["kind"] for one in (called[0], checked)}
    page = open_at("/executions?text=tests/reasons")
    expect(page.locator("tbody tr")).to_have_count(3)

    page.get_by_role("group", name="State").get_by_role("button", name="failed").click()

    reasons = page.get_by_role("region", name="Reasons of failures")
    reason = reasons.get_by_role("button", name=f"Failed in step call: {kinds[called[0]]}, 2 runs")
    reason.click()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.get_by_role("link", name=f"call: {kinds[called[0]]}")).to_have_count(2)
    picture(page, "reasons")
    assert findings(page) == []
    expect(reasons.get_by_role("button", name=f"Failed in step check: {kinds[checked]}, 1 run")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert out_of_reach(page) == []
    page.reload()  # the address keeps the reason
    expect(page.locator("tbody tr")).to_have_count(2)
    reason.click()
    expect(page.locator("tbody tr")).to_have_count(3)


def test_on_a_phone_every_tab_of_an_execution_is_in_sight(open_at: Open, stopped: str, picture: Picture) -> None:
    page = open_at("/")
    page.set_viewport_size({"width": 390, "height": 844})
    move(page, f"/executions/{stopped}")
    tab = page.get_by_role("tab", name="Explain")
    expect(tab).to_be_in_viewport(ratio=1)
    tab.click()
    expect(page.get_by_role("tabpanel", name="Explain")).to_be_visible()
    picture(page, "tabs-phone")
    assert findings(page) == []
    assert out_of_reach(page, "[role=tablist]") == []


def test_explain_of_a_paused_run_says_that_it_is_paused(open_at: Open, here: Site, picture: Picture) -> None:
    here.register(DUE)
    execution_id = here.start("tests/due")
    here.until_waiting(execution_id, "start")
    here.api.post(f"executions/{execution_id}/pause", json={}).raise_for_status()
    page = open_at(f"/executions/{execution_id}?tab=explain")
    explained = page.get_by_role("tabpanel", name="Explain")
    expect(explained).to_contain_text("by admin: nothing new starts before a resume")
    expect(explained).not_to_contain_text("stuck")
    expect(explained).not_to_contain_text("noetl resume")
    picture(page, "explain-paused")
    assert findings(page) == []

    explained.get_by_role("button", name="Resume").click()

    expect(explained).not_to_contain_text("paused")
    here.api.post(f"executions/{execution_id}/cancel", json={}).raise_for_status()


def test_a_pause_names_its_user_at_the_head_in_the_events_and_in_the_timeline(
    visitor: Visitor, here: Site, picture: Picture
) -> None:
    execution_id = here.start("tests/slow")
    here.until_waiting(execution_id, "start")
    page = visitor(here.make_token("otto_p", "operator"), f"/executions/{execution_id}")
    page.get_by_role("button", name="Pause").click()
    head = page.get_by_role("status").filter(has_text="Paused by otto_p at")
    expect(head).to_contain_text("nothing new starts until it is resumed")
    picture(page, "paused")
    assert findings(page) == []
    page.get_by_role("tab", name="Events").click()
    kind = page.locator(".event", has_text="playbook.execution_requested").locator(".type")
    assert kind.evaluate("one => one.scrollWidth <= one.clientWidth"), "the longest kind is cut"
    expect(page.locator(".event", has_text="playbook.paused").locator(".gist")).to_have_text("otto_p")
    page.get_by_role("button", name="Resume").click()
    expect(head).to_have_count(0)

    page.get_by_role("tab", name="Timeline").click()

    expect(page.get_by_role("tabpanel")).to_contain_text("paused by otto_p, resumed by otto_p")
    picture(page, "timeline-pause")
    assert findings(page) == []
    here.api.post(f"executions/{execution_id}/cancel", json={}).raise_for_status()


def test_explain_leads_to_what_ends_a_wait(open_at: Open, visitor: Visitor, here: Site, picture: Picture) -> None:
    execution_id, person = here.start("tests/waiting", order=4321), here.start("tests/asking", amount=4713)
    here.until_waiting(execution_id, "pay")
    here.until_waiting(person, "approve")
    page = open_at(f"/executions/{person}?tab=explain")
    page.get_by_role("tabpanel").get_by_role("link", name="Open the task").click()
    expect(page.get_by_role("heading", name="Approve 4713?")).to_be_visible()
    move(page, f"/executions/{execution_id}?tab=explain")
    with presses(page, 2):
        send = page.get_by_role("tabpanel").get_by_role("link", name="Send message paid")
        expect(send).to_be_visible()
        picture(page, "explain-wait")
        assert findings(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        cell = page.get_by_role("tabpanel").locator("td", has_text="waiting")
        assert cell.evaluate("one => one.scrollWidth <= one.clientWidth"), "its state lies over the next column"
        send.click()
        expect(page.get_by_label("Correlation")).to_have_value('{"order":4321}')
        page.get_by_role("button", name="Send").click()
    assert here.ended(execution_id) == "completed"
    viewer = visitor(here.make_token("vera_e", "viewer"), f"/executions/{here.start('tests/waiting', order=1)}")
    viewer.get_by_role("tab", name="Explain").click()
    expect(viewer.get_by_role("tabpanel")).to_contain_text('message "paid"')
    expect(viewer.get_by_role("link", name="Send message paid")).to_have_count(0)
    here.api.post(f"executions/{person}/cancel", json={}).raise_for_status()


def test_the_head_of_a_rerun_names_the_items_that_it_ran(open_at: Open, here: Site, stopped: str) -> None:
    asked = {"from": "start", "failed_items": True}
    told = here.api.post(f"executions/{stopped}/rerun", json=asked).raise_for_status().json()
    again = str(told["execution_id"])
    here.ended(again)

    page = open_at(f"/executions/{again}")

    # Of 20 items the first three were done; 3 failed, and no other ran.
    expect(page.get_by_role("link", name="only 17 of 20 items: 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")).to_be_visible()
    assert findings(page) == []


def test_a_comparison_counts_the_items_that_were_not_run(open_at: Open, stopped: str) -> None:
    page = open_at(f"/executions/compare?a={stopped}&b={stopped}")

    steps = page.get_by_role("table", name="Steps of both runs")
    expect(steps.get_by_role("link", name="1 of 20 failed, 16 not run")).to_have_count(2)


LATE = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: overdue, path: tests/overdue }
on: { late: { after: 1s, notify: { webhook: { url: "http://127.0.0.1:9/nobody" } } } }
executor: { spec: { entry_step: wait } }
workflow:
  - step: wait
    timer: { duration: 2h }
"""


def test_a_late_execution_says_so_at_its_head_and_leads_to_the_reason(
    open_at: Open, here: Site, picture: Picture
) -> None:
    here.register(LATE)
    execution_id = here.start("tests/overdue")
    page = open_at(f"/executions/{execution_id}")

    late = page.get_by_role("status").filter(has_text="it was expected to end within 1.0 s")

    expect(late).to_contain_text("Late by")
    picture(page, "late")
    assert findings(page) == []
    late.get_by_role("link", name="Explain what it waits for").click()
    expect(page.get_by_role("tabpanel", name="Explain")).to_contain_text("its timer, at")
    here.api.post(f"executions/{execution_id}/cancel", json={}).raise_for_status()


LARGE = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: large_end, path: tests/large_end }
workload: { n: 4000 }
workflow:
  - step: start
    tool:
      kind: python
      args: { n: "{{ workload.n }}" }
      code: "result = {'rows': [{'id': k, 'name': f'customer {k}'} for k in range(n)]}"
"""


def test_a_large_result_is_one_press_away(open_at: Open, here: Site, picture: Picture) -> None:
    here.register(LARGE)
    execution_id = here.start("tests/large_end")
    assert here.ended(execution_id) == "completed"
    page = open_at(f"/executions/{execution_id}")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download the result").click()
    assert "customer 3999" in Path(saved.value.path()).read_text("utf-8")

    with presses(page, 1):
        page.get_by_role("link", name="Open the result").click()
        shown = page.get_by_role("region", name="Result", exact=True)
        expect(shown.get_by_role("cell", name="customer 3", exact=True)).to_be_in_viewport()

    picture(page, "data-result-first")
    assert findings(page) == []


PRINTING = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: timed, path: tests/timed }
workload: { gate: "" }
workflow:
  - step: start
    tool:
      kind: python
      args: { gate: "{{ workload.gate }}" }
      code: |
        import pathlib, time
        print("page 1")
        print("page 2")
        while not pathlib.Path(gate).exists():
            time.sleep(0.02)
"""


def test_log_lines_have_their_times_where_they_are_known(
    open_at: Open, here: Site, tmp_path: Path, picture: Picture
) -> None:
    here.register(PRINTING)
    gate = tmp_path / "gate"
    execution_id = here.start("tests/timed", gate=str(gate))
    page = open_at(f"/executions/{execution_id}?tab=logs")
    lines = page.get_by_role("log")
    expect(lines).to_have_text("page 1\npage 2")

    page.get_by_label("times").check()

    stamped = re.compile(r"^\d\d:\d\d:\d\d.* page 1\n\d\d:\d\d:\d\d.* page 2$")
    expect(lines).to_have_text(stamped)
    picture(page, "logs-times")
    assert findings(page) == []
    gate.touch()
    assert here.ended(execution_id) == "completed"
    entry = page.get_by_role("tabpanel").get_by_role("listitem").locator("pre:not([role])")
    expect(entry).to_have_text(stamped)
    page.get_by_label("times").uncheck()
    expect(entry).to_have_text("page 1\npage 2")


GATED = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: gated, path: tests/gated }
workload: { gate: "" }
workflow:
  - step: start
    tool:
      name: copy
      kind: python
      args: { gate: "{{ workload.gate }}" }
      code: |
        import pathlib, time
        print("begun", flush=True)
        while not pathlib.Path(gate).exists():
            time.sleep(0.02)
"""


def test_a_start_that_was_lost_with_its_worker_says_so_in_words(
    browser: Browser, tmp_path: Path, picture: Picture
) -> None:
    gate = tmp_path / "gate"
    with site(tmp_path, workers=0, lease_ttl_s=3.0) as there:
        there.register(GATED)
        execution_id = there.start("tests/gated", gate=str(gate))
        events = f"executions/{execution_id}/events"
        with administrator(browser, there, f"/executions/{execution_id}?tab=time", PATIENCE_MS) as page:
            rows = page.get_by_role("list", name="Step runs by time")
            rows.get_by_role("button").first.click()  # its tasks are listed below it
            with remote_worker(there):
                expect(rows.get_by_role("button").filter(has_text="copy")).to_contain_text("running")
                # A start that is not recorded yet when the worker is killed is no start that was lost.
                until(lambda: there.api.get(events, params={"types": "task.started"}).json()["events"] or None)
            gate.touch()
            with remote_worker(there):
                assert there.ended(execution_id) == "completed"
            lost = rows.get_by_role("button").filter(has_text="lost with its worker after")
            expect(lost).to_be_visible()
            picture(page, "timeline-lost")
            assert findings(page) == []
