"""Callers: the sender of a request, identified by exactly one bearer token or session cookie.

A browser uses a session instead of a token. The cookie has a random id; the session is stored under its hash. A session
ends with its token, when it is idle for too long, and after a week in any case. A changing request by cookie must come
from a page of this server: its `Origin` and a value that only such pages can read show that (reliability.md §2.3).
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
from noetl.store.installation import KeyValue, KeyValues, each_key_value

KIND = "session"
# A working day: users sign in again the next morning.
IDLE_S = 8 * 3_600.0
WHOLE_S = 7 * 24 * 3_600.0
# The last use is stored at most this often, so that reading pages seldom writes.
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
        # When sessions were last used at this server, by the hash they are stored under; idle ones are swept out.
        self._used: dict[str, float] = {}

    async def open(self, token: AccessToken) -> str:
        """Open a session for this token and delete old ones; returns the value of the cookie."""
        now, session_id = self._clock.now(), fresh_secret()
        await self.sweep()
        session = BrowserSession(token_id=token.token_id, created_at=now, seen_at=now)
        await self._key_values.put(KIND, digest_of(session_id), msgspec.json.encode(session), over=0, at=now)
        return session_id

    async def sweep(self) -> int:
        """Delete sessions that are idle for too long."""
        idle_since = self._clock.now() - IDLE_S
        self._used = {key: used for key, used in self._used.items() if used > idle_since}
        return await self._key_values.sweep(KIND, before=self._clock.now() - IDLE_S - NOTED_EVERY_S)

    async def token_of(self, session_id: str) -> AccessToken | None:
        """The active token of an active session; None if there is none."""
        now = self._clock.now()
        # Stored under a hash: the store or a backup of it contains no usable cookie.
        row = await self._key_values.get(KIND, digest_of(session_id))
        if row is None:
            return None
        session = msgspec.json.decode(row.body, type=BrowserSession)
        if not session.is_alive(now):
            await self._key_values.delete(KIND, row.name)
            return None
        token = await self._tokens.find_active(session.token_id)
        if token is not None:
            self._used[row.name] = now
        if token is not None and now - session.seen_at >= NOTED_EVERY_S:
            await self._note(row, session, now)
        return token

    async def _note(self, thing: KeyValue, session: BrowserSession, now: float) -> None:
        seen = msgspec.structs.replace(session, seen_at=now)
        # The result is ignored: if the write is refused, another request of the same browser has just stored its own.
        await self._key_values.put(KIND, thing.name, msgspec.json.encode(seen), over=thing.version, at=now)

    async def close(self, session_id: str) -> bool:
        return await self.end(digest_of(session_id))

    async def end(self, session_key: str) -> bool:
        """End the session that is stored under this hash. Its cookie is refused from the next request on."""
        self._used.pop(session_key, None)
        return await self._key_values.delete(KIND, session_key)

    async def active(self) -> list[tuple[str, BrowserSession, AccessToken]]:
        """The active sessions, each with the hash it is stored under and its token, the last used first."""
        now, sessions = self._clock.now(), list[tuple[str, BrowserSession, AccessToken]]()
        async for row in each_key_value(self._key_values, KIND):
            session = msgspec.json.decode(row.body, type=BrowserSession)
            token = await self._tokens.find_active(session.token_id) if session.is_alive(now) else None
            if token is not None:
                # Uses are stored now and then; those at this server are known to the second.
                used = max(session.seen_at, self._used.get(row.name, 0.0))
                sessions.append((row.name, msgspec.structs.replace(session, seen_at=used), token))
        return sorted(sessions, key=lambda item: -item[1].seen_at)


def csrf_of(session_id: str) -> str:
    """The value that a page of this server sends with a change. It is derived from the session id, which no script can
    read."""
    # Derived and not stored: it needs no row of its own and ends with its session.
    return hmac.digest(session_id.encode(), b"noetl csrf", hashlib.sha256).hex()


def is_valid_csrf(value: str | None, session_id: str) -> bool:
    return value is not None and are_same(value, csrf_of(session_id))


_COOKIE = "noetl_session"
# Over TLS, a browser takes a cookie of such a name only from this very host and over TLS: neither a page of a sibling
# domain nor an answer that somebody changed on an unencrypted line can sign a reader in as another subject.
_HOST_COOKIE = f"__Host-{_COOKIE}"
CSRF_HEADER = b"noetl-csrf"
_LONGEST = 1_000  # characters of an Authorization header or a cookie's value; ours have far fewer

Headers = Iterable[tuple[bytes, bytes]]


class CallerLookup(msgspec.Struct, frozen=True):
    """The identity of a caller; `session_id` is set if a cookie identified it."""

    identity: Caller
    session_id: str | None = None


ANONYMOUS_LOOKUP = CallerLookup(ANONYMOUS)


def cookie_name(*, tls: bool) -> str:
    """The name of the session cookie; no other one counts."""
    return _HOST_COOKIE if tls else _COOKIE


class Callers:
    def __init__(self, tokens: AccessTokens, sessions: Sessions, *, tls: bool) -> None:
        self._tokens, self._sessions, self._cookie = tokens, sessions, cookie_name(tls=tls)

    async def find_caller(self, headers: Headers) -> CallerLookup | None:
        """The caller; ANONYMOUS_LOOKUP for a request without token and cookie, None for one with an invalid token or
        cookie."""
        bearers = [value.decode("latin-1") for name, value in headers if name == b"authorization"]
        cookies = [value.decode("latin-1") for name, value in headers if name == b"cookie"]
        session_ids = [session_id for value in cookies for session_id in _sessions_in(value, self._cookie)]
        if not bearers and not session_ids:
            return ANONYMOUS_LOOKUP
        # A request with two identities is refused: it is not clear whose rights apply.
        if len(bearers) + len(session_ids) != 1:
            return None
        return await (self._by_token(bearers[0]) if bearers else self._by_session(session_ids[0]))

    async def _by_token(self, header: str) -> CallerLookup | None:
        scheme, _, text = header.partition(" ")
        if scheme.lower() != "bearer" or len(header) > _LONGEST:
            return None
        token = await self._tokens.authenticate(text.strip(" "))
        return CallerLookup(token.identity) if token is not None else None

    async def _by_session(self, session_id: str) -> CallerLookup | None:
        token = await self._sessions.token_of(session_id) if len(session_id) <= _LONGEST else None
        return CallerLookup(token.identity, session_id) if token is not None else None

    async def is_still_valid(self, caller: CallerLookup) -> bool:
        """Whether the caller's token, and its session if there is one, are still active."""
        if caller.session_id is not None:
            return await self._sessions.token_of(caller.session_id) is not None
        return await self._tokens.find_active(caller.identity.token_id) is not None


def _sessions_in(cookie: str, wanted: str) -> list[str]:
    pairs = (part.strip().partition("=") for part in cookie.split(";"))
    return [value for name, _, value in pairs if name == wanted]


def is_own_origin(headers: Headers, scheme: str) -> bool:
    """Whether the Origin header names this server."""
    origins = [value for name, value in headers if name == b"origin"]
    hosts = [value for name, value in headers if name == b"host"]
    return len(origins) == 1 and len(hosts) == 1 and origins[0].lower() == scheme.encode() + b"://" + hosts[0].lower()


def may_change(caller: CallerLookup, headers: Headers, scheme: str) -> bool:
    """Whether a changing request is protected against CSRF: by a token, or by Origin and CSRF value of a session."""
    if caller.session_id is None:
        # A program sends a token on purpose. Only cookies are added by a browser without the user's intent.
        return True
    tokens = [value.decode("latin-1") for name, value in headers if name == CSRF_HEADER]
    return is_own_origin(headers, scheme) and len(tokens) == 1 and is_valid_csrf(tokens[0], caller.session_id)
