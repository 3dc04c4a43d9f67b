"""Masks: the secret texts a worker has seen, by execution, and the redactor over everything that leaves it (KEY-06).

What was secret in one step of an execution is masked in all later ones, since it may come back from elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache

from noetl.redaction import Redactor

_MOST_EXECUTIONS = 1_000

_OPEN = Redactor(())


class Mask:
    """The secrets of one execution. It only grows: a renewed secret is still one."""

    def __init__(self) -> None:
        self._texts: frozenset[str] = frozenset()
        self._redactor: Redactor | None = _OPEN

    @property
    def redactor(self) -> Redactor:
        """Made when it is asked for: a task that reads fifty secrets learns them one by one."""
        if self._redactor is None:
            self._redactor = _redactor(self._texts)
        return self._redactor

    def learn(self, texts: Iterable[str]) -> None:
        known = self._texts | frozenset(texts)
        if known != self._texts:
            self._texts, self._redactor = known, None


@lru_cache(maxsize=64)
def _redactor(texts: frozenset[str]) -> Redactor:
    return Redactor(texts)


class Masks:
    """One mask per execution, the ones not used longest forgotten first."""

    def __init__(self) -> None:
        self._masks: OrderedDict[str, Mask] = OrderedDict()

    def of(self, execution_id: str) -> Mask:
        mask = self._masks.setdefault(execution_id, Mask())
        self._masks.move_to_end(execution_id)
        if len(self._masks) > _MOST_EXECUTIONS:
            self._masks.popitem(last=False)
        return mask
