"""Home, starting, tasks of people, schedules, messages, workers, credentials, tokens, the audit: what each is for."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from noetl.secrets.credential_types import TYPES
from tests.browser.audit import findings
from tests.browser.conftest import Picture, Visitor, is_copied, is_told, presses
from tests.browser.profiles import move
from tests.browser.serving import Site

Open = Callable[[str], Page]


def test_home_counts_and_lists_running_executions_until_they_end(page: Page, here: Site) -> None:
    execution_id = here.start("tests/waiting", order=51)
    running = page.locator("section").filter(has=page.get_by_role("heading", name="Running"))
    begun = running.locator(f"a[href$='{execution_id}']")
    expect(begun).to_be_visible()
    here.api.post("messages", json={"name": "paid", "correlation": {"order": 51}}).raise_for_status()
    expect(begun).to_have_count(0)  # what is over does not run, on a page that nobody loads anew
    page.locator("a.tile", has_text="failed").click()
    expect(page).to_have_url(f"{here.url}/executions?status=failed")


def test_a_schedule_calendar_shows_past_and_planned_runs(open_at: Open, here: Site, picture: Picture) -> None:
    here.ended(here.start("tests/nightly"))
    page = open_at("/schedules")
    page.locator("tr", has_text="tests/nightly").get_by_role("button", name="Calendar").click()
    calendar = page.get_by_role("region", name="Calendar")
    ran = calendar.get_by_role("cell", name="completed").first
    expect(ran).to_be_visible()
    picture(page, "schedule-calendar")
    assert findings(page) == []
    calendar.get_by_role("button", name="Month after").click()
    expect(calendar.get_by_role("cell", name=re.compile(r"15 .*, 02:30$"))).to_be_visible()  # by the clock in Berlin
    page.reload()  # whose calendar it is, and its month, are in the address
    expect(calendar.get_by_role("cell", name=re.compile(r"15 .*, 02:30$"))).to_be_visible()
    calendar.get_by_role("button", name="Month before").click()
    ran.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(r"/executions\?path=tests%2Fnightly&status=completed&since=.*&until="))
    expect(page.locator("tbody tr").first).to_contain_text("tests/nightly")


def test_a_schedule_shows_its_last_run_and_missed_times(open_at: Open, here: Site, picture: Picture) -> None:
    execution_id = here.start("tests/failing")
    assert here.ended(execution_id) == "failed"
    page = open_at("/executions")

    def with_history(route: Route) -> None:
        # As after a night that a test cannot wait for; the schedule itself is the server's.
        told = route.fetch().json()
        last = {"execution_id": execution_id, "time": "2026-03-02T02:30:00+01:00", "status": "failed"}
        last["started_at"] = "2026-03-02T01:40:00Z"
        nightly = next(one for one in told["schedules"] if one["path"] == "tests/nightly")
        nightly |= {"last": last, "missed_times": 3, "last_missed": "2026-03-01T02:30:00+01:00"}
        route.fulfill(json=told)

    page.route("**/api/schedules", with_history)
    move(page, "/schedules")
    row = page.locator("tr", has_text="tests/nightly")
    expect(row).to_contain_text("3 missed so far, the last at")
    expect(row.locator(".last")).to_contain_text("02:30, 10 min 00 s late")
    picture(page, "schedule-last-run")
    assert findings(page) == []
    row.get_by_role("link", name="failed").click()
    expect(page).to_have_url(re.compile(execution_id))


# What the browser would show; it shows nothing itself without windows.
ALERTS = """
window.Notification = class {
  static permission = "default";
  static asked = 0;
  static shown = [];
  static async requestPermission() {
    Notification.asked += 1;
    return (Notification.permission = "granted");
  }
  constructor(title, { tag }) {
    Notification.shown.push(Object.assign(this, { title, tag }));
  }
  close() {}
};
"""


def test_the_browser_notifies_subscribed_users_of_failures(visitor: Visitor, here: Site, picture: Picture) -> None:
    here.ended(here.start("tests/failing"))  # before it was asked for: nobody hears of it
    page = visitor(here.make_token("otto", "operator"))
    page.context.add_init_script(ALERTS)
    page.goto(f"{here.url}/settings")
    with presses(page, 1):
        page.get_by_label("Notify me of failed executions").check()
    expect(page.get_by_label("Notify me of failed executions")).to_be_enabled()
    picture(page, "settings-alerts")
    assert findings(page) == []

    execution_id = here.start("tests/failing")
    here.ended(execution_id)
    page.wait_for_function("() => Notification.shown.length > 0")
    assert page.evaluate("Notification.shown.map((one) => [one.title, one.tag])") == [["failing failed", execution_id]]
    page.evaluate("Notification.shown[0].onclick()")

    expect(page.get_by_role("alert")).to_contain_text("no luck")


def test_the_browser_notifies_subscribed_users_of_new_tasks(visitor: Visitor, here: Site) -> None:
    here.until_waiting(here.start("tests/asking", amount=1), "approve")
    page = visitor(here.make_token("olga", "operator", "boss"))
    page.context.add_init_script(ALERTS)
    page.goto(f"{here.url}/tasks")
    expect(page.get_by_role("link", name="for you")).to_be_visible()
    assert page.evaluate("Notification.asked") == 0

    page.get_by_label("Notify me of new tasks").check()
    here.until_waiting(here.start("tests/asking", amount=77), "approve")
    page.wait_for_function("() => Notification.shown.some((one) => one.title === 'Approve 77?')")
    page.evaluate("Notification.shown.find((one) => one.title === 'Approve 77?').onclick()")

    expect(page.get_by_role("heading", level=1)).to_have_text("Approve 77?")
    assert page.evaluate("Notification.shown.map((one) => one.title)") == ["Approve 77?"]


def test_the_catalogue_is_searched_and_starts_a_playbook(open_at: Open) -> None:
    page = open_at("/catalog")
    page.get_by_label("Find a playbook").fill("CHAIN")
    expect(page.get_by_role("main").get_by_role("listitem")).to_have_count(1)
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Start tests/chain")


def test_the_start_form_reports_invalid_inputs_and_remembers_valid_ones(open_at: Open) -> None:
    page = open_at("/catalog/start/tests/chain")
    page.get_by_label("n integer").fill("five")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    page.get_by_label("n integer").fill("5")
    page.get_by_label("who string").fill("it's me")
    page.get_by_role("button", name="Copy as CLI").click()
    is_copied(page, """--payload '{"n":5,"who":"it'\\''s me"}'""")
    page.get_by_role("button", name="Copy as curl").click()
    is_copied(page, "curl -X POST")
    page.get_by_role("button", name="JSON").click()
    expect(page.get_by_label("Inputs as JSON")).to_have_value('{\n  "n": 5,\n  "who": "it\'s me"\n}')
    page.get_by_role("button", name="Form").click()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("header .status")).to_contain_text("completed")
    page.go_back()
    expect(page.get_by_label("who string")).to_have_value("world")  # what it means if nobody says otherwise
    page.get_by_role("button", name="Use the inputs of the last start").click()
    expect(page.get_by_label("who string")).to_have_value("it's me")


@pytest.mark.req("HUM-02", "HUM-03")
def test_a_task_is_claimed_validated_by_field_and_completed(visitor: Visitor, here: Site) -> None:
    execution_id = here.start("tests/asking", amount=61)
    page = visitor(here.make_token("ben", "operator", "boss"), "/tasks")
    page.get_by_role("link", name="Approve 61?").click()
    page.get_by_role("button", name="Claim").click()
    expect(page.get_by_text("claimed by ben")).to_be_visible()
    page.get_by_label("count").fill("many")
    page.get_by_role("button", name="Approve").click()
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("many")
    expect(problem).to_contain_text("a whole number is allowed")
    page.get_by_label("count").fill("2")
    page.get_by_label("sure").check()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Completed by ben")).to_be_visible()
    assert here.ended(execution_id) == "completed"


@pytest.mark.req("HUM-02")
def test_a_task_appears_for_its_role_and_goes_when_another_user_claims_it(visitor: Visitor, here: Site) -> None:
    page = visitor(here.make_token("bo", "operator", "boss"), "/tasks")
    clerk = visitor(here.make_token("carl", "viewer", "clerk"), "/tasks")
    expect(page.get_by_role("heading", level=1)).to_have_text("Tasks")
    here.start("tests/asking", amount=62)
    expect(page.get_by_role("link", name="Approve 62?")).to_be_visible()
    expect(clerk.get_by_text("No open task is assigned to you")).to_be_visible()
    other = visitor(here.make_token("bill", "operator", "boss"), "/tasks")
    other.get_by_role("link", name="Approve 62?").click()
    other.get_by_role("button", name="Claim").click()
    expect(other.get_by_role("button", name="Release")).to_be_visible()
    expect(page.get_by_role("link", name="Approve 62?")).to_have_count(0)
    other.get_by_role("button", name="Release").click()
    expect(page.get_by_role("link", name="Approve 62?")).to_be_visible()


@pytest.mark.req("HUM-02")
def test_an_administrator_releases_a_task_that_another_user_has_claimed(visitor: Visitor, here: Site) -> None:
    here.start("tests/asking", amount=63)
    away = visitor(here.make_token("bea", "operator", "boss"), "/tasks")
    away.get_by_role("link", name="Approve 63?").click()
    away.get_by_role("button", name="Claim").click()
    expect(away.get_by_role("button", name="Release")).to_be_visible()

    other = visitor(here.make_token("bob", "operator", "boss"), urlsplit(away.url).path)
    expect(other.get_by_text("claimed by bea")).to_be_visible()
    expect(other.get_by_role("button", name="Release")).to_have_count(0)
    admin = visitor(here.make_token("root", "admin"), urlsplit(away.url).path)
    release = admin.get_by_role("button", name="Release")
    expect(release).to_have_attribute("title", "Let others claim this task instead of bea")
    release.click()

    expect(other.get_by_role("button", name="Claim")).to_be_visible()
    expect(admin.get_by_role("listitem").filter(has_text="root released")).to_be_visible()


@pytest.mark.req("TMR-01")
def test_a_schedule_is_paused_resumed_and_backfilled_after_a_preview(open_at: Open, here: Site) -> None:
    page = open_at("/schedules")
    row = page.get_by_role("row", name="tests/nightly")
    expect(row).to_contain_text("in ")
    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("on")
    row.get_by_role("button", name="Backfill").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From").fill("2024-01-01T00:00")
    dialog.get_by_label("To").fill("2024-01-03T00:00")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog).to_contain_text("2 runs")
    dialog.get_by_role("button", name="Start backfill").click()
    is_told(page, "Backfill started")


@pytest.mark.req("MSG-01")
def test_a_message_is_sent_to_a_waiting_execution(open_at: Open, here: Site) -> None:
    execution_id = here.start("tests/waiting", order=71)
    here.until_waiting(execution_id, "pay")
    page = open_at("/messages")
    page.get_by_role("row", name=execution_id[-8:]).get_by_role("button", name="message paid").click()
    expect(page.get_by_label("Correlation")).to_have_value('{"order":71}')
    page.get_by_label("Data").fill("{oops")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Data").fill('{"sum": 3}')
    page.get_by_role("button", name="Send").click()
    is_told(page, "paid is sent")
    expect(page.get_by_role("row", name=execution_id[-8:])).to_have_count(0)
    assert here.ended(execution_id) == "completed"


@pytest.mark.req("SRV-08")
def test_workers_are_listed_and_a_pool_gets_a_limit(open_at: Open) -> None:
    page = open_at("/workers")
    expect(page.get_by_role("table", name="Workers")).to_contain_text("live")
    row = page.get_by_role("table", name="Pools").get_by_role("row", name="default")
    dialog = page.get_by_role("dialog", name="Limits of the pool default")
    row.get_by_role("button", name="Change").click()
    dialog.get_by_label("At once").fill("-9")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("At once").fill("9")
    dialog.get_by_label("Starts per window").fill("100")
    page.keyboard.press("Enter")
    expect(row).to_contain_text("100 in 1.0 s")
    row.get_by_role("button", name="Change").click()
    expect(dialog.get_by_label("At once")).to_have_value("9")
    for label in ("At once", "Starts per window"):
        dialog.get_by_label(label).fill("")
    dialog.get_by_role("button", name="Set").click()
    expect(row.get_by_text("no limit")).to_have_count(2)


@pytest.mark.req("KEY-04")
def test_a_credential_is_stored_and_never_shown(open_at: Open, here: Site) -> None:
    page = open_at("/credentials")
    page.get_by_role("button", name="Store a credential").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("crm")
    dialog.get_by_label("Type").select_option("bearer")
    dialog.get_by_label("token").fill("hush-hush-value")
    dialog.get_by_role("button", name="Store", exact=True).click()
    row = page.get_by_role("row", name="crm")
    expect(row).to_contain_text("bearer")
    assert "hush-hush-value" not in page.content()
    assert "hush-hush-value" not in here.api.get("credentials").text
    row.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog", name="Delete the credential crm?")).to_contain_text("cannot be restored")
    page.keyboard.press("Enter")
    expect(row).to_have_count(0)


def test_a_credential_of_every_type_can_be_stored(open_at: Open, here: Site, picture: Picture) -> None:
    page = open_at("/credentials")
    page.get_by_role("button", name="Store a credential").click()
    dialog = page.get_by_role("dialog")
    offered = dialog.get_by_label("Type").get_by_role("option").all_text_contents()
    assert sorted(offered) == sorted(TYPES)
    dialog.get_by_label("Name").fill("notes_mail")
    dialog.get_by_label("Type").select_option("email")
    expect(dialog).to_contain_text("used by email")
    dialog.get_by_label("host").fill("mail.example.org")
    dialog.get_by_label("password").fill("hush-hush-value")
    picture(page, "credential-email")
    assert findings(page) == []
    dialog.get_by_role("button", name="Store", exact=True).click()
    expect(page.get_by_role("row", name="notes_mail")).to_contain_text("email")

    page.get_by_role("button", name="Store a credential").click()
    dialog.get_by_label("Name").fill("broker")
    dialog.get_by_label("Type").select_option("kafka")
    dialog.get_by_label("JSON").fill('{"url": "kafka.example.org:9092",}')
    dialog.get_by_role("button", name="Store", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("is not valid")
    picture(page, "credential-json")
    assert findings(page) == []
    dialog.get_by_label("JSON").fill('{"url": "kafka.example.org:9092", "password": "hush-hush-value"}')
    dialog.get_by_role("button", name="Store", exact=True).click()
    expect(page.get_by_role("row", name="broker")).to_contain_text("kafka")
    for name in ("notes_mail", "broker"):
        here.api.delete(f"credentials/{name}").raise_for_status()


def test_a_token_is_created_shown_once_used_and_revoked(open_at: Open, visitor: Visitor) -> None:
    page = open_at("/settings")
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User").fill("nora")
    dialog.get_by_label("Role", exact=True).select_option("viewer")
    dialog.get_by_role("button", name="Create", exact=True).click()
    token = page.locator(".made code").inner_text()
    expect(visitor(token).get_by_text("nora")).to_be_visible()
    page.get_by_role("button", name="Done").click()
    expect(page.locator(".made")).to_have_count(0)
    assert token not in page.content()
    page.get_by_role("row", name="nora").get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog", name="Revoke the token of nora?").get_by_role("button", name="Revoke token").click()
    expect(page.get_by_role("row", name="nora")).to_contain_text("revoked")


def test_the_choice_of_light_or_dark_mode_is_remembered(open_at: Open) -> None:
    page = open_at("/settings")
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="system").click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")


def test_the_audit_names_the_actor_and_the_action(open_at: Open, here: Site) -> None:
    here.make_token("audited", "viewer")
    page = open_at("/audit")
    expect(page.get_by_role("table", name="Audit")).to_contain_text("created a token")
