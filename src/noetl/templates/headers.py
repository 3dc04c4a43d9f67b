"""Headers of an HTTP answer, as templates read them: without regard to case, however they are asked for (TOOL-03).

They are kept by lower-case name as plain data; nothing here knows where they came from.
"""

from __future__ import annotations

from typing import Any


class Headers(dict[str, Any]):
    """Headers by lower-case name. A view of itself: `headers['Retry-After']`, `headers.get('Retry-After')` and
    `'Retry-After' in headers` are about `retry-after`."""

    def lookup(self, name: str | int) -> Any:
        return self[str(name).lower()]

    def value(self) -> dict[str, Any]:
        return self

    def get(self, name: Any, default: Any = None) -> Any:
        return super().get(name.lower() if isinstance(name, str) else name, default)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name.lower() if isinstance(name, str) else name)


def with_headers(result: Any, *, wrapped: bool) -> Any:
    """The result of an HTTP call with its headers to be read so; any other as it is. A `wrapped` one has its payload
    under `data` (O-22), which what merely looks like such a result, of a python task say, has not."""
    if wrapped and isinstance(result, dict) and isinstance(result.get("headers"), dict):
        return {**result, "headers": Headers({str(name).lower(): value for name, value in result["headers"].items()})}
    return result
