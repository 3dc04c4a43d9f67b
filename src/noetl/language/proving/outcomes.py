"""Outcomes: what one token, with all its descendants, can come to inside its fork group.

An outcome is small on purpose: which joins of the group were reached (counted as far as the join cares), and one
step at which a token ended by itself. Two tokens of equal outcome need no second look; that is the whole reduction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from noetl.language.proving.graph import Firing, StepEnding

NOBODY = -1


class Normal(msgspec.Struct, frozen=True):
    """All descendants arrived at joins or ended."""

    # Joins of the group with how many tokens came, counted only as far as the join cares: that keeps outcomes few.
    arrived: tuple[tuple[int, int], ...] = ()
    # A step where one ended unasked (not denied, not dropped).
    ended: int = NOBODY
    # One was taken away by a join with `rest: cancel`, of its own group or of one around it, or with the whole
    # execution.
    withdrawn: bool = False


class Stop(msgspec.Struct, frozen=True):
    """The execution was ended explicitly. Who still waited then waits no longer; what had gone wrong before, had."""


class Fault(msgspec.Struct, frozen=True):
    """Something unsound happened on the way: `kind` is the diagnostic's code, `steps` what it is about."""

    kind: str
    steps: tuple[int, ...]
    count: int = 0


Outcome = Normal | Stop | Fault

NOTHING = Normal()
WITHDRAWN = Normal(withdrawn=True)
STOP = Stop()


def together(one: Outcome, other: Outcome, caps: dict[int, int]) -> Iterator[Outcome]:
    """The outcomes of two independent tokens of one group taken together."""
    if isinstance(one, Stop) or isinstance(other, Stop):
        yield STOP
        yield from (o for o in (one, other) if isinstance(o, Fault) and o.kind != "W_DEADLOCK")
        return
    if isinstance(one, Fault) or isinstance(other, Fault):
        yield from (o for o in (one, other) if isinstance(o, Fault))
        return
    arrived = _add(one.arrived, other.arrived, caps)
    ends = {end for end in (one.ended, other.ended) if end != NOBODY}
    for ended in sorted(ends) or (NOBODY,):
        yield Normal(arrived, ended, one.withdrawn or other.withdrawn)


def _add(
    one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...], caps: dict[int, int]
) -> tuple[tuple[int, int], ...]:
    if not one or not other:
        return one or other
    counts = dict(one)
    for join, count in other:
        counts[join] = min(counts.get(join, 0) + count, caps[join])
    return tuple(sorted(counts.items()))


def product(parts: Iterable[Iterable[Outcome]], caps: dict[int, int]) -> set[Outcome]:
    """Every way independent tokens can end together; nothing when one of them cannot end at all."""
    found: set[Outcome] = {NOTHING}
    for part in parts:
        found = {both for one in found for other in part for both in together(one, other, caps)}
    return found


# Derivations: how an outcome came about, kept so that a finding can be played as moving tokens.


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
    """The run's end opened a group."""

    firing: Firing
    members: tuple[Member, ...]
    group: Normal | None = None  # how its tokens ended together; None when a member's fault or stop tells all
    joined: tuple[tuple[int, Outcome], ...] = ()  # the joins that fired, and what their runs came to


Derivation = EndedDerivation | RefusedDerivation | MovedDerivation | Forked
Derived = dict[Outcome, Derivation]
