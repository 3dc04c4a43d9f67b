"""What a task prints is read while it runs, over the connection that all pages of a browser share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, Visitor, presses
from tests.browser.serving import Site

Open = Callable[[str], Page]
LEVELS = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: levels, path: tests/levels }
workflow:
  - step: start
    tool:
      - name: load
        kind: python
        code: |
          import logging
          logging.basicConfig(level=logging.DEBUG)
          logging.debug("asking")
          logging.info("reading")
          print("in plain words")
          logging.warning("late")
          try:
              1 / 0
          except ZeroDivisionError:
              logging.exception("broken")
      - { name: count, kind: python, code: "print('nothing to see')" }
"""
PRINTING = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: printing, path: tests/printing }
workload: { gate: "" }
workflow:
  - step: start
    tool:
      - name: load
        kind: python
        args: { gate: "{{ workload.gate }}" }
        code: |
          import pathlib, time
          print("reading page 1")
          while not pathlib.Path(gate).exists():
              time.sleep(0.02)
          print("\\x1b[31mreading\\x1b[0m page 2 <b>")
          while not pathlib.Path(gate + "2").exists():
              time.sleep(0.02)
          print("done")
"""


def test_log_lines_are_streamed_while_a_task_runs_and_stored_once(
    open_at: Open, visitor: Visitor, here: Site, tmp_path: Path, picture: Picture
) -> None:
    here.register(PRINTING)
    gate = tmp_path / "gate"
    execution_id = here.start("tests/printing", gate=str(gate))
    page = open_at("/")
    with presses(page, 2):
        running = page.locator("section", has=page.get_by_role("heading", name="Running"))
        running.get_by_role("link", name="printing").first.click()
        page.get_by_role("tab", name="Logs").click()
        lines = page.get_by_role("log")
        expect(lines).to_have_text("reading page 1")
    expect(page.get_by_role("tabpanel")).to_contain_text("live output")
    viewer = visitor(here.make_token("reader of logs", "viewer"), f"/executions/{execution_id}?tab=logs")
    expect(viewer.get_by_role("log")).to_have_text("reading page 1")
    gate.touch()
    for one in (page, viewer):
        expect(one.get_by_role("log")).to_have_text("reading page 1\nreading page 2 <b>")
    expect(lines.locator(".red")).to_have_text("reading")
    picture(page, "logs-live")
    assert findings(page) == []
    page.get_by_label("Find in logs").fill("nowhere")
    expect(page.get_by_text("No line matches")).to_be_visible()
    page.get_by_label("Find in logs").fill("page 2")
    expect(lines).to_have_text("reading page 2 <b>")  # the lines that hold it, and no others
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()  # while it runs, too
    assert Path(saved.value.path()).read_text("utf-8").endswith("reading page 2 <b>")
    page.get_by_label("Find in logs").fill("")
    Path(f"{gate}2").touch()
    here.ended(execution_id)

    expect(page.locator("main pre")).to_have_text("reading page 1\nreading page 2 <b>\ndone\n")
    expect(lines).to_have_count(0)


def test_log_lines_are_filtered_by_level_and_the_level_is_in_the_address(
    open_at: Open, here: Site, picture: Picture
) -> None:
    here.register(LEVELS)
    execution_id = here.start("tests/levels")
    here.ended(execution_id)
    page = open_at(f"/executions/{execution_id}?tab=logs")
    entries = page.get_by_role("tabpanel").get_by_role("listitem")
    expect(entries).to_have_count(2)
    page.get_by_label("Level").select_option("warnings and above")
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("WARNING:root:late\nERROR:root:broken\nTraceback")
    expect(entries).to_contain_text("ZeroDivisionError: division by zero")
    for word in ("asking", "reading", "in plain words"):
        expect(entries).not_to_contain_text(word)
    expect(page).to_have_url(f"{here.url}/executions/{execution_id}?tab=logs&level=warning")
    picture(page, "logs-level")
    assert findings(page) == []
    page.reload()
    expect(page.get_by_label("Level")).to_have_value("warning")
    page.get_by_label("Level").select_option("errors")
    expect(entries).not_to_contain_text("late")
    page.get_by_label("Level").select_option("all levels")
    expect(entries).to_have_count(2)


def test_the_last_output_of_a_task_is_visible_above_its_error(open_at: Open, here: Site) -> None:
    here.register(
        PRINTING.replace("tests/printing", "tests/talkative").partition("workload:")[0]
        + "workflow:\n  - step: start\n    tool:\n      kind: python\n      code: |\n"
        + "        for n in range(300): print('row', n)\n        raise ValueError('row 299 is wrong')\n"
    )
    execution_id = here.start("tests/talkative")
    assert here.ended(execution_id) == "failed"
    page = open_at(f"/executions/{execution_id}?tab=logs")
    printed = page.get_by_role("tabpanel").locator("pre").filter(has_text="row 299").first
    expect(printed).to_contain_text("row 0")
    assert printed.evaluate("(one) => one.scrollTop + one.clientHeight >= one.scrollHeight - 1")
    assert printed.evaluate("(one) => one.scrollHeight > one.clientHeight")
