"""`vars` of a step run of v2-eval, as its `next` reads them: with every `set_shared` folded in (V2E-05, V2E-07)."""

from __future__ import annotations

from typing import Any

from noetl.engine.execution import StepRun
from noetl.engine.loops.reducers import shared_of, with_shared


class StepVars:
    """Folded when a guard first reads them, in iteration order; what cannot be folded is that guard's error."""

    __slots__ = ("_folded", "_run")

    def __init__(self, run: StepRun) -> None:
        self._run = run
        self._folded: dict[str, Any] | None = None

    def value(self) -> dict[str, Any]:
        if self._folded is None:
            self._folded = with_shared(
                self._run.vars,
                {
                    key: [shared_of(value) for _, value in sorted(given, key=lambda one: one[0])]
                    for key, given in self._run.shared.items()
                },
            )
        return self._folded

    def lookup(self, name: str | int) -> Any:
        return self.value()[name]  # type: ignore[index]
