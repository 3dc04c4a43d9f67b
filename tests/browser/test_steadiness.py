"""An element under the pointer stays in its place while the page around it changes."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visitor
from tests.browser.playbooks import CHAIN
from tests.browser.profiles import move
from tests.browser.serving import Site

Open = Callable[[str], Page]
GAPPED = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: gapped, path: tests/gapped }
workflow:
  - step: start
    loop: { in: "{{ range(400) | list }}", iterator: x, spec: { mode: parallel } }
    spec: { policy: { failure: { mode: best_effort } } }
    tool: { kind: python, args: { x: "{{ iter.x }}" }, code: "result = 1 / (x % 200)" }
"""


def place(part: Locator) -> tuple[float, float]:
    """Where it is, once nothing moves into its place any more."""
    part.evaluate("() => Promise.all(document.getAnimations().map((one) => one.finished))")
    box = part.bounding_box()
    assert box is not None
    return box["x"], box["y"]


def test_the_search_field_keeps_its_position_while_its_list_changes(open_at: Open) -> None:
    page = open_at("/executions")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox")
    expect(page.get_by_role("option").nth(4)).to_be_visible()
    before = place(field)
    field.fill("nothing is called so")
    expect(page.get_by_role("option")).to_have_count(0)
    assert place(field) == before


def test_the_failures_of_a_loop_keep_their_position_when_one_is_opened(open_at: Open, here: Site) -> None:
    here.register(GAPPED)
    execution_id = here.start("tests/gapped")
    assert here.ended(execution_id) == "completed"
    page = open_at(f"/executions/{execution_id}?tab=loops")
    failure = page.get_by_role("list", name="Failed iterations of start").get_by_role("button").first
    failure.wait_for()
    before = place(failure)
    failure.click()
    expect(page.get_by_role("complementary", name="Iteration 0 of start")).to_be_visible()
    assert place(failure) == before


def test_the_buttons_of_a_schedule_keep_their_position_when_it_is_paused(open_at: Open) -> None:
    page = open_at("/schedules")
    row = page.get_by_role("row").filter(has_text="tests/nightly")
    next_button = row.get_by_role("button", name="Backfill")
    before = place(next_button)
    row.get_by_role("button", name="Pause").click()
    resume = row.get_by_role("button", name="Resume")
    expect(resume).to_be_visible()
    try:
        assert place(next_button) == before
    finally:
        resume.click()
        expect(row.get_by_role("button", name="Pause")).to_be_visible()


def test_the_editor_header_keeps_its_height_when_a_second_version_arrives(open_at: Open, here: Site) -> None:
    text = CHAIN.replace("tests/chain", "tests/second")
    here.register(text)
    page = open_at("/catalog/edit/tests/second")
    versions = page.get_by_label("Version", exact=True)
    expect(versions.get_by_role("option")).to_have_count(1)
    before = place(page.locator(".editor"))
    here.register(text.replace("world", "all"))
    move(page, "/catalog/edit/tests/second")
    expect(versions.get_by_role("option")).to_have_count(2)
    assert place(page.locator(".editor")) == before


def test_the_page_of_a_playbook_without_a_schedule_requests_no_schedule(open_at: Open) -> None:
    page = open_at("/executions")
    with page.expect_response(lambda answer: "/api/schedules" in answer.url) as first:
        move(page, "/catalog/playbook/tests/chain")
    assert first.value.url.endswith("/api/schedules")
    assert first.value.ok


def test_a_worker_row_with_many_tools_keeps_the_height_of_the_others(open_at: Open) -> None:
    page = open_at("/workers")
    row = page.get_by_role("table", name="Workers").get_by_role("row").nth(1)
    tools = row.locator("summary")
    expect(tools).to_contain_text("tools")
    before = row.bounding_box()
    tools.click()
    expect(row).to_contain_text("postgres")
    after = row.bounding_box()
    assert before is not None
    assert after is not None
    assert before["height"] < after["height"]


def test_a_user_without_audit_access_is_not_offered_to_verify_it(visitor: Visitor, here: Site) -> None:
    page = visitor(here.make_token("vic", "viewer"), "/audit")
    expect(page.get_by_role("alert")).to_be_visible()
    for name in ("Verify the chain", "Export", "Try again"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
