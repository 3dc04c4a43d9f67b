"""A loop stopped after any of its commits and taken up by another process ends as an undisturbed one (SRV-12)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.events.loops import IterationDone
from noetl.store.memory import MemoryStore
from tests.crash_runs import Recording, drive
from tests.engine_script import net_of
from tests.playbook_runs import Scripted

LOOPS = {
    "sequential": "{in: [1, 2, 3, 4], iterator: x}",
    "parallel": "{in: [1, 2, 3, 4], iterator: x, spec: {mode: parallel, max_in_flight: 2}}",
    "local": "{in: [1, 2, 3, 4], iterator: x, spec: {mode: parallel, max_in_flight: 2, policy: {exec: local}}}",
    "nested": "{in: [[1, 2], [3, 4]], iterator: o, spec: {mode: parallel}, loop: {in: '{{ iter.o }}', iterator: x}}",
}
PLAYBOOK = """
workflow:
  - step: start
    loop: %s
    tool:
      - name: one
        kind: python
        code: x
        args: {x: "{{ iter.x }}"}
        spec:
          policy:
            rules: [{else: {then: {do: continue, set_iter: {k: "{{ iter.x * 2 }}"}, set_ctx: {"r.{{ iter.x }}": 1}}}}]
      - {name: two, kind: python, code: x, args: {x: "{{ iter.x }}", k: "{{ iter.k }}", prev: "{{ _prev.data }}"}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, args: {got: "{{ start.data }}", ctx: "{{ ctx.r | length }}"}}
"""


def tool() -> Scripted:
    return Scripted(
        one=lambda inputs, context: inputs["args"]["x"] + 100,
        two=lambda inputs, context: inputs["args"]["k"] + inputs["args"]["prev"],
    )


@pytest.mark.req("SRV-12", "WRK-04", "LOOP-13")
@pytest.mark.parametrize("kind", LOOPS)
async def test_a_loop_stopped_after_any_commit_reaches_the_same_end(kind: str) -> None:
    net, whole = net_of(PLAYBOOK % LOOPS[kind]), Recording()
    undisturbed = await drive(net, whole, tool(), resumed=False)
    assert undisturbed.outputs.ends["end"].result == {"got": [103, 106, 109, 112], "ctx": 4}

    for length in range(1, len(whole.commits)):
        store = MemoryStore()
        for commits in whole.commits[:length]:
            await store.commit(commits)
        recorded: list[Any] = [event.payload for event in await store.events("x1")]
        scripted = tool()

        execution = await drive(net, store, scripted, resumed=True)

        assert execution.lifecycle.status == undisturbed.lifecycle.status
        assert execution.variables.ctx == undisturbed.variables.ctx
        assert execution.outputs.ends == undisturbed.outputs.ends
        again = {inputs["args"]["x"] for _, inputs in scripted.calls}
        done = {payload.result.result for payload in recorded if isinstance(payload, IterationDone)}
        assert not done & {100 + 3 * x for x in again}, "an iteration that reported its end never runs again"
        processed = [payload.task for payload in recorded if payload.event_type == "task.processed"]
        assert len([task for task in processed if task in ("one", "two")]) + len(scripted.calls) == 8
