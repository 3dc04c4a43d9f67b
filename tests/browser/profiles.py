"""Browser profiles: one that tests use in turn, emptied after each, and fresh ones for whoever needs a second.

A fresh profile is a fresh process that reads and compiles all scripts anew: 22 tests of the editor, home and failed
iterations took 37 s of processor time with one for each of them, and 27 s with this one (two shared cores).
What a page keeps is deleted between tests; what a test changes in the profile itself (a script for all pages, the
clock, the network) cannot be taken back, so such a profile is used once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page

from tests.browser.serving import Site

WIDTH, HEIGHT = 1280, 800
# Notices go by themselves after some seconds, which a busy machine may sleep through: what they said is kept,
# but only in the page itself: the script is put into every frame, and in a sandboxed one the browser refuses to call
# the observer back and complains of it.
HEARING = """
if (window === window.top) {
  const told = (window.told = []);
  new MutationObserver((changes) => {
    for (const one of changes) {
      if (one.target.classList?.contains("notices")) for (const node of one.addedNodes) told.push(node.textContent);
    }
  }).observe(document, { childList: true, subtree: true });
}
"""
KEPT_BY_PAGES = "local_storage,indexeddb,cache_storage,service_workers"  # cookies are asked for by themselves
LASTING = (
    "add_init_script",
    "clear_permissions",
    "expose_binding",
    "expose_function",
    "route",
    "route_from_har",
    "route_web_socket",
    "set_default_navigation_timeout",
    "set_default_timeout",
    "set_extra_http_headers",
    "set_geolocation",
    "set_offline",
)
LASTING_OF_CLOCK = ("fast_forward", "install", "pause_at", "resume", "run_for", "set_fixed_time", "set_system_time")


def fresh_profile(browser: Browser, here: Site) -> BrowserContext:
    # Without windows every tab is in sight: a sign that turns has all of it drawn 60 times a second, by the processor.
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, locale="en-GB", reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=here.url)
    context.add_init_script(HEARING)
    return context


class SharedProfile:
    """One test has it at a time: `lend` before, `take_back` after."""

    def __init__(self, browser: Browser, here: Site) -> None:
        self._browser, self._here = browser, here
        self._context: BrowserContext | None = None
        self._anchor: Page
        self._devtools: CDPSession
        self._is_spent = False

    def lend(self) -> BrowserContext:
        if self._context is None:
            self._context = self._made()
        return self._context

    def take_back(self) -> None:
        """Empty it, or throw it away where that cannot be done."""
        if self._context is None:
            return
        if self._is_spent:
            self.close()
            return
        for page in self._context.pages:
            if page is not self._anchor:
                page.close()
        self._context.clear_cookies()
        self._devtools.send("Storage.clearDataForOrigin", {"origin": self._here.url, "storageTypes": KEPT_BY_PAGES})

    def close(self) -> None:
        if self._context is not None:
            self._context.close()
        self._context, self._is_spent = None, False

    def _made(self) -> BrowserContext:
        context = fresh_profile(self._browser, self._here)
        # Between two tests no page of the UI is open: without this one, which shares its process with them, the
        # process would end and its compiled scripts with it.
        self._anchor = context.new_page()
        self._anchor.goto(f"{self._here.url}/favicon.svg")
        self._devtools = context.new_cdp_session(self._anchor)
        for owner, names in ((context, LASTING), (context.clock, LASTING_OF_CLOCK)):
            for name in names:
                setattr(owner, name, self._spending(getattr(owner, name)))
        return context

    def _spending(self, change: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(change)
        def spend(*arguments: Any, **options: Any) -> Any:
            self._is_spent = True
            return change(*arguments, **options)

        return spend
