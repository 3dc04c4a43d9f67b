"""The first screen of an execution shows its result, or where and how it failed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.held_requests import Held
from tests.browser.profiles import move
from tests.browser.serving import Site

Open = Callable[[str], Page]
SIZES = ((1280, 800), (390, 844))
REPORT = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: report, path: tests/report }
keychain: [{ name: shop, kind: credential }]
workload: { n: 5 }
workflow:
  - step: start
    tool:
      kind: python
      args: { n: "{{ workload.n }}", password: "{{ keychain.shop.password }}" }
      code: |
        rows = [{"id": id, "customer": f"customer {id}", "total": id * 10} for id in range(n)]
        result = {"day": "2026-01-01", "paid": True, "login": password, "rows": rows}
"""
LISTING = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: listing, path: tests/listing }
workflow:
  - step: start
    tool: { kind: python, code: "result = ['desk', 'lamp']" }
"""
SILENT = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: silent, path: tests/silent }
workflow:
  - step: start
    tool: { kind: python, code: "result = None" }
"""


def result(page: Page) -> Locator:
    return page.get_by_role("region", name="Result in short")


def is_on_first_screen(page: Page, place: Locator) -> None:
    """Seen whole without a click, a scroll or another tab."""
    expect(place).to_be_visible()
    assert page.evaluate("scrollY") == 0
    box = place.bounding_box()
    assert box is not None
    assert page.viewport_size is not None
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= page.viewport_size["height"]


@pytest.fixture(scope="module")
def report(here: Site) -> Callable[[int], str]:
    value = {"username": "etl", "password": "hush-hush-result"}
    here.api.put("credentials/shop", json={"type": "basic", "value": value}).raise_for_status()
    here.register(REPORT)

    def ended(n: int) -> str:
        execution_id = here.start("tests/report", n=n)
        assert here.ended(execution_id) == "completed"
        return execution_id

    return ended


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_result_of_a_completed_execution_is_on_its_first_screen(
    open_at: Open, report: Callable[[int], str], picture: Picture, width: int, height: int
) -> None:
    page = open_at("/")
    page.set_viewport_size({"width": width, "height": height})
    move(page, f"/executions/{report(5)}")

    expect(result(page)).to_contain_text("2026-01-01")
    expect(result(page)).to_contain_text("5 items")
    is_on_first_screen(page, result(page))
    expect(result(page)).to_contain_text("***")
    assert "hush-hush-result" not in page.content()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        picture(page, f"result-first-{width}-{scheme}")
        assert findings(page) == []


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_large_result_is_shortened_and_links_to_the_full_result(
    open_at: Open, report: Callable[[int], str], width: int, height: int
) -> None:
    page = open_at("/")
    page.set_viewport_size({"width": width, "height": height})
    move(page, f"/executions/{report(4000)}")
    expect(result(page)).to_contain_text("4,000 items")
    is_on_first_screen(page, result(page))
    assert len(result(page).inner_text()) < 1_000

    result(page).get_by_role("link", name="Open the result").click()

    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text("1 to 50 of 4,000")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_failed_step_and_its_error_are_on_the_first_screen(
    open_at: Open, here: Site, width: int, height: int
) -> None:
    execution_id = here.start("tests/failing")
    assert here.ended(execution_id) == "failed"
    page = open_at("/")
    page.set_viewport_size({"width": width, "height": height})
    move(page, f"/executions/{execution_id}")

    error = page.get_by_role("alert")
    expect(error).to_contain_text("Failed in step start")
    expect(error).to_contain_text("ValueError: no luck")
    is_on_first_screen(page, error)
    expect(result(page)).to_have_count(0)


def test_a_result_that_is_a_list_is_shown_as_json(open_at: Open, here: Site) -> None:
    here.register(LISTING)
    execution_id = here.start("tests/listing")
    assert here.ended(execution_id) == "completed"
    page = open_at(f"/executions/{execution_id}")

    expect(result(page)).to_contain_text('["desk","lamp"]')
    assert findings(page) == []


def test_a_loading_result_is_not_shown_as_empty(open_at: Open, here: Site) -> None:
    here.register(SILENT)
    execution_id = here.start("tests/silent")
    assert here.ended(execution_id) == "completed"
    page = open_at("/")
    held = Held(page, "**/result/part?*")
    move(page, f"/executions/{execution_id}")
    expect(result(page)).to_contain_text("loading")
    expect(result(page)).not_to_contain_text("without a result")

    held.let_go()

    expect(result(page)).to_contain_text("It completed without a result")
    expect(result(page).get_by_role("link")).to_have_count(0)


def test_the_result_appears_when_the_execution_completes(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/waiting", order=71)
    here.until_waiting(execution_id, "pay")
    page = open_at(f"/executions/{execution_id}")
    expect(page.locator(".step.waiting")).to_contain_text("pay")
    expect(result(page)).to_have_count(0)

    here.api.post("messages", json={"name": "paid", "correlation": {"order": 71}}).raise_for_status()

    expect(result(page)).to_be_visible()
