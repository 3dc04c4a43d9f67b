"""The playbooks of these tests. Tasks whose name begins with "effect" do something that the effect ledger counts."""

from __future__ import annotations

_HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\n"


def _effect(name: str) -> str:
    return "{ name: effect_" + name + ", kind: http, method: POST, url: '{{ workload.url }}/" + name + "' }"


CHAIN = f"""{_HEAD}
metadata: {{ name: chain, path: cluster/chain }}
workload: {{ url: "", items: [0, 1, 2, 3, 4] }}
workflow:
  - step: start
    tool: [{_effect("first")}, {_effect("second")}]
    next: {{ arcs: [{{ step: each }}] }}
  - step: each
    loop: {{ in: "{{{{ workload['items'] }}}}", iterator: item, spec: {{ mode: parallel, max_in_flight: 5 }} }}
    tool: [{_effect("item")}]
    next: {{ arcs: [{{ step: last }}] }}
  - step: last
    tool: [{_effect("last")}]
"""

LOOP = f"""{_HEAD}
metadata: {{ name: loop, path: cluster/loop }}
workload: {{ url: "", items: [0, 1, 2, 3, 4] }}
workflow:
  - step: start
    loop: {{ in: "{{{{ workload['items'] }}}}", iterator: item, spec: {{ mode: parallel, max_in_flight: 5 }} }}
    tool: [{_effect("item")}]
    next: {{ arcs: [{{ step: last }}] }}
  - step: last
    tool: [{_effect("last")}]
"""

WIDE = LOOP.replace("cluster/loop", "cluster/wide").replace("name: loop", "name: wide")
WIDE = WIDE.replace("items: [0, 1, 2, 3, 4]", f"items: {list(range(30))}").replace(
    "max_in_flight: 5", "max_in_flight: 2"
)

LARGE = f"""{_HEAD}
metadata: {{ name: large, path: cluster/large }}
workload: {{ url: "" }}
workflow:
  - step: start
    tool:
      - {{ name: make, kind: python, code: "result = {{'text': 'x' * 100_000}}" }}
      - {_effect("after")}
    next: {{ arcs: [{{ step: last }}] }}
  - step: last
    tool: [{_effect("last")}]
"""

ALARM = f"""{_HEAD}
metadata: {{ name: alarm, path: cluster/alarm }}
workload: {{ url: "" }}
workflow:
  - step: start
    timer: {{ duration: 1 }}
    next: {{ arcs: [{{ step: last }}] }}
  - step: last
    tool: [{_effect("last")}]
"""

SLOW = f"""{_HEAD}
metadata: {{ name: slow, path: cluster/slow }}
workload: {{ url: "", s: 3 }}
workflow:
  - step: start
    tool:
      - {{ name: wait, kind: python, args: {{ s: "{{{{ workload.s }}}}" }}, code: "import time; time.sleep(s)" }}
      - {_effect("after")}
    next: {{ arcs: [{{ step: last }}] }}
  - step: last
    tool: [{_effect("last")}]
"""

GATED = SLOW.replace("name: slow, path: cluster/slow", "name: gated, path: cluster/gated").replace("s: 3", 'gate: ""')
GATED = GATED.replace('s: "{{ workload.s }}"', 'gate: "{{ workload.gate }}"').replace(
    "import time; time.sleep(s)", "import os, time\\nwhile not os.path.exists(gate): time.sleep(0.02)"
)

POISON = f"""{_HEAD}
metadata: {{ name: poison, path: cluster/poison }}
workload: {{ url: "" }}
workflow:
  - step: start
    tool: [{{ kind: noop }}]
    next: {{ arcs: [{{ step: poison }}] }}
  - step: poison
    tool: [{_effect("poison")}]
"""


ONE = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: one, path: cluster/one }
workflow:
  - { step: start, tool: { kind: python, code: pass }, next: { arcs: [{ step: last }] } }
  - { step: last, tool: { kind: python, code: pass } }
"""
