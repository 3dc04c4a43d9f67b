"""The jobs of a data engineer's day, each from the screens alone and within a number of presses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, Visitor, is_told, presses
from tests.browser.editing import hover_until_explained, type_into_editor
from tests.browser.profiles import move
from tests.browser.serving import Site

Open = Callable[[str], Page]
ORDERS = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: day_orders, path: day/orders }
workload: { broken: false }
workflow:
  - step: read
    tool:
      kind: python
      code: |
        print("\\x1b[31mred alert\\x1b[0m and plain")
        result = {"orders": [{"id": n, "total": n * 10} for n in range(120)]}
    next: { arcs: [{ step: check }] }
  - step: check
    loop: { in: "{{ [1, 2, 3] }}", iterator: n, spec: { mode: parallel } }
    tool: { kind: python, args: { n: "{{ iter.n }}" }, code: "print('item', n)" }
    next: { arcs: [{ step: load }] }
  - step: load
    tool:
      kind: python
      args: { broken: "{{ workload.broken }}" }
      code: |
        if broken:
            raise ValueError("the disk is full")
        result = "loaded"
executor: { spec: { entry_step: read } }
"""


@pytest.fixture(scope="module")
def orders(here: Site) -> tuple[str, str]:
    """Yesterday's run, which was good, and last night's, which failed."""
    here.register(ORDERS)
    good, bad = here.start("day/orders"), here.start("day/orders", broken=True)
    assert (here.ended(good), here.ended(bad)) == ("completed", "failed")
    return good, bad


def test_the_cause_of_a_failed_run_is_one_click_from_home(page: Page, orders: tuple[str, str]) -> None:
    with presses(page, 1):
        page.get_by_role("listitem").filter(has_text="the disk is full").get_by_role("link").first.click()
        expect(page.get_by_role("tabpanel")).to_contain_text("the disk is full")


def test_a_run_is_compared_with_the_run_before_it(page: Page, orders: tuple[str, str]) -> None:
    with presses(page, 2):
        page.get_by_role("listitem").filter(has_text="the disk is full").get_by_role("link").first.click()
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("table", name="Inputs that differ")).to_contain_text("broken")


def test_a_playbook_is_found_by_name_with_the_search(page: Page, orders: tuple[str, str], picture: Picture) -> None:
    page.get_by_role("heading", name="Home").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("day/ord")
    expect(page.get_by_role("option", name="day/orders playbook")).to_have_attribute("aria-selected", "true")
    picture(page, "palette")
    assert findings(page) == []
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="day/orders")).to_be_visible()


def test_failed_executions_and_open_tasks_are_found_by_their_words(
    page: Page, orders: tuple[str, str], here: Site
) -> None:
    execution_id = here.start("tests/asking", amount=71)
    here.until_waiting(execution_id, "approve")
    page.get_by_role("heading", name="Home").wait_for()
    page.keyboard.press("Control+k")
    for name in ("Settings screen", "Audit screen"):
        expect(page.get_by_role("option", name=name)).to_be_visible()
    field = page.get_by_role("combobox")
    field.fill("failed orders")
    found = page.get_by_role("option").filter(has_text=orders[1][-8:])
    expect(found).to_contain_text("failed")
    expect(page.get_by_role("option").filter(has_text="completed")).to_have_count(0)
    field.fill("approve 71")
    page.get_by_role("option", name="Approve 71? task").click()
    expect(page.get_by_role("heading", name="Approve 71?")).to_be_visible()
    here.api.post(f"executions/{execution_id}/cancel", json={}).raise_for_status()
    assert here.ended(execution_id) == "cancelled"  # others count the tasks that wait


def test_a_step_of_any_playbook_is_found_with_the_search(page: Page, orders: tuple[str, str]) -> None:
    page.get_by_role("heading", name="Home").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("chec")
    page.get_by_role("option", name="check step of day/orders").click()

    expect(page.get_by_role("heading", name="day/orders")).to_be_visible()
    expect(page.locator(".net .step.chosen")).to_contain_text("check")


def test_logs_show_colours_and_iterations_and_are_downloaded(
    open_at: Open, orders: tuple[str, str], picture: Picture
) -> None:
    page = open_at(f"/executions/{orders[1]}?tab=logs")
    red = page.locator("pre .red")
    expect(red).to_have_text("red alert")
    failed = page.get_by_role("tabpanel").locator("pre.error")
    expect(failed).to_contain_text(
        'File "load/load_task", line 2, in <module>\n    raise ValueError("the disk is full")'
    )
    expect(page.get_by_role("alert")).to_contain_text('load/load_task, line 2: raise ValueError("the disk is full")')
    picture(page, "logs-colours")
    page.get_by_label("times").check()
    expect(page.get_by_text("The stored log has the time of its task only.").first).to_be_visible()
    page.get_by_label("times").uncheck()
    page.get_by_label("Iteration").fill("1")
    page.get_by_label("Iteration").press("Enter")
    expect(page.get_by_role("tabpanel").get_by_role("listitem")).to_have_count(1)
    page.get_by_label("Iteration").fill("")
    page.get_by_label("Iteration").press("Enter")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()

    text = Path(saved.value.path()).read_text("utf-8")
    assert "red alert and plain" in text
    assert "ValueError: the disk is full" in text


def test_rows_are_paged_as_a_table_and_downloaded(open_at: Open, orders: tuple[str, str], picture: Picture) -> None:
    page = open_at(f"/executions/{orders[0]}?tab=data")
    part = page.get_by_role("region", name="Results of steps")
    part.get_by_label("Show as").select_option("read.result.orders")
    expect(part.get_by_role("columnheader", name="total")).to_be_visible()
    expect(part).to_contain_text("1 to 50 of 120")
    assert part.evaluate("one => one.scrollHeight <= one.clientHeight"), "the pager is cut off"
    part.get_by_role("button", name="Next").click()
    expect(part).to_contain_text("51 to 100 of 120")
    for _ in ("ascending", "descending"):
        part.get_by_title("Sort by total").click()
    expect(part.get_by_role("row").nth(1)).to_contain_text("1190")
    picture(page, "data-table")
    assert findings(page) == []
    part.get_by_label("Find in the rows").fill("1190")
    expect(part.get_by_role("row")).to_have_count(2)
    with page.expect_download() as saved:
        part.get_by_role("button", name="Download CSV").click()
    header, row = Path(saved.value.path()).read_text("utf-8").splitlines()
    assert row.split(",")[header.split(",").index("total")] == "1190"


def test_a_schedule_is_created_edited_and_deleted(open_at: Open, here: Site, picture: Picture) -> None:
    here.register(ORDERS.replace("day/orders", "day/scheduled").replace("day_orders", "day_scheduled"))
    page = open_at("/catalog/playbook/day/scheduled")
    with presses(page, 3):
        page.get_by_role("button", name="Schedule", exact=True).click()
        page.get_by_label("Time zone").fill("Europe/Berlin")
        page.get_by_role("button", name="weekdays at 07:00").click()
        expect(page.get_by_role("list", name="Next ten times").get_by_role("listitem")).to_have_count(10)
        picture(page, "schedule-form")
        assert findings(page) == []
        page.get_by_role("button", name="Save").click()
        is_told(page, "day/scheduled is scheduled")
    expect(page.get_by_text("0 7 * * 1-5")).to_be_visible()

    with presses(page, 2):
        page.get_by_role("button", name="Edit schedule").click()
        page.get_by_label("Times", exact=True).fill("99 * * * *")
        expect(page.get_by_text("is not a cron schedule")).to_be_visible()
        expect(page.get_by_role("button", name="Save")).to_be_disabled()
        page.get_by_label("Times", exact=True).fill("0 7 * * 1-5")
        page.get_by_label("Time zone").fill("Europe/Berln")
        zone = page.locator(".field", has=page.get_by_label("Time zone"))
        expect(zone.get_by_role("alert")).to_contain_text("is not a time zone")
        page.get_by_role("button", name="Remove schedule").click()
        is_told(page, "no longer has a schedule")


def test_a_schedule_is_created_in_the_list_of_schedules_and_run_at_once(open_at: Open, here: Site) -> None:
    here.register(ORDERS.replace("day/orders", "day/unplanned").replace("day_orders", "day_unplanned"))
    page = open_at("/schedules")
    with presses(page, 5):
        page.get_by_role("button", name="New schedule").click()
        page.get_by_label("Playbook").select_option("day/unplanned")
        page.get_by_role("button", name="every hour").click()
        expect(page.get_by_role("list", name="Next ten times").get_by_role("listitem")).to_have_count(10)
        assert findings(page) == []
        page.get_by_role("button", name="Save").click()
        row = page.get_by_role("row", name="day/unplanned")
        row.get_by_role("button", name="Run now").click()
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.locator("header .status")).to_contain_text("completed")
    move(page, "/schedules")
    page.get_by_role("button", name="New schedule").click()
    expect(page.get_by_label("Playbook").get_by_role("option", name="day/unplanned")).to_have_count(0)


def test_an_open_task_appears_in_the_menu_and_is_approved(visitor: Visitor, here: Site, picture: Picture) -> None:
    execution_id = here.start("tests/asking", amount=4711)
    here.until_waiting(execution_id, "approve")
    page = visitor(here.make_token("dora", "operator", "boss"))
    page.clock.install()
    page.reload()
    with presses(page, 4):
        expect(page.get_by_role("link", name="Tasks, 1 for you")).to_be_visible()
        mine = page.locator("section", has=page.get_by_role("heading", name="Your tasks"))
        mine.get_by_role("link", name="Approve 4711?").click()  # Running leads to it too, a moment later
        expect(page.get_by_text("Purchases over 500 need a second look.")).to_be_visible()
        data = page.get_by_role("region", name="Data to decide by", exact=True)
        expect(data).to_contain_text("4711")
        expect(data.get_by_role("cell", name="desk")).to_be_visible()  # rows, not braces
        expect(data).not_to_contain_text("{")
        page.get_by_label("New comment").fill("the desk is dear")
        page.get_by_role("button", name="Add comment").click()
        expect(page.get_by_role("region", name="History")).to_contain_text("dora commented the desk is dear")
        picture(page, "task-decide")
        assert findings(page) == []
        page.get_by_role("button", name="Claim").click()
        page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))  # the menu waits for no later time to count anew
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_text("Completed by dora")).to_be_visible()
        expect(page.get_by_role("link", name="Tasks", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="History")).to_contain_text("dora completed")


def test_an_execution_and_its_task_link_to_each_other(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/asking", amount=4712)
    here.until_waiting(execution_id, "approve")
    page = open_at(f"/executions/{execution_id}")
    page.get_by_role("status", name="Open tasks").get_by_role("link", name="Approve 4712?").click()
    page.get_by_role("region", name="History").get_by_role("link", name="approve").click()
    expect(page).to_have_url(f"{here.url}/executions/{execution_id}?step=approve")


def test_home_shows_the_last_day_by_hour_and_the_last_month_by_day(page: Page, orders: tuple[str, str]) -> None:
    expect(page.get_by_role("heading", name="Last 24 hours")).to_be_visible()
    page.get_by_role("button", name="by day").click()
    expect(page.get_by_role("heading", name="Last 30 days")).to_be_visible()
    bars = page.get_by_role("listitem").get_by_role("link").filter(has=page.locator(".failed"))
    bars.last.click()
    expect(page.get_by_role("link", name="day_orders").first).to_be_visible()


def test_the_audit_shows_sentences_and_verifies_its_chain(
    open_at: Open, here: Site, orders: tuple[str, str], picture: Picture
) -> None:
    page = open_at("/audit")
    expect(page.get_by_role("table", name="Audit")).to_contain_text("registered day/orders v1")
    registered = page.get_by_role("row", name="registered day/orders v1")
    expect(registered.get_by_role("link", name="day/orders")).to_have_attribute(
        "href", "/catalog/edit/day/orders?version=1"
    )
    page.get_by_label("Find in the audit log").fill("started day/orders")
    expect(page.get_by_role("row", name="started day/orders").first).to_contain_text("admin")
    page.get_by_role("button", name="Verify the chain").click()
    expect(page.get_by_role("status").filter(has_text="The chain holds")).to_be_visible()
    picture(page, "audit-sentences")
    assert findings(page) == []
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
    assert "POST /api/executions" in Path(saved.value.path()).read_text("utf-8")


def test_the_page_of_a_playbook_names_who_registered_each_version(open_at: Open, visitor: Visitor, here: Site) -> None:
    source = ORDERS.replace("day/orders", "day/authored").replace("day_orders", "day_authored")
    here.register(source)
    anna = here.make_token("anna_v", "author")
    changed = {"source": source.replace("range(120)", "range(121)")}
    answer = here.api.post("catalog", json=changed, headers={"Authorization": f"Bearer {anna}"})
    assert answer.raise_for_status().json()["version"] == 2

    page = open_at("/catalog/playbook/day/authored")

    versions = page.get_by_role("table", name="Versions")
    expect(versions.get_by_role("row").nth(1)).to_contain_text("by anna_v")
    expect(versions.get_by_role("row").nth(2)).to_contain_text("by admin")
    expect(page.locator("main header")).to_contain_text("by anna_v")
    assert findings(page) == []


def test_on_a_narrow_screen_a_schedule_uses_all_of_its_width(open_at: Open, here: Site) -> None:
    page = open_at("/schedules")
    page.set_viewport_size({"width": 640, "height": 400})  # 1280 at 200 %
    row = page.get_by_role("row").filter(has_text="tests/nightly")
    cell = row.locator("td.next")
    expect(cell).to_contain_text("Europe/Berlin")
    widths = [one.evaluate("one => one.clientWidth") for one in (row, cell)]
    assert widths[1] == widths[0]


def test_a_choice_is_as_wide_as_its_words(open_at: Open) -> None:
    page = open_at("/settings")
    choice = page.get_by_role("group", name="Appearance")
    words = sum(one.evaluate("one => one.offsetWidth") for one in choice.get_by_role("button").all())
    assert choice.evaluate("one => one.clientWidth") <= words + 3  # widths are rounded


def test_a_token_with_an_expiry_is_created(open_at: Open) -> None:
    page = open_at("/settings")
    with presses(page, 2):
        page.get_by_role("button", name="Create token").click()
        page.get_by_label("User").fill("brief")
        page.get_by_label("Expires").select_option("7")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("row", name="brief")).to_contain_text("until")


def test_the_net_is_fitted_again_when_a_step_is_added(open_at: Open, here: Site) -> None:
    names = [f"part{number}" for number in range(6)]
    steps = "".join(
        f"  - step: {name}\n    tool: {{ kind: noop }}\n    next: {{ arcs: [{{ step: {after} }}] }}\n"
        for name, after in pairwise([*names, "last"])
    )
    head = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: growing, path: day/growing }\n"
    end = "  - step: last\n    tool: { kind: noop }\nexecutor: { spec: { entry_step: part0 } }\n"
    here.register(f"{head}workflow:\n{steps}{end}")
    page = open_at("/catalog/edit/day/growing")
    page.locator(".step", has_text="last").first.wait_for()
    page.get_by_role("button", name="Add step").click()
    page.get_by_label("Name").fill("added")
    page.get_by_label("Place").select_option("between part5 and last")
    page.get_by_role("radio", name="noop").check()

    page.get_by_role("button", name="Add step").last.click()

    for name in ("part0", "added", "last"):
        expect(page.locator(".net .step", has_text=name).first).to_be_in_viewport(ratio=0.9)


def test_a_tool_step_is_added_by_form_and_changed_by_form(open_at: Open, here: Site, picture: Picture) -> None:
    source = ORDERS.replace("day/orders", "day/stepwise").replace("day_orders", "day_stepwise")
    here.register(source)
    page = open_at("/catalog/edit/day/stepwise")
    page.locator(".step", has_text="check").first.wait_for()
    with presses(page, 4):
        page.get_by_role("button", name="Add step").click()
        page.get_by_label("Name").fill("ask_rates")
        page.get_by_label("Place").select_option("between check and load")
        page.get_by_label("Find a tool").fill("http")
        page.keyboard.press("Enter")
        page.get_by_label("url").fill("https://rates.example/{{ workload.broken }}")
        page.get_by_text("More inputs").click()
        page.get_by_label("method").select_option("GET")
        picture(page, "step-form")
        assert findings(page) == []
        page.get_by_role("button", name="Add step").last.click()
        expect(page.locator(".step", has_text="ask_rates")).to_be_visible()
        expect(page.get_by_text("no errors", exact=False).first).to_be_visible()
        page.get_by_role("button", name="Register").click()
        is_told(page, "day/stepwise version 2 is registered")
    written = here.api.get("catalog/day/stepwise/source").text
    step = """  - step: ask_rates
    tool:
      kind: http
      url: "https://rates.example/{{ workload.broken }}"
      method: GET
    next: { arcs: [{ step: load }] }
"""
    at = written.index(step)
    assert written[:at] + written[at + len(step) :] == source.replace("step: load }]", "step: ask_rates }]")

    page.get_by_role("button", name="Edit step ask_rates").click()
    page.get_by_label("url").fill("https://rates.example/")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".editor .cm-content")).to_contain_text('url: "https://rates.example/"')


def test_a_new_playbook_starts_from_a_template_and_keys_are_explained(open_at: Open, picture: Picture) -> None:
    page = open_at("/catalog/new")
    type_into_editor(page, "")
    page.get_by_role("button", name="Templates").click()
    picture(page, "templates")
    assert findings(page) == []
    page.get_by_role("dialog").get_by_role("button", name="fan_out").click()
    expect(page.locator(".editor .cm-content")).to_contain_text("path: examples/fan_out")
    expect(page.locator('.editor[data-schema="true"]')).to_be_visible()
    hover_until_explained(page, page.locator(".editor .cm-line", has_text="workload:").first)
    expect(page.locator(".cm-documentation")).to_contain_text("workload")
    picture(page, "editor-hover")


REPORT = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: day_report, path: day/report }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        picture = f"data:image/png;base64,{dot}"
        result = {"page": "<h1>Sales of yesterday</h1><p>All is well.</p>", "chart": picture}
"""


def test_html_pages_and_images_are_shown_in_a_sandboxed_frame(open_at: Open, here: Site, picture: Picture) -> None:
    here.register(REPORT)
    execution_id = here.start("day/report")
    here.ended(execution_id)
    page = open_at(f"/executions/{execution_id}?tab=data")
    part = page.get_by_role("region", name="Result", exact=True)
    part.get_by_label("Show as").select_option("page")
    expect(part.locator("iframe")).to_have_attribute("sandbox", "")
    expect(part.frame_locator("iframe").get_by_role("heading", name="Sales of yesterday")).to_be_visible()
    picture(page, "data-page")
    part.get_by_label("Show as").select_option("chart")
    page.wait_for_function("() => document.querySelector('main section img')?.naturalWidth === 1")
    assert findings(page) == []


def test_times_use_the_chosen_time_zone_and_pages_print_without_the_menu(
    open_at: Open, here: Site, orders: tuple[str, str]
) -> None:
    page = open_at("/settings")
    page.get_by_label("Time zone").select_option("Asia/Tokyo")
    expect(page.get_by_role("link", name="Times in Asia/Tokyo")).to_be_visible()
    move(page, f"/executions/{orders[0]}")
    created = datetime.fromisoformat(here.api.get(f"executions/{orders[0]}").json()["created_at"])
    expect(page.locator(".facts")).to_contain_text(created.astimezone(ZoneInfo("Asia/Tokyo")).strftime("%H:%M:%S"))
    page.emulate_media(media="print")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_label("Main")).to_be_hidden()
    expect(page.get_by_role("button", name="Compare")).to_be_hidden()


def test_a_trigger_is_created_paused_and_deleted(open_at: Open, here: Site, picture: Picture) -> None:
    page = open_at("/triggers")
    page.get_by_role("button", name="New trigger").click()
    page.get_by_label("Name").fill("arrivals")
    page.get_by_label("Playbook").fill("tests/chain")
    source = page.get_by_label("Source")
    expect(source.get_by_role("option")).to_have_text(
        ["", "amqp", "kafka", "nats", "postgres", "redis", "sql", "storage"]
    )
    source.select_option("nats")
    page.get_by_label("stream *").fill("orders")
    page.get_by_label("auth").fill("orders_nats")
    page.get_by_label("Poll every").fill("soon")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("interval")
    picture(page, "trigger-form")
    assert findings(page) == []
    page.get_by_label("Poll every").fill("5s")
    page.get_by_role("button", name="Create").click()
    row = page.get_by_role("row", name="arrivals")
    expect(row).to_contain_text("tests/chain")
    expect(row).to_contain_text("stream: orders")
    with presses(page, 3):
        row.get_by_role("button", name="Pause").click()
        expect(row.get_by_role("button", name="Resume")).to_be_visible()
        picture(page, "trigger-list")
        assert findings(page) == []
        row.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Delete trigger").click()
        is_told(page, "The trigger arrivals is deleted")
