"""Sessions: what a browser has instead of a token. The cookie holds a random id, the record is kept as its hash.

A session lives as long as its token and no longer, ends when it is not used, and ends in any case. Requests that
change something carry a second value which only pages of this server can read (reliability.md §2.3).
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from noetl.base.clock import Clock
from noetl.operations.tokens import AccessToken, AccessTokens
from noetl.secrets.digests import are_same, digest_of, fresh_secret
from noetl.store.key_values import KeyValue, KeyValues

KIND = "session"
IDLE_S = 8 * 3_600.0
WHOLE_S = 7 * 24 * 3_600.0
NOTED_EVERY_S = 300.0


class BrowserSession(msgspec.Struct, frozen=True, kw_only=True):
    token_id: str
    created_at: float
    seen_at: float

    def is_alive(self, now: float) -> bool:
        return now - self.seen_at < IDLE_S and now - self.created_at < WHOLE_S


class Sessions:
    def __init__(self, key_values: KeyValues, tokens: AccessTokens, clock: Clock) -> None:
        self._key_values, self._tokens, self._clock = key_values, tokens, clock

    async def open(self, token: AccessToken) -> str:
        """A new session for who has shown this token: the value of the cookie. Old ones are swept out."""
        now, session_id = self._clock.now(), fresh_secret()
        await self.sweep()
        session = BrowserSession(token_id=token.token_id, created_at=now, seen_at=now)
        await self._key_values.put(KIND, digest_of(session_id), msgspec.json.encode(session), over=0, at=now)
        return session_id

    async def sweep(self) -> int:
        """Forget those that nobody has used for longer than they live."""
        return await self._key_values.sweep(KIND, before=self._clock.now() - IDLE_S - NOTED_EVERY_S)

    async def token_of(self, session_id: str) -> AccessToken | None:
        """The living token of a living session."""
        now = self._clock.now()
        thing = await self._key_values.get(KIND, digest_of(session_id))
        if thing is None:
            return None
        session = msgspec.json.decode(thing.body, type=BrowserSession)
        if not session.is_alive(now):
            await self._key_values.delete(KIND, thing.name)
            return None
        token = await self._tokens.living(session.token_id)
        if token is not None and now - session.seen_at >= NOTED_EVERY_S:
            await self._note(thing, session, now)
        return token

    async def _note(self, thing: KeyValue, session: BrowserSession, now: float) -> None:
        seen = msgspec.structs.replace(session, seen_at=now)
        await self._key_values.put(KIND, thing.name, msgspec.json.encode(seen), over=thing.version, at=now)

    async def close(self, session_id: str) -> bool:
        return await self._key_values.delete(KIND, digest_of(session_id))


def csrf_of(session_id: str) -> str:
    """What a page of this server sends along with a change; it follows from the id, which no script can read."""
    return hmac.digest(session_id.encode(), b"noetl csrf", hashlib.sha256).hex()


def has_right_csrf(given: str | None, session_id: str) -> bool:
    return given is not None and are_same(given, csrf_of(session_id))
