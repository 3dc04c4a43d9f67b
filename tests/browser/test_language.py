"""All texts of the main screens come from the catalogue: in a language that puts each in brackets, nothing is without.

What is no text of the UI comes from the server (names, ids, sentences of the engine) or is a moment; all else with a
letter in it was written into a screen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import PATIENCE_MS
from tests.browser.profiles import AT_REST, move
from tests.browser.serving import Site

# Speaks brackets, and keeps what the server tells the page.
PREPARE = """
localStorage.setItem("noetl.language", "pseudo");
window.heard = [];
window.asking = 0;
const ask = window.fetch;
window.fetch = async (...given) => {
  window.asking += 1;
  try {
    const answer = await ask(...given);
    if (answer.headers.get("content-type")?.includes("json")) window.heard.push(await answer.clone().json());
    return answer;
  } finally {
    window.asking -= 1;
  }
};
"""
# Every text a person can see or hear; code and what is typed are the same in every language.
READ = """() => {
  const seen = [document.title];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode())
    if (!walk.currentNode.parentElement.closest("code, kbd, pre, script, noscript")) seen.push(walk.currentNode.data);
  for (const name of ["aria-label", "title", "placeholder", "alt"])
    for (const one of document.querySelectorAll(`[${name}]`)) seen.push(one.getAttribute(name));
  return seen;
}"""
MOMENT = r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b|\d\d-\d\dT[\d:.]+Z|\bUTC\b"
SCREENS = "/ /catalog /executions /tasks /schedules /triggers /messages /notifications /workers /credentials /audit"
TABS = ("time", "events", "logs", "data", "loops", "limits", "explain")


@pytest.fixture
def page(browser: Browser, here: Site) -> Iterator[Page]:
    context = browser.new_context(locale="en-GB", timezone_id="UTC", base_url=here.url)
    context.add_init_script(PREPARE)
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_MS)
    opened.goto(f"{AT_REST}#token={here.token}")  # who it is, and no more, is heard for all screens
    opened.get_by_role("navigation").wait_for(state="attached")
    yield opened
    context.close()


def test_every_text_of_the_main_screens_is_in_the_catalogue(page: Page, here: Site) -> None:
    failed, waiting = here.start("tests/failing"), here.start("tests/asking")
    here.ended(failed)
    here.until_waiting(waiting, "approve")
    task = here.api.get("tasks", params={"execution_id": waiting}).json()["tasks"][0]
    run = [f"/executions/{failed}", *(f"/executions/{failed}?tab={one}" for one in TABS)]
    others = [
        f"/executions/{waiting}?tab=explain",
        f"/tasks/{task['task_id']}",
        "/catalog/playbook/tests/failing",
        "/settings",
    ]

    found = {path: left for path in (*SCREENS.split(), *run, *others) if (left := _unmarked(page, path))}

    # The names of a form and of data are the author's, and begin with a capital there.
    names = {name.capitalize() for name in (*(one["field"] for one in task["form"]), *task["data"])}
    of_task = found.pop(f"/tasks/{task['task_id']}", [])
    assert [one for one in of_task if one.removesuffix(" *") not in names] == []
    assert found == {}
    assert "⟦Executions⟧" in page.get_by_role("navigation").inner_text()


def _unmarked(page: Page, path: str) -> list[str]:
    page.evaluate("() => { window.heard = [...(window.lasting ??= window.heard)]; }")  # of this screen and of no other
    move(page, path)
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_function("() => window.asking === 0 && !document.body.innerText.includes('⟦Loading')")
    seen = page.evaluate(READ)  # first: an answer that comes in between is then heard, and not the other way round
    told = set(_texts(page.evaluate("[...window.heard, Intl.supportedValuesOf('timeZone')]")))
    # An entry of the audit log names several things in the query of its object.
    told |= {part for one in told if one.startswith("/api/") for part in re.split("[?&=]", one)}
    return sorted({left for text in seen if (left := _left(text, told))})


def _left(text: str, told: set[str]) -> str:
    """What of a text is neither in brackets, nor from the server, nor a moment."""
    left = text
    # A link within a text parts it in two, and one text may be within another.
    while (shorter := re.sub(r"⟦[^⟦⟧]*⟧|⟦[^⟦⟧]*$|^[^⟦⟧]*⟧", "", left)) != left:
        left = shorter
    left = re.sub(MOMENT, "", left)
    for known in sorted((one for one in told if one in left), key=len, reverse=True):
        left = re.sub(rf"(?<!\w){re.escape(known)}(?!\w)", "", left)
    return text.strip() if re.search(r"[^\W\d_]", left) else ""


def _texts(value: Any) -> Iterator[str]:
    """What an answer tells, also as a tree of JSON shows it; the parts of paths and the ends of ids are shown alone."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield from {value, json.dumps(value, ensure_ascii=False), *value.split("/")} - {""}
        yield from (part[-8:] for part in value.split("/") if part)
    else:
        yield json.dumps(value)
