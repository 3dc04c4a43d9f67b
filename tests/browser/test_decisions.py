"""Decisions of people: nothing that was written is lost, and the page shows the true state of a decision."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.audit import findings
from tests.browser.conftest import PATIENCE_MS, Picture, Visitor
from tests.browser.serving import Site
from tests.browser.way import Way


def task_of(here: Site, execution_id: str, step: str = "approve") -> str:
    here.until_waiting(execution_id, step)
    tasks = here.api.get("tasks", params={"execution_id": execution_id}).raise_for_status().json()["tasks"]
    return str(tasks[0]["task_id"])


@pytest.fixture
def way(here: Site) -> Iterator[Way]:
    found = Way(here.url)
    yield found
    found.cut()


@pytest.mark.req("HUM-02")
def test_a_pending_comment_is_sent_with_the_decision(visitor: Visitor, here: Site) -> None:
    task_id = task_of(here, here.start("tests/asking", amount=71))
    page = visitor(here.make_token("ida", "operator", "boss"), f"/tasks/{task_id}")
    page.get_by_label("New comment").fill("the desk is too dear")

    page.get_by_role("button", name="Reject").click()

    expect(page.get_by_text("Completed by ida")).to_be_visible()
    expect(page.get_by_role("region", name="History")).to_contain_text("the desk is too dear")


def test_a_decision_during_an_outage_stays_pending_until_the_server_is_back(
    browser: Browser, here: Site, way: Way, picture: Picture
) -> None:
    task_id = task_of(here, here.start("tests/asking", amount=72))
    page = browser.new_page(viewport={"width": 1280, "height": 800}, locale="en-GB")
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{way.url}/tasks/{task_id}#token={here.make_token('nele', 'operator', 'boss')}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve 72?")
    page.get_by_label("New comment").fill("fine by me")
    way.cut()

    page.get_by_role("button", name="Approve").click()

    unsent = page.get_by_role("alert").filter(has_text="not sent, or not confirmed")
    expect(unsent).to_contain_text("Try again when the server is back")
    expect(unsent).not_to_contain_text("by itself")
    picture(page, "decision-not-sent")
    way.mend()
    expect(page.get_by_role("status").filter(has_text="Connection lost")).to_have_count(0)
    expect(unsent).to_have_count(0)
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Completed by nele")).to_be_visible()
    expect(page.get_by_role("region", name="History")).to_contain_text("fine by me")
    page.close()


def test_an_expired_token_is_reported_and_the_typed_text_is_preserved(
    visitor: Visitor, here: Site, picture: Picture
) -> None:
    task_id = task_of(here, here.start("tests/asking", amount=73))
    asked = {"subject": "tim", "role": "operator", "human_roles": ["boss"], "expires_in_s": 3.0}
    short = here.api.post("tokens", json=asked).raise_for_status().json()["token"]
    page = visitor(short, f"/tasks/{task_id}")
    page.get_by_label("New comment").fill("the lamp only")
    page.get_by_label("count").fill("4")

    expect(page.get_by_label("Token")).to_be_visible()

    told = page.get_by_role("alert")
    expect(told).to_have_text(re.compile(r"^Your token expired at .*\. Sign in again\.$"))
    picture(page, "token-expired")
    assert findings(page) == []
    page.get_by_label("Token").fill(here.make_token("tim", "operator", "boss"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("count")).to_have_value("4")
    expect(page.get_by_label("New comment")).to_have_value("the lamp only")
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert "the lamp only" not in stored


def test_a_change_refused_for_an_expired_token_shows_no_api_text(visitor: Visitor, here: Site) -> None:
    task_id = task_of(here, here.start("tests/asking", amount=74))
    page = visitor(here.make_token("tom", "operator", "boss"), f"/tasks/{task_id}")
    page.get_by_label("New comment").fill("to be kept")
    for token in here.api.get("tokens").json()["tokens"]:
        if token["subject"] == "tom":
            here.api.delete(f"tokens/{token['token_id']}").raise_for_status()

    page.get_by_role("button", name="Add comment").click()

    expect(page.get_by_role("alert")).to_have_text("Your session has ended. Sign in again.")
    assert "Bearer" not in page.inner_text("body")
    page.get_by_label("Token").fill(here.make_token("eve", "operator", "boss"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("New comment")).to_have_value("")  # it was not hers


def test_each_option_of_a_decision_is_a_button_and_the_outcome_is_described(
    visitor: Visitor, here: Site, picture: Picture
) -> None:
    task_id = task_of(here, here.start("tests/asking", amount=75))
    page = visitor(here.make_token("omar", "operator", "boss"), f"/tasks/{task_id}")
    expect(page.get_by_role("button", name="Complete")).to_have_count(0)
    page.get_by_label("Comment", exact=True).fill("too dear")
    picture(page, "task-decision")

    page.get_by_role("button", name="Reject").click()

    outcome = page.get_by_role("region", name="Decision")
    expect(outcome).to_contain_text("Reject")
    expect(outcome).to_contain_text("by omar")
    expect(outcome).to_contain_text("too dear")
    expect(outcome).not_to_contain_text("{")
    expect(page.get_by_role("region", name="History")).to_contain_text("omar completed with Reject")
    expect(page.locator("[data-state=completed]")).to_have_count(0)
    picture(page, "task-decided")
    assert findings(page) == []
    page.goto(f"{here.url}/tasks?tab=completed")
    row = page.get_by_role("row", name="Approve 75?")
    expect(row).to_contain_text("Reject")
    expect(row).to_contain_text("omar")
    expect(row.locator("[data-state=completed]")).to_have_count(0)
    expect(page.get_by_role("columnheader")).to_have_text(["Task", "Decision", "Completed by", "Completed"])
    picture(page, "tasks-done")
    assert findings(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    picture(page, "tasks-done-phone")
    page.goto(f"{here.url}/tasks/{task_id}")
    expect(outcome).to_contain_text("Reject")
    picture(page, "task-decided-phone")
    assert findings(page) == []


REFUND = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: refund, path: tests/refund }
workload: { customer: Ann, amount: 12, bank: { iban: DE00 } }
workflow:
  - step: approve
    human_task: { title: "Refund {{ workload.amount }}?", assignee: { role: boss } }
executor: { kind: local, spec: { entry_step: approve } }
"""


def test_the_approver_sees_all_inputs_of_the_execution(visitor: Visitor, here: Site) -> None:
    here.register(REFUND)
    token = here.make_token("ann", "operator", "boss")
    for given, amount in (({}, "12"), ({"amount": 77}, "77")):
        page = visitor(token, f"/tasks/{task_of(here, here.start('tests/refund', **given))}")
        inputs = page.get_by_role("region", name="Inputs of the execution")
        for word in (amount, "Ann", "DE00"):
            expect(inputs).to_contain_text(word)


def test_the_audit_names_the_decision_the_token_and_the_run(visitor: Visitor, here: Site, picture: Picture) -> None:
    execution_id = here.start("tests/asking", amount=76)
    task_id = task_of(here, execution_id)
    page = visitor(here.make_token("uma", "operator", "boss"), f"/tasks/{task_id}")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Completed by uma")).to_be_visible()
    here.api.post(f"executions/{here.start('tests/slow')}/cancel", json={"reason": "too slow, stop"}).raise_for_status()

    page = visitor(path="/audit")

    table = page.get_by_role("table", name="Audit")
    expect(table).to_contain_text("“Approve 76?” with Approve")
    expect(table).to_contain_text("created a token for uma with the role operator, which does not expire")
    expect(table).to_contain_text(": too slow, stop")
    expect(table.locator(f"a[href$='/tasks/{task_id}']")).to_be_visible()
    expect(table.locator(f"a[href$='/executions/{execution_id}']")).to_be_visible()
    picture(page, "audit-deeds")
    assert findings(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    picture(page, "audit-deeds-phone")
    assert findings(page) == []
    page.set_viewport_size({"width": 1280, "height": 800})
