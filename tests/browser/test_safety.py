"""Texts of people and programs are shown as text, never as markup, and the page loads nothing from other hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PATIENCE_MS, Picture, Visitor
from tests.browser.profiles import move
from tests.browser.serving import Site
from tests.browser.way import Way

NAUGHTY = [
    "<script>window.broken = 1</script>",
    "<img src=x onerror=window.broken=1>",
    "<svg/onload=window.broken=1>",
    '"><iframe src="javascript:window.broken=1">',
    "javascript:window.broken=1",
    "{{ 7 * 7 }} ${window.broken=1} {@html broken}",
    "'; window.broken=1; //",
    "\u202eright to left\u202c \u200bzero\u200b width",
    "Ω≈ç√∫˜µ≤≥÷ 田中さん 👩🏽‍💻 الكل في",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞",
    "\u2028line\u2029separators\ttab",
    "a" * 400,
    "&lt;b&gt; &amp; <b>bold</b> <!-- -->",
    "../../etc/passwd %00 %s %n $(touch /tmp/x) `id`",
    "__proto__ constructor null undefined NaN",
]

TEXT = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: %(name)s, path: tests/naughty }
workload: { strings: %(strings)s }
workflow:
  - step: start
    tool:
      kind: python
      args: { strings: "{{ workload.strings }}" }
      code: |
        for one in strings:
            print(one)
        result = {one: one for one in strings}
    set_ctx: { said: "{{ workload.strings }}" }
    next: { arcs: [{ step: ask }] }
  - step: ask
    human_task: { title: "{{ workload.strings | join(' ') }}", assignee: { role: boss } }
    next: { arcs: [{ step: end, when: "{{ '<b>x</b>' != '' }}" }] }
  - step: end
"""


@pytest.fixture(scope="module")
def naughty(here: Site) -> str:
    here.register(TEXT % {"name": json.dumps(NAUGHTY[1]), "strings": json.dumps(NAUGHTY[:6])})
    execution_id = here.start("tests/naughty", strings=NAUGHTY)
    here.until_waiting(execution_id, "ask")
    return execution_id


PLACES = [
    "/",
    "/executions",
    "/executions/{id}",
    "/executions/{id}?tab=events",
    "/executions/{id}?tab=logs",
    "/executions/{id}?tab=data",
    "/executions/{id}?tab=explain",
    "/executions/{id}?tab=time",
    "/catalog/edit/tests/naughty",
    "/catalog/start/tests/naughty",
    "/tasks?tab=open",
]


@pytest.mark.req("SRV-09")
def test_user_text_is_rendered_as_text(naughty: str, open_at: Callable[[str], Page], picture: Picture) -> None:
    page = open_at("/")
    for place in PLACES:
        move(page, place.format(id=naughty))
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.wait_for_timeout(250)
        assert page.evaluate("window.broken === undefined"), place
        assert page.evaluate("document.querySelectorAll('main iframe, main img[src=x], main script').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1"), place
    move(page, f"/executions/{naughty}?tab=data")
    for one in NAUGHTY:
        expect(page.get_by_role("tabpanel")).to_contain_text(json.dumps(one, ensure_ascii=False)[1:60].rstrip('\\"'))
    picture(page, "naughty")


DEEP = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: deep, path: tests/deep_result }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        result = "the bottom"
        for level in range(900):
            result = [result]
"""


def test_a_result_of_many_levels_is_shown_and_opened_level_by_level(
    here: Site, open_at: Callable[[str], Page], picture: Picture
) -> None:
    here.register(DEEP)
    execution_id = here.start("tests/deep_result")
    assert here.ended(execution_id) == "completed"

    page = open_at(f"/executions/{execution_id}?tab=data")
    part = page.get_by_role("region", name="Result", exact=True)
    expect(part.locator("details").first).to_be_visible()
    levels = part.locator("details").count()
    picture(page, "deep result")
    for opened in part.locator("summary").all():
        if opened.is_visible() and opened.evaluate("(one) => !one.parentElement.open"):
            opened.click()

    assert levels < 50
    expect(part.locator("details")).to_have_count(levels + 1)


@pytest.mark.parametrize("path", ["/executions/%zz", "/catalog/playbook/%E0%A4%A", "/tasks/%"])
def test_an_address_that_somebody_broke_is_a_page_that_says_so(open_at: Callable[[str], Page], path: str) -> None:
    page = open_at(path)

    expect(page.get_by_role("navigation").first).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text(path.rpartition("/")[2])


def test_a_server_message_is_rendered_as_text(open_at: Callable[[str], Page]) -> None:
    page = open_at("/catalog/start/tests/<img src=x onerror=window.broken=1>")
    expect(page.get_by_role("alert")).to_contain_text("<img src=x")
    assert page.evaluate("window.broken === undefined")


def test_the_content_policy_is_strict_and_nothing_is_inline(browser: Browser, here: Site) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    answer = page.goto(f"{here.url}/executions")
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    scripts = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
    assert scripts["default-src"] == "'none'"
    assert scripts["script-src"] == "'self'"
    assert "unsafe-inline" not in scripts["style-src"]
    assert "unsafe-eval" not in policy
    assert page.evaluate("[...document.scripts].every((one) => one.src.startsWith(location.origin))")
    refused: Any = page.evaluate(
        """async () => {
          const found = new Promise((say) => addEventListener('securitypolicyviolation', (one) => say(one.blockedURI)));
          const script = document.createElement('script');
          script.textContent = 'window.broken = 1';
          document.body.append(script);
          return [await found, window.broken ?? null];
        }"""
    )
    assert refused == ["inline", None]
    page.close()


def test_the_token_is_stored_where_no_script_can_read_it(visitor: Visitor, here: Site) -> None:
    page = visitor()
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    assert here.token not in kept


def test_a_link_with_the_token_of_somebody_else_asks_whoever_is_signed_in(
    visitor: Visitor, here: Site, picture: Picture
) -> None:
    page = visitor(here.make_token("ann", "author"))
    page.goto("about:blank")

    page.goto(f"{here.url}/catalog#token={here.make_token('mallory', 'viewer')}")
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("mallory (viewer)")
    picture(page, "token of somebody else")
    question.get_by_role("button", name="Stay ann").click()

    expect(question).to_have_count(0)
    assert page.evaluate("fetch('/api/session').then((one) => one.json())")["subject"] == "ann"
    assert "token" not in page.url


HOSTILE = """<h1>Report</h1>
<script>parent.postMessage("a script ran", "*")</script>
<img src=x onerror="parent.postMessage('an image ran a script', '*')">
<script>
  const tell = (what, read) => { try { parent.postMessage(what + ": " + read(), "*"); } catch (_) {} };
  tell("cookie", () => parent.document.cookie);
  tell("storage", () => parent.localStorage.getItem("secret"));
  try { top.location = "/nonsense?from=script"; } catch (_) {}
  fetch("/api/session?from=frame");
</script>
<img src="/api/session?from=image"><link rel=stylesheet href="/api/session?from=style">
<iframe src="/api/session?from=inner"></iframe><object data="/api/session?from=object"></object>
<style>body { background: url("/api/session?from=background") }</style>
<meta http-equiv="refresh" content="0; url=/api/session?from=refresh">
<form action="/api/session?from=form" target=_top><button id=send>send</button></form>
<a id=leave href="/nonsense?from=link" target=_top>leave</a>
"""
REPORT = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: hostile_report, path: tests/hostile_report }
workload: { page: "" }
workflow:
  - step: start
    tool: { kind: python, args: { page: "{{ workload.page }}" }, code: "result = {'page': page}" }
"""


@pytest.mark.req("SRV-09")
def test_a_rendered_html_result_reaches_neither_the_page_nor_the_network(browser: Browser, here: Site) -> None:
    here.register(REPORT)
    execution_id = here.start("tests/hostile_report", page=HOSTILE)
    assert here.ended(execution_id) == "completed"
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    way = Way(here.url)
    page.add_init_script(
        "window.heard = []; addEventListener('message', (one) => window.heard.push(String(one.data)));"
        "if (window === top) localStorage.setItem('secret', 'of the page');"
    )
    page.goto(f"{way.url}/executions/{execution_id}?tab=data#token={here.token}")
    part = page.get_by_role("region", name="Result", exact=True)
    part.get_by_label("Show as").wait_for()
    address = page.url

    part.get_by_label("Show as").select_option("page")
    frame = part.frame_locator("iframe")
    frame.get_by_role("heading", name="Report").wait_for()
    frame.locator("#send").click()
    frame.locator("#leave").click()
    page.wait_for_timeout(500)  # what would have been asked for or said has been by then

    assert b"GET /executions/" in way.sent
    assert re.findall(rb"from=\w+", way.sent) == []
    assert page.evaluate("window.heard") == []
    assert page.url == address
    assert page.evaluate("document.querySelectorAll('main iframe')[0].contentDocument") is None
    context.close()
    way.cut()
