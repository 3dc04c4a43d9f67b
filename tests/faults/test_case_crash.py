"""Case runs that are interrupted: another worker goes on where the log says, and evaluates no rule twice (WRK-04)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.engine.evolve import replay
from noetl.events.envelope import decode_payload, encode_payload
from noetl.store.memory import MemoryStore
from noetl.tools.contract import ToolContext
from tests.crash_runs import Recording, drive
from tests.engine_script import net_of
from tests.playbook_runs import Scripted, broken
from tests.worker.case_running import case_text

STEPS = """
    - step: start
      spec: {case_mode: inclusive}
      tool: {kind: python, args: {n: 1}, code: x}
      retry:
        - {when: "{{ error }}", then: {max_attempts: 3}}
        - when: "{{ response.more }}"
          then:
            max_attempts: 5
            next_call: {args: {n: "{{ response.n + 1 }}"}}
            collect: {path: v, into: pages}
            sink: {tool: {kind: python, code: x}, args: {v: "{{ page.v }}", i: "{{ _retry.index }}"}}
      sink: {tool: {kind: python, code: x}, args: {all: "{{ result.pages }}"}}
      vars: {sum: "{{ pages | sum }}"}
      case:
        - when: "{{ event.name == 'step.enter' }}"
          then: {set: {entered: "{{ (vars.entered | default(0)) + 1 }}"}}
        - when: "{{ event.name == 'call.done' }}"
          then:
            - a: {tool: {kind: python, args: {v: "{{ result.v }}"}, code: x}}
            - b: {tool: {kind: python, args: {a: "{{ a.result }}"}, code: x}}
        - when: "{{ event.name == 'call.done' }}"
          then: {set: {count: "{{ (vars.count | default(0)) + 1 }}"}}
        - {when: "{{ event.name == 'step.exit' }}", then: [{c: {tool: {kind: python, code: x}}}]}
        - when: "{{ event.name == 'call.error' }}"
          then: [{mend: {tool: {kind: python, code: x}}}, {next: {next: [{step: each, args: {s: "{{ vars.sum }}"}}]}}]
    - step: each
      loop: {in: [1, 2], iterator: x}
      tool: {kind: python, args: {x: "{{ x }}"}, code: x}
      case:
        - {when: "{{ event.name == 'step.enter' }}", then: [{before: {tool: {kind: python, code: x}}}]}
        - {when: "{{ event.name == 'step.exit' }}", then: {next: [{step: last, args: {x: "{{ x }}"}}]}}
    - {step: last, tool: {kind: python, args: {x: "{{ args.x }}"}, code: x}}
"""
NET = net_of(case_text(STEPS))


def call(inputs: Any, context: ToolContext) -> Any:
    n = inputs["args"]["n"]
    return broken() if n == 2 and context.task_run.attempt == 1 else {"n": n, "v": n * 10, "more": n < 3}


def tool() -> Scripted:
    return Scripted(start_task=call, a=7, c=broken(), each_task=lambda inputs, _: inputs["args"]["x"])


@pytest.mark.req("WRK-04", "EVT-07", "V2C-16", "V2C-06", "V2C-23")
async def test_a_case_run_stopped_after_any_commit_reaches_the_same_end() -> None:
    whole, first = Recording(), tool()
    undisturbed = await drive(NET, whole, first, resumed=False)
    assert undisturbed.lifecycle.status == "completed"
    assert undisturbed.variables.ctx == {"entered": 1, "count": 1, "sum": 60}
    assert [name for name, _ in first.calls] == [
        *("start_task", "start_retry_1_sink", "start_task", "start_task", "start_retry_1_sink"),
        *("start_task", "start_retry_1_sink", "a", "b", "start_sink", "c", "mend"),
        *("before", "each_task", "before", "each_task", "last_task"),
    ]

    for length in range(1, len(whole.commits)):
        store = MemoryStore()
        for commits in whole.commits[:length]:
            await store.commit(commits)
        recorded = [event for event in await store.events("x1") if event.event_type == "task.processed"]
        scripted = tool()

        execution = await drive(NET, store, scripted, resumed=True)

        assert execution.lifecycle.status == undisturbed.lifecycle.status, length
        assert execution.variables.ctx == undisturbed.variables.ctx, length
        assert execution.outputs.results == undisturbed.outputs.results
        assert len(recorded) + len(scripted.calls) == len(first.calls), "no recorded task runs again"


@pytest.mark.req("EVT-07")
async def test_the_log_of_a_case_run_survives_text_encoding() -> None:
    store = MemoryStore()
    live = await drive(NET, store, tool(), resumed=False)

    events = [
        msgspec.structs.replace(event, payload=decode_payload(event.event_type, encode_payload(event.payload)))
        for event in await store.events("x1")
    ]

    assert replay("x1", "t1", events) == live
