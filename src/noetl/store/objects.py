"""Results in an object store (s3://, gs://, az://, memory://), named by the SHA-256 of their content (RES-01, RES-02).

What the provider needs (region, keys, endpoint) comes from its usual environment variables. A value is written once:
equal ones have equal names, so whoever comes second finds it there.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from noetl.errors import BackendError, ToolError
from noetl.records.references import Reference
from noetl.store.results import is_checksum, key_of, schema_hint, verified

STORE = "objects"
_OLD = timedelta(hours=1)


class ObjectResults:
    """One object per value below the prefix of `url`."""

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ImportError:
            raise BackendError(f"results at {url} need an object store: install noetl[storage]") from None
        self._objects, self._url = obstore, url
        try:
            self._store = from_url(url)
        except (BaseError, OSError, ValueError) as problem:
            raise BackendError(f"results cannot be kept at {url}: {_said(problem)}") from problem

    def put(self, value: Any) -> Reference:
        from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError, PreconditionError

        body = msgspec.json.encode(value)
        checksum = hashlib.sha256(body).hexdigest()
        key = key_of(checksum)
        try:
            try:
                self._objects.put(self._store, key, body, mode="create")
            except NotSupportedError:  # a store without conditions writes the same content over itself
                self._objects.put(self._store, key, body)
        except (AlreadyExistsError, PreconditionError):  # the same content is there
            self._refresh(key, body)
        except (BaseError, OSError) as problem:
            raise BackendError(f"the result store {self._url} failed: {_said(problem)}") from problem
        return Reference(store=STORE, key=key, checksum=checksum, size=len(body), schema_hint=schema_hint(value))

    def _refresh(self, key: str, body: bytes) -> None:
        """Write it over itself when it is old: whoever collects what nobody names sees that somebody is about to."""
        from obstore.exceptions import BaseError

        try:
            written_at = self._objects.head(self._store, key)["last_modified"]
            if datetime.now(UTC) - written_at > _OLD:
                self._objects.put(self._store, key, body)
        except (BaseError, OSError) as problem:
            raise BackendError(f"the result store {self._url} failed: {_said(problem)}") from problem

    def load(self, reference: Reference) -> Any:
        # by its content, not by the key: a reference may have come from a worker
        return msgspec.json.decode(self.body(reference.checksum))

    def body(self, checksum: str) -> bytes:
        from obstore.exceptions import BaseError

        key = key_of(checksum)
        try:
            body = bytes(self._objects.get(self._store, key).bytes())
        except FileNotFoundError:
            raise ToolError("result.missing", f"the stored result {key} is gone") from None
        except (BaseError, OSError) as problem:
            raise ToolError("result.missing", f"the stored result {key} cannot be read: {_said(problem)}") from problem
        return verified(checksum, body)

    def untouched(self, *, before: float) -> list[str]:
        """Those of a page at a time: a bucket may hold millions."""
        moment = datetime.fromtimestamp(before, UTC)
        old = (one["path"] for page in self._objects.list(self._store) for one in page if one["last_modified"] < moment)
        names = (path.rpartition("/")[2].removesuffix(".json") for path in old)
        return [name for name in names if is_checksum(name)]

    def drop(self, checksum: str, *, before: float) -> bool:
        from obstore.exceptions import BaseError

        key = key_of(checksum)
        try:
            if self._objects.head(self._store, key)["last_modified"].timestamp() >= before:
                return False
            self._objects.delete(self._store, key)
        except FileNotFoundError:
            return False
        except (BaseError, OSError) as problem:
            raise BackendError(f"the result store {self._url} failed: {_said(problem)}") from problem
        return True


def _said(problem: Exception) -> str:
    """The first line; what follows is for who debugs the driver."""
    return (str(problem) or type(problem).__name__).partition("\n")[0]
