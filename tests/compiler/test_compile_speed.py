"""Compiling stays quick: 200 steps in about 0.2 s, bounded here with room for a busy machine."""

from __future__ import annotations

from time import process_time

from noetl.compiler.compiling import compile_playbook
from noetl.diagnostics import Findings
from noetl.document.reading import read_playbook
from noetl.source import Source
from noetl.templates.expression import parse
from noetl.tools.kinds import KINDS

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
    head = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: big, path: t/big }\nworkflow:\n"
    start = "  - step: start\n    next: { arcs: [{ step: s0 }] }\n"
    body = "".join(STEP.format(i=i, next=i + 1) for i in range(steps))
    return f"{head}{start}{body}  - step: s{steps}\n  - step: end\n"


def test_two_hundred_steps_compile_within_a_fraction_of_a_second():
    findings = Findings()
    playbook = read_playbook(Source("big.yaml", big_playbook(200)), findings)
    assert playbook is not None
    times = []
    for _ in range(2):
        parse.cache_clear()
        begun = process_time()
        compile_playbook(playbook, KINDS, findings)
        times.append(process_time() - begun)

    assert len(findings) == 0
    assert min(times) < 0.7


def test_very_many_options_that_nothing_reads_take_no_longer_each() -> None:
    """What was found before is not gone through for each of them."""
    head = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: x, path: x }\nworkflow:\n  - step: start\n"
    options = "".join(f"        zz{number}q: 1\n" for number in range(4_000))
    findings = Findings()
    playbook = read_playbook(
        Source("many.yaml", f"{head}    tool:\n      kind: noop\n      spec:\n{options}"), findings
    )
    assert playbook is not None

    began = process_time()
    compile_playbook(playbook, KINDS, findings)

    assert len(findings) == 4_000
    assert process_time() - began < 1
