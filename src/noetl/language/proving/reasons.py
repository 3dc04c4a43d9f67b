"""Reasons: why a cycle ends, as far as it shows in the net."""

from __future__ import annotations

import msgspec


class CycleReason(msgspec.Struct, frozen=True):
    """`cycle` lists its steps (or `step.task` for a pipeline) in text order; `why` names what ends it."""

    cycle: tuple[str, ...]
    why: str
