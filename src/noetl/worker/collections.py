"""Collections of loops that are stored apart: read once by a worker, not once per range (reliability.md §3.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.events.references import Reference

_KEPT = 4


class Collections:
    """The last few, by their content."""

    def __init__(self, load: Callable[[Reference], Any]) -> None:
        self._load = load
        self._found: dict[str, list[Any]] = {}

    def get(self, reference: Reference) -> list[Any]:
        found = self._found.get(reference.checksum)
        if found is None:
            while len(self._found) >= _KEPT:
                del self._found[next(iter(self._found))]
            found = self._found[reference.checksum] = self._load(reference)
        return found
