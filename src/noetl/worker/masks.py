"""Masks: the secrets that this worker has seen, by execution (KEY-06).

A worker masks what it was given itself, before anything leaves it. What other workers of the same execution were given
is masked by the server, which knows all of it; this worker is not told.
"""

from __future__ import annotations

from collections import OrderedDict

from noetl.base.redaction import Mask

_MOST_EXECUTIONS = 1_000


class Masks:
    """One mask per execution, the ones not used longest forgotten first."""

    def __init__(self) -> None:
        self._masks: OrderedDict[str, Mask] = OrderedDict()

    async def of(self, execution_id: str) -> Mask:
        mask = self._masks.setdefault(execution_id, Mask())
        self._masks.move_to_end(execution_id)
        if len(self._masks) > _MOST_EXECUTIONS:
            self._masks.popitem(last=False)
        return mask
