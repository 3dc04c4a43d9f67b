"""Idempotency keys: the same key with the same body gets the same answer, with another body 422 (reliability.md §3.4).

The key is stored with the id of the object before that object is created. So a client that repeats a request whose
answer was lost finds the same object, even if the server crashed in between.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.server.problem_details import ProblemDetails
from noetl.store.installation import KeyValue, KeyValues

KIND = "idempotency"
HEADER = "idempotency-key"
REPLAYED = {"idempotent-replayed": "true"}
LONGEST = 200
# A request that is repeated after more than a day counts as a new one.
KEPT_S = 86_400.0
_ANSWER_BYTES = 65_536  # a larger answer is not stored; it is built again from the created object


class StoredAnswer(msgspec.Struct, kw_only=True):
    """The record of an idempotency key."""

    # A digest of the body: the same key with another body is an error of the client.
    request: str
    # The id of the object that the first request creates, chosen before that: a repeated request finds the object or
    # creates it under the same id.
    created: str
    # The stored answer; None while the first request may still be running or has crashed.
    answer: str | None = None


class IdempotencyKeys:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock

    async def reserve(self, name: str, request: str, created: str) -> tuple[StoredAnswer, bool]:
        """The record of a key, and whether it existed before. 422 if it belongs to another request."""
        new = StoredAnswer(request=request, created=created)
        body = msgspec.json.encode(new)
        # `over=0` stores the key only if there is none. Of two requests at the same moment, also on two servers, one
        # stores it and the other finds it.
        while await self._key_values.put(KIND, name, body, over=0, at=self._clock.now()) is None:
            row = await self._key_values.get(KIND, name)
            if row is None:
                continue  # it was deleted by a sweep at this moment
            stored = _decode(row)
            if stored.request != request:
                raise ProblemDetails(422, "this idempotency key came with another body before", kind="idempotency")
            return stored, True
        return new, False

    async def store_answer(self, name: str, answer: bytes) -> None:
        """Store the answer of a request, unless there is one."""
        # Losing the answer is harmless: a repeated request finds the created object and builds the answer again.
        row = await self._key_values.get(KIND, name)
        if row is None or len(answer) > _ANSWER_BYTES or (stored := _decode(row)).answer is not None:
            return
        stored.answer = answer.decode()
        await self._key_values.put(KIND, name, msgspec.json.encode(stored), over=row.version, at=self._clock.now())

    async def release(self, name: str) -> None:
        """Delete a key under which nothing was created, so that it can be used again."""
        await self._key_values.delete(KIND, name)

    async def sweep(self) -> int:
        return await self._key_values.sweep(KIND, before=self._clock.now() - KEPT_S)


def _decode(row: KeyValue) -> StoredAnswer:
    return msgspec.json.decode(row.body, type=StoredAnswer)


def key_name(subject: str, route: str, key: str) -> str:
    """The name of a key in the key-value table. Keys are separate for each subject and each route."""
    if not key or len(key) > LONGEST or not key.isprintable():
        raise ProblemDetails(400, f"an idempotency key is 1 to {LONGEST} printable characters", kind="idempotency")
    return hashlib.sha256("\x1f".join((subject, route, key)).encode()).hexdigest()


def digest(value: Any) -> str:
    """A digest of a request; the order of its fields does not matter."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
