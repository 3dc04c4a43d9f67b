"""Derivations: how an outcome came about, kept so that a finding can be played as moving tokens."""

from __future__ import annotations

import msgspec

from noetl.analysis.graph import Firing, Way
from noetl.analysis.outcomes import Normal, Outcome


class Ended(msgspec.Struct, frozen=True):
    """The run's end made no token, or ended the execution."""

    firing: Firing


class Refused(msgspec.Struct, frozen=True):
    """Admission denied or parked the token, or another arc withdrew it."""


class Member(msgspec.Struct, frozen=True):
    """One token made by a firing, and what it comes to."""

    way: Way
    target: int
    outcome: Outcome


class Moved(msgspec.Struct, frozen=True):
    """The run's end made one token."""

    firing: Firing
    member: Member


class Forked(msgspec.Struct, frozen=True):
    """The run's end opened a group. `group` is how its tokens ended together; None when a member's fault or stop
    already tells all. `joined` are the joins that fired and what their runs came to."""

    firing: Firing
    members: tuple[Member, ...]
    group: Normal | None = None
    joined: tuple[tuple[int, Outcome], ...] = ()


Derivation = Ended | Refused | Moved | Forked
Derived = dict[Outcome, Derivation]
