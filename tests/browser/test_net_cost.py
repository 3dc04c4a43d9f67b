"""What a net costs is seen on it: the medians of its steps, and the critical path, of a draft too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.serving import Site

PATH = "tests/costly"
COSTLY = f"""apiVersion: noetl.io/v10
kind: Playbook
metadata: {{ name: costly, path: {PATH} }}
workflow:
  - step: extract
    tool: {{ kind: noop }}
    next: {{ spec: {{ mode: inclusive }}, arcs: [{{ step: check }}, {{ step: load }}] }}
  - step: check
    tool: {{ kind: noop }}
    next: {{ arcs: [{{ step: both }}] }}
  - step: load
    timer: {{ duration: 1.2s }}
    next: {{ arcs: [{{ step: both }}] }}
  - step: both
    spec: {{ join: {{ count: 2 }} }}
    next: {{ arcs: [{{ step: end }}] }}
  - step: end
    tool: {{ kind: noop }}
executor: {{ spec: {{ entry_step: extract }} }}
"""


@pytest.fixture(scope="module")
def costly(here: Site) -> str:
    here.register(COSTLY)
    assert here.ended(here.start(PATH)) == "completed"
    return PATH


def test_the_critical_path_is_drawn_on_the_draft_net_and_listed_in_a_table(
    open_at: Callable[[str], Page], here: Site, costly: str, picture: Picture
) -> None:
    page = open_at(f"/catalog/edit/{costly}")
    expect(page.locator(".step.critical")).to_have_count(4)
    expect(page.locator(".step.critical", has_text="check")).to_have_count(0)
    expect(page.locator(".way.critical")).to_have_count(3)
    expect(page.get_by_role("button", name="on the critical path: median 1.")).to_contain_text("load")
    page.get_by_text("Critical path 1.").click()
    table = page.get_by_role("table", name="Duration of each step")
    expect(table.get_by_role("row", name="load")).to_contain_text("%")
    expect(table.get_by_role("row", name="check")).to_contain_text("not on the path")
    picture(page, "net-cost")
    assert findings(page) == []

    # A draft with another name for a step: nothing is known of that one, and the path is another.
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(COSTLY.replace("step: load", "step: load_all"))

    expect(table.get_by_role("row", name="load_all")).to_contain_text("no history")
    expect(page.locator(".cost", has_text="no history")).to_have_count(1)

    # On the page of an execution, once one asks for it; the address keeps it.
    newest = here.api.get("executions", params={"path": costly}).raise_for_status().json()["executions"][0]
    page.goto(f"{here.url}/executions/{newest['execution_id']}")
    expect(page.locator(".step.completed")).to_have_count(5)
    expect(page.locator(".step.critical")).to_have_count(0)
    page.get_by_role("button", name="Show durations and critical path").click()
    expect(page.locator(".step.critical")).to_have_count(4)
    expect(table.get_by_role("row", name="load")).to_contain_text("%")
    picture(page, "execution-cost")
    assert findings(page) == []
    page.reload()
    expect(page.locator(".step.critical")).to_have_count(4)
    page.get_by_role("button", name="Hide durations").click()
    expect(page.locator(".step.critical")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_playbook_page_shows_the_duration_of_each_step(
    scheme: str, open_at: Callable[[str], Page], here: Site, costly: str, picture: Picture
) -> None:
    page = open_at(f"/catalog/playbook/{costly}")
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    expect(page.get_by_role("table", name="Duration of each step").get_by_role("row", name="load")).to_contain_text(
        "1."
    )
    page.get_by_role("heading", name="Duration by step").scroll_into_view_if_needed()
    expect(page.locator(".step.critical")).to_have_count(4)
    picture(page, f"playbook-cost-{scheme}")
    assert findings(page) == []
    runs = (
        page.get_by_role("table", name="Duration of each step")
        .get_by_role("row", name="load")
        .get_by_role("cell")
        .nth(3)
    )
    before = int(runs.inner_text())
    assert here.ended(here.start(costly)) == "completed"
    expect(runs).to_have_text(str(before + 1))  # with the end of an execution the figures are others

    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("heading", name="Duration by step").scroll_into_view_if_needed()
    picture(page, f"playbook-cost-{scheme}-390")
    assert findings(page) == []

    page.locator(".step", has_text="check").click()
    expect(page).to_have_url(f"{page.url.split('/catalog')[0]}/catalog/edit/{costly}?step=check")
    expect(page.locator(".step.chosen")).to_contain_text("check")
