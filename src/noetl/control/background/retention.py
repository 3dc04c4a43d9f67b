"""Retention: executions that have been over for long enough are removed whole, and results that nobody names any more
(reliability.md §3.6).

A playbook says how long by `metadata.retention`, else the store's owner does. Results are collected by mark and sweep:
one goes only when nothing that is left names it, and nobody has put it for a day, which is longer than any write takes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.control.secrets.execution_secrets import forget_secrets
from noetl.store.contract import ResultStore, Store
from noetl.store.execution_filters import checksums_in

GRACE_S = 86_400.0
BATCH = 50  # executions of one transaction: whoever commits meanwhile waits no longer than for that
_COUNTED = 10_000  # of a playbook, when nothing is removed


class ExpiredExecutions(msgspec.Struct, kw_only=True):
    """Executions of one version of a playbook that are kept for `kept_s` and are older."""

    path: str
    kept_s: float
    executions: int = 0


class RetentionCount(msgspec.Struct, kw_only=True):
    """What was removed, or would be."""

    executions: list[ExpiredExecutions] = []
    results: int = 0

    @property
    def total(self) -> int:
        return sum(one.executions for one in self.executions)


class _Net(msgspec.Struct):
    path: str = ""
    metadata: dict[str, Any] = {}


class Retention:
    """`default_s`: how long what says nothing itself is kept, None for ever."""

    def __init__(
        self,
        store: Store,
        results: ResultStore,
        clock: Clock,
        *,
        default_s: float | None,
        grace_s: float = GRACE_S,
        is_patient: bool = False,
    ) -> None:
        """`is_patient`: what may go waits for a while where it can go together with others, which is far less work for
        the store."""
        self._store, self._results, self._clock = store, results, clock
        self._default_s, self._grace_s, self._is_patient = default_s, grace_s, is_patient

    async def planned(self) -> RetentionCount:
        """What `run` would remove now, but for results that only these executions name. Of very many executions of one
        version, the first 10,000 are counted."""
        found = RetentionCount()
        async for one, net_hash in self._policies():
            before = self._clock.now() - one.kept_s
            one.executions = len(await self._store.outlived(net_hash, before=before, limit=_COUNTED))
            if one.executions:
                found.executions.append(one)
        found.results = len(await self._unnamed())
        return found

    async def run(self) -> RetentionCount:
        """Remove it: what lies together at once, the rest a little at a time."""
        removed = RetentionCount()
        policies = [each async for each in self._policies()]
        together = await self._retire_spans(policies)
        for one, net_hash in policies:
            one.executions = together[net_hash]
            before = self._clock.now() - one.kept_s - self._patience(one.kept_s)
            # `retire` looks again in the statement that deletes: between the two another server may have removed them.
            while batch := await self._store.outlived(net_hash, before=before, limit=BATCH):
                gone = await self._store.retire(batch)
                # After the executions: a record of a secret without its execution is harmless, an execution whose
                # secrets cannot be masked is not.
                await forget_secrets(self._store, batch)
                crash_point("retention.between")
                one.executions += gone
                if not gone:
                    break  # somebody else removes the same ones
                await asyncio.sleep(0)
            if one.executions:
                removed.executions.append(one)
        removed.results = await self._collect()
        return removed

    async def _retire_spans(self, policies: Iterable[tuple[ExpiredExecutions, str]]) -> Counter[str]:
        """How many executions of each net have gone with all that lay beside them."""
        now = self._clock.now()
        gone = await self._store.retire_spans({net_hash: now - one.kept_s for one, net_hash in policies})
        await forget_secrets(self._store, gone)
        return Counter(gone.values())

    def _patience(self, kept_s: float) -> float:
        """A tenth of the time that is asked for at most: who keeps executions for an hour does not mean a week."""
        return min(self._store.patience_s, kept_s / 10) if self._is_patient else 0.0

    async def _policies(self) -> AsyncIterator[tuple[ExpiredExecutions, str]]:
        """Each version that has executions which are over, and how long these are kept."""
        for net_hash in await self._store.ended_nets():
            net = msgspec.json.decode(await self._store.net(net_hash), type=_Net)
            kept_s = kept_for(net.metadata.get("retention"), self._default_s)
            if kept_s is not None:
                yield ExpiredExecutions(path=net.path, kept_s=kept_s), net_hash

    async def _collect(self) -> int:
        before = self._clock.now() - self._grace_s
        unnamed = await self._unnamed()
        return sum([await asyncio.to_thread(self._results.drop, one, before=before) for one in sorted(unnamed)])

    async def _unnamed(self) -> set[str]:
        """What is old and nothing names. The old ones are listed before the names are read: what is named meanwhile has
        been put meanwhile."""
        before = self._clock.now() - self._grace_s
        # In a thread: the files of a result store may be millions.
        old = set(await asyncio.to_thread(lambda: self._results.untouched(before=before)))
        if not old:
            return old
        named = await self._store.checksums()
        return old - named - await asyncio.to_thread(self._held_by, named, old - named)

    def _held_by(self, named: Iterable[str], wanted: set[str]) -> set[str]:
        """Those of `wanted` that stored values hold in turn: a large value may hold references to others."""
        found: set[str] = set()
        pending, seen = list(named), set(named)
        # Stops as soon as all candidates are known to be held: then there is nothing to collect.
        while pending and found != wanted:
            try:
                inner = checksums_in(self._results.body(pending.pop()))
            except ToolError:
                continue  # what is gone holds nothing up; while the store is away, nobody knows what does
            found |= inner & wanted
            pending += inner - seen
            seen |= inner
        return found


def kept_for(written: Any, default_s: float | None) -> float | None:
    """How long by what a playbook says; what is no duration says nothing, since older programs took anything."""
    if written is None:
        return default_s
    try:
        return seconds(written)
    except ValueError:
        return default_s
