"""The page of an execution with 100,000 events: how long it keeps the browser from answering.

    make bench ARGS="--group pages"

A real server runs a playbook whose loop, cycle and printed lines make 100,000 events; Chromium opens its page and goes
through all tabs, searches, scrolls and travels in time. Every task of the page's main thread is taken from the
browser's trace. A task of 50 ms is the longest that nobody notices. Wall clock is what a reader waits; on a machine
that others use too, the processor time beside it says what is ours.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from bench.figures import Row, row
from tests.browser.chromium import ARGUMENTS, program, why_not
from tests.browser.serving import Site, site

GROUP = "pages"
LONG_MS = 50.0
PATIENCE_MS = 240_000
CATEGORIES = "toplevel,devtools.timeline"
PROFILE = os.environ.get("NOETL_BENCH_PROFILE", "")  # a file for the CPU profile of all that is measured
PLAYBOOK = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: long, path: bench/long }
workload: { items: 20000, printing: 1500, turns: 1500 }
workflow:
  - step: start
    loop: { in: "{{ range(workload.items) | list }}", iterator: x, spec: { mode: parallel, max_in_flight: 500 } }
    tool: { kind: noop, args: { x: "{{ iter.x }}", name: "customer {{ iter.x }}" } }
    next: { arcs: [{ step: print }] }
  - step: print
    loop: { in: "{{ range(workload.printing) | list }}", iterator: x, spec: { mode: parallel, max_in_flight: 50 } }
    tool:
      kind: python
      args: { x: "{{ iter.x }}" }
      code: |
        for line in range(20):
            print(f"item {x}: line {line} of what a task prints while it loads rows")
        result = {"x": x}
    set_ctx: { turn: 0 }
    next: { arcs: [{ step: again }] }
  - step: again
    tool: { kind: noop }
    set_ctx: { turn: "{{ ctx.turn + 1 }}" }
    next:
      arcs:
        - { step: again, when: "{{ ctx.turn < workload.turns }}" }
        - { step: end, when: "{{ ctx.turn >= workload.turns }}" }
  - step: end
"""


CYCLE = {"items": 10, "printing": 10, "turns": 9500}  # 9,500 step runs, for the timeline
QUICK = 3
Longest = dict[str, tuple[float, float]]  # by part: the longest task, and the most processor time that one took


def measured(repeats: int) -> list[Row]:
    if reason := why_not():
        raise SystemExit(f"the pages cannot be measured: {reason}")
    rounds = 1 if repeats <= QUICK else 3
    with tempfile.TemporaryDirectory() as folder, site(Path(folder)) as here, sync_playwright() as playwright:
        here.register(PLAYBOOK)
        browser = playwright.chromium.launch(executable_path=program(), args=ARGUMENTS, timeout=PATIENCE_MS)
        rows = _rows(browser, here, {}, rounds, ())
        if repeats > QUICK:
            rows += _rows(browser, here, CYCLE, 1, ("opening", "timeline"))
        browser.close()
    return rows


def _rows(browser: Browser, here: Site, payload: dict[str, int], rounds: int, only: Sequence[str]) -> list[Row]:
    execution_id = here.start("bench/long", **payload)
    assert here.ended(execution_id) == "completed"
    events = here.api.get(f"executions/{execution_id}").raise_for_status().json()["events"]
    walks = [_walk(browser, here, execution_id, only) for _ in range(rounds)]
    rows: list[Row] = []
    for what in walks[0]:
        # Of each figure the round that others disturbed least.
        wall_ms, processor_ms = (min(walk[what][at] for walk in walks) for at in range(2))
        rows.append(row(GROUP, f"{events:,} events, {what}: longest task", wall_ms, LONG_MS, "ms"))
        rows.append(row(GROUP, f"{events:,} events, {what}: processor time", processor_ms, LONG_MS, "ms"))
    return rows


def _walk(browser: Browser, here: Site, execution_id: str, only: Sequence[str]) -> Longest:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{here.url}/#token={here.token}")
    page.get_by_role("navigation").wait_for()
    cdp = context.new_cdp_session(page)
    if PROFILE:
        cdp.send("Profiler.enable")
        cdp.send("Profiler.start")
    longest: Longest = {}
    for what, do in _parts(page, f"{here.url}/executions/{execution_id}").items():
        if only and what not in only:
            continue
        with traced(cdp, page) as tasks:
            do()
            page.wait_for_timeout(1500)  # what a press leaves to do, and the page's clock
        longest[what] = (max(wall_ms for wall_ms, _ in tasks), max(processor_ms for _, processor_ms in tasks))
    if PROFILE:
        Path(PROFILE).write_text(json.dumps(cdp.send("Profiler.stop")["profile"]))
    context.close()
    return longest


def _parts(page: Page, url: str) -> dict[str, Callable[[], object]]:
    def tab(name: str, ready: str) -> None:
        page.get_by_role("tab", name=name, exact=True).click()
        page.locator(ready).first.wait_for()

    def open_page() -> None:
        page.goto(url)
        page.locator(".step.completed").first.wait_for()
        page.get_by_text("Loading events").wait_for(state="detached")
        page.wait_for_function("() => document.querySelector('input[type=range]').max > 90000")

    def travel() -> None:
        slider = page.get_by_role("slider", name="Moment")
        for seq in (20_000, 60_000, 95_000, 100):
            slider.fill(str(seq))
            page.wait_for_timeout(400)
        page.get_by_role("button", name="Back to now").click()

    def scroll(share: float) -> None:
        page.locator(".box").first.evaluate(f"(box) => (box.scrollTop = {share} * box.scrollHeight)")
        page.wait_for_timeout(300)

    def events() -> None:
        tab("Events", ".event")
        page.get_by_label("follow").uncheck()
        for share in (0.0, 0.4, 0.9):
            scroll(share)
        page.get_by_label("Find in events").type("loop.done", delay=60)
        page.wait_for_timeout(1000)
        page.get_by_label("Find in events").fill("")  # it would hold for the logs, too

    def timeline() -> None:
        tab("Timeline", ".bar")
        page.get_by_role("button", name="Zoom in").click()
        scroll(0.5)
        page.locator(".bar").nth(5).click()

    def logs() -> None:
        page.get_by_role("tab", name="Logs", exact=True).click()
        page.get_by_label("Step", exact=True).select_option("")
        page.locator("main ol pre").first.wait_for()
        more = page.get_by_role("button", name="More", exact=True)
        while not more.is_visible():  # entries are drawn as one comes to their end
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            page.wait_for_timeout(100)
        more.click()
        page.get_by_label("Find in logs").type("line 7", delay=60)
        page.wait_for_timeout(500)
        page.get_by_label("Find in logs").fill("")

    def loops() -> None:
        tab("Loops", "canvas")
        page.locator("canvas").first.click(position={"x": 100, "y": 30})

    return {
        "opening": open_page,
        "events": events,
        "timeline": timeline,
        "logs": logs,
        "loops": loops,
        "data": lambda: tab("Data", "details, table"),
        "limits": lambda: tab("Limits", "[role=tabpanel]"),
        "explain": lambda: tab("Explain", "[role=tabpanel]"),
        "net": lambda: tab("Net", ".step.completed"),
        "time travel": travel,
    }


@contextmanager
def traced(cdp: CDPSession, page: Page) -> Iterator[list[tuple[float, float]]]:
    """The tasks of the page's main thread meanwhile, as milliseconds of wall clock and of its processor."""
    found: list[tuple[float, float]] = []
    chunks: list[dict[str, Any]] = []
    done: list[bool] = []
    cdp.on("Tracing.dataCollected", lambda event: chunks.extend(event["value"]))
    cdp.on("Tracing.tracingComplete", lambda _: done.append(True))
    cdp.send(
        "Tracing.start", {"transferMode": "ReportEvents", "traceConfig": {"includedCategories": CATEGORIES.split(",")}}
    )
    yield found
    cdp.send("Tracing.end")
    while not done:
        page.wait_for_timeout(20)
    main = {
        (one["pid"], one["tid"])
        for one in chunks
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    found += [
        (one["dur"] / 1000, one["tdur"] / 1000)
        for one in chunks
        if "RunTask" in one["name"] and (one["pid"], one["tid"]) in main and "tdur" in one
    ]
