"""Tokens: opaque, 256 bits, `noetl_<public prefix>_<secret>`. They are shown once; what is kept is a hash. And pages of
the audit log, which says what was done with them.

A token is found by its prefix and its secret compared in constant time. Whatever is not exactly a living token is
nobody: unknown, expired, revoked, or with a role that does not exist (reliability.md §2.3).
"""

from __future__ import annotations

import re
import secrets

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, InvalidError, RefusedError
from noetl.operations.administration_shapes import (
    GIVEN,
    AccessTokenView,
    AuditPage,
    AuditShape,
    Caller,
    MadeToken,
    Role,
)
from noetl.operations.api_shapes import view_of
from noetl.secrets.encryption import are_same, digest_of, fresh_secret
from noetl.store.audit import Audit
from noetl.store.installation import KeyValue, KeyValues

KIND = "token"
FIRST = "first"  # the prefix of the one a server makes when there is none: of two servers, one can store it
USED_EVERY_S = 3_600.0  # the last use is noted that coarsely, so that reading stays reading
SEEN_FOR_S = 1.0  # a token that was looked up is believed for that long; a revocation elsewhere takes that long
_SEEN_AT_MOST = 10_000
_NAME = re.compile(r"[\w.@+ -]{1,100}")
_SHAPE = re.compile(r"noetl_([a-z0-9]{5,16})_([A-Za-z0-9_-]{43})")
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # what people can read to each other
_TRIES = 5
_LEAST_DISTINCT = 16  # characters of a chosen secret; 43 random ones have fewer once in 10^12 times


class AccessToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is kept. `token_id` is its public prefix."""

    token_id: str
    subject: str
    role: Role
    secret_hash: str
    human_roles: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    created_at: float
    expires_at: float | None = None
    used_at: float | None = None
    revoked_at: float | None = None

    def is_alive(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def is_admin(self, now: float) -> bool:
        return self.role is Role.ADMIN and self.is_alive(now)

    @property
    def identity(self) -> Caller:
        return Caller(
            subject=self.subject,
            role=self.role,
            human_roles=frozenset(self.human_roles),
            pools=frozenset(self.pools),
            token_id=self.token_id,
        )


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a new token shall be. A worker's serves its `pools`, of which it needs one at least."""

    subject: str
    role: Role
    human_roles: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    expires_in_s: float | None = None


class AccessTokens:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self._seen: dict[str, tuple[float, AccessToken | None]] = {}

    async def create(self, wanted: Wanted) -> tuple[str, AccessToken]:
        """The token's text, which nobody can tell again, and what is kept of it."""
        _refuse_if_wrong(wanted)
        for _ in range(_TRIES):
            made = await self._store("".join(secrets.choice(_ALPHABET) for _ in range(10)), wanted)
            if made is not None:
                return made
        raise BackendError("no new token could be stored: others take every name for it")

    async def adopt(self, text: str, wanted: Wanted) -> AccessToken:
        """Store a token that an operator has chosen. Adopting it again changes only what it may do.

        RefusedError for one that is no token, could be guessed, was revoked, or whose name another token has."""
        _refuse_if_wrong(wanted)
        token_id, secret = _parts_of(text)
        for _ in range(_TRIES):
            thing = await self._key_values.get(KIND, token_id)
            if thing is None:
                made = await self._store(token_id, wanted, secret)
                if made is not None:
                    return made[1]
                continue  # another process was faster
            kept = _read(thing.body)
            if kept is None or not are_same(digest_of(secret), kept.secret_hash):
                raise RefusedError(f'there is another token "{token_id}": choose another name after noetl_')
            if kept.revoked_at is not None:
                raise RefusedError(f"token {token_id} was revoked, which is for ever: make another one")
            now = self._clock.now()
            changed = _granted(kept, wanted, now)
            if changed == kept or await self._replace(thing, kept, changed, now):
                return changed
        raise BackendError(f"token {token_id} is being changed by others all the time")

    async def exist(self) -> bool:
        """Whether there has ever been any."""
        return bool(await self._key_values.list(KIND, limit=1))

    async def first(self) -> str | None:
        """A token for an administrator when there has never been one of an administrator, else None."""
        # Not `exist`: a worker's token may be made before the server has started for the first time, and then nobody
        # could make any other token.
        if any(token.role is Role.ADMIN for token in await self.list()):
            return None
        made = await self._store(FIRST, Wanted(subject="admin", role=Role.ADMIN))
        return made[0] if made is not None else None

    async def _store(self, token_id: str, wanted: Wanted, chosen: str | None = None) -> tuple[str, AccessToken] | None:
        now, secret = self._clock.now(), chosen or fresh_secret()
        empty = AccessToken(
            token_id=token_id, subject="", role=wanted.role, secret_hash=digest_of(secret), created_at=now
        )
        token = _granted(empty, wanted, now)
        self._seen.pop(token_id, None)
        thing = await self._key_values.put(KIND, token_id, msgspec.json.encode(token), over=0, at=now)
        return None if thing is None else (f"noetl_{token_id}_{secret}", token)

    async def list(self) -> list[AccessToken]:
        found, beyond = [], None
        while page := await self._key_values.list(KIND, beyond=beyond):
            found += [token for thing in page if (token := _read(thing.body)) is not None]
            beyond = page[-1].name
        return sorted(found, key=lambda token: token.created_at)

    async def get(self, token_id: str) -> AccessToken | None:
        """The token of this prefix as it is kept, alive or not; believed for a moment."""
        now = self._clock.now()
        seen = self._seen.get(token_id)
        if seen is not None and now - seen[0] < SEEN_FOR_S:
            return seen[1]
        thing = await self._key_values.get(KIND, token_id)
        token = _read(thing.body) if thing is not None else None
        if len(self._seen) >= _SEEN_AT_MOST:
            self._seen.clear()
        self._seen[token_id] = now, token
        return token

    async def living(self, token_id: str) -> AccessToken | None:
        token = await self.get(token_id)
        return token if token is not None and token.is_alive(self._clock.now()) else None

    async def identified(self, text: str) -> AccessToken | None:
        """The living token that this is the text of."""
        shape = _SHAPE.fullmatch(text)
        token = await self.get(shape[1]) if shape else None
        kept = token.secret_hash if token is not None else digest_of("")
        is_right = are_same(digest_of(shape[2] if shape else text), kept)  # compared also when there is none
        if token is None or not is_right or not token.is_alive(self._clock.now()):
            return None
        await self._note_use(token)
        return token

    async def _note_use(self, token: AccessToken) -> None:
        now = self._clock.now()
        if token.used_at is not None and now - token.used_at < USED_EVERY_S:
            return
        thing = await self._key_values.get(KIND, token.token_id)
        kept = _read(thing.body) if thing is not None else None
        if thing is not None and kept is not None:
            body = msgspec.json.encode(used := msgspec.structs.replace(kept, used_at=now))
            await self._key_values.put(
                KIND, token.token_id, body, over=thing.version, at=now
            )  # else somebody was faster
            self._seen[token.token_id] = now, used

    async def revoke(self, token_id: str) -> AccessToken | None:
        """End a token for ever; None when there is none of this prefix. Its row stays, so that the name does too.
        RefusedError for the last one of an administrator."""
        for _ in range(_TRIES):
            thing = await self._key_values.get(KIND, token_id)
            token = _read(thing.body) if thing is not None else None
            if thing is None or token is None:
                return None
            if token.revoked_at is not None:
                return token
            now = self._clock.now()
            revoked = msgspec.structs.replace(token, revoked_at=now)
            if await self._replace(thing, token, revoked, now):
                return revoked
        raise BackendError(f"token {token_id} is being changed by others all the time")

    async def _replace(self, thing: KeyValue, kept: AccessToken, changed: AccessToken, now: float) -> bool:
        """Store what became of a token; False when somebody else was faster. RefusedError when there would be no
        administrator any more."""
        token_id = kept.token_id
        is_farewell = kept.is_admin(now) and not changed.is_admin(now)
        if is_farewell and not await self._has_other_admin(token_id, now):
            raise _last_admin(token_id)
        self._seen.pop(token_id, None)
        stored = await self._key_values.put(KIND, token_id, msgspec.json.encode(changed), over=thing.version, at=now)
        if stored is not None and is_farewell and not await self._has_other_admin(token_id, now):
            # The other one went at the same moment. Whoever looks after both were stored puts his own back.
            await self._key_values.put(KIND, token_id, thing.body, over=stored.version, at=now)
            self._seen.pop(token_id, None)
            raise _last_admin(token_id)
        return stored is not None

    async def _has_other_admin(self, token_id: str, now: float) -> bool:
        return any(token.token_id != token_id and token.is_admin(now) for token in await self.list())


def _last_admin(token_id: str) -> RefusedError:
    return RefusedError(
        f"token {token_id} is the last of an administrator, and without one nobody can make another: "
        "make that first (noetl token create NAME --role admin)"
    )


def _read(body: bytes) -> AccessToken | None:
    """None for what this program does not understand, such as a role of another version: unknown is nobody."""
    try:
        token = msgspec.json.decode(body, type=AccessToken)
    except msgspec.DecodeError:
        return None
    return token if token.role in GIVEN else None


def _granted(token: AccessToken, wanted: Wanted, now: float) -> AccessToken:
    """The token with what it may do replaced by what is wanted; what it is known by stays."""
    return msgspec.structs.replace(
        token,
        subject=wanted.subject,
        role=wanted.role,
        human_roles=tuple(sorted(set(wanted.human_roles))),
        pools=tuple(sorted(set(wanted.pools))),
        expires_at=None if wanted.expires_in_s is None else now + wanted.expires_in_s,
    )


def _parts_of(text: str) -> tuple[str, str]:
    """Name and secret of a chosen token."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise InvalidError(
            "this is no token: write noetl_, 5 to 16 lower-case letters or digits, _, and 43 characters, which are "
            "32 random bytes in base64 for URLs without padding"
        )
    if len(set(shape[2])) < _LEAST_DISTINCT:
        raise InvalidError("the secret part of this token could be guessed: make it of 32 random bytes")
    return shape[1], shape[2]


def _refuse_if_wrong(wanted: Wanted) -> None:
    if wanted.role not in GIVEN:
        raise InvalidError(f'no token can have the role "{wanted.role}"; there is {", ".join(GIVEN)}')
    for name in (wanted.subject, *wanted.human_roles, *wanted.pools):
        if not _NAME.fullmatch(name):
            raise InvalidError(f"{name!r} is no name: 1 to 100 letters, digits, spaces and . _ @ + -")
    if wanted.role is Role.WORKER and not wanted.pools:
        raise InvalidError("a worker's token names the pools it serves: give one at least")
    if wanted.role is not Role.WORKER and wanted.pools:
        raise InvalidError(f"pools are for workers' tokens, and this is for the role {wanted.role}")
    if wanted.role is Role.WORKER and wanted.human_roles:
        raise InvalidError("roles of human tasks are for people, and this token is for a worker")
    if wanted.expires_in_s is not None and wanted.expires_in_s <= 0:
        raise InvalidError("a token expires later than now")


def token_view(token: AccessToken) -> AccessTokenView:
    return view_of(AccessTokenView, token)


def made_token(text: str, token: AccessToken) -> MadeToken:
    return view_of(MadeToken, token, token=text)


# The audit log: pages of it, for whoever may read it. Nothing changes it.


async def audit_page(audit: Audit, *, limit: int, before: int | None) -> AuditPage:
    """Rows, the newest first."""
    rows = await audit.newest(limit=limit, before=before)
    has_more = len(rows) == limit and rows[-1].seq > 1
    return AuditPage([view_of(AuditShape, row) for row in rows], str(rows[-1].seq) if has_more else None)
