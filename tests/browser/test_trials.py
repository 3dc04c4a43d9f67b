"""Drafts and tests of steps say that they are, wherever executions are listed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.profiles import move
from tests.browser.serving import Site

Open = Callable[[str], Page]
PLAYBOOK = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: tried, path: tests/tried }
workflow:
  - step: start
    tool: { kind: python, code: "raise ValueError('of the registered one')" }
"""
DRAFT = PLAYBOOK.replace("of the registered one", "of the draft")


@pytest.fixture(scope="module")
def runs(here: Site) -> dict[str, str]:
    """A run, a draft and a test of a step, by what they are."""
    here.register(PLAYBOOK)
    drafted = here.api.post("executions/draft", json={"source": DRAFT, "payload": {}}).raise_for_status().json()
    tested = here.api.post("executions/step-test", json={"source": PLAYBOOK, "step": "start"}).raise_for_status().json()
    found = {"run": here.start("tests/tried"), "draft": drafted["execution_id"], "step test": tested["execution_id"]}
    for execution_id in found.values():
        assert here.ended(execution_id) == "failed"
    return found


def are_marked(places: dict[str, Locator]) -> None:
    for word in ("draft", "step test"):
        expect(places[word]).to_contain_text(word)
    for word in ("draft", "step test"):
        expect(places["run"]).not_to_contain_text(word)


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_list_of_executions_marks_trials(
    open_at: Open, runs: dict[str, str], picture: Picture, width: int, height: int
) -> None:
    page = open_at("/")
    page.set_viewport_size({"width": width, "height": height})
    move(page, "/executions?path=tests/tried*")

    rows = page.locator("tbody tr")
    are_marked({word: rows.filter(has=page.locator(f'a[href*="{runs[word]}"]')) for word in runs})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        picture(page, f"trials-{width}-{scheme}")
        assert findings(page) == []


def test_home_the_search_and_the_execution_page_mark_trials(open_at: Open, runs: dict[str, str]) -> None:
    page = open_at("/")
    failures = page.locator("li")
    are_marked({word: failures.filter(has=page.locator(f'a[href*="{runs[word]}"]')) for word in runs})

    page.keyboard.press("Control+K")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox").fill("tried")
    for word in ("draft", "step test"):
        expect(dialog.get_by_text(f"{word}, failed")).to_be_visible()
    page.keyboard.press("Escape")

    for word in ("draft", "step test"):
        move(page, f"/executions/{runs[word]}")
        expect(page.locator("main header .facts")).to_contain_text(word)
    move(page, f"/executions/{runs['run']}")
    expect(page.locator("main header .facts")).to_contain_text("v1")
    expect(page.locator("main header .facts")).not_to_contain_text("draft")


def test_a_draft_run_that_starts_while_the_list_is_open_is_marked(open_at: Open, here: Site) -> None:
    page = open_at("/executions?path=tests/tried*")
    page.locator("tbody tr").first.wait_for()

    begun = here.api.post("executions/draft", json={"source": DRAFT, "payload": {}}).raise_for_status().json()

    row = page.locator("tbody tr").filter(has=page.locator(f'a[href*="{begun["execution_id"]}"]'))
    expect(row).to_contain_text("failed")
    expect(row).to_contain_text("draft")


def test_the_cli_list_of_executions_marks_trials(here: Site, runs: dict[str, str]) -> None:
    command = [sys.executable, "-m", "noetl.cli.main", "executions", "--path", "tests/tried*", "--server", here.url]
    told = subprocess.run(command, env={**os.environ, "NOETL_TOKEN": here.token}, capture_output=True, text=True)

    lines = {word: next(line for line in told.stdout.splitlines() if runs[word] in line) for word in runs}
    assert lines["draft"].endswith("tests/tried  (draft)")
    assert lines["step test"].endswith("tests/tried/step-test  (step test)")
    assert lines["run"].endswith("tests/tried")
