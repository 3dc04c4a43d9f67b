"""Results as deciding has them, at once or not at all (RES-01, RES-06).

Deciding cannot wait. Where results lie far, over a network, a value that is kept is only noted, since its address is
its content, and one that is read and not at hand is noted as well, with nothing in its place. What a decision came
to that lacked something is thrown away: `check` says so, with what has to be brought first. It is brought outside of
any batch, so that whoever else decides does not wait for it, and then all is decided again. So an object is always
written before the event that names it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from noetl.base.errors import BackendError, ToolError
from noetl.control.results.result_transfer import ResultTransfer
from noetl.events.large_values import Load
from noetl.events.references import Reference
from noetl.store.contract import ResultStore
from noetl.store.results.files import referring, table_reference

# Each try may discover one more reference inside a value that was just brought.
_TRIES = 30
_T = TypeVar("_T")


class ResultNotLoadedError(BackendError):
    """Something has to be brought first; then decide again."""

    def __init__(self, transfer: ResultTransfer, unsent: dict[str, bytes], unread: set[str]) -> None:
        super().__init__("stored results have to be brought first, and were asked for too often")
        self._transfer, self._unsent, self._unread = transfer, unsent, unread

    async def fetch(self) -> None:
        """BackendError while the store is away."""
        await self._transfer.transfer(self._unsent, self._unread)

    def begin(self) -> None:
        """The same, and nobody waits for it."""
        self._transfer.begin(self._unsent, self._unread)

    @property
    def is_over(self) -> bool:
        return self._transfer.has(self._unsent, self._unread)


class ResultCache:
    """Only for one event loop, and never from a thread. Results in local files are at hand up to `near_bytes`; a
    larger one is as far as what lies outside."""

    def __init__(self, results: ResultStore, near_bytes: int = sys.maxsize) -> None:
        self._results = results
        # -1: every size is far, also an empty value.
        self._near_bytes = -1 if results.is_outside else near_bytes
        self._transfer = ResultTransfer(results)
        # Noted since the last `check`: bodies to send before the decision may be stored, and checksums to fetch before
        # it can be made.
        self._unsent: dict[str, bytes] = {}
        self._unread: set[str] = set()
        self._owed: dict[str, bytes] = {}  # by the worker beside

    # in the middle of a decision

    def is_far(self, size: int) -> bool:
        """Whether reading or writing so many bytes takes long."""
        return size > self._near_bytes

    def keep(self, value: Any) -> Reference:
        found = self._reference_of(value)
        if isinstance(found, Reference):
            return found
        reference, body = found
        if not self._transfer.is_sent(reference.checksum):
            self._unsent[reference.checksum] = body
        return reference

    def load(self, reference: Reference) -> Any:
        if not self.is_far(reference.size):
            return self._results.load(reference)
        body = self._transfer.cached_body(reference.checksum)
        if body is not None:
            return msgspec.json.decode(body)
        if (gone := self._transfer.known_gone(reference.checksum)) is not None:
            raise ToolError(gone.kind, gone.message)
        # None stands in for the value. The decision is thrown away by `check`, so nobody sees it.
        self._unread.add(reference.checksum)
        return None

    def check(self) -> None:
        """ResultNotLoadedError where something was lacking since this was asked last."""
        if self._unsent or self._unread:
            unsent, self._unsent = self._unsent, {}
            unread, self._unread = self._unread, set()
            raise ResultNotLoadedError(self._transfer, unsent, unread)

    async def read(self, look: Callable[[Load], _T]) -> _T:
        """What `look` finds, with all that it reads at hand."""
        for _ in range(_TRIES):
            try:
                try:
                    found = look(self.load)
                # Also when `look` raised: perhaps because it was given None for a value that is not here.
                finally:
                    self.check()
                return found
            except ResultNotLoadedError as problem:
                away = problem
            await away.fetch()
        raise away

    # what a worker in the same process keeps and reads: it cannot wait either, but between its tasks

    def send_soon(self, value: Any) -> Reference:
        """Begin to store a value; `settled` waits for it."""
        found = self._reference_of(value)
        if isinstance(found, Reference):
            return found
        reference, body = found
        if not self._transfer.is_sent(reference.checksum):
            self._owed[reference.checksum] = body
            self._transfer.send(reference.checksum, body)
        return reference

    async def settled(self, what: Any) -> None:
        """Return once every value that `what` names is stored. BackendError while that fails; it may be asked again."""
        self._owed = {one: body for one, body in self._owed.items() if not self._transfer.is_sent(one)}
        if self._owed:
            # Only the values that this report names: another task may still be uploading its own.
            text = msgspec.json.encode(what).decode()
            await self._transfer.transfer({one: body for one, body in self._owed.items() if one in text}, ())

    def load_now(self, reference: Reference) -> Any:
        """A value, at hand or not: then this blocks. What an order refers to is fetched before."""
        body = self._transfer.cached_body(reference.checksum)
        return self._results.load(reference) if body is None else msgspec.json.decode(body)

    async def fetch(self, references: Iterable[Reference]) -> None:
        """Have these at hand, as far as they can be had; whoever reads the others hears of it."""
        with suppress(BackendError):
            await self._transfer.transfer({}, [one.checksum for one in references if self.is_far(one.size)])

    async def store_table(self, file: Path) -> Reference:
        """A table is stored at once, past the cache: nobody decides by what is in it."""
        size = file.stat().st_size
        return table_reference(self._results.store, await self._results.send_file(file), size)

    async def fetch_table(self, reference: Reference, into: Path) -> None:
        await self._results.fetch_file(reference.checksum, into)

    def close(self) -> None:
        self._transfer.close()

    def _reference_of(self, value: Any) -> Reference | tuple[Reference, bytes]:
        """Where the value is, if it could be stored at once; else where it will be, and what has to be sent there."""
        if self._near_bytes == sys.maxsize:
            return self._results.put(value)
        body = msgspec.json.encode(value)
        if not self.is_far(len(body)):
            return self._results.put(value)
        reference = referring(self._results.store, hashlib.sha256(body).hexdigest(), value, body)
        self._transfer.remember(reference.checksum, body)
        return reference, body
