"""Fast where it counts: the first look, a log of 100,000 events, a loop of as many cells, a text of 4,600 lines.

What a page costs is counted in bytes and in the elements it holds: it draws what is seen, however much there is.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import UI
from tests.browser.conftest import PATIENCE_MS, Picture
from tests.browser.playbooks import BIG, PRINTING, broad, long
from tests.browser.serving import Site

FIRST_JS_BYTES = 120_000
MOST_ROWS = 200
MOST_ELEMENTS = 3_000


def test_the_first_script_is_small() -> None:
    if not UI.exists():
        pytest.skip("NO BROWSER TEST WAS RUN: the web UI is not built")
    folder, page = UI.parent, UI.read_text()
    first = set(re.findall(r'(?:src|href)="[./]*(assets/[^"]+\.js)"', page))
    pending, needed = list(first), set(first)
    while pending:  # what it imports before it can run; screens are asked for later
        text = (folder / pending.pop()).read_text()
        for name in re.findall(r'(?:from|import)\s*"\./([^"]+\.js)"', text):
            if (found := f"assets/{name}") not in needed:
                needed.add(found)
                pending.append(found)

    assert needed
    assert sum(len(gzip.compress((folder / name).read_bytes())) for name in needed) <= FIRST_JS_BYTES


def test_a_page_with_a_cold_cache_needs_few_bytes(browser: Browser, here: Site) -> None:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(f"{here.url}/")
    page.get_by_label("Token").wait_for()
    sizes: list[dict[str, Any]] = page.evaluate(
        "performance.getEntriesByType('resource').map(({name, encodedBodySize, decodedBodySize}) =>"
        " ({name, encodedBodySize, decodedBodySize}))"
    )
    context.close()

    scripts = [one for one in sizes if one["name"].endswith(".js")]
    assert sum(one["encodedBodySize"] for one in scripts) <= FIRST_JS_BYTES
    assert all(one["encodedBodySize"] < one["decodedBodySize"] for one in scripts if one["decodedBodySize"] > 2_000)


@pytest.fixture(scope="module")
def big(here: Site) -> str:
    here.register(BIG)
    execution_id = here.start("tests/big")
    assert here.ended(execution_id) == "completed"
    return execution_id


def test_only_the_visible_events_of_a_hundred_thousand_are_drawn(
    big: str, open_at: Callable[[str], Page], picture: Picture
) -> None:
    page = open_at(f"/executions/{big}?tab=events")
    expect(page.locator("header .status")).to_contain_text("completed")
    expect(page.locator(".where")).to_have_text(re.compile(r"^(10[4-9],\d{3}) / \1$"))
    page.get_by_label("follow").uncheck()
    box = page.locator(".box")

    for share in (0.9, 0.1, 0.5):
        seen = page.locator(".event").first.inner_text()
        box.evaluate(f"(element) => (element.scrollTop = {share} * element.scrollHeight)")
        expect(page.locator(".event").first).not_to_have_text(seen, use_inner_text=True)
        assert 0 < page.locator(".event").count() <= MOST_ROWS
    page.get_by_label("Find in events").fill("loop.done")
    expect(page.locator(".event")).to_have_count(1)
    page.get_by_role("tab", name="Loops").click()
    expect(page.get_by_role("img", name="start: 26000 of 26000 iterations done, 0 failed")).to_be_visible()
    assert page.locator("*").count() <= MOST_ELEMENTS
    picture(page, "loops-big")


def test_log_entries_are_drawn_as_the_reader_scrolls_to_them(here: Site, open_at: Callable[[str], Page]) -> None:
    here.register(PRINTING)
    execution_id = here.start("tests/printing", n=150)
    assert here.ended(execution_id) == "completed"
    page = open_at(f"/executions/{execution_id}?tab=logs")
    expect(page.locator(".tools")).to_contain_text("150 entries")
    entries = page.locator("main ol pre")
    assert 0 < entries.count() < 150

    for _ in range(20):
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_timeout(50)
        if entries.count() == 150:
            break
    expect(entries).to_have_count(150)
    page.get_by_label("Find in logs").fill("item 149 is")
    expect(entries).to_have_count(1)


def test_only_the_visible_lines_of_a_long_playbook_are_drawn(open_at: Callable[[str], Page], here: Site) -> None:
    here.register(long(4600))
    page = open_at("/catalog/edit/tests/long")
    expect(page.locator(".facts")).to_contain_text("no errors")
    page.locator(".step").first.wait_for(state="attached")
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+End")

    page.keyboard.type("# as one writes")

    expect(page.locator(".editor .cm-content")).to_contain_text("# as one writes")
    assert 0 < page.locator(".editor .cm-line").count() <= MOST_ROWS


# Counts the elements that are put into the lines of the editor, and into the net beside them.
COUNT_DRAWN = """() => {
  window.drawn = { lines: 0, net: 0 };
  const count = (name) => (changes) => {
    for (const one of changes) window.drawn[name] += one.addedNodes.length;
  };
  const all = { childList: true, subtree: true };
  new MutationObserver(count("lines")).observe(document.querySelector(".editor").shadowRoot, all);
  new MutationObserver(count("net")).observe(document.querySelector(".picture"), all);
}"""
ELEMENTS_OF_A_KEY = 40
MOST_OF_NET = 100  # it may be drawn once, and not for each key


def test_typing_among_a_thousand_steps_draws_the_line_and_not_the_net(
    open_at: Callable[[str], Page], here: Site
) -> None:
    here.register(broad(25, 38, "tests/typed"))
    page = open_at("/catalog/edit/tests/typed")
    expect(page.locator(".facts")).to_contain_text("no errors")
    expect(page.locator(".group")).to_have_count(25)
    expect(page.locator(".way")).to_have_count(24)
    page.get_by_label("Find a step").wait_for()  # it comes a moment after the net
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+End")
    with page.expect_response("**/api/graph"):
        page.keyboard.type("  #")  # the first key marks the text as changed and chooses the step of its line
    page.wait_for_timeout(200)
    page.evaluate(COUNT_DRAWN)
    typed = " as one writes"

    with page.expect_response("**/api/graph"):
        page.keyboard.type(typed)
    expect(page.locator(".editor .cm-content")).to_contain_text("# as one writes")
    drawn = page.evaluate("window.drawn")
    # It may be none: the browser can change the text of a line that stays.
    assert drawn["lines"] <= len(typed) * ELEMENTS_OF_A_KEY
    assert drawn["net"] <= MOST_OF_NET

    with page.expect_response("**/api/graph"):
        page.keyboard.insert_text("\n  - step: other\n    tool: { kind: noop }")
    expect(page.locator(".step", has_text="other")).to_be_attached()
    drawn = page.evaluate("window.drawn")
    assert drawn["net"] > 0
    assert drawn["lines"] > 0
