"""Errors as templates read them: `error.kind` also equals the words that people use for what it says (OUT-02).

A view of plain data: what leaves a template is the kind itself, and the aliases are only ever compared with.
"""

from __future__ import annotations

from typing import Any

from noetl.events.outcomes import Error


class AliasedName(str):
    """A name that also equals its aliases: of an error's kind (OUT-02), of an event (EVT-10)."""

    __slots__ = ("_aliases",)
    _aliases: frozenset[str]

    def __new__(cls, name: str, aliases: frozenset[str]) -> AliasedName:
        made = super().__new__(cls, name)
        made._aliases = aliases
        return made

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or other in self._aliases

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class ErrorView:
    """An error by its fields."""

    __slots__ = ("_error", "_plain")

    def __init__(self, error: Error) -> None:
        self._error = error
        self._plain = error.readable()

    def lookup(self, name: str | int) -> Any:
        if name == "kind":
            return AliasedName(self._error.kind, aliases_of(self._error))
        return self._plain[str(name)]

    def value(self) -> Any:
        return self._plain


def error_view(error: Error | None) -> ErrorView | None:
    return ErrorView(error) if error is not None else None


def aliases_of(error: Error) -> frozenset[str]:
    """What an HTTP error is called besides."""
    if error.kind == "http.transport":
        return frozenset({"connection", "network"})
    if error.kind != "http.status" or error.status is None:
        return frozenset()
    names = {"server_error"} if error.status >= 500 else {"client_error"}
    by_status = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 429: "rate_limit", 504: "timeout"}
    return frozenset({*names, by_status.get(error.status, "http.status")})
