"""Callers: who sends a request, told by its bearer token or its session cookie, by exactly one of them.

A request by cookie that may change something must come from a page of this server: it says so by its `Origin` and by
the value that only such pages can read (reliability.md §2.3).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from noetl.operations.identity import ANONYMOUS, Caller
from noetl.operations.tokens import AccessTokens
from noetl.server.access.sessions import Sessions, has_right_csrf

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
