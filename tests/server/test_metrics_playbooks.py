"""Figures by playbook and step, of a whole server and of more playbooks than get series of their own."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from noetl.events.envelope import Event
from noetl.events.payloads import EventSource
from noetl.events.steps import StepScheduled
from noetl.server import metrics
from noetl.server.metrics import Meters, PlaybookMeters
from tests.playbook_runs import Scripted, broken
from tests.server.talking import talking

TWO_STEPS = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: load, path: sales/%s}
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: n}
    tool: [{name: each, kind: noop}]
    next: {arcs: [{step: work}]}
  - step: work
    tool: [{name: work, kind: python, code: x}]
"""


async def figures(*names: str, **answers: object) -> list[str]:
    async with talking(tools={"python": Scripted(**answers)}) as talk:
        for name in names:
            await talk.ran(TWO_STEPS % name)
        return (await talk.client.get("/metrics")).text.splitlines()


async def test_executions_and_steps_are_counted_by_playbook() -> None:
    lines = await figures("load", work=[{"rows": 1}, broken("source.down", "no rows")])
    more = await figures("load", "load", work=broken("source.down", "no rows"))

    for line in (
        'noetl_playbook_started_total{playbook="sales/load"} 1.0',
        'noetl_playbook_ended_total{playbook="sales/load",status="completed"} 1.0',
        'noetl_playbook_seconds_count{playbook="sales/load"} 1.0',
        'noetl_step_ended_total{playbook="sales/load",status="done",step="start"} 1.0',
        'noetl_step_ended_total{playbook="sales/load",status="done",step="work"} 1.0',
        'noetl_step_ended_total{playbook="sales/load",status="failed",step="work"} 0.0',
        'noetl_step_seconds_count{playbook="sales/load",step="start"} 1.0',
        'noetl_step_queue_seconds_count{playbook="sales/load",step="work"} 1.0',
    ):
        assert line in lines
    assert 'noetl_playbook_ended_total{playbook="sales/load",status="failed"} 2.0' in more
    assert 'noetl_step_ended_total{playbook="sales/load",status="failed",step="work"} 2.0' in more


async def test_playbooks_and_steps_beyond_a_number_are_counted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "MAX_PLAYBOOKS", 2)
    monkeypatch.setattr(metrics, "MAX_STEPS", 3)

    lines = await figures("a", "b", "c", "d", work={"rows": 1})

    counted = [line for line in lines if line.startswith(("noetl_playbook_ended_total", "noetl_step_ended_total"))]
    assert 'noetl_playbook_ended_total{playbook="other playbooks",status="completed"} 2.0' in counted
    assert 'noetl_step_ended_total{playbook="other playbooks",status="done",step="other steps"} 5.0' in counted
    assert not [line for line in counted if "sales/c" in line or "sales/d" in line]


def test_step_runs_that_never_end_on_this_server_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_OPEN", 2)
    registry = CollectorRegistry()
    meters = PlaybookMeters(registry)

    for number in range(5):
        meters._step_opened(
            Event(
                execution_id="e",
                seq=number,
                event_id=f"e-{number}",
                ts=0.0,
                source=EventSource.SERVER,
                payload=StepScheduled(token_id="k"),
                trace_id="t",
                step_run_id=f"run-{number}",
            )
        )

    assert list(meters._open) == ["run-3", "run-4"]
    assert b"noetl_step_seconds_count" not in generate_latest(registry)


def test_pools_beyond_a_number_get_no_series_of_their_own_whatever_they_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "MAX_POOLS", 3)
    meters = Meters()

    for name in ("z", "y", "x", "w", "v"):
        meters.set_open_orders(ready={name: 1}, leased={})

    lines = [line for line in meters.text().decode().splitlines() if line.startswith("noetl_pool_orders{")]
    ready = {line.partition('pool="')[2].partition('"')[0]: line[-3:] for line in lines if 'state="ready"' in line}
    assert ready == {"default": "0.0", "z": "0.0", "y": "0.0", "other pools": "1.0"}


def test_a_pool_with_workers_has_its_series_though_playbooks_named_many_others_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "MAX_POOLS", 2)
    meters = Meters()

    meters.set_open_orders(ready={"a": 1, "gpu": 2, "y": 4, "x": 8}, leased={})
    meters.set_open_orders(ready={"a": 1, "gpu": 2, "y": 4, "x": 8}, leased={"gpu": 1}, served=("gpu",))

    lines = [line for line in meters.text().decode().splitlines() if line.startswith("noetl_pool_orders{")]
    found = {line.partition("{")[2].partition("}")[0]: line.rpartition(" ")[2] for line in lines}
    assert found['pool="gpu",state="ready"'] == "2.0"
    assert found['pool="gpu",state="leased"'] == "1.0"
    assert found['pool="other pools",state="ready"'] == "12.0"
