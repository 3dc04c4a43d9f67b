"""Bare names for tools that take variables: resolved as templates resolve them, given as plain data (TPL-06, O-11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.templates.scope import Scope
from noetl.tools.contract import UNKNOWN

CONTEXT = "context"  # unless the author has something of that name: all of it as one value (O-11)


def names_in(scope: Scope) -> Callable[[str], Any]:
    def name(wanted: str) -> Any:
        try:
            value = scope.lookup(wanted)
        except KeyError:
            return scope.context() if wanted == CONTEXT else UNKNOWN
        return value.value() if hasattr(value, "lookup") else value

    return name
