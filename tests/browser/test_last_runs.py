"""Playbooks with their last runs, however many others ran since."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import PATIENCE_MS
from tests.browser.serving import Site, site

QUICK = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {{ name: {name}, path: tests/{name} }}
workflow:
  - step: start
    tool: {{ kind: noop }}
"""
OTHERS = 210  # runs of another playbook since; the list of executions has fewer on its first pages


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, here: Site) -> Iterator[Site]:
    """A server of its own, whose newest executions are all of one playbook."""
    with site(tmp_path_factory.mktemp("busy")) as found:
        for name in ("old", "busy", "never"):
            found.register(QUICK.format(name=name))
        assert found.ended(found.start("tests/old")) == "completed"
        for _ in range(OTHERS):
            last = found.start("tests/busy")
        assert found.ended(last) == "completed"
        yield found


def test_a_playbook_that_ran_long_ago_is_not_shown_as_never_run(browser: Browser, busy: Site) -> None:
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{busy.url}/catalog#token={busy.token}")

    for name, runs in (("tests/old", 1), ("tests/busy", 5)):
        row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=name, exact=True))
        expect(row.get_by_role("group", name="Last runs").get_by_role("link")).to_have_count(runs)
        expect(row).not_to_contain_text("never ran")
    never = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="tests/never", exact=True))
    expect(never).to_contain_text("never ran")

    busy.start("tests/never")

    expect(never.get_by_role("group", name="Last runs").get_by_role("link")).to_have_count(1)
    context.close()
