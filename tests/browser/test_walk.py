"""One person's walk through the UI: write, check, register, start, watch, pause, explain, travel, approve, rerun."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Picture, Visitor, is_told
from tests.browser.editing import type_into_editor
from tests.browser.profiles import move
from tests.browser.serving import Site

APPROVAL = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: approval, path: walk/approval }
workload: { amount: 900 }
workflow:
  - step: start
    tool:
      kind: python
      args: { amount: "{{ workload.amount }}" }
      code: |
        print("asked for", amount)
        result = {"amount": amount}
    next: { arcs: [{ step: approve }] }
  - step: approve
    human_task:
      title: "Approve {{ workload.amount }}?"
      assignee: { role: boss }
      form:
        - { field: decision, type: enum, options: [approve, reject], required: true }
        - { field: comment, type: text }
    next:
      arcs:
        - { step: pay, when: "{{ event.result.decision == 'approve' }}" }
        - { step: refuse }
  - step: pay
  - step: refuse
"""


@pytest.mark.req("HUM-01", "SRV-07", "SRV-10")
def test_a_user_walks_through_the_whole_life_of_a_playbook(
    page: Page, visitor: Visitor, here: Site, picture: Picture
) -> None:
    # writes, with a mistake, and is told where it is
    page.get_by_label("Main").get_by_role("link", name="Playbooks").click()
    page.get_by_role("button", name="New playbook").click()
    type_into_editor(page, APPROVAL.replace("step: approve }", "step: aprove }"))
    finding = page.get_by_role("button", name="E_NEXT_REF")
    expect(finding).to_contain_text("aprove")
    expect(page.get_by_role("button", name="Register")).to_be_disabled()
    type_into_editor(page, APPROVAL)
    expect(page.get_by_text("no errors", exact=False).first).to_be_visible()
    expect(page.locator(".step", has_text="approve").first).to_be_visible()

    # registers and starts
    page.get_by_role("button", name="Register").click()
    is_told(page, "walk/approval version 1 is registered")
    page.get_by_role("button", name="Start").click()
    page.get_by_label("amount").fill("1250")
    page.get_by_role("button", name="Start", exact=True).click()

    # watches it come to rest at the person, pauses, resumes, asks why
    expect(page.locator(".step.waiting")).to_contain_text("approve")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("header .status")).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.get_by_role("tab", name="Explain").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("approve")

    # travels back in time
    page.get_by_role("tab", name="Net").click()
    page.get_by_label("Moment that is shown").fill("3")
    expect(page.get_by_role("button", name="Back to now")).to_be_visible()
    expect(page.locator(".step.waiting")).to_have_count(0)
    picture(page, "time-travel")
    page.get_by_role("button", name="Back to now").click()
    expect(page.locator(".step.waiting")).to_contain_text("approve")
    address = page.url

    # the task is done by somebody who may
    other = visitor(here.make_token("bea", "operator", "boss"))
    other.get_by_role("link", name="Tasks").click()
    expect(other.get_by_role("heading", level=1)).to_have_text("Tasks")  # Home names the task twice
    other.get_by_role("link", name="Approve 1250?").click()
    other.get_by_role("button", name="Claim").click()
    other.get_by_role("button", name="Approve").click()
    expect(other.get_by_text("Completed by bea")).to_be_visible()

    # sees it end, and runs it again
    move(page, address)
    expect(page.locator("header .status")).to_contain_text("completed")
    expect(page.locator(".step.completed", has_text="pay")).to_be_visible()
    page.get_by_role("button", name="Run again").click()
    page.get_by_label("amount").fill("7")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(lambda url: url != address)
    expect(page.locator(".step.waiting")).to_contain_text("approve")
