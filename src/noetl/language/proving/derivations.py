"""Derivations: how an outcome came about, kept so that a finding can be played as moving tokens."""

from __future__ import annotations

import msgspec

from noetl.language.proving.graph import Firing, StepEnding
from noetl.language.proving.outcomes import Normal, Outcome


class EndedDerivation(msgspec.Struct, frozen=True):
    """The run's end made no token, or ended the execution."""

    firing: Firing


class RefusedDerivation(msgspec.Struct, frozen=True):
    """Admission denied or parked the token, or another arc withdrew it."""


class Member(msgspec.Struct, frozen=True):
    """One token made by a firing, and what it comes to."""

    way: StepEnding
    target: int
    outcome: Outcome


class MovedDerivation(msgspec.Struct, frozen=True):
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


Derivation = EndedDerivation | RefusedDerivation | MovedDerivation | Forked
Derived = dict[Outcome, Derivation]
