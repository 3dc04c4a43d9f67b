"""Differential: a random playbook and its migrated form do the same, or the migration says that they would not.

The original and the migrated text run side by side in the engine, on a memory store and a clock that is moved by hand.
`make test` runs a few hundred seeds of each spelling, `make test-deep` 5,000 of them in all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

from noetl.base.errors import ToolError
from noetl.base.source import Source
from noetl.language.conversion import Outcome, convert
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.kinds import load_kinds
from tests.language.migrating.random_playbooks import Playbooks, text_of
from tests.narrowing import present
from tests.playbook_runs import Scripted
from tests.worker.case_running import answer, refused, run_case

KINDS = load_kinds()
IS_DEEP = os.environ.get("NOETL_DEEP") == "1"
SEEDS = {"v2-case": 120, "v2-eval": 60, "v10-io": 60, "mixed": 60}
if IS_DEEP:
    SEEDS = {"v2-case": 2520, "v2-eval": 1020, "v10-io": 480, "mixed": 1020}
CHUNK = 60


class SeededTool(Scripted):
    """Answers by the call's own id and how often it was made; the seed decides what."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._made: dict[Any, int] = {}

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
    """What a run did and what it led to."""

    status: str
    error: str | None
    result: Any
    ctx: dict[str, Any]
    calls: list[tuple[str, str]]
    delays: list[float]


def did(text: str, seed: int) -> Did:
    tool = SeededTool(seed)
    ran = run_case(text, tool=tool)
    calls = sorted((identity, repr(sorted(inputs.items()))) for identity, inputs in tool.calls)
    error = ran.result.error
    return Did(
        status=ran.result.status.value,
        error=error.kind if error else None,
        result=ran.result.result,
        ctx=ran.result.ctx,
        calls=calls,
        delays=sorted(delay for delay in ran.slept if delay),
    )


def mixed(document: dict[str, Any], migrated: str, random: Random) -> str:
    """The old document with some of its steps as the migrated one writes them: of two dialects, refused as it is."""
    new = {step["step"]: step for step in yaml.safe_load(migrated)["workflow"]}
    old = {step["step"]: step for step in document["workflow"]}
    steps = [new[name] if name in new and random.random() < 0.5 else step for name, step in old.items()]
    steps += [step for name, step in new.items() if name not in old]
    metadata = {key: value for key, value in document["metadata"].items() if key != "dialect"}
    return text_of({**document, "metadata": metadata, "workflow": steps})


def as_v10_io(migrated: str) -> str:
    """A v10 document in the words of v10-io: `input`, `output` and `set`."""
    document = yaml.safe_load(migrated)
    for step in document["workflow"]:
        tasks = step.get("tool", [])
        for task in tasks if isinstance(tasks, list) else [tasks]:
            if "args" in task:
                task["input"] = task.pop("args")
            for rule in task.get("spec", {}).get("policy", {}).get("rules", []):
                then = rule.get("else", rule).get("then", {})
                written = {f"ctx.{key}": value for key, value in then.pop("set_ctx", {}).items()}
                written |= {f"iter.{key}": value for key, value in then.pop("set_iter", {}).items()}
                if written:
                    then["set"] = written
                if then.get("backoff") == "none":
                    then["backoff"] = "fixed"
    document["apiVersion"] = "noetl.io/v2"
    return text_of(document).replace("outcome.", "output.")


def differences(old: Did, new: Did) -> list[str]:
    """What differs. A step variable of v2-eval is a key of `ctx` in v10, and a step that fails after the work of a rule
    has the error of its policy: notes of the migration say both."""
    if old.error is not None and new.error == "policy.fail":
        new = msgspec.structs.replace(new, error=old.error)
    found = [
        f"{name}: {getattr(old, name)} / {getattr(new, name)}"
        for name in ("status", "error", "result", "calls", "delays")
        if getattr(old, name) != getattr(new, name)
    ]
    known = {key: value for key, value in new.ctx.items() if key in old.ctx or (not key.endswith("_v") and key != "v")}
    return found + ([f"ctx: {old.ctx} / {known}"] if known != old.ctx else [])


def compared(kind: str, seed: int) -> list[str] | None:
    """The differences of one seed; None where there is nothing to compare."""
    playbooks = Playbooks(seed)
    dialect = {"mixed": playbooks.pick("v2-case", "v2-eval"), "v10-io": "v2-eval"}.get(kind, kind)
    document = playbooks.document(dialect)
    text = text_of(document)
    done = convert(Source("test.yaml", text), kinds=KINDS)
    if not done.before.ok or done.outcome is Outcome.BLOCKED:
        return None
    assert done.outcome is Outcome.MIGRATED, [one.message for one in done.after.refusals] if done.after else text
    assert done.text is not None
    if kind == "v10-io":
        text = as_v10_io(done.text)
        done = convert(Source("test.yaml", text), kinds=KINDS)
        assert done.outcome is Outcome.MIGRATED, [one.message for one in done.before.refusals]
    elif kind == "mixed":
        done = convert(Source("test.yaml", mixed(document, present(done.text), playbooks.random)), kinds=KINDS)
        if done.outcome not in (Outcome.MIGRATED, Outcome.UNCHANGED):
            return None  # a reported refusal is no silent difference
    assert done.text is not None
    return differences(did(text, seed), did(done.text, seed))


@pytest.mark.req("MIG-02", "MIG-03", "MIG-06")
@pytest.mark.parametrize(
    ("kind", "first"), [(kind, first) for kind, count in SEEDS.items() for first in range(0, count, CHUNK)]
)
def test_a_playbook_and_its_migrated_form_do_the_same(kind: str, first: int) -> None:
    found = {seed: compared(kind, seed) for seed in range(first, first + CHUNK)}

    assert {seed: one for seed, one in found.items() if one} == {}
    assert any(one == [] for one in found.values()), "nothing was compared"
