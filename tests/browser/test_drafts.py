"""A text is run before it is registered, and a large net is searched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, is_told
from tests.browser.editing import type_into_editor
from tests.browser.serving import Site

Open = Callable[[str], Page]
DRAFTED = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: draft_run, path: tests/draft_run }
workload: { who: world }
workflow:
  - step: start
    tool: { kind: python, args: { who: "{{ workload.who }}" }, code: "result = 'registered, ' + who" }
"""


def test_a_draft_runs_with_inputs_and_replaces_nothing(open_at: Open, here: Site, picture: Picture) -> None:
    here.register(DRAFTED)
    page = open_at("/catalog/edit/tests/draft_run")
    expect(page.get_by_role("button", name="Run draft")).to_have_count(0)  # what is registered is started
    type_into_editor(page, DRAFTED.replace("registered, ", "from the draft, "))
    page.get_by_role("button", name="Run draft").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("who").fill("moon")
    page.locator(".step").first.wait_for(state="attached")
    picture(page, "run-draft")
    assert findings(page) == []
    dialog.get_by_role("button", name="Run draft").click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("draft_run")
    page.get_by_role("tab", name="Data").click()
    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text("from the draft, moon")
    versions = here.api.get("catalog/tests/draft_run/versions").raise_for_status().json()["versions"]
    assert [one["version"] for one in versions] == [1]

    page.get_by_role("link", name="tests/draft_run").click()  # back to the text, which is there
    expect(page.locator(".editor .cm-content")).to_contain_text("from the draft")
    expect(page.get_by_role("button", name="Restore")).to_have_count(0)
    expect(page.get_by_role("button", name="Run draft")).to_be_enabled()


def new_text(name: str) -> str:
    return DRAFTED.replace("draft_run", name)


def test_every_new_playbook_has_a_draft_of_its_own(open_at: Open, picture: Picture) -> None:
    page = open_at("/catalog/new")
    type_into_editor(page, new_text("first_idea"))
    page.wait_for_url("**/catalog/new?draft=*")  # it is kept
    page.goto(page.url.split("?")[0])
    first = page.get_by_role("status").filter(has_text="tests/first_idea")
    expect(first).to_be_visible()
    type_into_editor(page, new_text("second_idea"))
    page.wait_for_url("**/catalog/new?draft=*")
    page.goto(page.url.split("?")[0])
    second = page.get_by_role("status").filter(has_text="tests/second_idea")
    expect(second).to_be_visible()
    picture(page, "drafts")
    assert findings(page) == []

    first.get_by_role("button", name="Restore").click()
    expect(page.locator(".editor .cm-content")).to_contain_text("first_idea")
    expect(first).to_have_count(0)
    second.get_by_role("button", name="Discard").click()
    expect(second).to_have_count(0)
    page.reload()
    expect(page.locator(".editor .cm-content")).to_contain_text("first_idea")
    expect(page.get_by_role("button", name="Restore")).to_have_count(0)


def test_a_draft_of_a_new_playbook_links_back_to_its_text(open_at: Open) -> None:
    page = open_at("/catalog/new")
    type_into_editor(page, new_text("never_registered"))
    page.get_by_role("button", name="Run draft").click()
    page.get_by_role("dialog").get_by_role("button", name="Run draft").click()
    page.get_by_role("link", name="tests/never_registered").click()
    expect(page.locator(".editor .cm-content")).to_contain_text("never_registered")
    expect(page.get_by_role("heading", level=1)).to_contain_text("New playbook")


TIMED = new_text("replaced").replace(
    "workload:",
    'trigger: { timer: { cron: "30 2 * * *" } }\non: { failed: { notify: { slack: { auth: ops } } } }\nworkload:',
)


def test_replacing_a_newer_version_and_its_schedule_needs_confirmation(
    open_at: Open, here: Site, picture: Picture
) -> None:
    here.register(new_text("replaced"))
    page = open_at("/catalog/edit/tests/replaced")
    type_into_editor(page, new_text("replaced").replace("registered, ", "mine, "))
    here.register(TIMED)  # by somebody else
    page.get_by_role("button", name="Register").click()

    dialog = page.get_by_role("dialog", name="Replace version 2 of tests/replaced?")
    expect(dialog).to_contain_text("This text was opened from version 1. Version 2 is newer")
    expect(dialog).to_contain_text("Its schedule 30 2 * * * (UTC) ends")
    expect(dialog).to_contain_text("Its notifications end (failed)")
    picture(page, "replace-version")
    assert findings(page) == []
    dialog.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("dialog").locator(".cm-mergeView")).to_be_visible()
    page.get_by_text("Close", exact=True).click()
    dialog.get_by_role("button", name="Cancel").click()
    versions = here.api.get("catalog/tests/replaced/versions").raise_for_status().json()["versions"]
    assert [one["version"] for one in versions] == [2, 1]

    page.get_by_role("button", name="Register").click()
    dialog.get_by_role("button", name="Register anyway").click()
    is_told(page, "tests/replaced version 3 is registered")
    type_into_editor(page, new_text("replaced").replace("registered, ", "again, "))
    page.get_by_role("button", name="Register").click()  # what it replaces is its author's own
    is_told(page, "tests/replaced version 4 is registered")


def test_reusing_the_path_of_another_playbook_needs_confirmation(open_at: Open, here: Site) -> None:
    here.register(new_text("taken"))
    page = open_at("/catalog/new")
    type_into_editor(page, new_text("taken").replace("registered, ", "new, "))
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("dialog")).to_contain_text("There is a playbook of this path already.")
    page.get_by_role("dialog").get_by_role("button", name="Register anyway").click()
    is_told(page, "tests/taken version 2 is registered")


def test_an_empty_editor_shows_an_error_and_cannot_be_registered(open_at: Open) -> None:
    page = open_at("/catalog/new")
    expect(page.locator(".facts")).to_contain_text("no errors")
    type_into_editor(page, "")
    page.keyboard.press("Delete")
    expect(page.get_by_role("button", name="Register")).to_be_disabled()
    expect(page.locator(".facts")).to_contain_text("1 error")
    expect(page.get_by_text("the document is empty")).to_be_visible()


def wide(steps: int) -> str:
    """One step that goes on to many, of which two fail."""
    arcs = ", ".join(f"{{ step: load_{n} }}" for n in range(steps))
    code = {37: "raise ValueError(1)", 61: "raise ValueError(1)"}
    body = "\n".join(
        f'  - step: load_{n}\n    tool: {{ kind: python, code: "{code.get(n, "x = 1")}" }}' for n in range(steps)
    )
    return (
        "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: wide_net, path: tests/wide_net }\nworkflow:\n"
        "  - step: start\n    tool: { kind: noop }\n"
        f"    next: {{ spec: {{ mode: inclusive }}, arcs: [{arcs}] }}\n{body}\n"
    )


@pytest.fixture(scope="module")
def wide_run(here: Site) -> str:
    here.register(wide(80))
    execution_id = here.start("tests/wide_net")
    assert here.ended(execution_id) == "failed"
    return execution_id


def test_the_search_finds_a_step_of_a_large_net_and_steps_through_failed_ones(
    open_at: Open, wide_run: str, picture: Picture
) -> None:
    page = open_at(f"/executions/{wide_run}")
    page.get_by_label("Find a step").fill("load_7")
    expect(page.get_by_role("status").filter(has_text="1 of 11")).to_be_visible()
    expect(page.get_by_role("complementary", name="Step load_7", exact=True)).to_be_visible()
    expect(page.locator(".step", has_text="load_7").first).to_be_in_viewport()
    page.get_by_label("Find a step").press("Enter")
    expect(page.get_by_role("complementary", name="Step load_70")).to_be_visible()
    picture(page, "net-search")
    assert findings(page) == []

    page.get_by_role("button", name="2 failed").click()
    expect(page.get_by_role("complementary", name="Step load_37")).to_be_visible()
    page.get_by_role("button", name="2 failed").click()
    expect(page.get_by_role("complementary", name="Step load_61")).to_be_visible()
    expect(page.locator(".step.failed", has_text="load_61")).to_be_in_viewport()


# Goes on to the next failed step and, while that move ends, to the one after it.
TWICE = """async (gap) => {
  const button = [...document.querySelectorAll("button")].find((one) => one.textContent.includes("2 failed"));
  button.click();
  await new Promise((done) => setTimeout(done, gap));
  button.click();
}"""


def test_a_chosen_step_stays_visible_when_the_next_is_chosen_at_once(open_at: Open, wide_run: str) -> None:
    page = open_at(f"/executions/{wide_run}")
    failed = page.get_by_role("button", name="2 failed")
    chosen = page.locator(".step.chosen")
    failed.click()
    expect(chosen).to_be_in_viewport()

    for gap_ms in (0, 190, 200, 200, 210, 250):
        page.evaluate(TWICE, gap_ms)
        expect(chosen).to_be_in_viewport()
        failed.click()
        expect(chosen).to_be_in_viewport()


SECRETIVE = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: secretive, path: tests/secretive }
keychain:
  - { name: lake, kind: credential }
  - { name: post, kind: credential, credential: mail }
  - { name: home, kind: env, var: HOME }
workflow:
  - step: start
    tool: { kind: http, url: "http://127.0.0.1:9/", auth: lake }
    next: { arcs: [{ step: say }] }
  - step: say
    tool: { kind: http, url: "http://127.0.0.1:9/", auth: shop_api }
"""


def test_missing_credentials_are_named_before_the_run(open_at: Open, here: Site, picture: Picture) -> None:
    here.register(SECRETIVE)
    page = open_at("/catalog/edit/tests/secretive")
    type_into_editor(page, SECRETIVE.replace("{ step: say }", '{ step: say, when: "{{ true }}" }'))
    page.get_by_role("button", name="Run draft").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("There are no credentials lake, mail, shop_api, so the execution would fail.")
    picture(page, "run-draft-missing")
    assert findings(page) == []
    for name in ("lake", "mail"):
        here.api.put(f"credentials/{name}", json={"type": "text", "value": "hush-hush"}).raise_for_status()
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Run draft").click()
    expect(dialog).to_contain_text("There is no credential shop_api, so the execution would fail.")
    dialog.get_by_role("link", name="Credentials").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Credentials")
    for name in ("lake", "mail"):
        here.api.delete(f"credentials/{name}").raise_for_status()


@pytest.mark.parametrize(("role", "missing"), [("operator", []), ("author", ["lake", "mail", "shop_api"])])
def test_only_authors_see_which_credentials_are_missing(here: Site, role: str, missing: list[str]) -> None:
    headers = {"Authorization": f"Bearer {here.make_token(f'missing {role}', role)}"}

    told = here.api.post("inputs", json={"source": SECRETIVE}, headers=headers).raise_for_status().json()

    assert told["missing_credentials"] == missing
