"""Writing with the help of the editor: completion and documentation in braces of any layout, prose in the step form."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Picture
from tests.browser.editing import hover_until_explained, type_into_editor
from tests.browser.playbooks import CHAIN, broad
from tests.browser.serving import Site

Open = Callable[[str], Page]
WITH_SCHEMA = '.editor[data-ready="true"][data-schema="true"]'
TEXT = CHAIN.replace("workload: {", "workload: { region: { zone: { id: 7 } },")


@pytest.fixture
def page(open_at: Open) -> Page:
    """A new playbook, with the cursor at its end."""
    page = open_at("/catalog/new")
    expect(page.locator(WITH_SCHEMA)).to_be_visible()
    type_into_editor(page, TEXT)
    page.keyboard.press("Control+End")
    return page


def offered(page: Page, *names: str, absent: str = "") -> None:
    """Once completion offers these names; a busy page may have dropped the first question."""
    page.keyboard.press("Control+Space")
    labels = page.locator(".cm-tooltip-autocomplete .cm-completionLabel")
    for name in names:
        expect(labels.get_by_text(name, exact=True)).to_be_visible()
    if absent:
        expect(labels.get_by_text(absent, exact=True)).to_have_count(0)
    page.keyboard.press("Escape")


def test_completion_offers_keys_and_values_in_braces_over_several_lines(page: Page, picture: Picture) -> None:
    page.keyboard.insert_text("  - step: more\n    tool: {\n      kind: http, # calls\n      ")
    offered(page, "url", "method", absent="code")
    picture(page, "editor-braces")
    page.keyboard.insert_text("method: ")
    offered(page, "GET", "POST", absent="url")
    page.keyboard.insert_text("GET, url: a }\n    next: {\n      arcs: [\n        {\n          step: ")
    offered(page, "start", "each", "more")
    page.keyboard.insert_text("end,\n          ")
    offered(page, "when", "args", absent="kind")


def test_completion_counts_a_kind_behind_the_cursor(page: Page) -> None:
    page.keyboard.insert_text("  - step: more\n    tool: { , kind: http }")
    for _ in ", kind: http }":
        page.keyboard.press("ArrowLeft")

    offered(page, "url", "method", absent="code")


def test_completion_offers_members_in_a_template_over_several_lines(page: Page) -> None:
    page.keyboard.insert_text(
        "  - step: more\n    tool:\n      kind: python\n      args:\n        a: >-\n          {{\n"
    )
    page.keyboard.insert_text("          workload.region.")

    offered(page, "workload.region.zone", "workload.region.zone.id", absent="execution_id")


def test_completion_offers_names_in_the_condition_of_a_rule_without_an_action(page: Page) -> None:
    page.keyboard.insert_text(
        "  - step: more\n    tool:\n      kind: noop\n      spec:\n        policy:\n          rules:\n"
    )
    page.keyboard.insert_text('            - when: "{{ outcome.')

    offered(page, "outcome.status", "outcome.error")


def explanation_of(page: Page, line: Locator) -> Locator:
    page.mouse.move(0, 0)
    expect(page.locator(".cm-documentation")).to_have_count(0)
    hover_until_explained(page, line)
    return page.locator(".cm-documentation")


def test_a_key_in_braces_over_several_lines_is_explained(page: Page) -> None:
    page.keyboard.insert_text(
        "  - step: more\n    tool: {\n      kind: http,\n      method: GET, url: 'http://a'\n    }\n"
    )
    method = page.locator(".editor .cm-line span", has_text="method").last
    kind = page.locator(".editor .cm-line span", has_text="kind").last

    expect(explanation_of(page, method)).to_contain_text("HTTP method")
    expect(explanation_of(page, kind)).to_contain_text("Calls a URL")


def test_a_prompt_that_looks_like_yaml_stays_text_in_the_form_of_a_step(page: Page) -> None:
    prompt = "Note: answer in one word # and no more\nin: English"
    page.get_by_role("button", name="Add step").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("think")
    dialog.get_by_label("Find a tool").fill("llm")
    dialog.get_by_label("Find a tool").press("Enter")
    dialog.get_by_label("model").fill("small")
    dialog.get_by_label("prompt").fill(prompt)
    dialog.get_by_role("button", name="Add step").click()

    expect(page.locator(".editor .cm-content")).to_contain_text("prompt: |-")
    expect(page.locator(".editor .cm-content")).to_contain_text("Note: answer in one word # and no more")
    page.get_by_role("button", name="Edit step think").click()
    expect(page.get_by_role("dialog").get_by_label("prompt")).to_have_value(prompt)


def test_what_is_typed_into_the_search_of_the_net_stays_out_of_the_text(open_at: Open, here: Site) -> None:
    text = broad(2, 12, "tests/searched")
    here.register(text)
    page = open_at("/catalog/edit/tests/searched")
    field = page.get_by_label("Find a step")
    field.click()

    for letters in ("area0", "1_", "part_03"):
        page.keyboard.type(letters)
        expect(page.locator(".cm-activeLine")).to_contain_text("step: area0")  # the search has led there
    expect(field).to_have_value("area01_part_03")
    expect(page.locator(".cm-activeLine")).to_contain_text("step: area01_part_03")

    expect(field).to_be_focused()
    field.fill("area01_part")
    expect(page.locator(".cm-activeLine")).to_contain_text("step: area01_part_00")
    page.get_by_role("button", name="Next", exact=True).focus()
    for part in ("01", "02"):  # with keys alone
        page.keyboard.press("Enter")
        expect(page.locator(".cm-activeLine")).to_contain_text(f"step: area01_part_{part}")
    expect(page.get_by_text("no errors")).to_be_visible()
    expect(page.get_by_role("button", name="Run draft")).to_have_count(0)  # nothing has changed
