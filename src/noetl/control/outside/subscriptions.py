"""The audience of a broadcast: executions in which somebody waits for it by name, or listens to what comes (MSG-05).

Who listens is known from the playbook alone, so of many open executions only those are told that could hear it.
"""

from __future__ import annotations

from noetl.net.net import Net, from_json
from noetl.store.contract import Store
from noetl.store.waits import SIGNAL

_PAGE = 1_000
_OPEN = ("running", "paused")


class Subscriptions:
    def __init__(self, store: Store) -> None:
        self._store = store
        # By net: whether a step of it listens to events follows from the playbook alone.
        self._listens: dict[str, bool] = {}

    async def of_signal(self, name: str) -> list[str]:
        """The executions that wait for this signal, the oldest wait first, then those that listen."""
        waiting = [wait.execution_id for wait in await self._store.waits.waiting(SIGNAL, name)]
        return list(dict.fromkeys([*waiting, *await self._listening()]))

    async def _listening(self) -> list[str]:
        found: list[str] = []
        for status in _OPEN:
            beyond: str | None = None
            while True:
                page = await self._store.executions(limit=_PAGE, status=status, beyond=beyond)
                found += [row.execution_id for row in page if await self._is_listening(row.net_hash)]
                if len(page) < _PAGE:
                    break
                beyond = page[-1].execution_id
        return found

    async def _is_listening(self, net_hash: str) -> bool:
        if net_hash not in self._listens:
            self._listens[net_hash] = listens(from_json(await self._store.net(net_hash)))
        return self._listens[net_hash]


def listens(net: Net) -> bool:
    """Whether a step of it may hear events that it does not wait for by name."""
    return any(step.handlers is not None or (step.case is not None and step.case.on_event) for step in net.transitions)
