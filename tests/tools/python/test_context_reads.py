"""`context` in python code: workload, ctx, args and results, to be read only (TOOL-07, O-11)."""

from __future__ import annotations

import asyncio

import pytest

from noetl.language.checking import compiled
from noetl.operations.embedded import RunResult, run_net
from noetl.tools.python.context_reads import reads_context

TEXT = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {{ name: t, path: tests/t }}
workload: {{ region: eu, limits: {{ most: 3 }} }}
workflow:
  - step: start
    tool: {{ kind: noop, args: {{ n: 1 }} }}
    set_ctx: {{ seen: 2 }}
    next: {{ arcs: [{{ step: read, args: {{ given: 4 }} }}] }}
  - step: read
    tool:
      - {{ name: before, kind: noop, args: {{ m: 5 }} }}
      - {{ name: code, kind: python, args: {args}, code: "{code}" }}
"""


def run(code: str, args: str = "{}") -> RunResult:
    return asyncio.run(run_net(compiled(TEXT.format(code=code, args=args)), payload={}, db=":memory:"))


@pytest.mark.req("TOOL-07")
def test_code_reads_everything_through_its_context() -> None:
    parts = ["context['workload']['limits']['most']", "context.workload.region", "context.ctx.seen"]
    parts += ["context.args.given", "context.results.start.n", "context['results']['before']['m']"]

    ended = run(f"result = [{', '.join(parts)}]")

    assert ended.ok, ended.error
    assert ended.result == [3, "eu", 2, 4, 1, 5]


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize("write", ["context['ctx']['x'] = 1", "context.workload.x = 1", "context.ctx.update(x=1)"])
def test_the_context_is_read_only(write: str) -> None:
    ended = run(write)

    assert ended.error is not None
    assert "the context is read-only" in ended.error.message


@pytest.mark.req("TOOL-07")
def test_main_receives_the_context_and_can_return_a_part_of_it() -> None:
    assert run("def main(context): return context.workload").result == {"region": "eu", "limits": {"most": 3}}


@pytest.mark.req("TOOL-07")
def test_an_authored_name_hides_the_context() -> None:
    assert run("context['x'] = 1; result = context", args="{ context: { y: 2 } }").result == {"y": 2, "x": 1}


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("result = context.workload", True),
        ("def main(context): return 1", True),
        ("def helper(): return context['ctx']\nresult = helper()", True),
        ("result = 'context'", False),
        ("import ssl\ncontext = ssl.create_default_context()\nresult = context.check_hostname", False),
        ("with open('x') as context: result = context.read()", False),
        ("from decimal import getcontext as context\nresult = context().prec", False),
        ("result = context +", False),
    ],
)
def test_only_code_that_uses_the_context_receives_it(code: str, reads: bool) -> None:
    assert reads_context(code) is reads
