"""Large results and stored tables: seen in pages from the server, never sent whole, and downloaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, Response, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.profiles import move
from tests.browser.serving import Site

Open = Callable[[str], Page]
LARGE = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: large_data, path: tests/large_data }
workflow:
  - step: export
    tool:
      kind: duckdb
      query: SELECT range AS id, 'order ' || range AS name FROM range(100000)
      spec: { rows: parquet }
    next: { arcs: [{ step: shops }] }
  - step: shops
    tool:
      kind: python
      code: |
        result = [{"id": n, "shop": f"shop {n}", "note": "about " * 20, "total": n % 7} for n in range(1000)]
    next: { arcs: [{ step: orders }] }
  - step: orders
    tool:
      kind: python
      code: |
        rows = [{"id": n, "customer": f"customer {n}", "total": n * 10} for n in range(20000)]
        result = {"day": "2026-01-01", "data": {"rows": rows}}
executor: { spec: { entry_step: export } }
"""


@pytest.fixture(scope="module")
def large(here: Site) -> str:
    here.register(LARGE)
    execution_id = here.start("tests/large_data")
    assert here.ended(execution_id) == "completed"
    return execution_id


def test_a_large_result_opens_part_by_part_and_its_rows_are_a_table(
    open_at: Open, large: str, picture: Picture
) -> None:
    page = open_at("/")
    received: list[Response] = []
    page.on("response", lambda one: received.append(one))
    move(page, f"/executions/{large}?tab=data")
    part = page.get_by_role("region", name="Result", exact=True)
    expect(part).to_contain_text("day")
    expect(part).to_contain_text("[20,000]")  # the one large part, and the one in it, open by themselves
    expect(part).to_contain_text("20,000 rows, 3 columns")
    expect(part).to_contain_text("1 to 50 of 20,000")
    part.get_by_role("button", name="Last").click()
    expect(part).to_contain_text("19,951 to 20,000 of 20,000")
    expect(part.get_by_role("cell", name="customer 19999")).to_be_visible()
    picture(page, "data-large")
    assert findings(page) == []
    page.emulate_media(color_scheme="dark")
    picture(page, "data-large-dark")
    assert findings(page) == []
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 780})
    picture(page, "data-large-narrow")
    assert findings(page) == []
    sizes = [len(one.body()) for one in received if "/part" in one.url]
    assert sizes
    assert max(sizes) < 600_000  # of more than a megabyte

    with page.expect_download() as saved:
        part.get_by_role("button", name="Download CSV").click()
    assert Path(saved.value.path()).read_text("utf-8").splitlines()[20000] == "19999,customer 19999,199990"
    assert saved.value.suggested_filename == f"large_data-{large[-8:]}-result-data-rows.csv"
    with page.expect_download() as saved:
        part.get_by_role("link", name="Download", exact=True).click()
    assert '"customer":"customer 19999"' in Path(saved.value.path()).read_text("utf-8")


def test_a_stored_table_is_paged(open_at: Open, large: str, picture: Picture) -> None:
    page = open_at(f"/executions/{large}?tab=data")
    part = page.get_by_role("region", name="Results of steps")
    part.locator("summary", has_text="table, 100,000 rows").click()
    expect(part.get_by_role("columnheader", name="id bigint")).to_be_visible()
    expect(part).to_contain_text("1 to 50 of 100,000")
    part.get_by_role("button", name="Next").click()
    expect(part.get_by_role("cell", name="order 99", exact=True)).to_be_visible()
    picture(page, "data-stored-table")
    assert findings(page) == []
    with page.expect_download() as saved:
        part.get_by_role("link", name="Download Parquet").click()
    assert Path(saved.value.path()).read_bytes()[:4] == b"PAR1"


def test_stored_rows_are_shown_in_the_same_table_as_inline_rows(open_at: Open, large: str, picture: Picture) -> None:
    page = open_at(f"/executions/{large}?tab=data")
    part = page.get_by_role("region", name="Results of steps")
    with page.expect_download() as saved:
        part.get_by_role("button", name="Download", exact=True).click()
    assert '"shop": "shop 999"' in Path(saved.value.path()).read_text("utf-8")

    part.locator("summary", has_text="stored, ").first.click()

    expect(part).to_contain_text("1,000 rows, 4 columns")
    part.get_by_role("searchbox", name="Find in the rows").fill("shop 99")
    expect(part).to_contain_text("11 rows, 4 columns")
    picture(page, "data-stored-rows")
    assert findings(page) == []
    with page.expect_download() as saved:
        part.get_by_role("button", name="Download CSV").click()
    assert saved.value.suggested_filename == f"large_data-{large[-8:]}-results-shops.csv"
    assert len(Path(saved.value.path()).read_text("utf-8").splitlines()) == 12


def test_a_stored_result_opens_at_an_earlier_event_too(open_at: Open, large: str, here: Site) -> None:
    at = here.api.get(f"executions/{large}").raise_for_status().json()["events"]
    page = open_at(f"/executions/{large}?tab=data&at={at - 1}")
    part = page.get_by_role("region", name="Results of steps")
    part.locator("summary", has_text="stored, ").last.click()
    expect(part.locator("summary", has_text="data")).to_be_visible()
