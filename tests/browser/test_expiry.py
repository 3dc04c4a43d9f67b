"""Tokens that expire: their owners and administrators see it before and after."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, Visitor
from tests.browser.serving import Site

DAY_S = 86_400.0


def make_token(here: Site, subject: str, role: str, expires_in_s: float) -> str:
    asked = {"subject": subject, "role": role, "expires_in_s": expires_in_s}
    return str(here.api.post("tokens", json=asked).raise_for_status().json()["token"])


def test_an_expired_token_is_shown_as_expired(open_at: Callable[[str], Page], here: Site, picture: Picture) -> None:
    make_token(here, "soon over", "viewer", 0.01)
    make_token(here, "for long", "viewer", 30 * DAY_S)
    page = open_at("/settings")

    tokens = page.get_by_role("table", name="Tokens")
    over = tokens.get_by_role("row", name="soon over")
    expect(over).to_contain_text("expired")
    expect(over).not_to_contain_text("until")
    expect(over.get_by_role("button", name="Revoke")).to_have_count(0)
    expect(tokens.get_by_role("row", name="for long")).to_contain_text("until")
    expect(tokens.get_by_role("row", name=re.compile("^admin")).first).to_contain_text("does not expire")
    tokens.scroll_into_view_if_needed()
    picture(page, "tokens-expired")
    assert findings(page) == []


def test_the_owner_of_a_token_sees_its_expiry_and_is_warned_a_week_before(
    visitor: Visitor, here: Site, picture: Picture
) -> None:
    page = visitor(make_token(here, "omar_w", "operator", 3 * DAY_S - 60), "/settings")
    warning = page.get_by_role("link", name="Your token expires in 3 d")
    expect(warning).to_be_visible()
    expect(page.get_by_text("Your token is valid until")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Ask an administrator for a new one")).to_be_visible()
    picture(page, "token-expires-soon")
    assert findings(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    picture(page, "token-expires-soon-phone")
    assert findings(page) == []

    other = visitor(make_token(here, "olga_w", "operator", 30 * DAY_S), "/settings")
    expect(other.get_by_text("Your token is valid until")).to_be_visible()
    expect(other.get_by_role("link", name=re.compile("token expires"))).to_have_count(0)


def test_the_form_for_a_new_token_proposes_an_expiry(open_at: Callable[[str], Page], here: Site) -> None:
    page = open_at("/settings")
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Expires")).to_have_value("90")
    dialog.get_by_label("User").fill("ninety")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("table", name="Tokens").get_by_role("row", name="ninety")).to_contain_text("until")
