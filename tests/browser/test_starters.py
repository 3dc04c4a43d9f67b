"""An execution says who or what started it, and who cancelled it and why."""

from __future__ import annotations

from typing import Any

import httpx2
from playwright.sync_api import expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, Visitor
from tests.browser.serving import Site
from tests.waiting import looks


def test_an_execution_names_the_users_who_started_and_cancelled_it(
    visitor: Visitor, here: Site, picture: Picture
) -> None:
    token = here.make_token("omar_s", "operator")
    with httpx2.Client(base_url=f"{here.url}/api/", headers={"Authorization": f"Bearer {token}"}) as omar:
        begun = omar.post("executions", json={"path": "tests/waiting", "payload": {"order": 901}}).raise_for_status()
    execution_id = begun.json()["execution_id"]
    here.until_waiting(execution_id, "pay")
    page = visitor(here.make_token("vera_s", "viewer"), f"/executions/{execution_id}")
    expect(page.locator(".facts")).to_contain_text("by omar_s")

    here.api.post(f"executions/{execution_id}/cancel", json={"reason": "disk is full"}).raise_for_status()

    expect(page.get_by_text("Cancelled by admin: disk is full")).to_be_visible()
    picture(page, "execution-starter")
    assert findings(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    picture(page, "execution-starter-phone")
    assert findings(page) == []


def test_a_backfilled_execution_names_its_planned_time(visitor: Visitor, here: Site) -> None:
    asked = {"since": "2024-03-01T00:00:00Z", "until": "2024-03-02T00:00:00Z"}
    here.api.post("schedules/tests/nightly/backfill", json=asked).raise_for_status()
    found: list[dict[str, Any]] = []
    for _ in looks(60.0, "the backfill started nothing"):
        rows = here.api.get("executions", params={"path": "tests/nightly", "limit": 20}).json()["executions"]
        details = [here.api.get(f"executions/{row['execution_id']}").json() for row in rows]
        if found := [one for one in details if "2024-03-01" in str(one["payload"])]:
            break
    page = visitor(here.make_token("val_s", "viewer"), f"/executions/{found[0]['execution_id']}")
    expect(page.locator(".facts")).to_contain_text("by a backfill for 01 Mar 2024 01:30:00")
