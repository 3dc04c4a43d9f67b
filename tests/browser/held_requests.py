"""Requests of a page that are held back, so that what it shows meanwhile can be seen."""

from __future__ import annotations

from playwright.sync_api import Page, Route


class Held:
    """Requests that the server is not asked until they are let go."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._waiting: list[Route] | None = []
        page.route(pattern, self._take)

    def _take(self, route: Route) -> None:
        if self._waiting is None:
            route.continue_()
        else:
            self._waiting.append(route)

    def let_go(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for route in waiting:
            route.continue_()
