"""Screens offer only permitted actions, use the words of the glossary, name time zones, and show no net of an older
text."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import Picture, Visitor
from tests.browser.editing import type_into_editor
from tests.browser.playbooks import CHAIN
from tests.browser.profiles import move
from tests.browser.serving import Site


def test_a_viewer_is_offered_only_permitted_actions(visitor: Visitor, here: Site) -> None:
    execution_id = here.start("tests/asking", amount=55)
    here.until_waiting(execution_id, "approve")
    task_id = here.api.get("tasks", params={"execution_id": execution_id}).json()["tasks"][0]["task_id"]
    page = visitor(here.make_token("val", "viewer"), "/executions")
    menu = page.get_by_role("navigation")
    page.locator("tbody tr").first.wait_for()
    expect(menu.get_by_role("link", name="Workers")).to_be_visible()
    for name in ("Credentials", "Audit"):
        expect(menu.get_by_role("link", name=name)).to_have_count(0)
    expect(page.get_by_role("button", name="Start a playbook")).to_have_count(0)
    expect(page.get_by_role("checkbox")).to_have_count(0)
    move(page, f"/tasks/{task_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve 55?")
    for name in ("Claim", "Complete"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    move(page, "/catalog/edit/tests/chain")
    expect(page.locator(".step")).to_have_count(3)
    for name in ("Format", "Register", "Start"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)


def test_a_task_page_names_the_human_role_that_can_claim_it(open_at: Callable[[str], Page], here: Site) -> None:
    execution_id = here.start("tests/asking", amount=56)
    here.until_waiting(execution_id, "approve")
    task_id = here.api.get("tasks", params={"execution_id": execution_id}).json()["tasks"][0]["task_id"]
    page = open_at(f"/tasks/{task_id}")

    told = page.get_by_text("Only the human role boss can claim or complete this task.")
    expect(told).to_contain_text("You have no human role; the role of your token is another thing.")
    expect(told).to_contain_text("create a token for the user admin with the human role boss")
    expect(page.get_by_label("decision")).to_be_disabled()
    for name in ("Claim", "Complete"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("button", name="Add comment")).to_be_visible()


def test_screens_use_the_glossary_words(open_at: Callable[[str], Page], here: Site) -> None:
    ids = {path: here.start(f"tests/{path}") for path in ("failing", "chain", "waiting")}
    assert [here.ended(ids[path]) for path in ("failing", "chain")] == ["failed", "completed"]
    here.until_waiting(ids["waiting"], "pay")

    page = open_at("/")
    tile = page.locator(".tile", has_text="p95 duration")
    expect(tile).to_contain_text(re.compile(r"\d (ms|s)"))
    expect(page.get_by_text("Started per minute, last hour", exact=True)).to_be_visible()
    for name in ("Your tasks", "Recent failures"):
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    reason = page.locator("li", has=page.get_by_role("link", name="failing", exact=True)).locator(".why").first
    expect(reason).to_contain_text("Failed in step start: ")
    expect(reason.locator("strong")).to_have_text("start")

    move(page, "/executions")
    expect(page.get_by_role("columnheader", name="Started", exact=True)).to_be_visible()
    move(page, f"/executions/{ids['failing']}")
    expect(page.get_by_role("alert")).to_contain_text("Failed in step start: ")
    move(page, f"/executions/{ids['waiting']}?tab=explain")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_visible()
    expect(page.get_by_role("columnheader", name="Waiting for", exact=True)).to_be_visible()
    move(page, "/catalog/playbook/tests/chain")
    expect(page.get_by_text("p95 duration", exact=True)).to_be_visible()

    move(page, "/catalog/edit/tests/waiting")
    type_into_editor(page, "a: 1")
    expect(page.locator(".facts")).to_contain_text(re.compile(r"\d errors?"))  # it was looked at, and kept before
    move(page, "/catalog/edit/tests/waiting")
    for name in ("Restore", "Discard"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_visible()


def test_schedule_times_use_and_name_the_time_zone_of_the_schedule(open_at: Callable[[str], Page]) -> None:
    page = open_at("/schedules")
    row = page.locator("tbody tr", has_text="tests/nightly")
    expect(row.locator(".next")).to_contain_text("02:30")
    expect(row.locator(".next")).to_contain_text("Europe/Berlin")
    row.get_by_role("button", name="Backfill").click()
    expect(page.get_by_role("dialog")).to_contain_text("time in Europe/Berlin")


def test_the_net_of_an_older_text_is_not_shown_for_a_broken_text(
    open_at: Callable[[str], Page], picture: Picture
) -> None:
    page = open_at("/catalog/edit/tests/chain")
    expect(page.locator(".step")).to_have_count(3)
    type_into_editor(page, CHAIN.replace("step: each, args", "step: nowhere, args"))
    expect(page.locator(".facts")).to_contain_text("1 error")

    expect(page.get_by_text("This net belongs to the last text without errors")).to_be_visible()
    assert page.locator(".net").evaluate("(net) => getComputedStyle(net).filter") == "grayscale(1)"
    picture(page, "stale-net")


def test_a_token_in_the_address_of_an_open_page_signs_in_after_a_question(visitor: Visitor, here: Site) -> None:
    page = visitor()
    expect(page.get_by_role("navigation")).to_contain_text("admin")
    token = here.make_token("tom", "viewer")

    page.evaluate("(token) => { location.hash = `token=${token}` }", token)
    page.get_by_role("dialog").get_by_role("button", name="Sign in as tom").click()

    expect(page.get_by_role("navigation")).to_contain_text("tom")
    assert "token" not in page.url
