"""Webhooks on the Triggers screen: made with a key that is shown once, listed for authors, deleted."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, Visitor, is_copied, is_told
from tests.browser.serving import Site

Open = Callable[[str], Page]


def test_a_webhook_is_created_its_key_shown_once_and_deleted(open_at: Open, here: Site, picture: Picture) -> None:
    page = open_at("/")
    page.get_by_role("heading", name="Home").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("webhook")
    page.get_by_role("option", name="Webhooks").click()
    page.get_by_role("button", name="New webhook").click()
    page.get_by_label("Name").fill("paid")
    page.get_by_label("A delivery").select_option("sends a message")
    page.get_by_label("Message", exact=True).fill("order.paid")
    page.get_by_label("Matched by").fill("order=")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("is not a correlation")
    page.get_by_label("Matched by").fill("order=order.id")
    picture(page, "webhook-form")
    assert findings(page) == []
    page.get_by_role("button", name="Create").click()
    made = page.get_by_role("status").filter(has_text="The webhook paid is created")
    (hook,) = (one for one in here.api.get("webhooks").json()["webhooks"] if one["name"] == "paid")
    assert hook["target"] == {"message": "order.paid", "correlation": {"order": "order.id"}}
    expect(made).to_contain_text(f"{here.url}{hook['url']}")
    key = made.locator("code").last.inner_text()
    page.get_by_role("button", name="Copy: Signing key").click()
    is_copied(page, key)
    picture(page, "webhook-made")
    assert findings(page) == []

    made.get_by_role("button", name="Done").click()

    expect(page.get_by_text(key)).to_have_count(0)
    row = page.get_by_role("table", name="Webhooks").get_by_role("row", name="paid")
    expect(row).to_contain_text("order = order.id of the body")
    page.reload()
    expect(row).to_contain_text("the message order.paid")
    assert key not in page.content()
    row.get_by_role("button", name="Delete paid").click()
    page.get_by_role("button", name="Delete webhook").click()
    is_told(page, "The webhook paid is deleted")
    expect(page.get_by_text("A webhook is a secret address")).to_be_visible()


def test_authors_see_webhooks_and_only_administrators_create_them(open_at: Open, visitor: Visitor, here: Site) -> None:
    page = open_at("/triggers")
    page.get_by_role("button", name="New webhook").click()
    page.get_by_label("Name").fill("arrived")
    page.get_by_label("Playbook").fill("tests/chain")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("table", name="Webhooks").get_by_role("link", name="tests/chain")).to_be_visible()

    author = visitor(here.make_token("writer", "author"), "/triggers")
    expect(author.get_by_role("row", name="arrived")).to_be_visible()
    for name in ("New webhook", "Delete arrived"):
        expect(author.get_by_role("button", name=name)).to_have_count(0)
    operator = visitor(here.make_token("nightly", "operator"), "/triggers")
    expect(operator.get_by_role("heading", name="Triggers", exact=True)).to_be_visible()
    expect(operator.get_by_role("heading", name="Webhooks")).to_have_count(0)
    here.api.delete("webhooks/arrived").raise_for_status()
