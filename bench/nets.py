"""A net of 1,000 steps in the web UI: how long opening, searching and folding it keeps the browser from answering.

    make bench ARGS="--group nets"

A real server runs a playbook of 25 areas with 40 steps each, which fails in the third. Tasks are taken from the
browser's trace as in `bench/pages.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench.figures import Row, row
from bench.pages import LONG_MS, PATIENCE_MS, traced
from tests.browser.chromium import ARGUMENTS, program, why_not
from tests.browser.playbooks import broad
from tests.browser.serving import Site, site

GROUP = "nets"
AREAS, PARTS, PATH = 25, 38, "tests/broad"


def measured(_: int) -> list[Row]:
    if reason := why_not():
        raise SystemExit(f"nets cannot be measured: {reason}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, site(Path(folder)) as here, sync_playwright() as playwright:
        here.register(broad(AREAS, PARTS, PATH))
        execution_id = here.start(PATH)
        here.ended(execution_id)
        browser = playwright.chromium.launch(executable_path=program(), args=ARGUMENTS, timeout=PATIENCE_MS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(PATIENCE_MS)
        cdp = page.context.new_cdp_session(page)
        for what, do in _parts(page, here, execution_id):
            with traced(cdp, page) as tasks:
                do()
                page.wait_for_timeout(3000)  # a net of 1,000 steps is laid out by a worker, and drawn after that
            for name, at in (("longest task", 0), ("processor time", 1)):
                rows.append(row(GROUP, f"1,000 steps, {what}: {name}", max(one[at] for one in tasks), LONG_MS, "ms"))
        browser.close()
    return rows


def _parts(page: Page, here: Site, execution_id: str) -> Iterator[tuple[str, Callable[[], object]]]:
    def open_net(path: str) -> None:
        page.goto(f"{here.url}{path}")
        page.locator(".net .svelte-flow__node").first.wait_for(state="attached")

    def press(button: str, groups: int) -> None:
        page.get_by_role("button", name=button).click()
        page.wait_for_function(f"() => document.querySelectorAll('.net .group').length === {groups}")

    page.goto(f"{here.url}/#token={here.token}")
    page.get_by_role("navigation").wait_for()
    open_net(f"/executions/{execution_id}")  # the first visit compiles the scripts of the screen, whatever it shows
    yield "opening", lambda: open_net(f"/executions/{execution_id}")
    yield "finding a step", lambda: page.get_by_label("Find a step").fill("area24_part_30")
    yield "leading to the failed step", page.locator(".net button.failed").click
    if page.locator(".groups").count():  # measures earlier versions of the UI, too
        page.locator(".groups summary").click()
        yield "expanding all groups", lambda: press("Expand all", 0)
        yield "collapsing all groups", lambda: press("Collapse all", AREAS)
    yield "opening the editor", lambda: open_net(f"/catalog/edit/{PATH}")
