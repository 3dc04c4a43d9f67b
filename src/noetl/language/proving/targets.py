"""Targets: step names as numbers, with the places that exist only because an arc names them (C-27, C-40)."""

from __future__ import annotations

from noetl.language.proving.graph import StepEnding
from noetl.net.net import Net
from noetl.templates.authored import Authored


class Targets:
    """Numbers for the steps of one net; grows when an arc leads to an implicit place."""

    def __init__(self, net: Net) -> None:
        self._indexes = {step.name: index for index, step in enumerate(net.transitions)}
        self._written = len(net.transitions)
        self.guessed: list[str] = []

    def index(self, name: str) -> int:
        return self._indexes.setdefault(name, len(self._indexes))

    @property
    def implicit(self) -> list[tuple[str, int]]:
        return [(name, at) for name, at in self._indexes.items() if at >= self._written]

    def way(
        self,
        address: str,
        index: int,
        target: str,
        computed: Authored | None,
        candidates: tuple[str, ...],
        tokens: int,
        cancel: tuple[str, ...],
    ) -> StepEnding:
        """An arc in numbers. A computed target without known candidates may lead to any step."""
        targets: tuple[int, ...]
        if computed is None:
            targets = (self.index(target),)
        elif candidates:
            targets = tuple(self.index(name) for name in candidates)
        else:
            targets = tuple(range(self._written))
            self.guessed.append(address)
        cancels = tuple(self._indexes[name] for name in cancel if name in self._indexes)
        return StepEnding(address, index, targets, max(tokens, 1), cancels)
