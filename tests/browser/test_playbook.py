"""The page of a playbook: its runs side by side, and two of them compared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.profiles import move
from tests.browser.serving import Site

Open = Callable[[str], Page]
NIGHTLY = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: nightly_load, path: tests/nightly_load }
workload: { day: "2026-01-01", broken: false }
workflow:
  - step: extract
    tool: { kind: python, args: { day: "{{ workload.day }}" }, code: "result = {'rows': len(day)}" }
    next: { arcs: [{ step: load }] }
  - step: load
    tool:
      kind: python
      args: { broken: "{{ workload.broken }}" }
      code: |
        if broken:
            raise ValueError("the warehouse is full")
        result = "loaded"
executor: { spec: { entry_step: extract } }
"""


@pytest.fixture(scope="module")
def runs(here: Site) -> tuple[str, str]:
    """A run that failed after one that completed."""
    here.register(NIGHTLY)
    good = here.start("tests/nightly_load", day="2026-01-01")
    assert here.ended(good) == "completed"
    bad = here.start("tests/nightly_load", day="2026-01-02", broken=True)
    assert here.ended(bad) == "failed"
    return good, bad


def test_the_runs_of_a_playbook_are_shown_step_by_step_with_a_link_to_the_cause(
    open_at: Open, runs: tuple[str, str], picture: Picture
) -> None:
    page = open_at("/catalog")
    page.get_by_role("link", name="tests/nightly_load").click()

    expect(page.get_by_text("50 %")).to_be_visible()
    grid = page.get_by_role("region", name="Steps by run")
    expect(grid.get_by_role("row", name="load")).to_contain_text("failed")
    expect(grid.get_by_role("row", name="extract")).to_contain_text("done")
    expect(page.get_by_role("row", name="the warehouse is full")).to_contain_text("failed")
    picture(page, "playbook-failed")
    assert findings(page) == []

    page.get_by_role("region", name="Last runs").get_by_role("link", name="load").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("the warehouse is full")


def test_two_runs_are_compared(open_at: Open, runs: tuple[str, str], picture: Picture) -> None:
    page = open_at("/catalog/playbook/tests/nightly_load")
    for run in runs:
        page.get_by_role("checkbox", name=run[-8:]).check()
    page.get_by_role("button", name="Compare two").click()

    steps = page.get_by_role("table", name="Steps of both runs")
    expect(steps.get_by_role("row", name="load")).to_contain_text("failed")
    inputs = page.get_by_role("table", name="Inputs that differ")
    expect(inputs.get_by_role("row", name="day")).to_contain_text("2026-01-02")
    expect(inputs.get_by_role("row", name="broken")).to_contain_text("true")
    expect(page.get_by_role("region", name="Second run").get_by_role("alert")).to_contain_text("the warehouse is full")
    picture(page, "compare-runs")
    assert findings(page) == []


def test_a_run_is_compared_with_the_previous_run(open_at: Open, runs: tuple[str, str]) -> None:
    good, bad = runs
    page = open_at(f"/executions/{bad}")
    page.get_by_role("button", name="Compare").click()

    expect(page.get_by_role("region", name="First run")).to_contain_text(good[-8:])
    expect(page.get_by_role("region", name="Second run")).to_contain_text(bad[-8:])

    move(page, f"/executions/compare?b={good}")
    expect(page.get_by_text("Nothing to compare with")).to_be_visible()


def test_a_version_is_compared_with_the_previous_version(open_at: Open, here: Site) -> None:
    text = NIGHTLY.replace("nightly_load", "twice_registered")
    here.register(text)
    here.register(text.replace("2026-01-01", "2026-02-01"))
    page = open_at("/catalog/playbook/tests/twice_registered")
    expect(page.get_by_text("It has not run yet.")).to_be_visible()
    page.get_by_role("link", name="compare with 1").click()

    expect(page.get_by_role("dialog")).to_contain_text("Version 1")


def test_the_playbook_page_shows_purpose_owner_and_triggers(open_at: Open, here: Site, picture: Picture) -> None:
    about = "description: Loads the orders of yesterday, owner: data@example.org, labels: { team: billing }"
    here.register(
        NIGHTLY.replace("nightly_load", "documented").replace(
            "path: tests/documented", f"path: tests/documented, {about}"
        )
    )
    source = {"kind": "nats", "inputs": {"stream": "orders", "auth": "orders_nats"}, "interval": "1h"}
    made = here.api.post("triggers", json={"name": "new_orders", "path": "tests/documented", **source})
    made.raise_for_status()
    page = open_at("/catalog/playbook/tests/documented")
    part = page.get_by_role("region", name="About")
    expect(part).to_contain_text("Loads the orders of yesterday")
    expect(part).to_contain_text("data@example.org")
    expect(part.get_by_role("link", name="team=billing")).to_be_visible()
    expect(part.get_by_role("listitem")).to_contain_text("new_orders")
    picture(page, "playbook-about")
    assert findings(page) == []
    here.api.delete("triggers/new_orders").raise_for_status()
