"""Access tokens: opaque, 256 bits, `noetl_<public prefix>_<secret>`. A token is shown once; the store has only a hash
of its secret. Also pages of the audit log.

A token is looked up by its prefix, and its secret is compared in constant time. A text that is not exactly an active
token is refused: unknown, expired, revoked, or with a role that does not exist (reliability.md §2.3).
"""

from __future__ import annotations

import re
import secrets

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, InvalidError, RefusedError
from noetl.operations import administration_shapes
from noetl.operations.api_shapes import view_of
from noetl.secrets.encryption import are_same, digest_of, fresh_secret
from noetl.store.audit import Audit
from noetl.store.installation import KeyValue, KeyValues, each_key_value

KIND = "token"
# The prefix of the token that a server creates when there is none. It is fixed, so that of two servers that start at
# the same moment only one can store it.
FIRST = "first"
# The last use is stored at most once in five minutes, so that a read-only request seldom writes.
USED_EVERY_S = 300.0
# A looked-up token is cached for this long, so a revocation on another server takes effect after at most this time.
SEEN_FOR_S = 1.0
_SEEN_AT_MOST = 10_000
_NAME = re.compile(r"[\w.@+ -]{1,100}")
_SHAPE = re.compile(r"noetl_([a-z0-9]{5,16})_([A-Za-z0-9_-]{43})")
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # without l, o, 0 and 1, which people confuse
# Each try fails only if another process changed the same row in between.
_TRIES = 5
# Distinct characters of a chosen secret. 43 random characters have fewer than 16 once in 10^12 times.
_LEAST_DISTINCT = 16


class AccessToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is stored. `token_id` is its public prefix."""

    token_id: str
    subject: str
    role: administration_shapes.Role
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
        return self.role is administration_shapes.Role.ADMIN and self.is_alive(now)

    @property
    def identity(self) -> administration_shapes.Caller:
        return administration_shapes.Caller(
            subject=self.subject,
            role=self.role,
            human_roles=frozenset(self.human_roles),
            pools=frozenset(self.pools),
            token_id=self.token_id,
        )


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a token to create. A token for workers names at least one of `pools`."""

    subject: str
    role: administration_shapes.Role
    human_roles: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    expires_in_s: float | None = None


class AccessTokens:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self._cache: dict[str, tuple[float, AccessToken | None]] = {}
        self._used: dict[str, float] = {}  # when tokens were last used at this server; no more than were created

    async def create(self, requested: TokenRequest) -> tuple[str, AccessToken]:
        """Create a token; returns its text, which cannot be read again later, and the stored token."""
        _validate(requested)
        for _ in range(_TRIES):
            created = await self._store("".join(secrets.choice(_ALPHABET) for _ in range(10)), requested)
            if created is not None:
                return created
        raise BackendError("no new token could be stored: other processes took every name that was tried")

    async def adopt(self, text: str, requested: TokenRequest) -> AccessToken:
        """Store a token that an operator has chosen. Adopting it again changes only its permissions.

        RefusedError for a text that is no token, could be guessed, was revoked, or has the name of another token."""
        _validate(requested)
        token_id, secret = _split_token(text)
        for _ in range(_TRIES):
            row = await self._key_values.get(KIND, token_id)
            if row is None:
                made = await self._store(token_id, requested, secret)
                if made is not None:
                    return made[1]
                continue  # another process was faster
            stored = _decode_token(row.body)
            if stored is None or not are_same(digest_of(secret), stored.secret_hash):
                raise RefusedError(f'there is another token "{token_id}": choose another name after noetl_')
            if stored.revoked_at is not None:
                raise RefusedError(f"token {token_id} was revoked, which cannot be undone: create a new one")
            now = self._clock.now()
            changed = _with_grants(stored, requested, now)
            if changed == stored or await self._replace(row, stored, changed, now):
                return changed
        raise BackendError(f"token {token_id} could not be changed: other processes keep changing it")

    async def any_exist(self) -> bool:
        """Whether a token was ever created; revoked ones count."""
        return bool(await self._key_values.list(KIND, limit=1))

    async def create_first_admin(self) -> str | None:
        """Create a token for an administrator if there has never been one; returns its text, else None."""
        # Look for administrators, not for any token: a worker's token may exist before the first start of a server, and
        # then there would be no token that can create others.
        if any(token.role is administration_shapes.Role.ADMIN for token in await self.list()):
            return None
        created = await self._store(FIRST, TokenRequest(subject="admin", role=administration_shapes.Role.ADMIN))
        return created[0] if created is not None else None

    async def _store(
        self, token_id: str, requested: TokenRequest, chosen: str | None = None
    ) -> tuple[str, AccessToken] | None:
        now, secret = self._clock.now(), chosen or fresh_secret()
        empty = AccessToken(
            token_id=token_id, subject="", role=requested.role, secret_hash=digest_of(secret), created_at=now
        )
        token = _with_grants(empty, requested, now)
        self._cache.pop(token_id, None)
        row = await self._key_values.put(KIND, token_id, msgspec.json.encode(token), over=0, at=now)
        return None if row is None else (f"noetl_{token_id}_{secret}", token)

    async def list(self) -> list[AccessToken]:
        found = [_decode_token(row.body) async for row in each_key_value(self._key_values, KIND)]
        tokens = [self._with_last_use(token) for token in found if token is not None]
        return sorted(tokens, key=lambda token: token.created_at)

    def _with_last_use(self, token: AccessToken) -> AccessToken:
        """Uses are stored now and then; those at this server are known to the second."""
        used = self._used.get(token.token_id)
        return token if used is None or used <= (token.used_at or 0.0) else msgspec.structs.replace(token, used_at=used)

    async def get(self, token_id: str) -> AccessToken | None:
        """The stored token with this prefix, active or not, from a cache of one second."""
        now = self._clock.now()
        cached = self._cache.get(token_id)
        if cached is not None and now - cached[0] < SEEN_FOR_S:
            return cached[1]
        row = await self._key_values.get(KIND, token_id)
        token = _decode_token(row.body) if row is not None else None
        # Unknown prefixes are cached too, so an attacker who guesses tokens could fill the memory.
        if len(self._cache) >= _SEEN_AT_MOST:
            self._cache.clear()
        self._cache[token_id] = now, token
        return token

    async def find_active(self, token_id: str) -> AccessToken | None:
        token = await self.get(token_id)
        return token if token is not None and token.is_alive(self._clock.now()) else None

    async def authenticate(self, text: str) -> AccessToken | None:
        """The active token with this text; None if there is no such token."""
        shape = _SHAPE.fullmatch(text)
        token = await self.get(shape[1]) if shape else None
        stored_hash = token.secret_hash if token is not None else digest_of("")
        # Compare also when there is no token, so that the duration does not reveal whether a prefix exists.
        is_match = are_same(digest_of(shape[2] if shape else text), stored_hash)
        if token is None or not is_match or not token.is_alive(self._clock.now()):
            return None
        await self._note_use(token)
        return token

    async def _note_use(self, token: AccessToken) -> None:
        now = self._used[token.token_id] = self._clock.now()
        if token.used_at is not None and now - token.used_at < USED_EVERY_S:
            return
        row = await self._key_values.get(KIND, token.token_id)
        stored = _decode_token(row.body) if row is not None else None
        if row is not None and stored is not None:
            body = msgspec.json.encode(used := msgspec.structs.replace(stored, used_at=now))
            # Refused if another server has changed the row meanwhile; that is enough.
            await self._key_values.put(KIND, token.token_id, body, over=row.version, at=now)
            self._cache[token.token_id] = now, used

    async def revoke(self, token_id: str) -> AccessToken | None:
        """Revoke a token forever; None if there is none with this prefix. Its row stays, so that the prefix is not
        used again. RefusedError for the last token of an administrator."""
        for _ in range(_TRIES):
            row = await self._key_values.get(KIND, token_id)
            token = _decode_token(row.body) if row is not None else None
            if row is None or token is None:
                return None
            if token.revoked_at is not None:
                return token
            now = self._clock.now()
            revoked = msgspec.structs.replace(token, revoked_at=now)
            if await self._replace(row, token, revoked, now):
                return revoked
        raise BackendError(f"token {token_id} could not be changed: other processes keep changing it")

    async def _replace(self, row: KeyValue, token: AccessToken, changed: AccessToken, now: float) -> bool:
        """Store a changed token; False if another process changed it first. RefusedError if no administrator would be
        left."""
        token_id = token.token_id
        removes_admin = token.is_admin(now) and not changed.is_admin(now)
        if removes_admin and not await self._has_other_admin(token_id, now):
            raise _last_admin(token_id)
        # Drop the cached token first, so that a revocation takes effect here at once.
        self._cache.pop(token_id, None)
        new_row = await self._key_values.put(KIND, token_id, msgspec.json.encode(changed), over=row.version, at=now)
        if new_row is not None and removes_admin and not await self._has_other_admin(token_id, now):
            # Another process removed the other administrator at the same moment. Each process that sees no
            # administrator after its write restores its own token.
            await self._key_values.put(KIND, token_id, row.body, over=new_row.version, at=now)
            self._cache.pop(token_id, None)
            raise _last_admin(token_id)
        return new_row is not None

    async def _has_other_admin(self, token_id: str, now: float) -> bool:
        return any(token.token_id != token_id and token.is_admin(now) for token in await self.list())


def _last_admin(token_id: str) -> RefusedError:
    return RefusedError(
        f"token {token_id} is the last token of an administrator, and only an administrator can create tokens: "
        "create another one first (noetl token create NAME --role admin)"
    )


def _decode_token(body: bytes) -> AccessToken | None:
    """The stored token; None for one that this version cannot read, such as one with an unknown role."""
    try:
        token = msgspec.json.decode(body, type=AccessToken)
    except msgspec.DecodeError:
        return None
    return token if token.role in administration_shapes.TOKEN_ROLES else None


def _with_grants(token: AccessToken, requested: TokenRequest, now: float) -> AccessToken:
    """The token with the requested permissions. Its id and secret stay."""
    return msgspec.structs.replace(
        token,
        subject=requested.subject,
        role=requested.role,
        human_roles=tuple(sorted(set(requested.human_roles))),
        pools=tuple(sorted(set(requested.pools))),
        expires_at=None if requested.expires_in_s is None else now + requested.expires_in_s,
    )


def _split_token(text: str) -> tuple[str, str]:
    """Prefix and secret of a token that an operator has chosen. InvalidError for a malformed or weak one."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise InvalidError(
            "this is not a token: write noetl_, 5 to 16 lower-case letters or digits, _, and 43 characters, which are "
            "32 random bytes in base64 for URLs without padding"
        )
    if len(set(shape[2])) < _LEAST_DISTINCT:
        raise InvalidError("the secret part of this token could be guessed: use 32 random bytes")
    return shape[1], shape[2]


def _validate(requested: TokenRequest) -> None:
    roles = administration_shapes.TOKEN_ROLES
    if requested.role not in roles:
        raise InvalidError(f'no token can have the role "{requested.role}"; choose one of {", ".join(roles)}')
    for name in (requested.subject, *requested.human_roles, *requested.pools):
        if not _NAME.fullmatch(name):
            raise InvalidError(f"{name!r} is not a valid name: use 1 to 100 letters, digits, spaces and . _ @ + -")
    if requested.role is administration_shapes.Role.WORKER and not requested.pools:
        raise InvalidError("a worker's token names the pools it serves: name at least one")
    if requested.role is not administration_shapes.Role.WORKER and requested.pools:
        raise InvalidError(f"pools are for workers' tokens, and this one has the role {requested.role}")
    if requested.role is administration_shapes.Role.WORKER and requested.human_roles:
        raise InvalidError("roles of human tasks are for people, and this token is for a worker")
    if requested.expires_in_s is not None and requested.expires_in_s <= 0:
        raise InvalidError("a token must expire in the future")


def token_view(token: AccessToken) -> administration_shapes.AccessTokenView:
    return view_of(administration_shapes.AccessTokenView, token)


def made_token(text: str, token: AccessToken) -> administration_shapes.MadeToken:
    return view_of(administration_shapes.MadeToken, token, token=text)


async def audit_page(audit: Audit, *, limit: int, before: int | None) -> administration_shapes.AuditPage:
    """A page of the audit log, the newest rows first."""
    rows = await audit.newest(limit=limit, before=before)
    has_more = len(rows) == limit and rows[-1].seq > 1
    return administration_shapes.AuditPage(
        [view_of(administration_shapes.AuditShape, row) for row in rows], str(rows[-1].seq) if has_more else None
    )
