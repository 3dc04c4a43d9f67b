"""An order brings the results that its step can read, and no others (WRK-04, performance.md §2)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import noetl.tools
from noetl.control.claiming import orders
from noetl.events.orders import Order
from tests.control.control_plane import ControlPlane

FIRST = """
workflow:
  - {step: start, tool: {kind: python, code: x}, next: {arcs: [{step: fetched}]}}
  - {step: fetched, tool: {kind: python, code: x}, next: {arcs: [{step: last}]}}
"""
JUDGED = """
  - step: last
    tool:
      name: t
      kind: noop
      spec:
        place: worker
        policy:
          rules:
            - {when: "{{ fetched.n }}", then: {do: fail}}
            - else: {then: {do: continue, set_ctx: {a: "{{ start.n }}"}}}
"""


async def last_order(step: str) -> Order:
    """The order of the third step, the first two being done."""
    control_plane = ControlPlane()
    await control_plane.start(FIRST + step)
    order = await control_plane.claim()
    while order.step != "last":
        [order] = (await control_plane.turn(control_plane.done(order, {"n": order.step}))).orders
    return order


@pytest.mark.req("WRK-04")
@pytest.mark.parametrize(
    ("step", "brought"),
    [
        ("  - {step: last, tool: {kind: noop, spec: {place: worker}}}", set()),
        ('  - {step: last, tool: {kind: http, url: "http://x/{{ fetched.n }}"}}', {"fetched"}),
        ('  - {step: last, tool: {kind: http, url: x, headers: {"{{ start.n }}": y}}}', {"start"}),
        ("  - {step: last, tool: {kind: python, code: 'result = fetched'}}", {"fetched"}),
        ("  - {step: last, tool: {kind: python, args: {a: '{{ start }}'}, code: 'result = a'}}", {"start"}),
        ('  - {step: last, tool: {kind: python, code: "x = 1\\nfetched"}}', {"fetched"}),
        ("""  - {step: last, tool: {kind: http, url: x, params: {a: '{{ "\\t" ~ start.n }}'}}}""", {"start"}),
        ("  - {step: last, tool: {kind: python, script: {uri: /s.py}}}", {"start", "fetched"}),
        (JUDGED, {"start", "fetched"}),
    ],
)
async def test_an_order_carries_the_results_that_its_step_names(step: str, brought: set[str]) -> None:
    """A script that the worker opens may ask for anything."""
    order = await last_order(step)

    assert order.results.keys() == brought


@pytest.mark.req("WRK-04")
async def test_an_order_for_a_plug_in_carries_all_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "BUILT_IN", {"noop": ""})

    order = await last_order("  - {step: last, tool: {kind: log, message: none}}")

    assert order.results.keys() == {"start", "fetched"}


def test_only_python_reads_names_that_no_template_shows() -> None:
    """Whoever else begins to has to be told of in `step_reads`."""
    root = Path(noetl.tools.__file__).parent
    asking = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "name"
    }

    assert asking == {"python/tool.py"}
