"""Callers: who sends a request, known by its bearer token or its session cookie, by exactly one of them.

A session is what a browser has instead of a token. The cookie holds a random id, the record is stored under its hash. A
session ends with its token, when it is not used, and after a week in any case. A request by cookie that may change
something must come from a page of this server: it says so by its `Origin` and by a value that only such pages can read
(reliability.md §2.3).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import msgspec

from noetl.base.clock import Clock
from noetl.operations.administration_shapes import ANONYMOUS, Caller
from noetl.operations.tokens import AccessToken, AccessTokens
from noetl.secrets.encryption import are_same, digest_of, fresh_secret
from noetl.store.installation import KeyValue, KeyValues

KIND = "session"
# A working day: who comes back in the morning signs in.
IDLE_S = 8 * 3_600.0
WHOLE_S = 7 * 24 * 3_600.0
# When a session was last used is written that often at most, not with every request.
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
        return await self.end(digest_of(session_id))

    async def end(self, session_key: str) -> bool:
        """End the session that is stored under this hash; whoever has its cookie is out with the next request."""
        return await self._key_values.delete(KIND, session_key)

    async def living(self) -> list[tuple[str, BrowserSession, AccessToken]]:
        """Sessions that still let somebody in, each with the hash it is stored under and its token."""
        now, found, beyond = self._clock.now(), list[tuple[str, BrowserSession, AccessToken]](), None
        while page := await self._key_values.list(KIND, beyond=beyond):
            for thing in page:
                session = msgspec.json.decode(thing.body, type=BrowserSession)
                token = await self._tokens.living(session.token_id) if session.is_alive(now) else None
                if token is not None:
                    found.append((thing.name, session, token))
            beyond = page[-1].name
        return sorted(found, key=lambda one: -one[1].seen_at)


def csrf_of(session_id: str) -> str:
    """What a page of this server sends along with a change; it follows from the id, which no script can read."""
    return hmac.digest(session_id.encode(), b"noetl csrf", hashlib.sha256).hex()


def has_right_csrf(given: str | None, session_id: str) -> bool:
    return given is not None and are_same(given, csrf_of(session_id))


COOKIE = "noetl_session"
CSRF_HEADER = b"noetl-csrf"
_LONGEST = 1_000  # characters of an Authorization header or a cookie's value; ours have far fewer

Headers = Iterable[tuple[bytes, bytes]]


class CallerLookup(msgspec.Struct, frozen=True):
    """Who asks; `session_id` when a cookie says so."""

    identity: Caller
    session_id: str | None = None


STRANGER = CallerLookup(ANONYMOUS)


class Callers:
    def __init__(self, tokens: AccessTokens, sessions: Sessions) -> None:
        self._tokens, self._sessions = tokens, sessions

    async def find_caller(self, headers: Headers) -> CallerLookup | None:
        """STRANGER for a request that shows nothing, None for one that shows something which is not good."""
        bearers = [value.decode("latin-1") for name, value in headers if name == b"authorization"]
        cookies = [value.decode("latin-1") for name, value in headers if name == b"cookie"]
        session_ids = [one for value in cookies for one in _sessions_in(value)]
        if not bearers and not session_ids:
            return STRANGER
        if len(bearers) + len(session_ids) != 1:  # two identities in one request are none
            return None
        return await (self._by_token(bearers[0]) if bearers else self._by_session(session_ids[0]))

    async def _by_token(self, header: str) -> CallerLookup | None:
        scheme, _, text = header.partition(" ")
        if scheme.lower() != "bearer" or len(header) > _LONGEST:
            return None
        token = await self._tokens.identified(text.strip(" "))
        return CallerLookup(token.identity) if token is not None else None

    async def _by_session(self, session_id: str) -> CallerLookup | None:
        token = await self._sessions.token_of(session_id) if len(session_id) <= _LONGEST else None
        return CallerLookup(token.identity, session_id) if token is not None else None

    async def is_still_known(self, caller: CallerLookup) -> bool:
        """Whether the token, and the session, that a caller came with are alive."""
        if caller.session_id is not None:
            return await self._sessions.token_of(caller.session_id) is not None
        return await self._tokens.living(caller.identity.token_id) is not None


def _sessions_in(cookie: str) -> list[str]:
    pairs = (part.strip().partition("=") for part in cookie.split(";"))
    return [value for name, _, value in pairs if name == COOKIE]


def is_own_origin(headers: Headers, scheme: str) -> bool:
    """Whether the browser says that the page which sends this came from here."""
    origins = [value for name, value in headers if name == b"origin"]
    hosts = [value for name, value in headers if name == b"host"]
    return len(origins) == 1 and len(hosts) == 1 and origins[0].lower() == scheme.encode() + b"://" + hosts[0].lower()


def may_change(caller: CallerLookup, headers: Headers, scheme: str) -> bool:
    """Whether a request that may change something is what its caller wants, and not what another page made it send."""
    if caller.session_id is None:
        return True
    given = [value.decode("latin-1") for name, value in headers if name == CSRF_HEADER]
    return is_own_origin(headers, scheme) and len(given) == 1 and has_right_csrf(given[0], caller.session_id)
