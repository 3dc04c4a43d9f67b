"""Workers and pools: how many orders wait, and taking a worker out and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import PATIENCE_MS, Picture, Visitor, is_told
from tests.browser.remote_workers import administrator, remote_worker, workers_resumed
from tests.browser.serving import Site, site


def test_a_worker_is_drained_and_resumed(open_at: Callable[[str], Page], here: Site, picture: Picture) -> None:
    page = open_at("/workers")
    row = page.get_by_role("table", name="Workers").get_by_role("row").nth(1)
    expect(row).to_contain_text("live")
    with workers_resumed(here):
        row.get_by_role("button", name="Drain").click()
        page.get_by_role("dialog").get_by_role("button", name="Drain worker").click()
        is_told(page, "takes no more orders")
        expect(row).to_contain_text("It holds no orders.")
        picture(page, "workers-drained")
        assert findings(page) == []

        waiting = here.start("tests/chain", n=1)
        pool = page.get_by_role("table", name="Pools").get_by_role("row", name="default")
        expect(pool.get_by_role("img", name="Orders queued in default: 1")).to_be_visible()
        assert here.api.get(f"executions/{waiting}").raise_for_status().json()["finished_at"] is None

        row.get_by_role("button", name="Resume").click()
        expect(row.get_by_role("button", name="Drain")).to_be_visible()
        assert here.ended(waiting) == "completed"


def test_a_drained_worker_says_when_its_process_can_be_stopped_and_is_removed(browser: Browser, tmp_path: Path) -> None:
    with (
        site(tmp_path, workers=0) as there,
        remote_worker(there) as process,
        administrator(browser, there, "/workers", PATIENCE_MS) as page,
    ):
        row = page.get_by_role("table", name="Workers").get_by_role("row").nth(1)
        row.get_by_role("button", name="Drain").click()
        page.get_by_role("dialog").get_by_role("button", name="Drain worker").click()
        expect(row).to_contain_text("It holds no orders: stop its process, and it leaves this list.")
        assert findings(page) == []

        process.terminate()

        expect(page.get_by_role("heading", name="No workers")).to_be_visible()


def test_a_viewer_is_not_offered_to_drain(visitor: Visitor, here: Site) -> None:
    page = visitor(here.make_token("vera_w", "viewer"), "/workers")
    expect(page.get_by_role("table", name="Workers").get_by_role("row").nth(1)).to_contain_text("live")
    expect(page.get_by_role("button", name="Drain")).to_have_count(0)
