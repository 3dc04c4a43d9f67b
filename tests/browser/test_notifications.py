"""Notifications, dead letters and late executions on the screens; and who is signed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, Visitor, is_told
from tests.browser.serving import Site

Open = Callable[[str], Page]
SLOW = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: long_load, path: tests/long_load }
workflow:
  - step: start
    message: { name: never_comes }
"""


@pytest.fixture(scope="module")
def late(here: Site) -> Iterator[str]:
    """An execution that is late, and of which nobody can be told: what would hear of it is not there."""
    rule = {"on": ["late"], "late_after": 0.05, "path": "tests/long_load", "notify": [{"slack": {"auth": "not_there"}}]}
    here.api.put("notification-rules/night_shift", json=rule).raise_for_status()
    here.register(SLOW)
    execution_id = here.start("tests/long_load")
    for _ in here._looks():
        if here.api.get("overview").raise_for_status().json()["late"]:
            break
    yield execution_id
    here.api.delete("notification-rules/night_shift").raise_for_status()
    here.api.post(f"executions/{execution_id}/cancel", json={}).raise_for_status()


def test_home_lists_late_executions_and_links_to_the_cause(open_at: Open, late: str, picture: Picture) -> None:
    page = open_at("/")
    part = page.get_by_role("region", name="Late")
    expect(part.get_by_role("listitem")).to_contain_text("late for")
    picture(page, "home-late")
    assert findings(page) == []
    page.set_viewport_size({"width": 390, "height": 780})
    picture(page, "home-late-narrow")
    assert findings(page) == []

    part.get_by_role("link", name="tests/long_load").click()

    expect(page).to_have_url(f"{page.url.split('/executions')[0]}/executions/{late}?tab=explain")
    expect(page.get_by_role("tabpanel")).to_contain_text("never_comes")


def test_a_dead_letter_is_shown_with_its_error_and_sent_again(
    open_at: Open, late: str, here: Site, picture: Picture
) -> None:
    page = open_at("/notifications")
    row = page.get_by_role("table", name="Notifications").get_by_role("row", name="tests/long_load")
    expect(row).to_contain_text("dead letter")
    expect(row).to_contain_text("not_there")
    expect(page.get_by_role("table", name="Rules")).to_contain_text("night_shift")
    picture(page, "notifications")
    assert findings(page) == []
    page.emulate_media(color_scheme="dark")
    picture(page, "notifications-dark")
    assert findings(page) == []
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 780})
    picture(page, "notifications-narrow")
    assert findings(page) == []
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_label("State").select_option("sent")
    expect(page.get_by_text("None in this state")).to_be_visible()
    page.get_by_label("State").select_option("dead")
    row.get_by_role("button", name="Retry").click()
    is_told(page, "It will be sent again")


def test_a_viewer_sees_notifications_and_cannot_retry_them(visitor: Visitor, here: Site, late: str) -> None:
    page = visitor(here.make_token("vera_n", "viewer"), "/notifications")
    table = page.get_by_role("table", name="Notifications")
    expect(table.get_by_role("row", name="tests/long_load").first).to_be_visible()
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)


def test_a_session_is_listed_and_ended(visitor: Visitor, here: Site, picture: Picture) -> None:
    other = visitor(here.make_token("sam_s", "operator"))
    page = visitor(path="/settings")
    sessions = page.get_by_role("region", name="Sessions").first
    expect(sessions.get_by_role("row", name="this browser")).to_be_visible()
    sessions.scroll_into_view_if_needed()
    picture(page, "sessions")
    assert findings(page) == []
    sessions.get_by_role("row", name="sam_s").get_by_role("button", name="End session").click()
    page.get_by_role("dialog").get_by_role("button", name="End session").click()
    is_told(page, "The session of sam_s has ended")
    expect(sessions.get_by_role("row", name="sam_s")).to_have_count(0)

    other.reload()
    expect(other.get_by_label("Token")).to_be_visible()
