"""Decisions of people: none of what was written is lost, and what the page says of them is so."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visitor
from tests.browser.serving import Site


def task_of(here: Site, execution_id: str, step: str = "approve") -> str:
    here.until_waiting(execution_id, step)
    tasks = here.api.get("tasks", params={"execution_id": execution_id}).raise_for_status().json()["tasks"]
    return str(tasks[0]["task_id"])


def history(page: Page) -> str:
    return page.get_by_role("region", name="History").inner_text()


@pytest.mark.req("HUM-02")
def test_a_comment_that_was_not_added_yet_goes_with_the_decision(visitor: Visitor, here: Site) -> None:
    task_id = task_of(here, here.start("tests/asking", amount=71))
    page = visitor(here.make_token("ida", "operator", "boss"), f"/tasks/{task_id}")
    page.get_by_label("decision").select_option("reject")
    page.get_by_label("New comment").fill("the desk is too dear")

    page.get_by_role("button", name="Complete").click()

    expect(page.get_by_text("Completed by ida")).to_be_visible()
    expect(page.get_by_role("region", name="History")).to_contain_text("the desk is too dear")
