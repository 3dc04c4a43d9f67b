"""The shapes that people write, one row each: the result of a playbook of that shape, and the golden file with the
report of check. `line` names the shape of the row."""

from __future__ import annotations

from typing import Any

import msgspec

V2 = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
V10 = V2.replace("noetl.io/v2", "noetl.io/v10")
CASE = V2.replace("path: tests/t", "path: tests/t, dialect: v2-case")
EVAL = V2.replace("path: tests/t", "path: tests/t, dialect: v2-eval")
LAST = "  - {step: b, tool: {kind: noop, args: {n: VALUE}}}\n"


class Shape(msgspec.Struct, frozen=True):
    line: str
    text: str
    result: Any
    golden: str = ""  # of tests/golden: spellings/ID.out, or check/err/ID.out
    answers: dict[str, Any] = {}


def led(step: str, value: str, head: str = V2, root: str = "") -> str:
    """A first step, and one after it that shows `value`."""
    return f"{head}{root}workflow:\n{step}{LAST.replace('VALUE', value)}"


ARC = "    next: {arcs: [{step: b}]}\n"
NOOP = "  - step: start\n    tool: {kind: noop, args: {n: 7}}\n"
FETCH = "  - step: start\n    tool: {kind: http, url: u}\n"
RETRIED = {"start_task": [RuntimeError("503"), {"n": 7}]}

SHAPES: dict[str, Shape] = {
    # Silently wrong, 4: results by their own keys
    "own status": Shape(
        "{{ step.status }}", led(FETCH + ARC, '"{{ start.status }}"'), {"n": "shipped"},
        answers={"start_task": {"status": "shipped"}},
    ),
    "own rows": Shape(
        "{{ sql_step.rows }}", led(FETCH + ARC, '"{{ start.rows | length }}"'), {"n": 2},
        answers={"start_task": {"rows": [1, 2]}},
    ),
    "data.result": Shape(
        "{{ step.data.result… }}", led(FETCH + ARC, '"{{ start.data.result.n }}"'), {"n": 7},
        answers={"start_task": {"n": 7}},
    ),
    "envelope": Shape(
        "The envelope is always reachable", led(FETCH + ARC, '"{{ start._outcome.status }}"'), {"n": "success"},
        answers={"start_task": {"status": "shipped"}},
    ),
    "results of tasks": Shape(
        "{{ step.results.TASK }}",
        led(f"  - step: start\n    tool: [{{name: a, kind: noop, args: {{n: 7}}}}, {{name: z, kind: noop}}]\n{ARC}",
            '"{{ start.results.a.n }}"'),
        {"n": 7},
    ),
    "loop results": Shape(
        "{{ loop.results }}",
        led("  - step: start\n    loop: {in: [1, 2], iterator: x}\n    tool: {kind: noop, args: {n: \"{{ x }}\"}}\n"
            "    set_ctx: {all: \"{{ loop.results | length }}\"}\n" + ARC, '"{{ ctx.all }}"'),
        {"n": 2},
    ),
    # Silently wrong, 5
    "args of a looped step": Shape(
        "the args of a looped step see the iterator",
        led("  - step: start\n    args: {y: \"{{ x }}\"}\n    loop: {in: [1, 2], iterator: x}\n"
            "    tool: {kind: noop, args: {n: \"{{ args.y }}\"}}\n" + ARC, '"{{ start.data }}"'),
        {"n": [{"n": 1}, {"n": 2}]},
    ),
    "args of the caller": Shape(
        "The caller's args win",
        f"{V10}workbook: {{tasks: {{t: {{kind: noop, args: {{n: 1}}}}}}}}\n"
        "workflow: [{step: start, tool: {kind: workbook, task: t, args: {n: 7}}}]\n",
        {"n": 7},
    ),
    "loop.done": Shape(
        "a case on loop.done",
        led("  - step: start\n    loop: {in: [1, 2], iterator: x}\n    tool: {kind: noop}\n"
            "    case:\n      - when: \"{{ event.name == 'loop.done' }}\"\n"
            "        then: {set: {n: \"{{ result | length }}\"}, next: b}\n",
            '"{{ vars.n }}"', CASE),
        {"n": 2}, "case-loop-done",
    ),
    # Refused though the meaning is plain
    "labels": Shape(
        "labelled tasks", led(f"  - step: start\n    tool: [{{a: {{kind: noop, args: {{n: 7}}}}}}]\n{ARC}",
                              '"{{ start.n }}"'), {"n": 7}, "task-label",
    ),
    "root ctx": Shape("root ctx", led(NOOP + ARC, '"{{ ctx.k }}"', V2, "ctx: {k: 7}\n"), {"n": 7}),
    "step vars": Shape(
        "eval beside step vars", led(NOOP + '    vars: {k: "{{ result.n }}"}\n' + ARC, '"{{ ctx.k }}"'), {"n": 7},
        "step-vars",
    ),
    "then list": Shape(
        "then as a list",
        led(NOOP + "    case:\n      - when: \"{{ event.name == 'call.done' }}\"\n"
            "        then: [{log: x}, {set: {k: 7}}, {step: b}]\n", '"{{ vars.k }}"', CASE),
        {"n": 7}, "case-then-list",
    ),
    "set pairs": Shape(
        "set as a list of {name, value}", led(NOOP + "    set_ctx: [{name: k, value: 7}]\n" + ARC, '"{{ ctx.k }}"'),
        {"n": 7}, "step-set-pairs",
    ),
    "retry block": Shape(
        "a retry block on a v10 step", led(FETCH + "    retry: {max_attempts: 2, delay: 1, backoff: fixed}\n" + ARC,
                                           '"{{ start.n }}"'), {"n": 7}, "step-retry", RETRIED,
    ),
    "loop async": Shape(
        "loop.mode: async",
        led("  - step: start\n    loop: {in: [1, 2], iterator: x, mode: async, concurrency: 2}\n"
            "    tool: {kind: noop, args: {n: \"{{ x }}\"}}\n" + ARC, '"{{ start.data | length }}"'),
        {"n": 2}, "loop-mode-async",
    ),
    "next parallel": Shape(
        "next.spec.mode: parallel", led(NOOP + "    next: {spec: {mode: parallel}, arcs: [{step: b}]}\n", "7"),
        {"n": 7}, "next-mode-parallel",
    ),
    "next list": Shape("next as a list", led(NOOP + "    next: [{step: b}]\n", "7"), {"n": 7}, "next-list"),
    "cond": Shape(
        "cond for when", led(NOOP + "    next: {arcs: [{step: b, cond: \"{{ start.n == 7 }}\"}]}\n", "7"), {"n": 7},
        "arc-cond",
    ),
    "spec inputs": Shape(
        "tool inputs under tool.spec",
        led("  - step: start\n    tool: {kind: http, spec: {url: u}}\n" + ARC, '"{{ start.n }}"'), {"n": 7},
        "task-spec-inputs", {"start_task": {"n": 7}},
    ),
    "statement": Shape(
        "statement/sql for command",
        led("  - step: start\n    tool: {kind: postgres, auth: pg_creds, statement: SELECT 7}\n" + ARC,
            '"{{ start.n }}"'),
        {"n": 7}, "task-statement", {"start_task": {"n": 7}},
    ),
    "executor": Shape(
        "executor.profile: auto", led(NOOP + ARC, "7", V2, "executor: {profile: auto, timeout_s: 60}\n"), {"n": 7},
        "executor-auto",
    ),
    "step named error": Shape(
        "a step named error",
        f"{V2}workflow:\n{NOOP}    next: {{arcs: [{{step: error}}]}}\n"
        "  - {step: error, tool: {kind: noop, args: {n: 7}}}\n",
        {"n": 7},
    ),
    "event log": Shape(
        "kind: event_log sinks",
        led("  - step: start\n    tool: {kind: event_log, message: seen}\n" + ARC, "7"), {"n": 7}, "task-event-log",
    ),
    "v10-io": Shape(
        "a fourth spelling",
        led("  - step: start\n    input: {m: 7}\n    tool: {kind: noop, input: {n: \"{{ args.m }}\"}}\n"
            "    set: {ctx.k: \"{{ output.data.n }}\"}\n" + ARC, '"{{ ctx.k }}"'),
        {"n": 7}, "step-input",
    ),
    "keychain in v2-eval": Shape(
        "keychain in older dialects",
        f"{EVAL}keychain: [{{name: k, kind: static, map: {{a: one}}}}]\nworkflow:\n"
        "  - step: start\n    tool: [{a: {kind: noop, args: {n: 7}, eval: [{expr: true, do: continue}]}}]\n",
        {"n": 7}, "keychain-static-map",
    ),
}  # fmt: skip

# Refused as written, and fixed by migrate.
RESCUED: dict[str, Shape] = {
    "first step": Shape(
        "a first step not called start", f"{V2}workflow: [{{step: begin, tool: {{kind: noop, args: {{n: 7}}}}}}]\n",
        {"n": 7}, "E_NO_START",
    ),
    "mixed": Shape(
        "E_DIALECT_MIXED documents",
        led("  - step: start\n    tool: [{a: {kind: noop, args: {n: 7}, eval: [{expr: true, do: continue}]}}]\n" + ARC,
            '"{{ start.n }}"'),
        {"n": 7}, "E_DIALECT_MIXED",
    ),
}  # fmt: skip
