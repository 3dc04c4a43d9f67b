"""Home: what failed and why, one click from the reason."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture
from tests.browser.serving import Site

ENDLESS = "document.getAnimations().filter((one) => one.effect.getComputedTiming().iterations === Infinity).length"


def test_a_recent_failure_names_its_step_and_reason_and_leads_to_its_logs(
    page: Page, here: Site, picture: Picture
) -> None:
    execution_id = here.start("tests/failing")
    assert here.ended(execution_id) == "failed"
    page.goto(here.url)
    failures = page.locator("section", has=page.get_by_role("heading", name="Recent failures"))
    expect(failures.get_by_role("listitem").first).to_contain_text("Failed in step start: ")
    expect(failures.get_by_role("listitem").first).to_contain_text("no luck")
    picture(page, "home-failures")
    assert findings(page) == []

    failures.get_by_role("link", name="failing").first.click()

    expect(page).to_have_url(f"{here.url}/executions/{execution_id}?tab=logs&step=start")
    expect(page.get_by_role("alert")).to_contain_text("Failed in step start: ")
    expect(page.locator("pre.error").first).to_contain_text("no luck")


def test_the_words_of_home_are_those_of_the_trade(page: Page, here: Site) -> None:
    here.ended(here.start("tests/chain"))
    page.goto(here.url)
    for word in ("p95 duration", "started per minute", "Recent failures", "Your tasks"):
        expect(page.get_by_text(word, exact=True)).to_be_visible()


def test_what_runs_says_since_when(page: Page, here: Site) -> None:
    here.start("tests/slow")
    page.goto(here.url)

    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="slow", exact=True)).first
    expect(row).to_contain_text("started ")


def test_what_runs_turns_only_for_whoever_likes_motion(page: Page, here: Site) -> None:
    here.start("tests/slow")
    expect(page.locator(".running .sign").first).to_be_visible()
    assert page.evaluate(ENDLESS) == 0

    page.emulate_media(reduced_motion="no-preference")

    assert page.evaluate(ENDLESS) > 0
