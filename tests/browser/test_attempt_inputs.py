"""What a task was given, attempt by attempt and run by run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.serving import Site

Open = Callable[[str], Page]
PAGED = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: paged, path: tests/paged }
workload: { day: "2026-01-01" }
workflow:
  - step: extract
    tool: { kind: python, args: { day: "{{ workload.day }}" }, code: "result = {'rows': int(day[-2:]) * 100}" }
    next: { arcs: [{ step: load }] }
  - step: load
    tool:
      name: copy
      kind: python
      args: { rows: "{{ extract.rows }}", size: "{{ iter.size | default(500) }}", try: "{{ _attempt }}" }
      code: |
        if rows > size:
            raise ValueError("too many rows")
      spec:
        policy:
          rules:
            - { when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 2, set_iter: { size: 50 } } }
            - { else: { then: { do: continue } } }
executor: { spec: { entry_step: extract } }
"""


@pytest.fixture(scope="module")
def runs(here: Site) -> tuple[str, str]:
    """A run that completed, and one that failed on both of its attempts."""
    here.register(PAGED)
    good = here.start("tests/paged", day="2026-01-02")
    assert here.ended(good) == "completed"
    bad = here.start("tests/paged", day="2026-01-09")
    assert here.ended(bad) == "failed"
    return good, bad


def test_the_inputs_of_a_failed_attempt_are_shown_with_their_differences(
    open_at: Open, runs: tuple[str, str], picture: Picture
) -> None:
    page = open_at(f"/executions/{runs[1]}?tab=data")
    part = page.get_by_role("region", name="Inputs of attempts")
    expect(part.get_by_role("combobox", name="Step")).to_have_value("load")  # it failed there
    expect(part.get_by_role("combobox", name="Attempt").locator("option:checked")).to_have_text("copy, attempt 2 ✕")
    changes = part.get_by_role("table", name="Differs from copy, attempt 1")
    expect(changes.get_by_role("row", name="args.size")).to_contain_text("500")
    expect(changes.get_by_role("row", name="args.size")).to_contain_text("50")
    expect(changes.get_by_role("row")).to_have_count(3)  # with its head: size and try
    part.scroll_into_view_if_needed()
    picture(page, "attempt-inputs")
    assert findings(page) == []

    part.get_by_role("combobox", name="Attempt").select_option(label="copy, attempt 1 ✕")
    expect(part).to_contain_text("This is the first attempt.")
    expect(part).to_contain_text("500")
    part.get_by_role("combobox", name="Step").select_option("extract")
    expect(part).to_contain_text("2026-01-09")
    assert "step=extract" in page.url


def test_comparing_two_runs_shows_the_inputs_of_a_step(open_at: Open, runs: tuple[str, str], picture: Picture) -> None:
    good, bad = runs
    page = open_at(f"/executions/compare?a={good}&b={bad}")
    page.get_by_role("button", name="Inputs of load").click()
    part = page.get_by_role("region", name="Inputs of load")
    changes = part.get_by_role("table", name=f"Differs from copy, attempt 1 of execution {good[-8:]}")
    expect(changes.get_by_role("row", name="args.rows")).to_contain_text("200")
    expect(changes.get_by_role("row", name="args.rows")).to_contain_text("900")
    picture(page, "compare-inputs")
    assert findings(page) == []
