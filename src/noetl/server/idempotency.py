"""Idempotency keys: the same key with the same body gets the same answer, with another body none (reliability.md §3.4).

The key is put on the key-value table with the identity of what it will create before that is created. So whoever
repeats a
request whose answer was lost finds the same thing, even if the server died in between.
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
_ANSWER_BYTES = 65_536  # a larger answer is made anew


class StoredAnswer(msgspec.Struct, kw_only=True):
    """What is kept under a key."""

    # A digest of the body: the same key with another body is a mistake of the client.
    request: str
    # The identity of what the first request makes, chosen before it is made: a repeat finds it, or makes it under the
    # same id.
    created: str
    # What was answered; None while nobody knows whether the first one got that far.
    answer: str | None = None


class IdempotencyKeys:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock

    async def reserve(self, name: str, request: str, created: str) -> tuple[StoredAnswer, bool]:
        """What is kept under a key, and whether it was there before. Problem 422 when it was for something else."""
        fresh = StoredAnswer(request=request, created=created)
        body = msgspec.json.encode(fresh)
        # `over=0` stores the key only if there is none. Of two requests at the same moment, also on two servers, one
        # stores it and the other finds it.
        while await self._key_values.put(KIND, name, body, over=0, at=self._clock.now()) is None:
            thing = await self._key_values.get(KIND, name)
            if thing is None:
                continue  # it was swept at this moment
            kept = _opened(thing)
            if kept.request != request:
                raise ProblemDetails(422, "this idempotency key came with another body before", kind="idempotency")
            return kept, True
        return fresh, False

    async def store_answer(self, name: str, answer: bytes) -> None:
        """Keep the answer; the first one stands."""
        # A lost answer is no loss: a repeated request finds what was created, and the answer is made again from it.
        thing = await self._key_values.get(KIND, name)
        if thing is None or len(answer) > _ANSWER_BYTES or (kept := _opened(thing)).answer is not None:
            return
        kept.answer = answer.decode()
        await self._key_values.put(KIND, name, msgspec.json.encode(kept), over=thing.version, at=self._clock.now())

    async def release(self, name: str) -> None:
        """Nothing was created: the key may be used again."""
        await self._key_values.delete(KIND, name)

    async def sweep(self) -> int:
        return await self._key_values.sweep(KIND, before=self._clock.now() - KEPT_S)


def _opened(thing: KeyValue) -> StoredAnswer:
    return msgspec.json.decode(thing.body, type=StoredAnswer)


def named(subject: str, route: str, key: str) -> str:
    """The name of a key on the key-value table: everybody has their own, for each thing that can be asked for."""
    if not key or len(key) > LONGEST or not key.isprintable():
        raise ProblemDetails(400, f"an idempotency key is 1 to {LONGEST} printable characters", kind="idempotency")
    return hashlib.sha256("\x1f".join((subject, route, key)).encode()).hexdigest()


def digest(value: Any) -> str:
    """Equal requests have equal digests, however they are written."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
