"""Side by side: runs of a playbook and its migrated form, with tools that answer by a seed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext, ToolResult
from tests import quick_yaml
from tests.playbook_runs import Scripted
from tests.worker.case_running import answer, refused, run_case


class SeededTool(Scripted):
    """Answers by the call's own id and how often it was made; the seed decides what. `order` lets calls that are made
    at once end in another order."""

    def __init__(self, seed: int, order: int = 0) -> None:
        super().__init__()
        self._seed = seed
        self._turns = Random(order) if order else None
        self._made: dict[Any, int] = {}

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        for _ in range(self._turns.choice((0, 5, 40, 200)) if self._turns is not None else 0):
            await asyncio.sleep(0)
        return self.answer(inputs, context)

    def answer(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        args = inputs.get("args")
        identity = args.get("id") if isinstance(args, Mapping) else None
        made = self._made[identity] = self._made.get(identity, 0) + 1
        self.calls.append((str(identity), dict(inputs)))
        random = Random(f"{self._seed} {identity} {made}")
        number = random.randint(1, 4)
        if random.random() < 0.3:
            status = random.choice((404, 429, 503))
            raise refused(status) if "url" in inputs else ToolError("py.exception", "it broke")
        if "url" in inputs:
            return answer({"n": number})
        if "table" in inputs:
            return ToolResult(result={"data": [{"n": number}], "n": number, "row_count": 1}, wrapped=True)
        return ToolResult(result={"n": number})


class Did(msgspec.Struct, frozen=True):
    """The actions and the outcome of a run."""

    status: str
    error: str | None
    result: Any
    ctx: dict[str, Any]
    calls: list[tuple[str, str]]
    delays: list[float]
    stopped: bool  # a failed iteration of a parallel loop ended the loop


def did(text: str, seed: int, order: int = 0) -> Did:
    tool = SeededTool(seed, order)
    ran = run_case(text, tool=tool)
    calls = [(identity, repr(sorted(inputs.items()))) for identity, inputs in tool.calls]
    error = ran.result.error
    return Did(
        status=ran.result.status.value,
        error=error.kind if error else None,
        result=ran.result.result,
        ctx=ran.result.ctx,
        calls=calls,
        delays=[delay for delay in ran.slept if delay],
        stopped="mode: parallel" in text and "loop.iteration.failed" in ran.types(),
    )


def is_parallel(text: str) -> bool:
    """Whether a playbook can have several tokens or iterations at once, whose calls come in any order."""
    waiting: list[Any] = [quick_yaml.loaded(text)["workflow"]]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            targets = node.get("next")
            rules = [rule for rule in node.get("case", ()) if "'next'" in repr(rule)]
            if "loop" in node and len(rules) > 1:  # iterations can take several ways
                return True
            if "parallel" in (node.get("mode"), node.get("next_mode")) or node.get("next_mode") == "inclusive":
                return True
            if isinstance(targets, list) and len(targets) > 1:
                return True
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return False


def unordered(one: Did) -> Did:
    return msgspec.structs.replace(one, calls=sorted(one.calls), delays=sorted(one.delays))


def differences(old: Did, new: Did, *, in_order: bool) -> list[str]:
    if not in_order:
        old, new = unordered(old), unordered(new)
    return [
        f"{name}: {getattr(old, name)} / {getattr(new, name)}"
        for name in Did.__struct_fields__
        if name != "stopped" and getattr(old, name) != getattr(new, name)
    ]
