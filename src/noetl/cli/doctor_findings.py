"""Findings of an examination: one thing each, how it is, and what to do about it."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["ok", "note", "warning", "bad"]


class DoctorFinding(msgspec.Struct, frozen=True):
    what: str
    state: State
    found: str
    do: str = ""
