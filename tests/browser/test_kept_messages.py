"""Messages that are kept for later can be deleted on the screen, by whoever may (MSG-03)."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visitor, is_told
from tests.browser.serving import Site


@pytest.mark.req("MSG-03")
def test_deleting_a_stored_message_needs_confirmation(visitor: Visitor, here: Site) -> None:
    for message_id in ("unwanted/1", "unwanted/2"):
        sent = {"name": "unwanted", "correlation": {"id": message_id}, "message_id": message_id}
        here.api.post("messages", json=sent).raise_for_status()
    page = visitor(path="/messages")
    rows = page.get_by_role("table", name="Stored messages").get_by_role("row", name="unwanted")
    unwanted = rows.filter(has_text="unwanted/1")

    unwanted.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("unwanted/1")
    dialog.get_by_role("button", name="Delete message").click()
    is_told(page, "unwanted is deleted")

    expect(unwanted).to_have_count(0)
    kept = here.api.get("messages", params={"name": "unwanted"}).raise_for_status().json()["messages"]
    assert [one["message_id"] for one in kept] == ["unwanted/2"]
    viewer = visitor(here.make_token("eve", "viewer"), "/messages")
    rows = viewer.get_by_role("table", name="Stored messages").get_by_role("row", name="unwanted")
    expect(rows).to_have_count(1)
    expect(rows.get_by_role("button")).to_have_count(0)
    here.api.delete("messages", params={"name": "unwanted"}).raise_for_status()
