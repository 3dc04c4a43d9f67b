"""More rows of the table of shapes: results by their own keys, loops, and the words of retries and rules."""

from __future__ import annotations

from tests.dialects.shapes import ARC, CASE, FETCH, NOOP, RETRIED, V2, Shape, led

TWO = "  - step: start\n    tool: [{name: a, kind: http, url: u}, {name: z, kind: noop, args: {n: VALUE}}]\n"
RULES = "  - step: start\n    tool: {kind: http, url: u, spec: {policy: {rules: [RULES]}}}\n"
FAIL = "{when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}"
LOOPED = '  - step: start\n    loop: {in: [1, 2], iterator: x}\n    tool: {kind: noop, args: {n: "{{ VALUE }}"}}\n'
DONE = "    case:\n      - when: \"{{ event.name == 'call.done' }}\"\n        then: "
SHIPPED = {"start_task": {"status": "shipped", "error": "none", "ref": "r-1"}}

MORE: dict[str, Shape] = {
    "own error": Shape("{{ step.error }}", led(FETCH + ARC, '"{{ start.error }}"'), {"n": "none"}, answers=SHIPPED),
    "own ref": Shape("{{ step.ref }}", led(FETCH + ARC, '"{{ start.ref }}"'), {"n": "r-1"}, answers=SHIPPED),
    "payload as result": Shape(
        "{{ step.result… }}",
        led(FETCH + ARC, '"{{ start.result.n }}"'),
        {"n": 7},
        answers={"start_task": {"n": 7}},
    ),
    "data of its own": Shape(
        "a payload with its own data",
        led(FETCH + ARC, '"{{ start.data.n }}"'),
        {"n": 7},
        answers={"start_task": {"data": {"n": 7}}},
    ),
    "previous": Shape(
        "{{ _prev.status }}",
        led(TWO.replace("VALUE", '"{{ _prev.status }}"') + ARC, '"{{ start.n }}"'),
        {"n": "shipped"},
        answers={"a": {"status": "shipped"}},
    ),
    "outcome result": Shape(
        "{{ outcome.result.status }}",
        led(
            RULES.replace(
                "RULES",
                f'{FAIL}, {{else: {{then: {{do: continue, set_ctx: {{k: "{{{{ outcome.result.status }}}}"}}}}}}}}',
            )
            + ARC,
            '"{{ ctx.k }}"',
        ),
        {"n": "shipped"},
        answers=SHIPPED,
    ),
    "loop index": Shape(
        "{{ loop.index }}",
        led(LOOPED.replace("VALUE", "loop.index") + ARC, '"{{ start.data }}"'),
        {"n": [{"n": 0}, {"n": 1}]},
    ),
    "no reference": Shape(
        "_ref is defined",
        led(NOOP + ARC, '"{{ start._ref is defined }}"'),
        {"n": False},
    ),
    "loop.iteration": Shape(
        "a case on loop.iteration.*",
        led(
            LOOPED.replace("VALUE", "x") + "    case:\n      - when: \"{{ event.name == 'loop.iteration.done' }}\"\n"
            '        then: {set: {last: "{{ x }}"}}\n    next: b\n',
            '"{{ vars.last }}"',
            CASE,
        ),
        {"n": 2},
    ),
    "then retry": Shape(
        "then with retry",
        led(
            FETCH + "    case:\n      - when: \"{{ event.name == 'call.error' }}\"\n"
            "        then: [{retry: {max_attempts: 2}}]\n    next: b\n",
            '"{{ start.n }}"',
            CASE,
        ),
        {"n": 7},
        "case-rule-retry",
        RETRIED,
    ),
    "then call": Shape(
        "then with call",
        led(NOOP + DONE + "[{call: {kind: noop, args: {n: 8}}}, {next: b}]\n", "7", CASE),
        {"n": 7},
        "case-then-list",
    ),
    "then collect": Shape(
        "then with collect",
        led(FETCH + DONE + "[{collect: {path: n, into: all, strategy: push}}, {next: b}]\n", '"{{ vars.all }}"', CASE),
        {"n": [7]},
        "case-then-collect",
        {"start_task": {"n": 7}},
    ),
    "then fail": Shape(
        "then with fail",
        led(
            FETCH + "    case:\n      - when: \"{{ event.name == 'call.done' and not result.ok }}\"\n"
            "        then: {fail: no}\n    next: b\n",
            "7",
            CASE,
        ),
        {"n": 7},
        "case-then-fail",
        {"start_task": {"ok": True}},
    ),
    "case outputs": Shape(
        "outputs of a step in v2-case",
        led(
            FETCH + '    outputs: {n: "{{ result.n }}"}\n    next: b\n',
            '"{{ vars.n }}"',
            CASE,
        ),
        {"n": 7},
        answers={"start_task": {"n": 7}},
    ),
    "retry max_delay": Shape(
        "retry.max_delay",
        led(FETCH + "    retry: {max_attempts: 2, delay: 4, max_delay: 2}\n    next: b\n", '"{{ start.n }}"', CASE),
        {"n": 7},
        answers=RETRIED,
    ),
    "retry params": Shape(
        "retry.params",
        led(
            FETCH.replace("url: u", "url: u, params: {page: 1}") + '    retry:\n      - when: "{{ response.more }}"\n'
            "        then: {max_attempts: 3, params: {page: 2}}\n    next: b\n",
            '"{{ start.n }}"',
            CASE,
        ),
        {"n": 7},
        answers={"start_task": [{"more": True}, {"n": 7, "more": False}]},
    ),
    "backoff fixed": Shape(
        "backoff: fixed",
        led(
            RULES.replace(
                "RULES",
                "{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 2, backoff: fixed, delay: 1}}",
            )
            + ARC,
            '"{{ start.n }}"',
        ),
        {"n": 7},
        "rule-backoff-fixed",
        RETRIED,
    ),
    "retry on a task": Shape(
        "a retry block on a v10 task",
        led(
            "  - step: start\n    tool: [{name: start_task, kind: http, url: u, retry: {max_attempts: 2}}]\n" + ARC,
            '"{{ start.n }}"',
        ),
        {"n": 7},
        "task-retry",
        RETRIED,
    ),
    "loop concurrency": Shape(
        "loop.concurrency",
        led(
            LOOPED.replace("iterator: x", "iterator: x, concurrency: 2").replace("VALUE", "x") + ARC,
            '"{{ start.data | length }}"',
        ),
        {"n": 2},
        "loop-concurrency",
    ),
    "executor requires": Shape(
        "executor.requires",
        led(NOOP + ARC, "7", V2, "executor: {requires: [gpu]}\n"),
        {"n": 7},
        "executor-requires",
    ),
    "loop until": Shape(
        "loop.until",
        led(
            LOOPED.replace("iterator: x", 'iterator: x, until: "{{ x == 1 }}"').replace("VALUE", "x") + ARC,
            '"{{ start.data | select | list | length }}"',
        ),
        {"n": 1},
        "loop-until",
    ),
    "kind iterator": Shape(
        "kind: iterator",
        led(
            "  - step: start\n    tool: {kind: iterator, collection: [1, 2], element: x, mode: sequential, "
            'task: {kind: noop, args: {n: "{{ x }}"}}}\n' + ARC,
            '"{{ start.data | length }}"',
        ),
        {"n": 2},
        "step-iterator",
    ),
    "depends_on": Shape(
        "depends_on",
        f"{V2}workflow:\n{NOOP}  - {{step: b, depends_on: [start], tool: {{kind: noop, args: {{n: 7}}}}}}\n",
        {"n": 7},
        "step-depends-on",
    ),
    "policy on_error": Shape(
        "policy.on_error",
        led("  - step: start\n    tool: {kind: http, url: u, spec: {policy: {on_error: continue}}}\n" + ARC, "7"),
        {"n": 7},
        "task-policy-on-error",
        {"start_task": [RuntimeError("500")]},
    ),
    "save": Shape(
        "save of a step",
        led(
            FETCH
            + '    save: {storage: postgres, auth: pg_creds, table: t, data: {n: "{{ result.n }}"}}\n    next: b\n',
            '"{{ start.n }}"',
            CASE,
        ),
        {"n": 7},
        "step-save",
        {"start_task": {"n": 7}},
    ),
    "directive without do": Shape(
        "fail: true without do",
        led(
            RULES.replace("RULES", "{when: \"{{ outcome.status == 'error' }}\", then: {retry: {attempts: 2}}}") + ARC,
            '"{{ start.n }}"',
        ),
        {"n": 7},
        "rule-bare-directive",
        RETRIED,
    ),
}
