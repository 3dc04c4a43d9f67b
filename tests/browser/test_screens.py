"""Every screen, light and dark, wide and narrow: it can be read, reached and used by keyboard and screen reader.

What each looks like is kept as a picture; those of the manual are taken here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.browser.audit import findings, out_of_reach
from tests.browser.conftest import DOCS, DOCS_BYTES, MANUAL, ROOT, Picture
from tests.browser.profiles import HEIGHT, WIDTH
from tests.browser.serving import Site

NARROW = 390


@pytest.fixture(scope="module")
def ran(here: Site) -> dict[str, str]:
    """Executions in every state, so that no screen is empty."""
    for _ in range(20):  # more runs than a narrow screen has room for
        before = here.start("tests/chain", n=1)
    assert here.ended(before) == "completed"
    ids = {
        "chain": here.start("tests/chain", n=40),
        "failing": here.start("tests/failing"),
        "waiting": here.start("tests/waiting", order=1),
        "asking": here.start("tests/asking", amount=1200),
        "slow": here.start("tests/slow"),
        "parent": here.start("tests/parent"),
        "booking": here.start("tests/booking", fail=True),
        "limited": here.start("tests/limited"),
    }
    here.api.put("credentials/warehouse", json={"type": "basic", "value": {"username": "etl", "password": "secret"}})
    here.api.post("messages", json={"name": "early", "correlation": {"order": 5}, "payload": {}})
    ids["demo"] = here.api.post("demo").raise_for_status().json()["execution_id"]
    for name in ("chain", "failing", "parent", "booking"):
        here.ended(ids[name])
    here.until_waiting(ids["limited"], "call")
    here.api.put(f"executions/{ids['limited']}/limits/call", json={"limit": 2, "rate": {"limit": 10, "per": 60}})
    here.until_waiting(ids["asking"], "approve")
    here.until_waiting(ids["waiting"], "pay")
    ids["task"] = here.api.get("tasks", params={"execution_id": ids["asking"]}).json()["tasks"][0]["task_id"]
    return ids


SCREENS = {
    "home": ("/", "Home"),
    "catalog": ("/catalog", "Playbooks"),
    "playbook": ("/catalog/playbook/tests/chain", "tests/chain"),
    "compare": ("/executions/compare?a={chain}&b={chain}", "Compare runs"),
    "editor": ("/catalog/edit/tests/chain", "tests/chain"),
    "create": ("/catalog/new", "New playbook"),
    "start": ("/catalog/start/tests/chain", "tests/chain"),
    "executions": ("/executions", "Executions"),
    "execution": ("/executions/{demo}", "demo"),
    "step": ("/executions/{chain}?step=each", "chain"),
    "undone": ("/executions/{booking}?step=hotel", "booking"),
    "undone-timeline": ("/executions/{booking}?tab=time", "booking"),
    "timeline": ("/executions/{failing}?tab=time", "failing"),
    "events": ("/executions/{chain}?tab=events", "chain"),
    "logs": ("/executions/{failing}?tab=logs", "failing"),
    "data": ("/executions/{chain}?tab=data", "chain"),
    "loops": ("/executions/{chain}?tab=loops", "chain"),
    "limits": ("/executions/{limited}?tab=limits", "limited"),
    "explain": ("/executions/{waiting}?tab=explain", "waiting"),
    "nested": ("/executions/{parent}", "parent"),
    "tasks": ("/tasks?tab=open", "Tasks"),
    "task": ("/tasks/{task}", "Approve 1200?"),
    "schedules": ("/schedules", "Schedules"),
    "triggers": ("/triggers", "Triggers"),
    "messages": ("/messages", "Messages and signals"),
    "notifications": ("/notifications", "Notifications"),
    "workers": ("/workers", "Workers and pools"),
    "credentials": ("/credentials", "Credentials"),
    "settings": ("/settings", "Settings"),
    "audit": ("/audit", "Audit"),
    "missing": ("/executions/none/at/all", "Page not found"),
    "nonsense": ("/nonsense", "Page not found"),
}
READY = {  # what a screen shows once its data is there
    "home": ".tile",
    "catalog": "li:nth-child(7) .verdict :first-child",
    "playbook": "thead .bar",
    "compare": "tbody tr",
    "editor": ".step, .facts .sound",
    "create": ".step, .facts .sound",
    "start": "main form label",
    "executions": "tbody tr",
    "execution": ".step.completed",
    "step": "aside details",
    "undone": ".side_run",
    "undone-timeline": ".bar .sign",
    "timeline": "rect.backoff",
    "events": ".event",
    "logs": "main pre",
    "data": "details",
    "loops": "canvas",
    "limits": "tbody tr",
    "explain": "tbody tr",
    "nested": ".step.completed",
    "tasks": "tbody tr",
    "task": "main form",
    "schedules": "tbody tr",
    "messages": "tbody tr",
    "workers": "tbody tr",
    "credentials": "tbody tr",
    "settings": "tbody tr",
    "audit": "tbody tr",
}


def _settle(page: Page) -> None:
    """Wait until the page is drawn in its new size: a net fits itself into its place some frames later, and on a busy
    machine much later. A page that stays too wide is what the test then finds."""
    page.wait_for_timeout(200)
    with suppress(PlaywrightTimeout):
        page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth", timeout=20_000)
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


@pytest.mark.parametrize("name", SCREENS)
def test_every_screen_is_accessible_in_every_colour_scheme_and_width(
    name: str, open_at: Callable[[str], Page], ran: dict[str, str], picture: Picture
) -> None:
    path, title = SCREENS[name]
    page = open_at(path.format(**ran))
    expect(page.get_by_role("heading", level=1)).to_contain_text(title)
    if name in READY:
        page.locator(READY[name]).first.wait_for(state="attached")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.wait_for_function(
            "() => getComputedStyle(document.documentElement).colorScheme.includes(matchMedia("
            "'(prefers-color-scheme: dark)').matches ? 'dark' : 'light')"
        )
        picture(page, name if scheme == "light" else f"{name}-dark")
        assert findings(page) == []
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": NARROW, "height": 780})
    _settle(page)
    picture(page, f"{name}-narrow")
    assert findings(page) == []
    assert out_of_reach(page) == []
    page.set_viewport_size({"width": WIDTH // 2, "height": HEIGHT // 2})  # as at a zoom of 200 %
    _settle(page)
    assert out_of_reach(page) == []
    picture(page, f"{name}-zoomed")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def test_every_route_has_an_accessibility_test() -> None:
    text = (ROOT / "ui" / "src" / "screens" / "index.ts").read_text("utf-8")
    routes = re.findall(r'^  \w+: "(/[^"]*)"', text, re.MULTILINE)

    def fits(route: str, path: str) -> bool:
        pattern = re.sub(r"\*\w+", ".+", re.sub(r":\w+", "[^/]+", route))
        return re.fullmatch(pattern, path.split("?")[0]) is not None

    assert len(routes) > 15
    assert [one for one in routes if not any(fits(one, path) for path, _ in SCREENS.values())] == []


@pytest.mark.parametrize(("width", "height"), [(WIDTH // 2, HEIGHT // 2), (NARROW, 780)])
def test_menu_and_dialogs_fit_zoomed_and_narrow_screens(
    width: int, height: int, open_at: Callable[[str], Page], ran: dict[str, str], picture: Picture
) -> None:
    page = open_at(f"/executions/{ran['chain']}")
    page.locator(".step").first.wait_for(state="attached")
    page.set_viewport_size({"width": width, "height": height})
    name = "zoomed" if width > NARROW else "narrow"

    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Settings").wait_for()
    picture(page, f"menu-{name}")
    assert out_of_reach(page) == []
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="Run again").click()
    page.get_by_role("dialog").wait_for()
    picture(page, f"rerun-{name}")
    assert out_of_reach(page, "dialog") == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").wait_for()
    picture(page, f"palette-{name}")
    assert out_of_reach(page, "dialog") == []


def test_the_sign_in_page_is_accessible(browser_page: Page, here: Site, picture: Picture) -> None:
    browser_page.goto(here.url)
    browser_page.get_by_label("Token").wait_for()
    picture(browser_page, "login")
    assert findings(browser_page) == []
    browser_page.set_viewport_size({"width": WIDTH // 2, "height": HEIGHT // 2})
    assert out_of_reach(browser_page) == []


@pytest.fixture
def browser_page(page: Page) -> Page:
    """A stranger's page."""
    page.context.clear_cookies()
    return page


def test_every_picture_of_the_manual_exists_and_is_small() -> None:
    shown = set(re.findall(r"pictures/([\w-]+\.png)", MANUAL.read_text("utf-8")))
    there = {one.name: one.stat().st_size for one in DOCS.glob("*.png")}

    assert set(there) == shown, "NOETL_PICTURES=1 takes those of docs/ui.md"
    assert [name for name, size in there.items() if size > DOCS_BYTES] == []
