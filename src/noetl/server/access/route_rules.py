"""The live application's routes, each with the rule it has in the table. Deny by default happens here, once.

The table is read from the application itself, so that a route nobody thought of (static files, documentation, streams,
websockets) is a closed door rather than an open one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from noetl.server.access.roles import CLOSED, AccessRule, rule_for

ANYTHING_BELOW = "/{path:path}"
_EVERYTHING = re.compile(r"/\{\w+:path\}")  # a last route for what no other takes: the gate says that itself


class Door(msgspec.Struct, frozen=True):
    """One route. `methods` is None where the application behind it looks at them itself, as one that is mounted."""

    template: str
    methods: frozenset[str] | None
    pattern: re.Pattern[str]
    endpoint: Any

    def leads(self, method: str) -> bool:
        return self.methods is None or method in self.methods

    def rule(self, method: str) -> AccessRule:
        return rule_for(method, self.template) or CLOSED


class Doors:
    """Finds the route that the application will take: the first that fits."""

    def __init__(self, app: FastAPI) -> None:
        self._patterns: list[Door] = []
        self._plain: dict[str, list[Door]] = {}
        for door in doors_of(app):
            if "{" not in door.template and not any(one.pattern.match(door.template) for one in self._patterns):
                self._plain.setdefault(door.template, []).append(door)
            else:
                self._patterns.append(door)

    def find(self, method: str, path: str) -> tuple[Door | None, frozenset[str]]:
        """The door, or None and the methods that would have had one."""
        others: set[str] = set()
        for door in self._candidates(path):
            if door.leads(method):
                return door, frozenset()
            others |= door.methods or set()
        return None, frozenset(others)

    def _candidates(self, path: str) -> Iterator[Door]:
        yield from self._plain.get(path, ())
        yield from (door for door in self._patterns if door.pattern.match(path))


def doors_of(app: FastAPI) -> list[Door]:
    """Every route of the application that answers HTTP, as it is registered."""
    found = []
    for route in iter_route_contexts(app.routes):
        if route.path is None or _EVERYTHING.fullmatch(route.path):
            continue
        is_mounted = route.methods is None
        template = route.path.rstrip("/") + ANYTHING_BELOW if is_mounted else route.path
        methods = None if route.methods is None else frozenset(route.methods)
        found.append(Door(template, methods, route.path_regex, route.endpoint if not is_mounted else None))
    return found
