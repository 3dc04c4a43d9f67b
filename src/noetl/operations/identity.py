"""The one identity of a request, taken once from its token or session (reliability.md §2.3)."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Role(StrEnum):
    """What a caller may do. Each person's role includes those before it; workers stand apart, and so does whoever has
    shown no token, which no token can be made for."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    AUTHOR = "author"
    ADMIN = "admin"
    WORKER = "worker"
    NOBODY = "nobody"


PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.AUTHOR, Role.ADMIN)  # the lowest first
GIVEN = (*PEOPLE, Role.WORKER)  # those a token may have


def at_least(role: Role) -> frozenset[Role]:
    """This role of people and those above it."""
    return frozenset(PEOPLE[PEOPLE.index(role) :])


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`human_roles` are the roles of human tasks, names that playbooks choose; `pools` are those a worker serves."""

    subject: str
    role: Role
    human_roles: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    token_id: str = ""


ANONYMOUS = Caller(subject="", role=Role.NOBODY)
