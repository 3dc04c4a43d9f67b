"""Writing playbooks: findings at their line, quick fixes, completion, the net, versions, witnesses, older dialects."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.audit import findings
from tests.browser.conftest import Picture, Visitor, is_told
from tests.browser.editing import type_into_editor
from tests.browser.playbooks import CHAIN, MIXED, OLD
from tests.browser.profiles import move
from tests.browser.serving import Site

Open = Callable[[str], Page]
WITH_SCHEMA = '.editor[data-ready="true"][data-schema="true"]'


@pytest.mark.req("VAL-19")
def test_a_finding_links_to_its_line_and_is_fixed_with_one_click(open_at: Open, picture: Picture) -> None:
    page = open_at("/catalog/new")
    type_into_editor(page, CHAIN.replace("{ step: end }", "{ step: edn }"))
    finding = page.get_by_role("button", name="E_NEXT_REF")
    expect(finding).to_contain_text("18:")
    picture(page, "editor-finding")
    finding.click()
    expect(page.locator(".cm-activeLine")).to_contain_text("edn")
    page.get_by_role("button", name="Replace with end").click()

    expect(page.locator(".facts")).to_contain_text("no errors")
    expect(page.locator(".cm-content")).not_to_contain_text("edn")


def test_completion_offers_the_keys_of_the_tool_kind_in_any_step(open_at: Open) -> None:
    page = open_at("/catalog/edit/tests/chain")
    expect(page.locator(WITH_SCHEMA)).to_be_visible()
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("  - step: more\n    tool:\n      - kind: noop\n      - kind: http\n        ")
    page.keyboard.press("Control+Space")
    labels = page.locator(".cm-tooltip-autocomplete .cm-completionLabel")
    expect(labels.get_by_text("url", exact=True)).to_have_count(1)
    expect(labels.get_by_text("code", exact=True)).to_have_count(0)
    chosen = page.locator(".cm-tooltip-autocomplete li[aria-selected=true] .cm-completionDetail").first
    row = page.locator(".cm-tooltip-autocomplete li[aria-selected=true]")
    colour = "(element) => getComputedStyle(element).color"
    assert chosen.evaluate(colour) == row.evaluate(colour)
    page.keyboard.press("Escape")


def test_completion_offers_kinds_for_a_task_and_readable_names_for_a_template(open_at: Open, picture: Picture) -> None:
    page = open_at("/catalog/edit/tests/chain")
    expect(page.locator(WITH_SCHEMA)).to_be_visible()
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("  - step: more\n    tool:\n      ")
    page.keyboard.press("Control+Space")
    options = page.locator(".cm-tooltip-autocomplete li")
    expect(options).to_have_count(1)
    expect(options).to_contain_text("kind")
    page.keyboard.press("Escape")
    page.keyboard.insert_text("kind: ")
    page.keyboard.press("Control+Space")
    expect(options.filter(has_text="Calls a URL.")).to_be_visible()
    picture(page, "editor-kinds")
    page.keyboard.press("Escape")
    page.keyboard.insert_text("python\n      args: { got: '")
    page.keyboard.type("{{ ")
    expect(options.filter(has_text="execution_id")).to_be_visible()
    expect(options.filter(has_text="outcome")).to_have_count(0)
    expect(options.filter(has_text="more")).to_have_count(0)
    picture(page, "editor-template")


@pytest.fixture(scope="module")
def asks_first(here: Site) -> str:
    """A playbook with all that a template can read: inputs, variables, results of steps and fields of a form."""
    text = CHAIN.replace("tests/chain", "tests/asks_first").replace("name: chain", "name: asks_first")
    here.register(text + "  - step: ask\n    human_task: { title: Sure?, form: [{ field: decision, type: text }] }\n")
    return "/catalog/edit/tests/asks_first"


def test_completion_offers_everything_that_a_template_can_read(open_at: Open, asks_first: str) -> None:
    page = open_at(asks_first)
    expect(page.locator(WITH_SCHEMA)).to_be_visible()
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("  - step: more\n    args:\n      a: '")
    labels = page.locator(".cm-tooltip-autocomplete .cm-completionLabel")

    def offers(typed: str, *names: str) -> None:
        page.keyboard.type(typed)
        for one in names:
            expect(labels.get_by_text(one, exact=True)).to_be_visible()
        page.keyboard.press("Escape")

    offers("{{ workload.", "workload.n", "workload.who")
    offers(" + ctx.", "ctx.greeted")
    offers(" + ask.", "ask.decision")
    # Its quote is not closed yet, so the text is no YAML, and the server knows no step of it.
    expect(page.get_by_role("button", name="E_YAML")).to_be_visible()
    offers(" + sta", "start")
    expect(labels.get_by_text("outcome.status", exact=True)).to_have_count(0)  # of a task's rules
    offers(" + exec", "execution_id")


def test_completion_offers_keys_and_values_of_the_schema(open_at: Open, picture: Picture) -> None:
    page = open_at("/catalog/edit/tests/chain")
    expect(page.locator(WITH_SCHEMA)).to_be_visible()
    page.locator(".editor .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("  - step: more\n    tool:\n      kind: ")
    page.keyboard.type("pyth")
    options = page.locator(".cm-tooltip-autocomplete li")
    expect(options.filter(has_text="python")).to_be_visible()
    picture(page, "editor-completion")
    expect(options.and_(page.locator("[aria-selected=true]"))).to_contain_text("python")
    page.wait_for_timeout(200)  # for 75 ms the list takes no key, so that nobody accepts what came up a moment ago
    page.keyboard.press("Enter")
    expect(page.locator(".cm-activeLine")).to_contain_text("kind: python")


def test_a_text_with_older_words_is_offered_its_rewrite(open_at: Open, picture: Picture) -> None:
    page = open_at("/catalog/edit/tests/chain")
    type_into_editor(page, CHAIN + "  - step: more\n    tool: { kind: noop }\n    retry: 3\n")
    offer = page.get_by_role("status").filter(has_text="Some keys are in other words than those of v10.")
    expect(offer).to_be_visible()
    picture(page, "other-words")
    offer.get_by_role("button", name="Show the rewrite").click()
    page.get_by_role("dialog").get_by_role("button", name="Use this text").click()
    expect(page.locator(".cm-content")).to_contain_text("do: retry")
    expect(offer).to_have_count(0)


def test_the_step_form_explains_why_it_is_disabled_and_accepts_a_valid_name(open_at: Open, picture: Picture) -> None:
    page = open_at("/catalog/edit/tests/chain")
    add = page.get_by_role("button", name="Add step")
    type_into_editor(page, CHAIN.replace("kind: noop", "kind: nop", 1))
    expect(page.locator(".facts")).to_contain_text("error")
    expect(add).to_be_disabled()
    expect(add).to_have_attribute("title", "A step is added to a text without errors")
    type_into_editor(page, CHAIN)
    expect(add).to_be_enabled()
    add.click()
    dialog = page.get_by_role("dialog")
    labels = dialog.locator(".field label")
    expect(labels.nth(2)).to_have_text("args")
    expect(labels.nth(3)).to_have_text("code")
    dialog.get_by_label("Name").fill("my step")
    dialog.get_by_role("textbox", name="code").fill("result = 1")
    dialog.get_by_role("button", name="Add step").click()
    wrong = dialog.get_by_role("alert")
    expect(wrong).to_be_visible()
    dialog.get_by_label("Name").fill("note")
    expect(wrong).to_have_count(0)
    picture(page, "step-form-code")


def test_the_tools_of_a_step_stand_in_groups_and_are_searched(open_at: Open, picture: Picture) -> None:
    page = open_at("/catalog/edit/tests/chain")
    page.get_by_role("button", name="Add step").click()
    dialog = page.get_by_role("dialog")
    tools = dialog.get_by_role("group", name="Tool", exact=True)
    expect(tools.get_by_role("group", name="Databases").get_by_role("radio", name="postgres")).to_be_attached()
    expect(tools.get_by_role("radio", name="http", exact=True)).to_have_accessible_description(
        re.compile("Calls a URL")
    )
    search = tools.get_by_label("Find a tool")
    code = dialog.get_by_role("textbox", name="code")
    before = code.bounding_box()

    search.fill("mysql")
    expect(tools.get_by_role("radio")).to_have_count(1)
    assert code.bounding_box() == before  # the list keeps its height
    search.press("Enter")
    expect(tools.get_by_role("radio", name="sql", exact=True)).to_be_checked()
    expect(dialog.get_by_label("command")).to_be_visible()
    search.fill("nothing is called so")
    expect(tools.get_by_text("No tool matches")).to_be_visible()
    search.fill("")
    search.press("ArrowDown")
    expect(tools.get_by_role("radio", name="sql", exact=True)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(tools.get_by_role("radio", name="duckdb")).to_be_checked()
    for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light"), (640, "dark")):
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert findings(page) == []
        picture(page, f"step-kinds-{width}-{scheme}")


def test_the_places_of_a_new_step_are_those_of_the_text_once_its_net_is_there(open_at: Open) -> None:
    page = open_at("/catalog/edit/tests/chain")
    expect(page.locator(".step")).to_have_count(3)
    drawings: list[Route] = []
    page.route("**/api/graph", lambda route: drawings.append(route))
    type_into_editor(page, CHAIN.replace("step: end", "step: last"))
    while not drawings:
        page.wait_for_timeout(20)
    page.get_by_role("button", name="Add step").click()
    place = page.get_by_role("dialog").get_by_label("Place")
    expect(place.locator("option:checked")).to_have_text("after end")  # of the net before

    drawings.pop().continue_()

    expect(place.locator("option:checked")).to_have_text("after last")
    page.unroute_all(behavior="ignoreErrors")


def test_a_step_of_the_net_and_its_text_link_to_each_other(open_at: Open) -> None:
    page = open_at("/catalog/edit/tests/chain")
    expect(page.locator('.editor[data-ready="true"]')).to_be_visible()
    page.locator(".step", has_text="each").click()
    expect(page.locator(".cm-activeLine")).to_contain_text("step: each")
    page.locator(".cm-line", has_text="step: end").last.click()
    expect(page.locator(".step.chosen")).to_contain_text("end")


def test_a_new_version_is_registered_and_compared_with_the_previous_one(open_at: Open, here: Site) -> None:
    text = CHAIN.replace("tests/chain", "tests/changing").replace("name: chain", "name: changing")
    here.register(text)
    page = open_at("/catalog/edit/tests/changing")
    type_into_editor(page, text.replace("n: 3", "n: 4"))
    page.keyboard.press("Control+s")
    is_told(page, "tests/changing version 2 is registered")
    page.get_by_label("Compare with").select_option("1")

    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".cm-mergeView")).to_be_visible()
    expect(dialog.locator(".cm-changedLine").first).to_contain_text("n: 3")
    page.keyboard.press("Escape")
    page.get_by_label("Version", exact=True).select_option("1")
    expect(page.locator(".cm-content")).to_contain_text("n: 3")


@pytest.mark.req("ADV-06")
def test_the_witness_of_an_unsound_net_is_animated(open_at: Open, picture: Picture) -> None:
    page = open_at("/catalog/edit/tests/stuck")
    page.get_by_role("button", name="Show how it happens").click()
    witness = page.get_by_role("group", name="How W_JOIN_UNFILLED happens")
    expect(witness.get_by_role("listitem")).to_have_count(3)
    expect(witness).to_contain_text("3 / 3")
    expect(page.locator(".step.failed", has_text="both")).to_be_visible()
    picture(page, "witness")
    expect(page.locator(".step.failed")).to_have_count(1)
    expect(page.locator(".step", has_text="left").locator(".token")).to_have_count(0)  # the witness does not move it
    witness.get_by_role("listitem").first.get_by_role("button").click()
    expect(page.locator(".step.failed")).to_have_count(0)
    expect(page.locator(".step .token")).to_have_count(2)
    expect(page.locator(".journey")).to_have_count(2)
    witness.get_by_role("button", name="Close").click()
    expect(witness).to_have_count(0)


def test_a_text_is_formatted(open_at: Open) -> None:
    page = open_at("/catalog/new")
    type_into_editor(page, CHAIN.replace("workload: { n: 3, who: world }", "workload:   {n: 3,   who: world}"))
    page.get_by_role("button", name="Format").click()
    expect(page.locator(".cm-content")).to_contain_text("workload: { n: 3, who: world }")


@pytest.mark.req("CLI-03")
def test_an_older_dialect_is_rewritten_as_v10_after_a_preview(open_at: Open) -> None:
    page = open_at("/catalog/new")
    type_into_editor(page, OLD)
    page.get_by_role("button", name="Migrate to v10").click()
    expect(page.get_by_role("dialog")).to_contain_text("noetl.io/v10")
    page.get_by_role("button", name="Use this text").click()
    expect(page.locator(".cm-content")).to_contain_text("noetl.io/v10")
    expect(page.get_by_role("button", name="Migrate to v10")).to_have_count(0)


@pytest.mark.req("MIG-05", "VAL-19")
def test_a_refused_playbook_is_offered_its_migration_and_registered_with_its_warnings(
    open_at: Open, picture: Picture
) -> None:
    page = open_at("/catalog/new")
    type_into_editor(page, MIXED)
    offer = page.get_by_role("status").filter(has_text="can be rewritten as v10")
    expect(offer).to_be_visible()
    picture(page, "editor-migration")
    offer.get_by_role("button", name="Migrate to v10").click()
    expect(page.get_by_role("dialog")).to_contain_text("is read as")
    page.get_by_role("button", name="Use this text").click()
    expect(page.locator(".facts")).to_contain_text("no errors")
    page.get_by_role("button", name="Register").click()

    is_told(page, "with 1 warning")


def test_a_viewer_can_read_but_not_edit_a_playbook(visitor: Visitor, here: Site) -> None:
    page = visitor(here.make_token("vera", "viewer"), "/catalog/edit/tests/chain")
    expect(page.locator(".editor .cm-content")).to_contain_text("tests/chain")
    expect(page.get_by_role("button", name="Register")).to_have_count(0)
    expect(page.get_by_role("button", name="Start", exact=True)).to_have_count(0)
    page.locator(".editor .cm-content").click()
    page.keyboard.type("nothing of this")
    expect(page.locator(".cm-content")).not_to_contain_text("nothing of this")


def test_a_playbook_limit_is_overridden_while_it_runs_and_then_reset(open_at: Open, here: Site) -> None:
    page = open_at("/catalog/edit/tests/limited")
    limit = page.get_by_role("region", name="Executions at once", exact=True)
    limit.get_by_role("button", name="Set").click()
    dialog = page.get_by_role("dialog", name="Limit this playbook")
    dialog.get_by_label("At once").fill("7")
    page.keyboard.press("Enter")
    expect(limit).to_contain_text("at most 7, set here")
    assert [one["limit"] for one in here.api.get("limits", params={"path": "tests/limited"}).json()["limits"]] == [7]
    limit.get_by_role("button", name="Reset").click()
    page.get_by_role("dialog", name="Reset the limit?").get_by_role("button", name="Reset limit").click()
    expect(limit).to_contain_text("as in the playbook")


def test_unregistered_edits_are_restored_when_the_editor_is_opened_again(open_at: Open, here: Site) -> None:
    text = CHAIN.replace("tests/chain", "tests/drafted").replace("name: chain", "name: drafted")
    here.register(text)
    page = open_at("/catalog/edit/tests/drafted")
    type_into_editor(page, text.replace("n: 3", "n: 4") + "  - step: more\n")
    expect(page.locator(".step", has_text="more")).to_be_visible()  # it was looked at, and kept before
    page.get_by_role("link", name="Home").click()
    page.go_back()
    expect(page.locator(".cm-content")).to_contain_text("n: 4")
    page.goto(page.url.split("?")[0])
    expect(page.locator(".cm-content")).to_contain_text("n: 3")
    expect(page.get_by_role("button", name="Discard")).to_be_visible()
    page.get_by_role("button", name="Restore").click()
    expect(page.locator(".cm-content")).to_contain_text("n: 4")
    page.get_by_role("button", name="Register").click()
    is_told(page, "tests/drafted version 2 is registered")
    page.reload()
    expect(page.locator(".cm-content")).to_contain_text("n: 4")
    expect(page.get_by_role("button", name="Restore")).to_have_count(0)


SIZES = ((1280, 800), (390, 844))


def test_buttons_keep_their_position_when_the_findings_arrive(open_at: Open, here: Site) -> None:
    text = CHAIN.replace("tests/chain", "tests/steady").replace("name: chain", "name: steady")
    here.register(text.replace("kind: noop, args: { said", "kind: duckdb, command: SELEC 1, args: { said"))
    page = open_at("/catalog/edit/tests/steady")
    warning = page.get_by_role("button", name="W_SQL")
    expect(warning).to_be_visible()
    type_into_editor(page, text.replace("n: 3", "n: 4"))
    expect(warning).to_have_count(0)  # it was looked at, and kept before
    checks: list[Route] = []
    page.route("**/api/validate", lambda route: checks.append(route))

    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        move(page, "/catalog/edit/tests/steady")
        places = [page.get_by_role("button", name=name) for name in ("Restore", "Discard", "Format", "Register")]
        places.append(page.locator(".editor"))
        places.append(page.get_by_role("heading", name="Executions at once"))
        page.locator(".cm-content").wait_for()
        expect(page.locator(".facts")).to_have_text("checking …")
        before = [place.bounding_box() for place in places]
        while not checks:  # it is asked for a moment later
            page.wait_for_timeout(20)
        checks.pop().continue_()
        expect(warning).to_be_visible()
        expect(page.locator(".step")).to_have_count(3)
        page.locator(".cm-line", has_text="step: each").last.click()
        expect(page.get_by_role("button", name="Test step")).to_be_enabled()

        assert [place.bounding_box() for place in places] == before


def test_a_press_is_kept_when_findings_arrive_during_it(open_at: Open, here: Site) -> None:
    text = CHAIN.replace("tests/chain", "tests/pressed").replace("name: chain", "name: pressed")
    here.register(text)
    page = open_at("/catalog/edit/tests/pressed")
    expect(page.locator(".facts")).to_contain_text("no errors")
    below = page.get_by_role("region", name="Executions at once", exact=True).get_by_role("button", name="Set")
    below.scroll_into_view_if_needed()
    checks: list[Route] = []
    page.route("**/api/validate", lambda route: checks.append(route))

    def answer_during_a_press(button: Locator, arrives: Locator) -> None:
        while not checks:
            page.wait_for_timeout(20)
        button.hover()
        page.mouse.down()
        checks.pop().continue_()
        expect(arrives).to_be_attached()
        page.mouse.up()

    type_into_editor(page, text.replace("{ step: end }", "{ step: edn }").replace("kind: noop", "kind: nop"))
    answer_during_a_press(below, page.get_by_role("button", name="E_NEXT_REF"))
    expect(page.get_by_role("dialog", name="Limit this playbook")).to_be_visible()
    page.keyboard.press("Escape")

    # A fix, while a finding comes to stand before it, and its own line has moved on.
    page.locator(".cm-line", has_text="metadata").click()
    page.keyboard.press("Home")
    page.keyboard.insert_text("metadat: {}\n")
    facts = page.locator(".facts", has_text="4 errors")
    answer_during_a_press(page.get_by_role("button", name="Replace with end"), facts)
    expect(page.locator(".cm-content")).to_contain_text("{ step: end }")
    expect(page.locator(".cm-content")).to_contain_text("metadat: {}")
    page.unroute_all(behavior="ignoreErrors")


@pytest.mark.req("VAL-19")
def test_tabs_and_keys_of_other_systems_are_put_right_with_one_press_each(open_at: Open, picture: Picture) -> None:
    page = open_at("/catalog/new")
    text = CHAIN.replace("  - step: each\n", '  - step: each\n    if: "{{ workload.n }}"\n')
    text = text.replace("    set_ctx:", "\tset_ctx:").replace(
        'args: { who: "{{ workload.who', 'env: { who: "{{ workload.who'
    )
    type_into_editor(page, text)

    page.get_by_role("button", name="Indent with spaces", exact=True).click()
    expect(page.get_by_role("button", name="Indent with spaces", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Move it to the arc that leads here").click()
    page.get_by_role("button", name="Write it as args", exact=True).click()

    expect(page.locator(".facts")).to_contain_text("no errors")
    expect(page.get_by_text("Nothing was found in this text.")).to_be_visible()
    expect(page.locator(".cm-content")).to_contain_text("when: \"{{ event.name != 'step.failed' and (workload.n) }}\"")
    page.keyboard.press("Control+z")  # each press is a step to undo
    expect(page.get_by_role("button", name="Write it as args", exact=True)).to_be_visible()
    assert findings(page) == []


BAD_WORDS = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: words, path: tests/words }
workflow:
  - step: start
    sleep: 5s
    tool: { kind: duckdb, command: SELEC 1, table: t, args: { a: 1 }, mode: upsrt, key: a, if: yes }
"""


@pytest.mark.req("VAL-19")
def test_a_key_of_another_system_suggests_the_right_key_and_only_useful_fixes(open_at: Open) -> None:
    page = open_at("/catalog/new")
    type_into_editor(page, BAD_WORDS)

    expect(page.get_by_role("button", name="E_STEP_KEY")).to_contain_text("timer: {duration: 5s}")
    expect(page.get_by_role("button", name="E_TASK_KEY")).to_contain_text("arcs: [{step: …, when:")
    expect(page.get_by_role("button", name="Replace with step")).to_have_count(0)
    page.get_by_role("button", name="Replace with upsert").click()
    expect(page.get_by_role("button", name="E_INPUT_SHAPE")).to_have_count(0)
    page.get_by_role("button", name="Replace with SELECT").click()
    expect(page.get_by_role("button", name="W_SQL")).to_have_count(0)
