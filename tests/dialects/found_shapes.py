"""Shapes that are no other spelling of anything: what `check` says of each, under `noetl.io/v10` and under v2."""

from __future__ import annotations

import msgspec

from tests.dialects.shapes import V2, V10


class FoundShape(msgspec.Struct, frozen=True):
    """`strict` is the code under noetl.io/v10, `older` that under noetl.io/v2; `said` stands in message or hint."""

    line: str
    text: str
    strict: str
    older: str
    said: str


def both(
    line: str, text: str, codes: str | tuple[str, str], said: str, root: str = "workload: {url: u}\n"
) -> FoundShape:
    strict, older = (codes, codes) if isinstance(codes, str) else codes
    return FoundShape(line, f"{root}workflow:\n{text}", strict, older, said)


def task(more: str) -> str:
    return f"  - step: start\n    tool: [{{name: a, {more}}}]\n"


def ruled(rules: str) -> str:
    return task(f"{HTTP}, spec: {{policy: {{rules: [{rules}]}}}}")


UNDEFINED = ("E_UNDEFINED_NAME", "W_UNDEFINED_NAME")
NOOP = "  - step: start\n    tool: {kind: noop}\n"
HTTP = "kind: http, url: u"
FORM = "  - step: start\n    human_task: {title: t, form: [{field: decision}]}\n"

FOUND: dict[str, FoundShape] = {
    "step key": both(
        "unknown keys of a step",
        NOOP + "    tols: 1\n    frequency: daily\n",
        ("E_STEP_KEY", "W_UNKNOWN_KEY"),
        "frequency",
    ),
    "task key": both(
        "unknown keys of a task", task("kind: http, url: u, note: x"), ("E_TASK_KEY", "W_UNKNOWN_KEY"), "note"
    ),
    "arc key": both(
        "unknown keys of an arc",
        NOOP + "    next: {arcs: [{step: b, weight_of: 2}]}\n  - step: b\n",
        ("E_NEXT_SHAPE", "W_UNKNOWN_KEY"),
        "weight_of",
    ),
    "rule key": both(
        "unknown keys of a rule",
        task("kind: noop, spec: {policy: {rules: [{when: true, then: {do: break}, comment: x}]}}"),
        ("E_RULE_SHAPE", "W_UNKNOWN_KEY"),
        "comment",
    ),
    "root name": both("a root name that nothing defines", task('kind: noop, args: {n: "{{ ulr }}"}'), UNDEFINED, "url"),
    "root name in SQL": both(
        "in SQL",
        task('kind: duckdb, command: "SELECT {{ ulr }}"'),
        UNDEFINED,
        "url",
    ),
    "workload key": both(
        "misspelled keys of workload", task('kind: noop, args: {n: "{{ workload.ulr }}"}'), UNDEFINED, "url"
    ),
    "iter key": both(
        "misspelled keys of iter",
        '  - step: start\n    loop: {in: [1], iterator: x}\n    tool: {kind: noop, args: {n: "{{ iter.indx }}"}}\n',
        UNDEFINED,
        "index",
    ),
    "event key": both(
        "misspelled keys of event",
        NOOP + "    next: {arcs: [{step: b, when: \"{{ event.nmae == 'step.done' }}\"}]}\n  - step: b\n",
        UNDEFINED,
        "name",
    ),
    "form field": both(
        "misspelled form fields",
        FORM + '    next: {arcs: [{step: b, when: "{{ start.data.decison }}"}]}\n  - step: b\n',
        UNDEFINED,
        "decision",
    ),
    "auth shape": both("auth of an unknown shape", task(f"{HTTP}, auth: [1, 2]"), "E_INPUT_SHAPE", "auth"),
    "auth empty": both("an empty mapping as auth", task(f"{HTTP}, auth: {{}}"), "E_INPUT_SHAPE", "auth"),
    "transfer type": both(
        "unknown transfer.type",
        task("kind: transfer, source: {type: postgers, query: q}, target: {type: postgres, table: t}"),
        "E_INPUT_SHAPE",
        "postgres",
    ),
    "artifact inputs": both("artifact inputs", task("kind: artifact, op: delete, ref: r"), "E_INPUT_SHAPE", "get"),
    "script source": both(
        "script.source", task("kind: python, script: {uri: a.py, source: {type: ftp}}"), "E_INPUT_SHAPE", "file"
    ),
    "libs shape": both("libs shapes", task('kind: python, libs: 7, code: "result = 1"'), "E_INPUT_SHAPE", "libs"),
    "template in python": both(
        "{{ … }} inside Python code", task("kind: python, code: \"result = '{{ workload.url }}'\""), "W_PYTHON", "args"
    ),
    "error kind": both(
        "outcome.error.kind words that no tool produces",
        ruled("{when: \"{{ outcome.error.kind == 'teapot' }}\", then: {do: fail}}"),
        "W_ERROR_KIND",
        "http.status",
    ),
    "else continue": both(
        "an else that takes errors",
        ruled("{else: {then: {do: continue}}}"),
        "W_ERROR_ACCEPTED",
        "do: fail",
    ),
    "failure by an arc": both(
        "an arc that a failure takes",
        f"  - step: start\n    tool: {{{HTTP}}}\n"
        '    next: {arcs: [{step: b, when: "{{ workload.url }}"}]}\n  - step: b\n',
        "W_ERROR_ACCEPTED",
        "step.failed",
    ),
    "fallback of a retry": both(
        "a fallback behind a retry",
        ruled(
            '{when: "{{ outcome.error }}", then: {do: retry, attempts: 2}}, '
            "{when: \"{{ outcome.status == 'error' }}\", then: {do: break}}"
        ),
        "W_RETRY_LAST",
        "_attempt",
    ),
    "result of a step": both(
        "a step's result as a template", NOOP + '    result: "{{ start.n }}"\n', "E_STEP_KEY", "set_ctx"
    ),
    "loop where": both(
        "loop.where",
        '  - step: start\n    loop: {in: [1], iterator: x, where: "{{ x }}"}\n    tool: {kind: noop}\n',
        "E_LOOP_SHAPE",
        "selectattr",
    ),
    "step on_error": both(
        "spec.policy.on_error of a step",
        NOOP + "    spec: {policy: {on_error: continue}}\n",
        "E_POLICY_SCOPE",
        "best_effort",
    ),
    "several dependencies": both(
        "depends_on with several steps",
        "  - {step: start, tool: {kind: noop}}\n  - {step: b, depends_on: [start], tool: {kind: noop}}\n"
        "  - {step: c, depends_on: [start, b], tool: {kind: noop}}\n",
        "E_STEP_KEY",
        "join: all",
    ),
}


def documents(shape: FoundShape) -> list[tuple[str, str]]:
    """The document under each version of the language, with the code it must draw."""
    return [(V10 + shape.text, shape.strict), (V2 + shape.text, shape.older)]
