"""Tasks of loops that a test holds, and what they answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.worker import pipeline_run
from tests.playbook_runs import Scripted


def x_of(inputs: Any, context: Any) -> Any:
    return inputs["args"]["x"]


def always(**then: Any) -> dict[str, Any]:
    return {"else": {"then": {"do": "continue", **then}}}


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are sent early if a tool takes long: on a stalled machine such a report would come between iterations
    whose order a test checks."""
    monkeypatch.setattr(pipeline_run, "RIDE_S", 3600.0)


class Gate(Scripted):
    """Holds every run until `free` of them have started, or no other follows; counts how many are in at once."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(**answers)
        self.inside = self.most = 0

    async def run(self, inputs: Any, context: Any) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            for _ in range(20):
                await asyncio.sleep(0)
            return await super().run(inputs, context)
        finally:
            self.inside -= 1
