"""Playbooks made to size, for measuring: a long one, a wide one, hostile ones."""
# ruff: noqa: E501

from __future__ import annotations

STEP = """
  - step: step_{n}
    desc: Fetch page {n}, keep what is new, count the rest
    spec:
      policy:
        admit:
          rules: [{{ when: "{{{{ ctx.enabled | default(true) }}}}", then: {{ allow: true }} }}, {{ else: {{ then: {{ allow: false }} }} }}]
    tool:
      - name: fetch
        kind: http
        url: "{{{{ workload.api_url }}}}/pages/{n}"
        params: {{ page: "{{{{ iter.page | default({n}) }}}}" }}
        spec:
          timeout: 10
          policy:
            rules:
              - when: "{{{{ outcome.status == 'error' and outcome.http.status in [429, 50{d}] }}}}"
                then: {{ do: retry, attempts: {m}, backoff: exponential, delay: 1.0 }}
              - else: {{ then: {{ set_ctx: {{ total_{n}: "{{{{ outcome.result.data.total | default({n}) }}}}" }} }} }}
    next:
      arcs:
        - {{ step: {target}, when: "{{{{ event.name == 'step.done' and ctx.total_{n} != {n} }}}}" }}
        - {{ step: {target} }}
"""

HEAD = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: long, path: bench/long }
workload: { api_url: "http://127.0.0.1:1" }
workflow:
  - step: start
    next: { arcs: [{ step: step_0 }] }
"""


def long_playbook(steps: int = 200) -> str:
    """About 23 lines a step: 200 steps are some 4,600 lines."""
    body = "".join(
        STEP.format(n=n, d=n % 10, m=n % 7 + 1, target=f"step_{n + 1}" if n + 1 < steps else "end")
        for n in range(steps)
    )
    return HEAD + body + "\n  - step: end\n"


def parallel_playbook(steps: int = 1000, width: int = 8) -> str:
    """Fork, `width` branches of two steps, join, again and again."""
    lines = ["apiVersion: noetl.io/v10", "kind: Playbook", "metadata: { name: wide, path: bench/wide }", "workflow:"]
    blocks = steps // (2 * width + 1)
    for block in range(blocks):
        name = "start" if block == 0 else f"join_{block}"
        join = "" if block == 0 else "    spec: { join: all }\n"
        arcs = ", ".join(f"{{ step: a_{block}_{i} }}" for i in range(width))
        lines.append(f"  - step: {name}\n{join}    next: {{ spec: {{ mode: inclusive }}, arcs: [{arcs}] }}")
        for i in range(width):
            lines.append(f"  - step: a_{block}_{i}\n    next: {{ arcs: [{{ step: b_{block}_{i} }}] }}")
            lines.append(f"  - step: b_{block}_{i}\n    next: {{ arcs: [{{ step: join_{block + 1} }}] }}")
    lines.append(f"  - step: join_{blocks}\n    spec: {{ join: all }}")
    return "\n".join(lines) + "\n"


WORKFLOW = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {{ name: {name}, path: bench/{name} }}
executor: {{ spec: {{ policy: {{ limits: {{ max_step_runs: 20000 }} }} }} }}
workload: {{ items: [] }}
workflow:
"""
NOOP = "kind: noop, spec: { place: worker }"  # through the worker, as any other tool (design.md §8)
PYTHON = 'kind: python, code: "result = 1"'


def chain(steps: int, task: str = NOOP, name: str = "chain") -> str:
    """One step after the other, each with one task."""
    lines = [
        f"  - step: {'start' if n == 0 else f's{n}'}\n    tool: {{ name: t, {task} }}\n"
        + (f"    next: {{ arcs: [{{ step: s{n + 1} }}] }}\n" if n + 1 < steps else "")
        for n in range(steps)
    ]
    return WORKFLOW.format(name=name) + "".join(lines)


def loop() -> str:
    """A parallel loop over what the payload brings, and one step after it."""
    return WORKFLOW.format(name="loop") + (
        "  - step: start\n"
        '    loop: { in: "{{ workload.items }}", iterator: x, spec: { mode: parallel } }\n'
        f"    tool: {{ name: t, {NOOP} }}\n"
        "    next: { arcs: [{ step: after }] }\n"
        f"  - step: after\n    tool: {{ name: t, {NOOP} }}\n"
    )


def cycle(rounds: int) -> str:
    """A step that leads back to itself and counts, `rounds` times in all."""
    return WORKFLOW.format(name="cycle") + (
        "  - step: start\n"
        "    tool:\n"
        "      name: t\n"
        "      kind: noop\n"
        "      spec:\n"
        "        place: worker\n"
        "        policy:\n"
        '          rules: [{ else: { then: { do: continue, set_ctx: { n: "{{ ctx.n | default(0) + 1 }}" } } } }]\n'
        "    next:\n"
        "      arcs:\n"
        f'        - {{ step: start, when: "{{{{ ctx.n < {rounds} }}}}" }}\n'
        "        - { step: end }\n"
        "  - step: end\n"
    )


def waiting() -> str:
    """A step that waits for a message which nobody sends, and one after it."""
    return WORKFLOW.format(name="waiting") + (
        "  - step: start\n"
        '    message: { name: never, correlation: { id: "{{ execution_id }}" }, timeout: 24h }\n'
        "    next: { arcs: [{ step: end }] }\n"
        "  - step: end\n"
    )


def wasteful() -> str:
    """Templates that compute as long as they are let, step after step."""
    waste = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    return WORKFLOW.format(name="wasteful") + (
        f'  - step: start\n    tool: {{ name: t, {NOOP}, args: {{ x: "{waste}" }} }}\n'
    )


def slow() -> str:
    """A task of a minute, which says where it runs: its own process, and those above it up to its worker."""
    return WORKFLOW.format(name="slow") + (
        "  - step: start\n"
        "    tool:\n"
        "      name: t\n"
        "      kind: python\n"
        '      args: { folder: "{{ workload.folder }}" }\n'
        "      code: |\n"
        "        import os, time\n"
        "        ids = [os.getpid()]\n"
        "        while ids[-1] > 1:\n"
        "            ids.append(int(open(f'/proc/{ids[-1]}/stat').read().rpartition(')')[2].split()[1]))\n"
        "        with open(f'{folder}/tool.new', 'w') as file:\n"
        "            file.write(' '.join(map(str, ids)))\n"
        "        os.replace(f'{folder}/tool.new', f'{folder}/tool')\n"
        "        time.sleep(60)\n"
    )


def hostile_texts() -> dict[str, str]:
    """Texts that hurt a careless reader."""
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
    )
    return {
        "nested brackets": "[" * 100_000,
        "nested braces": "{a: " * 50_000,
        "nested blocks": "".join(" " * i + "a:\n" for i in range(1_200)),
        "alias bomb": bomb,
        "too large": "a: " + "x" * 1_100_000,
        "many maps": "a:\n" + "- {}\n" * 200_000,
        "huge scalar": "a: '" + "y" * 1_000_000 + "'",
        "many keys": "".join(f"k{i}: 1\n" for i in range(60_000)),
    }
