"""The work of compiling grows with the length of a playbook and no faster; `make bench` has its time."""

from __future__ import annotations

from itertools import pairwise

from noetl.base.diagnostics import Findings, Source
from noetl.language.compiling.compiler import compile_playbook
from noetl.language.reading.reader import read_playbook
from noetl.templates.expression import parse
from noetl.tools.kinds import KINDS
from tests.work_counting import count_calls

STEP = """  - step: s{i}
    loop:
      in: "{{{{ workload.items_{i} }}}}"
      iterator: item
      spec: {{ mode: parallel, max_in_flight: 5 }}
    tool:
      - name: fetch
        kind: http
        url: "{{{{ workload.api }}}}/{{{{ iter.item.id }}}}/{i}"
        params: {{ page: "{{{{ iter.page{i} | default(1) }}}}" }}
        spec:
          policy:
            rules:
              - when: "{{{{ outcome.status == 'error' and outcome.http.status in [429, {i}] }}}}"
                then: {{ do: retry, attempts: 5 }}
              - when: "{{{{ outcome.status == 'error' }}}}"
                then: {{ do: fail }}
              - else:
                  then: {{ do: continue, set_iter: {{ r: "{{{{ outcome.result.data.x{i} + 1 }}}}" }} }}
      - name: store
        kind: duckdb
        command: "INSERT INTO t VALUES ({{{{ iter.r }}}}, {{{{ fetch.data.y{i} }}}})"
    next:
      arcs:
        - step: s{next}
          when: "{{{{ event.name == 'loop.done' and event.data.total > {i} }}}}"
        - step: end
          when: "{{{{ event.name == 'step.failed' }}}}"
"""


def big_playbook(steps: int) -> str:
    items = "".join(f", items_{i}: []" for i in range(steps))
    head = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: big, path: t/big }\n"
    head += f"workload: {{ api: x{items} }}\nworkflow:\n"
    start = "  - step: start\n    next: { arcs: [{ step: s0 }] }\n"
    body = "".join(STEP.format(i=i, next=i + 1) for i in range(steps))
    return f"{head}{start}{body}  - step: s{steps}\n  - step: end\n"


def calls_to_compile(text: str) -> tuple[int, Findings]:
    findings = Findings()
    playbook = read_playbook(Source("big.yaml", text), findings, kinds=KINDS)
    assert playbook is not None
    parse.cache_clear()
    _, calls = count_calls(lambda: compile_playbook(playbook, KINDS, findings))
    return calls, findings


def test_checking_two_hundred_steps_takes_about_twice_the_work_of_a_hundred() -> None:
    calls_to_compile(big_playbook(1))  # what is imported and cached first

    calls, findings = calls_to_compile(big_playbook(200))

    assert len(findings) == 0
    assert calls < 2.5 * calls_to_compile(big_playbook(100))[0]
    assert calls < 3_000_000


def test_the_cost_per_small_step_does_not_grow() -> None:
    """What is looked up per step must not go through all other steps: small steps show it, since nothing covers it."""
    head = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: x, path: t/x }\nworkflow:\n"

    def text(steps: int) -> str:
        names = ["start", *(f"s{i}" for i in range(1, steps))]
        body = "".join(
            f"  - step: {name}\n    tool: {{ kind: noop }}\n    next: {{ arcs: [{{ step: {after} }}] }}\n"
            for name, after in pairwise((*names, "end"))
        )
        return f"{head}{body}  - step: end\n"

    calls_to_compile(text(2))  # what is imported and cached first

    calls, findings = calls_to_compile(text(300))

    assert len(findings) == 0
    assert calls < 2.1 * calls_to_compile(text(150))[0]


def test_the_cost_per_unknown_option_does_not_grow() -> None:
    """What was found before is not gone through for each of them."""
    head = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: x, path: x }\nworkflow:\n  - step: start\n"

    def text(number: int) -> str:
        options = "".join(f"        zz{one}q: 1\n" for one in range(number))
        return f"{head}    tool:\n      kind: noop\n      spec:\n{options}"

    calls, findings = calls_to_compile(text(4_000))

    assert len(findings) == 4_000
    assert calls < 2.5 * calls_to_compile(text(2_000))[0]
