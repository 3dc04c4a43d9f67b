"""One step of a text is tested beside it, with what it read in an earlier run or with typed inputs."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.editing import type_into_editor
from tests.browser.serving import Site

Open = Callable[[str], Page]
SHOP = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: shop, path: tests/shop }
workload: { rate: 2 }
workflow:
  - step: fetch
    tool: { kind: python, code: "result = {'prices': [1, 2, 3]}" }
    next: { arcs: [{ step: convert }] }
  - step: convert
    tool:
      kind: python
      args: { prices: "{{ fetch.prices }}", rate: "{{ workload.rate }}" }
      code: |
        print("converting", len(prices), "prices")
        result = [price * rate for price in prices]
    next: { arcs: [{ step: publish }] }
  - step: publish
    tool: { kind: python, code: "raise ValueError('published twice')" }
executor: { spec: { entry_step: fetch } }
"""


@pytest.fixture(scope="module")
def earlier(here: Site) -> str:
    here.register(SHOP)
    execution_id = here.start("tests/shop", rate=10)
    assert here.ended(execution_id) == "failed"
    return execution_id


def choose_step(page: Page, step: str) -> None:
    expect(page.locator('.editor[data-ready="true"]')).to_be_visible()
    page.locator(".step", has_text=step).first.click()


def test_a_step_of_a_draft_runs_alone_with_recorded_inputs(
    open_at: Open, here: Site, earlier: str, picture: Picture
) -> None:
    page = open_at("/catalog/edit/tests/shop")
    type_into_editor(page, SHOP.replace("price * rate", "round(price * rate * 1.5)"))
    choose_step(page, "convert")
    page.get_by_role("button", name="Test step").click()
    part = page.get_by_role("region", name="Test convert")
    expect(part.get_by_label("Inputs from")).to_have_value(earlier)
    expect(part.get_by_label("Inputs as JSON")).to_have_value(re.compile('"rate": 10'))
    part.get_by_role("button", name="Run test").click()

    expect(part.get_by_role("status").first).to_contain_text("completed")
    expect(part).to_contain_text("converting 3 prices")
    expect(part).to_contain_text("45")  # 3 * 10 * 1.5, by the text of the draft
    picture(page, "step-test")
    assert findings(page) == []
    listed = here.api.get("executions", params={"path": "tests/shop"}).raise_for_status().json()["executions"]
    assert [one["execution_id"] for one in listed] == [earlier]
    part.get_by_role("link", name="Open the execution").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("shop: convert")


def test_typed_inputs_are_used_and_the_error_is_shown_next_to_the_text(open_at: Open, earlier: str) -> None:
    page = open_at("/catalog/edit/tests/shop")
    choose_step(page, "convert")
    page.get_by_role("button", name="Test step").click()
    part = page.get_by_role("region", name="Test convert")
    expect(part.get_by_label("Inputs from")).to_have_value(earlier)
    part.get_by_label("Inputs from").select_option("typed by hand")
    part.get_by_label("Inputs as JSON").fill("{")
    part.get_by_role("button", name="Run test").click()
    expect(part.get_by_role("alert")).to_contain_text("This is not JSON")
    part.get_by_label("Inputs as JSON").fill('{"results": {"fetch": {"prices": 7}}}')
    part.get_by_role("button", name="Run test").click()

    expect(part.get_by_role("status").first).to_contain_text("failed")
    expect(part.get_by_role("alert")).to_contain_text("has no len()")
    part.get_by_role("button", name="Close").click()
    expect(page.locator(".step", has_text="convert").first).to_be_visible()
