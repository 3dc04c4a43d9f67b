"""A store with a few finished runs in it, for the commands that look at one."""

from __future__ import annotations

from pathlib import Path

from noetl.operations.embedded import RunResult, run
from tests.engine_script import playbook

ORDERS = """
workload: {n: 3}
workflow:
  - step: start
    tool:
      - name: warm
        kind: python
        code: "print('warming\\\\x1b[31m up')"
      - name: count
        kind: python
        args: {n: "{{ workload.n }}"}
        code: "print('counting'); result = {'n': n}"
    set_ctx: {seen.count: "{{ start.n }}"}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ range(workload.n) | list }}", iterator: x, spec: {mode: parallel}}
    tool: {name: double, kind: python, args: {x: "{{ iter.x }}"}, code: "print('item', x); result = 2 * x"}
    next: {arcs: [{step: finish}]}
  - step: finish
    tool: {kind: noop, args: {said: "all done"}}
"""
FAILING = """
workflow:
  - step: start
    tool:
      name: risky
      kind: python
      code: "print('trying'); raise ValueError('no luck')"
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2, delay: 0}}]}}
"""


def stored(folder: Path) -> tuple[str, RunResult, RunResult]:
    """The store's file, a run that completed, and a later one that failed."""
    db = str(folder / "store.db")
    return db, run(playbook(ORDERS), db=db), run(playbook(FAILING), db=db)
