"""Executions whose orders no worker takes: their page, Home and the list say so, and why, until a worker takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import PATIENCE_MS, Picture
from tests.browser.profiles import move
from tests.browser.remote_workers import administrator, remote_worker
from tests.browser.serving import Site, site

ON_GPU = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: on_gpu, path: tests/on_gpu }
workflow:
  - step: start
    spec: { pool: gpu }
    tool: { kind: python, code: "result = 1" }
"""
WHY = 'no worker of pool "gpu" carries card=a100, which it requires'


@pytest.fixture
def stuck(here: Site) -> Iterator[str]:
    """An execution whose pool requires a label that no worker carries."""
    pool = {"capacity": None, "rate": None}
    here.api.put("pools/gpu", json={**pool, "require": {"card": "a100"}}).raise_for_status()
    here.register(ON_GPU)
    execution_id = here.start("tests/on_gpu")
    yield execution_id
    here.api.put("pools/gpu", json={**pool, "require": {}}).raise_for_status()
    here.ended(execution_id)


def test_every_tab_of_a_stuck_execution_shows_the_reason_until_a_worker_matches(
    open_at: Callable[[str], Page], here: Site, stuck: str, picture: Picture
) -> None:
    page = open_at(f"/executions/{stuck}")
    alarm = page.get_by_role("status", name="Queued steps").filter(has_text="The execution is stuck")
    expect(alarm).to_contain_text(WHY, ignore_case=True)
    picture(page, "stuck")
    assert findings(page) == []
    page.get_by_role("tab", name="Logs").click()
    expect(alarm).to_contain_text(WHY, ignore_case=True)

    alarm.get_by_role("link", name="Explain").click()

    expect(page.get_by_role("tabpanel", name="Explain")).to_contain_text(WHY, ignore_case=True)
    here.api.put("pools/gpu", json={"capacity": None, "rate": None, "require": {}}).raise_for_status()
    expect(page.locator("header .status")).to_contain_text("completed")
    expect(alarm).to_have_count(0)


def test_home_and_the_list_show_a_stuck_execution(
    open_at: Callable[[str], Page], here: Site, stuck: str, picture: Picture
) -> None:
    page = open_at("/")
    running = page.locator("section", has=page.get_by_role("heading", name="Running"))
    row = running.get_by_role("listitem").filter(has=page.get_by_role("link", name="on_gpu"))
    expect(row.get_by_role("link", name="stuck")).to_be_visible()
    expect(row).to_contain_text(WHY)
    expect(page.get_by_role("link", name="order queued for 1 worker; no worker takes it")).to_be_visible()
    picture(page, "home-stuck")
    assert findings(page) == []

    move(page, "/executions")

    listed = page.locator("tbody tr", has_text=stuck[-8:])
    badge = listed.get_by_role("link", name="stuck")
    expect(badge).to_be_visible()
    picture(page, "list-stuck")
    assert findings(page) == []
    here.api.put("pools/gpu", json={"capacity": None, "rate": None, "require": {}}).raise_for_status()
    expect(listed).to_contain_text("completed")
    expect(badge).to_have_count(0)


SLOW = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: slow_copy, path: tests/slow_copy }
workflow:
  - step: start
    tool:
      name: copy
      kind: python
      code: |
        import time
        print("copied part 0", flush=True)
        time.sleep(3600)
"""


def test_an_execution_is_stuck_when_the_lease_of_its_killed_worker_expires(
    browser: Browser, tmp_path: Path, picture: Picture
) -> None:
    with site(tmp_path, workers=0, lease_ttl_s=3.0) as there:
        there.register(SLOW)
        execution_id = there.start("tests/slow_copy")
        with administrator(browser, there, f"/executions/{execution_id}", PATIENCE_MS) as page:
            alarm = page.get_by_role("status", name="Queued steps")
            with remote_worker(there):
                expect(page.locator(".step", has_text="start")).to_contain_text("1 running")
                expect(alarm).to_have_count(0)
            expect(alarm).to_contain_text("The execution is stuck")
            expect(alarm).to_contain_text('no worker serves the pool "default"', ignore_case=True)
            picture(page, "stuck-lost")
            assert findings(page) == []

            page.get_by_role("tab", name="Explain").click()

            explained = page.get_by_role("tabpanel", name="Explain")
            expect(explained).to_contain_text('a worker of the pool "default" to take it again: worker')
            expect(explained).to_contain_text("which held it, is lost")
            expect(explained.locator("tbody .status")).to_contain_text("queued")
            picture(page, "stuck-lost-explain")
            move(page, "/workers")
            row = page.get_by_role("table", name="Workers").get_by_role("row").nth(1)
            expect(row).to_contain_text("lost")
            expect(row).to_contain_text("0 of")
            picture(page, "stuck-lost-workers")


def test_the_log_of_a_restarted_task_keeps_its_first_lines_and_notes_the_restart(
    browser: Browser, tmp_path: Path, picture: Picture
) -> None:
    with site(tmp_path, workers=0, lease_ttl_s=3.0) as there:
        there.register(SLOW)
        execution_id = there.start("tests/slow_copy")
        with administrator(browser, there, f"/executions/{execution_id}?tab=logs", PATIENCE_MS) as page:
            log = page.get_by_role("log")
            with remote_worker(there):
                expect(log).to_have_text("copied part 0")
            with remote_worker(there):
                expect(log).to_have_text(
                    re.compile("copied part 0.*lease 2: the worker before was lost.*copied part 0", re.S)
                )
                picture(page, "began-again")
                assert findings(page) == []
                page.get_by_role("tab", name="Explain").click()
                explained = page.get_by_role("tabpanel", name="Explain")
                expect(explained).to_contain_text("it was begun 2 times, since its worker was lost or cut off before")
                page.get_by_role("tab", name="Timeline").click()
                bars = page.get_by_role("tabpanel", name="Timeline").locator("button.bar")
                expect(bars.locator(".label")).to_have_text(["start, 1 start lost", "copy, lost", "copy, start 2"])
                expect(bars.nth(1).locator("rect.failed title")).to_contain_text("did not answer, or was shut down")
                expect(bars.nth(2).locator("rect.running.running")).to_have_count(1)
                picture(page, "timeline-lost")
                assert findings(page) == []
                page.set_viewport_size({"width": 390, "height": 844})
                picture(page, "timeline-lost-phone")
                assert findings(page) == []
                there.api.post(f"executions/{execution_id}/cancel", json={}).raise_for_status()
                assert there.ended(execution_id) == "cancelled"
