"""The page of one execution: net, time travel, timeline, events, logs, data, loops, the reason for its state, and
running it again."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, Visitor, is_copied, is_followed
from tests.browser.serving import Site

Open = Callable[[str], Page]
LONG_PATH = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: daily_orders_by_region, path: sales/reporting/daily_orders_by_region }
workflow:
  - step: pay
    message: { name: paid, correlation: { order: "1" } }
executor: { spec: { entry_step: pay } }
"""
# How many lines things stand in: one begins where something is below all that came before.
ROWS = """(all) => {
  let rows = 0, bottom = -1;
  for (const { top, bottom: end } of all.map((one) => one.getBoundingClientRect())) {
    if (top >= bottom) rows += 1;
    bottom = Math.max(bottom, end);
  }
  return rows;
}"""


@pytest.fixture(scope="module")
def chain(here: Site) -> str:
    execution_id = here.start("tests/chain", n=12)
    here.ended(execution_id)
    return execution_id


def test_tabs_are_reachable_by_arrow_keys_and_stored_in_the_address(open_at: Open, chain: str) -> None:
    page = open_at(f"/executions/{chain}")
    page.get_by_role("tab", name="Net").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Timeline")).to_be_focused()
    expect(page).to_have_url(re.compile("tab=time"))
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Net")).to_have_attribute("aria-selected", "true")


def test_a_step_of_the_net_is_chosen_by_keyboard_and_shows_its_result(open_at: Open, chain: str) -> None:
    page = open_at(f"/executions/{chain}")
    step = page.locator(".step.completed", has_text="start")
    step.focus()
    expect(step).to_be_focused()
    page.keyboard.press("Enter")
    side = page.get_by_role("complementary", name="Step start")
    expect(side).to_contain_text("Hello, world!")
    expect(side).to_contain_text("step.done")


@pytest.mark.req("EVT-07")
def test_the_state_after_any_event_can_be_shown(open_at: Open, here: Site, chain: str) -> None:
    page = open_at(f"/executions/{chain}?tab=data")
    is_followed(page, here, chain)
    expect(page.get_by_role("tabpanel")).to_contain_text("greeted")
    page.get_by_label("Moment that is shown").fill("5")
    expect(page.get_by_role("heading", name="Variables (ctx) after event 5")).to_be_visible()
    expect(page.get_by_role("tabpanel")).not_to_contain_text("greeted")
    page.get_by_role("button", name="One event forward").click()
    expect(page.get_by_role("heading", name="Variables (ctx) after event 6")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Variables (ctx) after event 6")).to_be_visible()
    page.get_by_role("button", name="Back to now").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("greeted")


def test_the_timeline_shows_a_waiting_step_until_it_continues(open_at: Open, here: Site, picture: Picture) -> None:
    execution_id = here.start("tests/waiting", order=41)
    here.until_waiting(execution_id, "pay")
    page = open_at(f"/executions/{execution_id}?tab=time")
    bar = page.get_by_role("listitem").filter(has_text="pay")
    expect(bar).to_contain_text("waiting")
    expect(bar.locator("rect.waiting title")).to_contain_text("for message paid")
    picture(page, "timeline-waiting")
    here.api.post("messages", json={"name": "paid", "correlation": {"order": 41}})
    expect(bar).to_contain_text("done")
    expect(page.get_by_role("listitem").filter(has_text="end")).to_be_visible()


def test_the_timeline_shows_attempts_and_the_delays_between_them(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/failing")
    here.ended(execution_id)
    page = open_at(f"/executions/{execution_id}?tab=time")
    expect(page.get_by_role("list", name="Step runs by time").get_by_role("listitem")).to_have_count(4)
    expect(page.locator("rect.backoff title").first).to_contain_text("before attempt 2")
    page.get_by_role("button", name="Zoom in").click()
    expect(page.get_by_label("Part that is shown")).to_be_visible()


def test_events_are_searched_and_opened_in_full(open_at: Open, chain: str) -> None:
    page = open_at(f"/executions/{chain}?tab=events")
    page.get_by_label("Kind of event").select_option("step.done")
    expect(page.locator(".event")).to_have_count(2)
    page.get_by_label("Find in events").fill("start")
    expect(page.locator(".event")).to_have_count(1)
    page.locator(".event").click()
    aside = page.locator("aside")
    expect(aside).to_contain_text("event_id")
    expect(aside).to_contain_text("Hello, world!")
    aside.get_by_role("button", name="Copy").click()
    is_copied(page, '"step.done"')
    aside.get_by_role("button", name="Show this moment").click()
    expect(page.get_by_role("button", name="Back to now")).to_be_visible()


def test_logs_show_the_output_and_the_error(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/failing")
    here.ended(execution_id)
    page = open_at(f"/executions/{execution_id}?tab=logs")
    expect(page.locator("pre", has_text="trying")).to_have_count(3)
    expect(page.locator("pre.error").first).to_contain_text("no luck")


def test_logs_name_their_step_filter_and_are_searchable(open_at: Open, here: Site, chain: str) -> None:
    page = open_at(f"/executions/{chain}?tab=logs&step=end")
    expect(page.get_by_label("Step", exact=True)).to_have_value("end")
    expect(page.get_by_text("Nothing was printed in end")).to_be_visible()
    page.get_by_label("Step", exact=True).select_option("all steps")
    expect(page.locator("pre", has_text="greeting")).to_have_count(1)
    page.get_by_label("Find in logs").fill("nowhere")
    expect(page.get_by_text("No line matches")).to_be_visible()
    page.get_by_label("Find in logs").fill("GREET")
    expect(page.locator("pre", has_text="greeting")).to_have_count(1)
    page.get_by_label("failed only").check()
    expect(page.get_by_text("No line matches")).to_be_visible()


def test_every_iteration_of_a_loop_is_a_cell(open_at: Open, here: Site, chain: str) -> None:
    page = open_at(f"/executions/{chain}?tab=loops")
    expect(page.get_by_role("img", name="each: 12 of 12 iterations done, 0 failed")).to_be_visible()
    is_followed(page, here, chain)
    page.get_by_label("Moment that is shown").fill("40")
    expect(page.get_by_role("img", name="each: 12 of 12")).to_have_count(0)


def test_the_explanation_of_a_waiting_execution_goes_when_it_continues(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/waiting", order=42)
    page = open_at(f"/executions/{execution_id}?tab=explain")
    expect(page.get_by_role("tabpanel")).to_contain_text('message "paid"')
    expect(page.get_by_role("columnheader", name="Waiting for", exact=True)).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("it was paused at")
    page.locator("header").get_by_role("button", name="Resume").click()
    here.api.post("messages", json={"name": "paid", "correlation": {"order": 42}})
    expect(page.get_by_role("tabpanel")).to_contain_text("the execution has ended: completed")


@pytest.mark.req("SRV-11")
def test_the_header_of_a_running_execution_has_a_line_for_name_and_one_for_facts(
    open_at: Open, here: Site, picture: Picture
) -> None:
    here.register(LONG_PATH)
    execution_id = here.start("sales/reporting/daily_orders_by_region")
    here.until_waiting(execution_id, "pay")
    page = open_at(f"/executions/{execution_id}")
    expect(page.locator("main header").get_by_role("button")).to_have_count(4)
    picture(page, "header")
    assert findings(page) == []

    for what in (".facts > *", ".actions > *", "h1, .actions"):
        assert page.locator("main header").locator(what).evaluate_all(ROWS) == 1, what


def test_cancelling_an_execution_needs_confirmation(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/slow")
    here.until_waiting(execution_id, "start")
    page = open_at(f"/executions/{execution_id}")
    is_followed(page, here, execution_id)
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel slow?")
    expect(dialog).to_contain_text(execution_id)
    expect(dialog).to_contain_text("None of its steps so far has a compensation")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    expect(page.locator("main header .status")).to_contain_text("running")
    page.keyboard.press("Enter")
    dialog.get_by_label("Reason").fill("the wrong month")
    page.keyboard.press("Enter")
    expect(page.locator("main header .status")).to_contain_text("cancelled")
    expect(page.get_by_text("Cancelled by admin: the wrong month")).to_be_visible()
    expect(page.locator(".step.cancelled")).to_contain_text("start")
    told = here.api.get(f"executions/{execution_id}/events").json()["events"]
    assert [one["payload"]["reason"] for one in told if one["event_type"] == "playbook.cancelled"] == [
        "the wrong month"
    ]


def test_cancelling_can_run_the_compensations_first(open_at: Open, here: Site, picture: Picture) -> None:
    execution_id = here.start("tests/booking")
    here.until_waiting(execution_id, "pay")
    page = open_at(f"/executions/{execution_id}")
    is_followed(page, here, execution_id)
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel booking?")
    expect(dialog).to_contain_text("Compensations do not run")
    dialog.get_by_label("Undo what was done first").check()
    expect(dialog).to_contain_text("2 compensations run, the last step first")
    page.emulate_media(reduced_motion="reduce")  # colours on their way from one to another have no contrast
    picture(page, "question")
    assert findings(page) == []
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    picture(page, "question-dark")
    assert findings(page) == []
    dialog.get_by_role("button", name="Cancel execution").click()
    expect(page.locator("main header .status")).to_contain_text("cancelled")
    expect(page.locator(".beside > [data-state=completed]")).to_have_count(1)
    expect(page.locator(".beside > [data-state=failed]")).to_have_count(1)


def test_the_focus_stays_in_a_dialog_until_it_is_answered(open_at: Open, here: Site) -> None:
    page = open_at(f"/executions/{here.start('tests/slow')}")
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    for key in ("Tab", "Shift+Tab"):
        for _ in range(6):
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.get_by_role("dialog").get_by_role("button", name="Keep running").click()
    expect(page.locator("main header .status")).to_contain_text("running")


@pytest.mark.req("SAGA-01", "ADV-01", "TOOL-12")
def test_side_runs_appear_at_their_step_and_in_rows_of_their_own(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/beside")
    here.until_waiting(execution_id, "talk")
    here.api.post(f"executions/{execution_id}/events", json={"name": "audit.required", "data": {}})
    page = open_at(f"/executions/{execution_id}?step=talk")
    side = page.get_by_role("complementary", name="Step talk")
    expect(side).to_contain_text("audit, for audit.required")
    expect(side.locator(".side_run")).to_contain_text("completed")
    expect(page.locator(".step", has_text="start").locator("xpath=..").locator(".beside")).to_contain_text("∥")
    page.get_by_role("tab", name="Timeline").click()
    rows = page.get_by_role("list", name="Step runs by time").get_by_role("listitem")
    expect(rows.filter(has_text="insert beside start")).to_contain_text("completed")
    expect(rows.filter(has_text="audit, for audit.required")).to_contain_text("completed")


def test_a_compensation_is_shown_at_its_step_at_any_event(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/booking", fail=True)
    assert here.ended(execution_id) == "failed"
    page = open_at(f"/executions/{execution_id}?step=hotel")
    expect(page.locator(".beside > [data-state=failed]")).to_have_attribute("title", "compensation: failed")
    expect(page.get_by_role("complementary", name="Step hotel")).to_contain_text("the hotel does not answer")
    requested = next(
        one["seq"]
        for one in here.api.get(f"executions/{execution_id}/events").json()["events"]
        if one["event_type"] == "compensation.requested"
    )
    page.get_by_label("Moment that is shown").fill(str(requested))
    expect(page.locator(".beside > [data-state=queued]")).to_have_count(2)
    page.get_by_role("button", name="Back to now").click()
    page.get_by_role("tab", name="Timeline").click()
    rows = page.get_by_role("list", name="Step runs by time").get_by_role("listitem")
    expect(rows.filter(has_text="undo hotel")).to_contain_text("failed")
    expect(rows.filter(has_text="undo flight")).to_contain_text("completed")


def test_an_unknown_execution_is_reported_with_a_link_to_the_list(open_at: Open) -> None:
    page = open_at("/executions/01890000-0000-7000-8000-0000deadbeef")
    expect(page.get_by_role("heading", level=1)).to_have_text("No such execution")
    page.get_by_role("link", name="All executions").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Executions")


@pytest.mark.req("CLI-04")
def test_an_execution_is_rerun_from_a_step(open_at: Open, here: Site, chain: str, picture: Picture) -> None:
    page = open_at(f"/executions/{chain}?step=each")
    page.get_by_role("button", name="Run again").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("From")).to_have_value("each")
    picture(page, "rerun")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("link", name=re.compile("^rerun of ….* from each$"))).to_be_visible()
    expect(page.locator(".step.completed", has_text="end")).to_be_visible()
    expect(page.locator(".step.completed", has_text="start")).to_have_count(0)
    page.get_by_role("link", name=re.compile("^rerun of ….* from each$")).click()
    expect(page).to_have_url(f"{here.url}/executions/{chain}")


def test_the_rerun_form_is_the_start_form_filled_with_the_earlier_inputs(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/chain", n=2)
    here.ended(execution_id)
    page = open_at(f"/executions/{execution_id}")
    page.get_by_role("button", name="Run again").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("n integer")).to_have_value("2")
    expect(dialog.get_by_label("who string")).to_have_value("world")
    dialog.get_by_label("who string").fill("moon")
    dialog.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(lambda url: execution_id not in url)
    again = page.url.split("/")[-1]

    assert here.ended(again) == "completed"
    assert here.api.get(f"executions/{again}").json()["payload"] == {"n": 2, "who": "moon"}


def test_a_refusal_by_the_server_is_shown_in_its_own_text(open_at: Open, chain: str) -> None:
    page = open_at(f"/executions/{chain}")
    page.get_by_role("button", name="Run again").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="JSON").click()
    dialog.get_by_label("Inputs as JSON").fill("{not json")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("not JSON")
    dialog.get_by_label("Inputs as JSON").fill("{}")
    dialog.get_by_label("Version").fill("99")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("99")


def test_nested_executions_link_to_each_other(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/parent")
    here.ended(execution_id)
    page = open_at(f"/executions/{execution_id}")
    page.get_by_text("1 nested execution").click()
    page.get_by_role("link", name="chain", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("chain")
    page.get_by_role("link", name="parent execution").click()
    expect(page).to_have_url(f"{here.url}/executions/{execution_id}")


def test_an_interrupted_event_stream_resumes_at_its_position(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/waiting", order=43)
    here.until_waiting(execution_id, "pay")
    page = open_at(f"/executions/{execution_id}?tab=events")
    expect(page.locator(".event").first).to_be_visible()
    before = page.locator(".event").count()
    page.context.set_offline(True)
    page.wait_for_timeout(100)
    here.api.post("messages", json={"name": "paid", "correlation": {"order": 43}})
    page.context.set_offline(False)
    expect(page.locator("header .status")).to_contain_text("completed")
    expect(page.locator(".event", has_text="playbook.processed")).to_be_visible()
    numbers = [int(text) for text in page.locator(".event .seq").all_inner_texts()]
    assert len(numbers) > before or numbers[0] > 1
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))  # none is missing and none is told twice


def test_a_step_limit_is_overridden_while_it_runs_and_then_reset(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/limited")
    here.until_waiting(execution_id, "call")
    page = open_at(f"/executions/{execution_id}?tab=limits")
    row = page.get_by_role("row", name="call")
    waiting = row.get_by_role("cell").nth(4)
    expect(waiting).to_have_text("2")
    row.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog", name="Limits of the step call")
    dialog.get_by_label("At once").fill("none")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text('found "none"')
    dialog.get_by_label("At once").fill("2")
    dialog.get_by_label("Reason").fill("they have more room")
    page.keyboard.press("Enter")
    expect(row).to_contain_text("2 set, instead of 1")
    expect(waiting).to_have_text("1")
    row.get_by_role("button", name="Reset").click()
    page.get_by_role("dialog", name="Reset the limits of call?").get_by_role("button", name="Reset limits").click()
    expect(row).not_to_contain_text("instead of")


def test_a_viewer_sees_limits_and_cannot_change_them(visitor: Visitor, here: Site) -> None:
    execution_id = here.start("tests/limited")
    page = visitor(here.make_token("vito", "viewer"), f"/executions/{execution_id}?tab=limits")
    expect(page.get_by_role("row", name="call")).to_be_visible()
    for name in ("Change", "Set limit"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
