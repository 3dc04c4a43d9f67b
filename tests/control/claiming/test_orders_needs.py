"""Playbooks that this version cannot run are refused before they begin, with a list of all the reasons."""

from __future__ import annotations

import sys

import pytest

from noetl.base.errors import RefusedError
from noetl.control.claiming.orders import check_runnable, not_runnable
from noetl.tools import registry
from noetl.tools.internal import NoopTool
from noetl.tools.registry import Registry
from tests.engine_script import net_of

RUNS = frozenset({"noop", "python"}).__contains__


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            "loop: {in: [1], iterator: x, spec: {mode: parallel, extend: true, policy: {partitioning: {key: '1'}}}}",
            "loop.spec.extend with partitioning (step start)",
        ),
        ("tool: {kind: http, url: 'http://x'}", "tool kind http of task start_task (step start)"),
    ],
)
def test_each_unsupported_construct_is_named_with_its_place(step: str, said: str) -> None:
    net = net_of(f"workflow:\n  - step: start\n    {step}\n")

    assert said in not_runnable(net, RUNS)


def test_a_plain_playbook_passes_the_admission_check() -> None:
    net = net_of("workflow: [{step: start, tool: {kind: python, code: x}, next: {arcs: [{step: b}]}}, {step: b}]")

    assert not_runnable(net, RUNS) == []


def test_all_missing_requirements_are_listed_at_once() -> None:
    net = net_of(
        """
keychain: [{name: k, kind: env}]
workflow:
  - step: start
    loop: {in: [1], iterator: x, spec: {mode: parallel, extend: true, policy: {partitioning: {key: '1'}}}}
    tool: {kind: postgres, auth: k, command: "select 1"}
"""
    )

    assert not_runnable(net, RUNS) == [
        "loop.spec.extend with partitioning (step start)",
        "tool kind postgres of task start_task (step start)",
    ]


def test_a_missing_extra_is_refused_before_a_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks before it would have done their work in the world."""
    net = net_of(
        "workflow: [{step: start, tool: {kind: noop}, next: {arcs: [{step: b}]}}, "
        "{step: b, tool: {kind: duckdb, query: SELECT 1}}]"
    )
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setattr(registry, "_INSTALLED_DRIVERS", set[str]())

    with pytest.raises(RefusedError, match=r'tool kind "duckdb" needs an extra: pip install "noetl-engine\[duckdb\]"'):
        check_runnable(net, Registry())
    check_runnable(net, Registry(), ["duckdb"])  # a worker elsewhere runs it
    check_runnable(net, Registry({"duckdb": NoopTool()}))
