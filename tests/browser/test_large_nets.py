"""Nets too large for one look: their groups are folded, a step is found, and one is led to what failed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.playbooks import broad
from tests.browser.serving import Site

MOST_DRAWN = 300  # steps of a thousand
READABLE_PX = 9  # of a line that is 18 pixels high
Open = Callable[[str], Page]
CUT_NAMES = """() => [...document.querySelectorAll(".step .name")]
  .filter((name) => name.scrollWidth > name.clientWidth).map((name) => name.textContent)"""
IN_SIGHT = """(step) => {
  const [a, b] = [step, step.closest(".net")].map((one) => one.getBoundingClientRect());
  return a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
}"""


@pytest.fixture(scope="module")
def failed(here: Site) -> str:
    """An execution of five areas that failed in the third."""
    here.register(broad(5, 4, "tests/areas"))
    execution_id = here.start("tests/areas")
    assert here.ended(execution_id) == "failed"
    return execution_id


def _is_in_sight(page: Page, step: Locator) -> None:
    """Once the net has moved there."""
    expect(step).to_be_attached()
    page.wait_for_function(IN_SIGHT, arg=step.element_handle())


def test_groups_are_collapsed_and_expanded_and_stored_in_the_address(
    open_at: Open, failed: str, picture: Picture
) -> None:
    page = open_at(f"/executions/{failed}")
    expect(page.locator(".step")).to_have_count(30)
    assert page.evaluate(CUT_NAMES) == []
    name = page.locator(".step.failed .name", has_text="area02_part_01")
    _is_in_sight(page, name)  # first seen where it failed, and not too small to be read
    assert name.evaluate("(one) => one.getBoundingClientRect().height") >= READABLE_PX
    page.get_by_text("5 groups").click()
    page.get_by_role("button", name="Collapse all").click()

    expect(page.locator(".group")).to_have_count(5)
    expect(page.locator(".step")).to_have_count(0)
    expect(page.locator(".way")).to_have_count(4)
    _is_in_sight(page, page.locator(".group", has_text="area04"))
    third = page.get_by_role("button", name="area02 6 steps", exact=False)
    expect(page.locator(".group.failed")).to_have_count(1)
    expect(third).to_have_accessible_name("area02 6 steps 2 failed, 4 completed")
    assert findings(page) == []
    page.get_by_text("5 groups").click()
    picture(page, "net-groups")

    page.reload()
    expect(page.locator(".group")).to_have_count(5)
    third.press("Enter")
    expect(page.locator(".step")).to_have_count(6)
    expect(page.locator(".group")).to_have_count(4)
    _is_in_sight(page, page.locator(".step", has_text="area02_part_01"))
    page.get_by_text("5 groups").click()
    page.get_by_role("button", name="area02, 6 steps").click()
    expect(page.locator(".group")).to_have_count(5)


def test_a_search_hit_or_a_failed_step_expands_its_group(open_at: Open, failed: str) -> None:
    page = open_at(f"/executions/{failed}?collapsed=area00,area01,area02,area03,area04")
    expect(page.locator(".group")).to_have_count(5)

    page.get_by_label("Find a step").fill("area04_part_03")
    _is_in_sight(page, page.locator(".step.chosen", has_text="area04_part_03"))
    expect(page.locator(".group")).to_have_count(4)

    page.get_by_role("button", name="✕ 2 failed").click()
    _is_in_sight(page, page.locator(".step.chosen", has_text="area02_part_01"))
    expect(page.locator(".group")).to_have_count(3)
    expect(page).to_have_url(f"{page.url.split('?')[0]}?collapsed=area00%2Carea01%2Carea03&step=area02_part_01")


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_a_collapsed_net_is_readable_on_a_phone_and_in_dark_mode(
    scheme: str, width: int, open_at: Open, failed: str, picture: Picture
) -> None:
    page = open_at(f"/executions/{failed}?collapsed=area00,area01,area02,area03,area04")
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    expect(page.locator(".group")).to_have_count(5)
    page.get_by_text("5 groups").click()
    picture(page, f"net-groups-{scheme}-{width}")
    assert findings(page) == []


@pytest.fixture(scope="module")
def thousand(here: Site) -> str:
    """An execution of a thousand steps that failed in the third of 25 areas, after some 120 of them."""
    here.register(broad(25, 38))
    execution_id = here.start("tests/broad")
    assert here.ended(execution_id) == "failed"
    return execution_id


def test_a_net_of_a_thousand_steps_draws_few_and_finds_searched_and_failed_ones(
    open_at: Open, thousand: str, picture: Picture
) -> None:
    page = open_at(f"/executions/{thousand}")
    expect(page.locator(".group")).to_have_count(25)  # so many steps are collapsed first
    expect(page.locator(".step")).to_have_count(0)

    page.get_by_label("Find a step").fill("area24_part_30")
    _is_in_sight(page, page.locator(".step.chosen", has_text="area24_part_30"))

    page.get_by_role("button", name="✕ 2 failed").click()
    _is_in_sight(page, page.locator(".step.chosen.failed", has_text="area02_part_01"))

    page.get_by_text("25 groups").click()
    page.get_by_role("button", name="Expand all").click()
    expect(page.locator(".group")).to_have_count(0)
    _is_in_sight(page, page.locator(".step", has_text="area00_begin"))
    assert 0 < page.locator(".step").count() <= MOST_DRAWN
    picture(page, "net-thousand")

    # All of them in the picture: what failed is found there too.
    page.get_by_role("button", name="✕ 2 failed").click()
    _is_in_sight(page, page.locator(".step.chosen.failed", has_text="area02_end"))
    assert 0 < page.locator(".step").count() <= MOST_DRAWN

    page.get_by_role("button", name="Collapse all").click()
    expect(page.locator(".group")).to_have_count(25)
