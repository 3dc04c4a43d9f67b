"""Ability: what a worker runs and what it carries, and so which orders it may be given (SRV-08, WRK-05)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class WorkerAbilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself when it registers."""

    # Tool kinds. None: the worker did not say what it runs, as older ones do not, and is given everything.
    kinds: frozenset[str] | None = None
    labels: Mapping[str, str] = {}

    def runs(self, needs: frozenset[str] | None) -> bool:
        """Whether it covers these tool kinds; what is not known yet is tried."""
        return self.kinds is None or needs is None or needs <= self.kinds

    def carries(self, required: Mapping[str, str]) -> bool:
        return all(self.labels.get(key) == value for key, value in required.items())


ANY = WorkerAbilities()


def labels_text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
