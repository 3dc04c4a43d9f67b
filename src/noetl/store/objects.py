"""Results in an object store (s3://, gs://, az://, memory://), named by the SHA-256 of their content (RES-01, RES-02).

What the provider needs (region, keys, endpoint) comes from its usual environment variables. A value is written once:
equal ones have equal names, so whoever comes second finds it there.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from noetl.errors import BackendError, ToolError
from noetl.records.references import Reference
from noetl.store.results import key_of, opened, schema_hint

STORE = "objects"


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
        except (AlreadyExistsError, PreconditionError):
            pass  # the same content is there
        except (BaseError, OSError) as problem:
            raise BackendError(f"the result store {self._url} failed: {_said(problem)}") from problem
        return Reference(store=STORE, key=key, checksum=checksum, size=len(body), schema_hint=schema_hint(value))

    def load(self, reference: Reference) -> Any:
        from obstore.exceptions import BaseError

        try:
            # by its content, not by the key: a reference may have come from a worker
            body = bytes(self._objects.get(self._store, key_of(reference.checksum)).bytes())
        except FileNotFoundError:
            raise ToolError("result.missing", f"the stored result {reference.key} is gone") from None
        except (BaseError, OSError) as problem:
            why = _said(problem)
            raise ToolError("result.missing", f"the stored result {reference.key} cannot be read: {why}") from problem
        return opened(reference, body)


def _said(problem: Exception) -> str:
    """The first line; what follows is for who debugs the driver."""
    return (str(problem) or type(problem).__name__).partition("\n")[0]
