"""Views: what a scope offers instead of plain data when reading it costs something (TPL-07, RES-06).

A view answers `lookup` for its fields and `value` for the whole as plain data. Templates see nothing else of it:
no attribute of the Python object can be reached, and nothing can be written through it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from noetl.templates.headers import with_headers

_STATEMENT = re.compile(r"command_\d+\Z")
_NOT_LOADED: Any = object()
_REFERENCE = frozenset({"store", "key", "checksum"})  # of one that can be read back (RES-02)


class View(Protocol):
    """Read-only access to a value that may not be loaded yet."""

    def lookup(self, name: str | int) -> Any:
        """The value under `name`, plain or itself a view. KeyError when there is none."""

    def value(self) -> Any:
        """The whole as plain data."""


class PayloadView:
    """A payload that is a list: exactly one row answers for its fields (C-48), and the results of the single SQL
    statements (`command_0`, …) stay readable on it (DESIGN §5)."""

    __slots__ = ("_full", "_rows")

    def __init__(self, rows: list[Any], full: Any = None) -> None:
        self._rows = rows
        self._full = full

    def lookup(self, name: str | int) -> Any:
        if isinstance(name, int):
            try:
                return self._rows[name]
            except IndexError:
                raise KeyError(name) from None
        if len(self._rows) == 1 and isinstance(self._rows[0], dict) and name in self._rows[0]:
            return self._rows[0][name]
        if _STATEMENT.match(name) and isinstance(self._full, dict):
            return self._full[name]
        raise KeyError(name)

    def value(self) -> Any:
        return self._rows


def payload_view(payload: Any, full: Any = None) -> Any:
    """`payload` as templates read it: lists as a view, everything else as it is."""
    return PayloadView(payload, full) if isinstance(payload, list) else payload


class ResultView:
    """The latest result of a task or step under its name (TPL-07).

    `unwrap`: the payload is the `data` member of the result, as for http, SQL and playbook results (O-22).
    `load` fetches the full result when a template first needs it; `.ref`, `.status`, `.error` and the `inline`
    fields (`output_select`, DESIGN §5) never do. Whatever `load` raises is the reader's to handle (`result.missing`).
    """

    __slots__ = ("_error", "_inline", "_load", "_ref", "_result", "_status", "_unwrap")

    def __init__(
        self,
        result: Any = None,
        *,
        unwrap: bool = False,
        status: str = "success",
        error: Any = None,
        ref: Any = None,
        load: Callable[[], Any] | None = None,
        inline: Mapping[str, Any] | None = None,
    ) -> None:
        self._result = result if load is None else _NOT_LOADED
        self._load = load
        self._unwrap = unwrap
        self._status = status
        self._error = error
        self._ref = ref
        self._inline = inline or {}

    def lookup(self, name: str | int) -> Any:
        match name:
            case "data":
                return payload_view(self._payload(), self._full())
            case "result":
                return self._full()
            case "status":
                return self._status
            case "error":
                return self._error
            case "ref" | "_ref":
                return self._ref if self._ref is not None else self._own_reference()
        if name in self._inline:
            return self._inline[str(name)]
        return self._field(name)

    def value(self) -> Any:
        return self._full()

    def _full(self) -> Any:
        if self._result is _NOT_LOADED:
            assert self._load is not None
            self._result = self._load()
        return with_headers(self._result, wrapped=self._unwrap)

    def _payload(self) -> Any:
        full = self._full()
        return full["data"] if self._unwrap and isinstance(full, dict) and "data" in full else full

    def _own_reference(self) -> Any:
        """The payload where it is a reference itself: what a task gives that puts something away (RES-05)."""
        payload = self._payload() if self._load is None else None
        return payload if isinstance(payload, dict) and payload.keys() >= _REFERENCE else None

    def _field(self, name: str | int) -> Any:
        """A field of the payload, then of the full result."""
        payload, full = self._payload(), self._full()
        if isinstance(payload, dict) and name in payload:
            return payload[name]
        if isinstance(payload, list):
            try:
                return PayloadView(payload, full).lookup(name)
            except KeyError:
                pass
        if isinstance(full, dict) and name in full:
            return full[name]
        raise KeyError(name)
