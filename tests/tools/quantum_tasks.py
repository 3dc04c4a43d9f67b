"""Tasks of the quantum tool, as a worker would run them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.store.results.files import MemoryResults
from noetl.testing.tool_conformance import tool_context
from noetl.tools.quantum.tool import QuantumTool

BELL = """
OPENQASM 2.0;
include "qelib1.inc";
qreg q[2]; creg c[2];
h q[0]; cx q[0],q[1];  // entangled
measure q -> c;
"""


class World:
    """One worker's quantum tool, with a manual clock."""

    def __init__(
        self,
        *,
        policy: dict[str, Any] | None = None,
        stand_ins: tuple[str, ...] = (),
        credentials: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.tool, self.results, self.now = QuantumTool(), MemoryResults(), 1000.0
        self.policy, self.stand_ins, self.credentials = policy or {}, stand_ins, credentials or {}
        self.placed: list[Any] = []
        self.cleanups: dict[str, Any] = {}

    async def __call__(self, spec: dict[str, Any] | None = None, **inputs: Any) -> Any:
        context = tool_context(
            spec,
            key="x1/s/t",
            execution_id="x1",
            task_run_id="r1",
            name=lambda name: None,
            keep=self.results.put,
            load=self.results.load,
            now=lambda: self.now,
            policy=self.policy,
            provider_stand_ins=self.stand_ins,
            remark=lambda make, **details: self.placed.append((make, details)),
            resolve=self.credentials.__getitem__,
            cleanups=self.cleanups,
        )
        return (await self.tool.run(inputs, context)).result


async def refused(work: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await work
    return caught.value
