"""On a phone the list of executions is read without turning, zooming or scrolling sideways."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings, out_of_reach
from tests.browser.conftest import Picture
from tests.browser.profiles import move
from tests.browser.serving import Site

LONG = "sales_reporting/emea/daily_orders_by_region_and_customer_segment"
PLAYBOOK = f"""apiVersion: noetl.io/v10
kind: Playbook
metadata: {{ name: daily_orders_by_region_and_customer_segment, path: {LONG} }}
workload: {{ n: 9 }}
workflow:
  - step: start
    loop: {{ in: "{{{{ range(workload.n) | list }}}}", iterator: x }}
    spec: {{ policy: {{ failure: {{ mode: best_effort }} }} }}
    tool: {{ kind: python, args: {{ x: "{{{{ iter.x }}}}" }}, code: "result = 1 / (x % 3)" }}
"""
# The parts of a card that stand beside each other though they have no room, or reach out of the window.
CUT = """(row) => [...row.querySelectorAll("a, .name span, .status, td")]
  .filter((one) => one.checkVisibility() && one.textContent.trim())
  .filter((one) => one.getBoundingClientRect().right > innerWidth || one.scrollWidth > one.clientWidth + 1
    && getComputedStyle(one).display !== "inline")
  .map((one) => one.textContent.trim())"""


@pytest.fixture(scope="module")
def long_named(here: Site) -> str:
    here.register(PLAYBOOK)
    execution_id = here.start(LONG)
    assert here.ended(execution_id) == "completed"
    return execution_id


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_execution_is_a_readable_card_on_a_phone(
    open_at: Callable[[str], Page], long_named: str, picture: Picture, scheme: str
) -> None:
    page = open_at("/")
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    move(page, "/executions")
    card = page.locator("tbody tr").filter(has=page.locator(f'a[href*="{long_named}"]'))
    expect(card).to_contain_text("3 of 9 failed")
    expect(card).to_contain_text(LONG)
    expect(card.locator(".duration")).to_be_visible()
    picture(page, f"executions-cards-{scheme}")

    assert card.evaluate(CUT) == []
    name, state = card.locator(".name a").bounding_box(), card.locator(".status").bounding_box()
    assert name is not None
    assert state is not None
    assert name["width"] > 200
    assert state["y"] >= name["y"] + name["height"]
    assert out_of_reach(page) == []
    assert findings(page) == []

    card.get_by_role("checkbox").check()
    expect(page.get_by_text("1 selected")).to_be_visible()
