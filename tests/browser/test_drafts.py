"""A text is run before it is registered, and a large net is searched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.editing import type_into_editor
from tests.browser.serving import Site

Open = Callable[[str], Page]
DRAFTED = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: draft_run, path: tests/draft_run }
workload: { who: world }
workflow:
  - step: start
    tool: { kind: python, args: { who: "{{ workload.who }}" }, code: "result = 'registered, ' + who" }
"""


def test_a_draft_runs_with_inputs_and_replaces_nothing(open_at: Open, here: Site, picture: Picture) -> None:
    here.register(DRAFTED)
    page = open_at("/catalog/edit/tests/draft_run")
    expect(page.get_by_role("button", name="Run draft")).to_have_count(0)  # what is registered is started
    type_into_editor(page, DRAFTED.replace("registered, ", "from the draft, "))
    page.get_by_role("button", name="Run draft").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("who").fill("moon")
    page.locator(".step").first.wait_for(state="attached")
    picture(page, "run-draft")
    assert findings(page) == []
    dialog.get_by_role("button", name="Run draft").click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("draft_run")
    page.get_by_role("tab", name="Data").click()
    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text("from the draft, moon")
    versions = here.api.get("catalog/tests/draft_run/versions").raise_for_status().json()["versions"]
    assert [one["version"] for one in versions] == [1]

    page.go_back()  # from the tab
    page.go_back()
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_role("button", name="Restore")).to_have_count(0)
    expect(page.locator(".editor .cm-content")).to_contain_text("from the draft")


def wide(steps: int) -> str:
    """One step that goes on to many, of which two fail."""
    arcs = ", ".join(f"{{ step: load_{n} }}" for n in range(steps))
    code = {37: "raise ValueError(1)", 61: "raise ValueError(1)"}
    body = "\n".join(
        f'  - step: load_{n}\n    tool: {{ kind: python, code: "{code.get(n, "x = 1")}" }}' for n in range(steps)
    )
    return (
        "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: wide_net, path: tests/wide_net }\nworkflow:\n"
        "  - step: start\n    tool: { kind: noop }\n"
        f"    next: {{ spec: {{ mode: inclusive }}, arcs: [{arcs}] }}\n{body}\n"
    )


@pytest.fixture(scope="module")
def wide_run(here: Site) -> str:
    here.register(wide(80))
    execution_id = here.start("tests/wide_net")
    assert here.ended(execution_id) == "failed"
    return execution_id


def test_a_step_of_a_large_net_is_found_and_failed_ones_follow_each_other(
    open_at: Open, wide_run: str, picture: Picture
) -> None:
    page = open_at(f"/executions/{wide_run}")
    page.get_by_label("Find a step").fill("load_7")
    expect(page.get_by_role("status").filter(has_text="1 of 11")).to_be_visible()
    expect(page.get_by_role("complementary", name="Step load_7", exact=True)).to_be_visible()
    expect(page.locator(".step", has_text="load_7").first).to_be_in_viewport()
    page.get_by_label("Find a step").press("Enter")
    expect(page.get_by_role("complementary", name="Step load_70")).to_be_visible()
    picture(page, "net-search")
    assert findings(page) == []

    page.get_by_role("button", name="2 failed").click()
    expect(page.get_by_role("complementary", name="Step load_37")).to_be_visible()
    page.get_by_role("button", name="2 failed").click()
    expect(page.get_by_role("complementary", name="Step load_61")).to_be_visible()
    expect(page.locator(".step.failed", has_text="load_61")).to_be_in_viewport()


# Goes on to the next failed step and, while that move ends, to the one after it.
TWICE = """async (gap) => {
  const button = [...document.querySelectorAll("button")].find((one) => one.textContent.includes("2 failed"));
  button.click();
  await new Promise((done) => setTimeout(done, gap));
  button.click();
}"""


def test_a_step_is_in_sight_however_soon_one_goes_on_to_the_next(open_at: Open, wide_run: str) -> None:
    page = open_at(f"/executions/{wide_run}")
    failed = page.get_by_role("button", name="2 failed")
    chosen = page.locator(".step.chosen")
    failed.click()
    expect(chosen).to_be_in_viewport()

    for gap_ms in (0, 190, 200, 200, 210, 250):
        page.evaluate(TWICE, gap_ms)
        expect(chosen).to_be_in_viewport()
        failed.click()
        expect(chosen).to_be_in_viewport()
