"""Retention: deletes executions that finished long enough ago, and stored results without references (reliability.md
§3.6).

`metadata.retention` of a playbook says how long its executions are kept, else the setting of the store does. Results
are collected by mark and sweep: a result is deleted when no stored reference leads to it and it was not written for a
day, which is longer than any commit takes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.crash_points import crash_point
from noetl.base.durations import seconds
from noetl.base.errors import NotFoundError, RefusedError, ToolError
from noetl.control.secrets.execution_secrets import forget_secrets
from noetl.store.contract import ExecutionRow, ResultStore, Store
from noetl.store.row_codecs import checksums_in

GRACE_S = 86_400.0
BATCH = 50  # executions deleted in one transaction; other commits wait for it at most
_COUNTED = 10_000  # executions of a playbook that a dry run counts at most


class ExpiredExecutions(msgspec.Struct, kw_only=True):
    """The number of executions of one playbook version that finished more than `kept_s` ago."""

    path: str
    kept_s: float
    executions: int = 0


class RetentionCount(msgspec.Struct, kw_only=True):
    """The number of deleted executions and results, or of those that would be deleted."""

    executions: list[ExpiredExecutions] = []
    results: int = 0

    @property
    def total(self) -> int:
        return sum(expired.executions for expired in self.executions)


class _Net(msgspec.Struct):
    path: str = ""
    metadata: dict[str, Any] = {}


class Retention:
    """Deletes what is old enough. `default_s` applies to playbooks without a retention of their own; None: forever."""

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
        """`is_patient`: wait a little longer where the store can then delete many executions at once, which costs it
        far less."""
        self._store, self._results, self._clock = store, results, clock
        self._default_s, self._grace_s, self._is_patient = default_s, grace_s, is_patient

    async def planned(self) -> RetentionCount:
        """A dry run: what `run` would delete now, except results that only these executions refer to. At most 10,000
        executions of one version are counted."""
        count = RetentionCount()
        async for expired, net_hash in self._policies():
            before = self._clock.now() - expired.kept_s
            expired.executions = len(await self._store.outlived(net_hash, before=before, limit=_COUNTED))
            if expired.executions:
                count.executions.append(expired)
        count.results = len(await self._unreferenced_results())
        return count

    async def run(self) -> RetentionCount:
        """Delete whole spans of time where the store can, then the remaining executions in small batches, then
        unreferenced results."""
        deleted = RetentionCount()
        policies = [policy async for policy in self._policies()]
        in_spans = await self._retire_spans(policies)
        for expired, net_hash in policies:
            expired.executions = in_spans[net_hash]
            before = self._clock.now() - expired.kept_s - self._extra_patience_s(expired.kept_s)
            # `retire` checks again in the statement that deletes: another server may have deleted them in between.
            while batch := await self._store.outlived(net_hash, before=before, limit=BATCH):
                number = await self._store.retire(batch)
                # After the executions: a record of a secret without its execution is harmless, an execution whose
                # secrets cannot be masked is not.
                await forget_secrets(self._store, batch)
                crash_point("retention.between")
                expired.executions += number
                if not number:
                    break  # another server deletes the same ones
                await asyncio.sleep(0)
            if expired.executions:
                deleted.executions.append(expired)
        deleted.results = await self._collect()
        return deleted

    async def _retire_spans(self, policies: Iterable[tuple[ExpiredExecutions, str]]) -> Counter[str]:
        """Delete whole spans of time; returns the number of executions deleted by net."""
        now = self._clock.now()
        retired = await self._store.retire_spans({net_hash: now - expired.kept_s for expired, net_hash in policies})
        await forget_secrets(self._store, retired)
        return Counter(retired.values())

    def _extra_patience_s(self, kept_s: float) -> float:
        """How much longer executions are kept so that a whole span can be deleted: at most a tenth of `kept_s`, since
        a retention of an hour must not become a week."""
        return min(self._store.patience_s, kept_s / 10) if self._is_patient else 0.0

    async def _policies(self) -> AsyncIterator[tuple[ExpiredExecutions, str]]:
        """Each playbook version with finished executions (by net hash), and how long these are kept."""
        for net_hash in await self._store.ended_nets():
            net = msgspec.json.decode(await self._store.net(net_hash), type=_Net)
            kept_s = kept_for(net.metadata.get("retention"), self._default_s)
            if kept_s is not None:
                yield ExpiredExecutions(path=net.path, kept_s=kept_s), net_hash

    async def _collect(self) -> int:
        before = self._clock.now() - self._grace_s
        checksums = sorted(await self._unreferenced_results())
        # `drop` checks the age again: a value that was written since must stay, as a commit may refer to it.
        return sum([await asyncio.to_thread(self._results.drop, checksum, before=before) for checksum in checksums])

    async def _unreferenced_results(self) -> set[str]:
        """Checksums of old results without a reference. Old results are listed before the references are read: a
        reference stored in between belongs to a result that was written again in between."""
        before = self._clock.now() - self._grace_s
        # In a thread: the files of a result store may be millions.
        old = set(await asyncio.to_thread(lambda: self._results.untouched(before=before)))
        if not old:
            return old
        referenced = await self._store.checksums()
        return old - referenced - await asyncio.to_thread(self._nested_in, referenced, old - referenced)

    def _nested_in(self, referenced: Iterable[str], candidates: set[str]) -> set[str]:
        """Those of `candidates` that stored values refer to, directly or through other values."""
        found: set[str] = set()
        pending, seen = list(referenced), set(referenced)
        # Stops as soon as all candidates are known to be referenced: then there is nothing to collect.
        while pending and found != candidates:
            try:
                inner = checksums_in(self._results.body(pending.pop()))
            except ToolError:
                continue  # a value that is gone refers to nothing
            found |= inner & candidates
            pending += inner - seen
            seen |= inner
        return found


async def executions_to_delete(store: Store, execution_ids: Iterable[str]) -> list[str]:
    """These ended executions and those that they have started, each before the ones it started. RefusedError where one
    is unknown, is not over, or has an open parent, which may still read its result."""
    found: dict[str, None] = {}
    pending = [await _deletable(store, execution_id) for execution_id in execution_ids]
    while pending:
        row = pending.pop(0)
        if row.execution_id not in found:
            found[row.execution_id] = None
            pending += await store.children(row.execution_id)
    # A nested execution may go on after its parent was cancelled.
    if still_open := await store.open_among(found):
        raise RefusedError(f"execution {min(still_open)} is not over: cancel it, or wait for its end")
    return list(found)


async def _deletable(store: Store, execution_id: str) -> ExecutionRow:
    row = await store.execution(execution_id)
    if row is None:
        raise NotFoundError(f'there is no execution "{execution_id}" in this store; write its whole id')
    parent = row.parent_execution_id
    if parent is not None and await store.open_among((parent,)):
        raise RefusedError(f"execution {execution_id} was started by {parent}, which is not over: wait for its end")
    return row


async def delete_executions(store: Store, execution_ids: Sequence[str]) -> int:
    """Delete these in small batches; returns how many. Those that are not over stay."""
    number = 0
    for begin in range(0, len(execution_ids), BATCH):
        batch = execution_ids[begin : begin + BATCH]
        number += await store.retire(batch)
        await forget_secrets(store, batch)  # after the executions, as in `run`
    return number


def kept_for(retention: Any, default_s: float | None) -> float | None:
    """The retention of a playbook in seconds. The default when it is no duration: older versions accepted anything."""
    if retention is None:
        return default_s
    try:
        return seconds(retention)
    except ValueError:
        return default_s
