"""Playbooks the browser tests run: small ones, each for something a screen shows."""

from __future__ import annotations

CHAIN = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: chain, path: tests/chain }
workload: { n: 3, who: world }
workflow:
  - step: start
    tool:
      kind: python
      args: { who: "{{ workload.who }}" }
      code: |
        print("greeting", who)
        result = {"greeting": f"Hello, {who}!"}
    set_ctx: { greeted: "{{ workload.who }}" }
    next: { arcs: [{ step: each, args: { greeting: "{{ start.greeting }}" } }] }
  - step: each
    loop: { in: "{{ range(workload.n) | list }}", iterator: x, spec: { mode: parallel } }
    tool: { kind: noop, args: { x: "{{ iter.x }}" } }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: noop, args: { said: "{{ start.greeting }}" } }
"""

FAILING = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: failing, path: tests/failing }
workflow:
  - step: start
    tool:
      name: risky
      kind: python
      code: |
        print("trying")
        raise ValueError("no luck")
      spec:
        policy:
          rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 3, delay: 0.2 } }]
"""

WAITING = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: waiting, path: tests/waiting }
workload: { order: 7 }
workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [{ step: pay }] }
  - step: pay
    message: { name: paid, correlation: { order: "{{ workload.order }}" } }
    next: { arcs: [{ step: end }] }
  - step: end
"""

ASKING = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: asking, path: tests/asking, description: "Asks a boss whether something may be bought" }
workload: { amount: 900 }
workflow:
  - step: approve
    human_task:
      title: "Approve {{ workload.amount }}?"
      description: "Purchases over 500 need a second look."
      data: { amount: "{{ workload.amount }}", rows: [{ item: desk, price: 400 }, { item: lamp, price: 80 }] }
      assignee: { role: boss }
      form:
        - { field: decision, type: enum, options: [approve, reject], required: true }
        - { field: count, type: integer, default: 1 }
        - { field: sure, type: boolean }
        - { field: comment, type: text }
    next: { arcs: [{ step: end }] }
  - step: end
executor: { kind: local, spec: { entry_step: approve } }
"""

SCHEDULED = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: nightly, path: tests/nightly, description: "Runs every night at half past two" }
trigger: { timer: { cron: "30 2 * * *", spec: { timezone: Europe/Berlin, missed: none, overlap: skip } } }
workflow:
  - step: start
    tool: { kind: noop }
"""

STUCK = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: stuck, path: tests/stuck }
workflow:
  - step: start
    tool: { kind: noop }
    next:
      spec: { mode: inclusive }
      arcs: [{ step: left }, { step: right }]
  - step: left
    tool: { kind: noop }
    next: { arcs: [{ step: both, when: "{{ left.ok }}" }, { step: other, when: "{{ not left.ok }}" }] }
  - step: right
    tool: { kind: noop }
    next: { arcs: [{ step: both }] }
  - step: other
  - step: both
    spec: { join: { count: 2 } }
"""

BIG = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: big, path: tests/big }
workload: { n: 26000 }
workflow:
  - step: start
    loop: { in: "{{ range(workload.n) | list }}", iterator: x, spec: { mode: parallel, max_in_flight: 500 } }
    tool: { kind: noop }
    next: { arcs: [{ step: end }] }
  - step: end
"""

PRINTING = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: printing, path: tests/printing }
workload: { n: 150 }
workflow:
  - step: start
    loop: { in: "{{ range(workload.n) | list }}", iterator: x, spec: { mode: parallel } }
    tool: { kind: python, args: { x: "{{ iter.x }}" }, code: "print(f'item {x} is here')" }
"""

SLOW = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: slow, path: tests/slow }
workflow:
  - step: start
    timer: { duration: 1h }
    next: { arcs: [{ step: end }] }
  - step: end
"""

PARENT = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: parent, path: tests/parent }
workflow:
  - step: start
    tool: { kind: playbook, path: tests/chain }
"""

BOOKING = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: booking, path: tests/booking, description: "Books a trip, and takes it back if nobody pays" }
workload: { fail: false }
workflow:
  - step: flight
    tool: { kind: python, code: "result = {'flight': 'N7'}" }
    compensate:
      spec: { idempotent: true }
      tool: { kind: python, code: "result = 'cancelled'" }
    next: { arcs: [{ step: hotel }] }
  - step: hotel
    tool: { kind: python, code: "result = {'room': 12}" }
    compensate:
      tool: { kind: python, code: "raise RuntimeError('the hotel does not answer')" }
    next:
      arcs:
        - { step: sorry, when: "{{ workload.fail }}", spec: { trigger_compensation: true } }
        - { step: pay }
  - step: pay
    timer: { duration: 1h }
  - step: sorry
executor: { spec: { entry_step: flight } }
"""

BESIDE = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: beside, path: tests/beside }
workflow:
  - step: start
    tool:
      - { name: insert, kind: python, code: "result = 1", spec: { async: true } }
      - { name: next, kind: noop }
    next: { arcs: [{ step: talk }] }
  - step: talk
    timer: { duration: 1h }
    on_event:
      spec: { interrupting: false }
      handlers:
        - event: audit.required
          then: [{ name: audit, kind: python, code: "result = 1" }]
"""

LIMITED = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: limited, path: tests/limited }
executor: { spec: { concurrency: { limit: 50, on_limit: queue } } }
workflow:
  - step: start
    next: { spec: { mode: inclusive }, arcs: [{ step: call }, { step: call }, { step: call }] }
  - step: call
    spec: { concurrency: { limit: 1 } }
    timer: { duration: 1h }
"""

OLD = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: old, path: tests/old }
workflow:
  - step: start
    tool: { kind: noop }
    next: [{ step: end }]
  - step: end
    tool: { kind: noop }
"""


MIXED = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: mixed, path: tests/mixed }
workflow:
  - step: start
    when: "{{ workload.go | default(true) }}"
    tool: { kind: noop }
    next: { arcs: [{ step: end }] }
  - step: end
    tool:
      kind: noop
      spec: { unheard_of: 1 }
"""


def long(lines: int) -> str:
    """A playbook of about so many lines."""
    steps = []
    for n in range(lines // 23):
        body = "\n".join(f"        total_{k} = {k} + {n}" for k in range(17))
        steps.append(
            f"""  - step: step_{n}
    tool:
      kind: python
      code: |
{body}
        result = total_0
    next: {{ arcs: [{{ step: step_{n + 1} }}] }}"""
        )
    steps.append(f"  - step: step_{lines // 23}")
    return (
        "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: long, path: tests/long }\n"
        "executor: { spec: { entry_step: step_0 } }\nworkflow:\n" + "\n".join(steps) + "\n"
    )


def broad(areas: int, parts: int, path: str = "tests/broad") -> str:
    """Areas one after the other, each with so many parts at once between its first and its last step. The second part
    of the third area fails."""
    steps = []
    for area in range(areas):
        name = f"area{area:02}"
        names = [f"{name}_part_{part:02}" for part in range(parts)]
        arcs = ", ".join(f"{{ step: {one} }}" for one in names)
        steps.append(f"  - step: {name}_begin\n    next: {{ spec: {{ mode: inclusive }}, arcs: [{arcs}] }}")
        for one in names:
            code = "raise ValueError('no room')" if one == "area02_part_01" else "result = 1"
            tool = f"{{ kind: python, code: {code!r} }}" if "raise" in code else "{ kind: noop }"
            steps.append(f"  - step: {one}\n    tool: {tool}\n    next: {{ arcs: [{{ step: {name}_end }}] }}")
        onward = f"\n    next: {{ arcs: [{{ step: area{area + 1:02}_begin }}] }}" if area + 1 < areas else ""
        steps.append(f"  - step: {name}_end\n    spec: {{ join: {{ count: {parts} }} }}{onward}")
    return (
        f"apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {{ name: broad, path: {path} }}\n"
        "executor: { spec: { entry_step: area00_begin } }\nworkflow:\n" + "\n".join(steps) + "\n"
    )
