"""Browser profiles: one that tests use in turn, emptied after each, and fresh ones for tests that need a second.

A fresh profile is a fresh process that reads and compiles all scripts anew: 22 tests of the editor, home and failed
iterations took 37 s of processor time with one for each of them, and 27 s with this one (two shared cores). Browser
storage is cleared between tests; changes of a test in the profile itself (a script for all pages, the clock, the
network) cannot be taken back, so such a profile is used once.

The administrator's tab of that profile stays open from test to test, too: to load the page into a new one takes 0.33 s
of processor time, to go to another screen in an open one a fifth of that. It goes on only if it is as it was at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
# Goes to a screen as a link would, and returns once it is there. A screen is made anew for each path, so what was
# marked on the one before is gone with it; of the same path, one that shows nothing comes in between.
MOVE = """async ([address, rest]) => {
  const main = document.querySelector("main"); // it goes with the session, which may end meanwhile
  const has = (part) => main.querySelector(`:scope > ${part}`) !== null;
  const isThere = () => !main.isConnected || (!has("[data-left]") && has(":not(.lost)"));
  const go = (to) => to === location.pathname || new Promise((arrived) => {
    for (const part of main.querySelectorAll(":scope > :not(.lost)")) part.dataset.left = "true";
    const look = () => isThere() && (watch.disconnect(), arrived());
    const watch = new MutationObserver(look);
    watch.observe(document, { childList: true, subtree: true });
    history.pushState(null, "", to);
    dispatchEvent(new PopStateEvent("popstate"));
    look();
  });
  if (new URL(address, location).pathname === location.pathname) await go(rest);
  await go(address);
}"""
# Clears what a test left in a tab, and tells whether it is then as it was before its first one: settings that are kept
# are read once, when the page is loaded.
CLEAR = """(first) => {
  const isOwn = (key) => localStorage[key] !== first[key] && !/^noetl\\.(draft|inputs)\\./.test(key);
  const kept = Object.keys(localStorage).filter(isOwn);
  const isHere = document.querySelector("main") && !document.querySelector("dialog[open], .lost");
  const isClean = isHere && !kept.length && !sessionStorage.length;
  document.activeElement?.blur();
  for (const dismiss of document.querySelectorAll(".notices button")) dismiss.click();
  scrollTo(0, 0);
  window.told.length = 0;
  return isClean;
}"""
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
LASTING_OF_TAB = ("add_init_script", "expose_binding", "expose_function", "on", "set_default_timeout")
AT_REST = "/at/rest"  # the address of no screen
LASTING_OF_CLOCK = ("fast_forward", "install", "pause_at", "resume", "run_for", "set_fixed_time", "set_system_time")


def fresh_profile(browser: Browser, here: Site) -> BrowserContext:
    # Without windows every tab is in sight: a sign that turns has all of it drawn 60 times a second, by the processor.
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, locale="en-GB", reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=here.url)
    context.add_init_script(HEARING)
    return context


def move(page: Page, path: str) -> None:
    """Go to another screen without reloading the page."""
    page.evaluate(MOVE, [path, AT_REST])


class SharedProfile:
    """One test has it at a time: `lend` or `lend_tab` before, `take_back` after. `watch` is given each tab of its own,
    before it is loaded."""

    def __init__(self, browser: Browser, here: Site, watch: Callable[[Page], None] = lambda page: None) -> None:
        self._browser, self._here, self._watch = browser, here, watch
        self._context: BrowserContext | None = None
        self._anchor: Page
        self._devtools: CDPSession
        self._is_spent = False
        self._tab: Page | None = None
        self._is_tab_spent = False
        self._signed_in: list[Any] = []  # the cookies of the tab, and what it kept when it was loaded
        self._settings: dict[str, str] = {}

    def lend(self) -> BrowserContext:
        """A profile for loading pages, without a signed-in user."""
        self._drop_tab()
        if self._context is None:
            self._context = self._made()
        return self._context

    def lend_tab(self, path: str) -> Page:
        """The administrator's tab, at an address."""
        if self._tab is None:
            self._tab = self._opened(self.lend(), path)
        else:
            move(self._tab, path)
        return self._tab

    def take_back(self) -> None:
        """Empty it, or throw away what of it cannot be emptied."""
        if self._context is None:
            return
        if self._is_spent:
            self.close()
            return
        for page in self._context.pages:
            if page not in (self._anchor, self._tab):
                page.close()
        if not self._is_clean():
            self._drop_tab()
        if self._tab is None:
            self._context.clear_cookies()
        self._devtools.send("Storage.clearDataForOrigin", {"origin": self._here.url, "storageTypes": KEPT_BY_PAGES})

    def close(self) -> None:
        self._tab = None
        if self._context is not None:
            self._context.close()
        self._context, self._is_spent = None, False

    def _made(self) -> BrowserContext:
        context = fresh_profile(self._browser, self._here)
        # Between two tests no page of the UI may be open: without this one, which shares its process with them, the
        # process would end and its compiled scripts with it.
        self._anchor = context.new_page()
        self._anchor.goto(f"{self._here.url}/favicon.svg")
        self._devtools = context.new_cdp_session(self._anchor)
        self._spend_by(context, LASTING, "_is_spent")
        self._spend_by(context.clock, LASTING_OF_CLOCK, "_is_spent")
        return context

    def _opened(self, context: BrowserContext, path: str) -> Page:
        page = context.new_page()
        self._watch(page)
        page.goto(f"{self._here.url}{path}#token={self._here.token}")
        page.get_by_role("navigation").wait_for(state="attached")
        self._signed_in, self._is_tab_spent = list(context.cookies()), False
        self._settings = page.evaluate("({...localStorage})")
        self._spend_by(page, LASTING_OF_TAB, "_is_tab_spent")
        return page

    def _is_clean(self) -> bool:
        """Put the tab at rest."""
        tab, context = self._tab, self._context
        if tab is None or context is None or self._is_tab_spent or tab.is_closed():
            return False
        if list(context.cookies()) != self._signed_in or not tab.url.startswith(self._here.url):
            return False
        tab.emulate_media(media="null", color_scheme="light", reduced_motion="reduce")
        tab.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        tab.mouse.move(0, 0)
        if not tab.locator("main").count():
            return False
        tab.unroute_all(behavior="ignoreErrors")
        move(tab, AT_REST)
        return bool(tab.evaluate(CLEAR, self._settings))

    def _drop_tab(self) -> None:
        if self._tab is not None and self._context is not None:
            self._tab.close()
            self._context.clear_cookies()
        self._tab = None

    def _spend_by(self, owner: object, names: Iterable[str], mark: str) -> None:
        for name in names:
            setattr(owner, name, self._spending(getattr(owner, name), mark))

    def _spending(self, change: Callable[..., Any], mark: str) -> Callable[..., Any]:
        @wraps(change)
        def spend(*arguments: Any, **options: Any) -> Any:
            setattr(self, mark, True)
            return change(*arguments, **options)

        return spend
