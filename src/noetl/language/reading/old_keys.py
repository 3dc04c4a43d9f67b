"""Keys of other dialects, ages and systems, each with its replacement (DIA-05, VAL-14, MIG-04, V2E-10).

This table has the keys that an author may believe to work. Each reader knows the keys of its construct.
"""

from __future__ import annotations

import msgspec

from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.shared_checks import ReadContext, snake_case


class OldKeyRefusal(msgspec.Struct, frozen=True):
    code: str
    message: str
    hint: str


_PIPE = OldKeyRefusal(
    "E_PIPE", '"pipe" is not a key', "a tool list already is an ordered pipeline: write its tasks under tool"
)
_SINK = OldKeyRefusal(
    "E_SINK",
    '"sink" is not a key',
    "storage is a tool task that returns a reference: add one to tool, such as kind: postgres with table",
)
_TASK_WHEN = OldKeyRefusal(
    "E_TASK_WHEN",
    'a task has no "when"',
    "put the task under choose: [{when: …, then: [task]}], or before it a kind: noop with a rule that has do: jump",
)

_V10_CASE = OldKeyRefusal(
    "E_CASE",
    'v10 has no "case"',
    "write a condition for the step in step.spec.policy.admit.rules, for what follows a task in "
    "task.spec.policy.rules, for the next step in next.arcs[].when; to wait, use timer, message, signal or human_task",
)
_RETRIES = (
    "write a rule in the task: spec: {policy: {rules: [{when: "
    "\"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 4, delay: 1}}]}}"
)
_V10_RETRY = OldKeyRefusal("E_RETRY_BLOCK", 'v10 has no "retry" block', _RETRIES)
_V10_EVAL = OldKeyRefusal("E_EVAL", 'v10 has no "eval"', "write task.spec.policy.rules: [{when: …, then: {do: …}}]")
_V10_EXPR = OldKeyRefusal("E_EXPR", 'v10 has no "expr"', "write when, in task.spec.policy.rules")

_EVAL_CASE = OldKeyRefusal(
    "E_CASE",
    'v2-eval has no "case"',
    "write a condition for the step in its when, for what follows a task in the task's eval, for the next step in "
    "next[].when; or migrate to v10 (noetl migrate), which has next.arcs",
)
_EVAL_RETRY = OldKeyRefusal(
    "E_RETRY_BLOCK", 'v2-eval has no "retry" block', "write an eval entry with do: retry on the task"
)

REFUSED_IN_STEPS: dict[Dialect, dict[str, OldKeyRefusal]] = {
    Dialect.V10: {
        "when": OldKeyRefusal("E_STEP_WHEN", 'v10 has no "when" on a step', "write step.spec.policy.admit.rules"),
        "case": _V10_CASE,
        "retry": _V10_RETRY,
        "sink": _SINK,
        "vars": OldKeyRefusal(
            "E_VARS_BLOCK", 'v10 has no "vars" block', "write then.set_ctx in task.spec.policy.rules"
        ),
        "pipe": _PIPE,
        "eval": _V10_EVAL,
        "expr": _V10_EXPR,
        "arcs": OldKeyRefusal(
            "E_STEP_KEY", '"arcs" is not a key of a step', "move it under next: next: {arcs: [{step: …}]}"
        ),
        "next_policy": OldKeyRefusal("E_STEP_KEY", '"next_policy" is not a key of a step', "write next.spec.policy"),
        "next_mode": OldKeyRefusal("E_STEP_KEY", '"next_mode" is not a key of a step', "write next.spec.mode"),
        "policy": OldKeyRefusal("E_STEP_KEY", '"policy" is not a key of a step', "write step.spec.policy"),
    },
    Dialect.V2_EVAL: {
        "case": _EVAL_CASE,
        "retry": _EVAL_RETRY,
        "sink": _SINK,
        "vars": OldKeyRefusal(
            "E_VARS_BLOCK", 'v2-eval has no "vars" block', "write set_vars in an eval entry; in v10 then.set_ctx"
        ),
        "pipe": _PIPE,
        "eval": OldKeyRefusal("E_STEP_KEY", '"eval" is not a key of a step', "write eval on the task it decides about"),
        "next_policy": OldKeyRefusal("E_STEP_KEY", '"next_policy" is not a key of a step', "write step.spec.next_mode"),
        "next_mode": OldKeyRefusal("E_STEP_KEY", '"next_mode" is not a key of a step', "write step.spec.next_mode"),
    },
}

REFUSED_IN_TASKS: dict[Dialect, dict[str, OldKeyRefusal]] = {
    Dialect.V10: {
        "when": _TASK_WHEN,
        "eval": _V10_EVAL,
        "expr": _V10_EXPR,
        "case": _V10_CASE,
        "retry": _V10_RETRY,
        "sink": _SINK,
        "pipe": _PIPE,
        "policy": OldKeyRefusal("E_TASK_KEY", '"policy" is not a key of a task', "write task.spec.policy"),
    },
    Dialect.V2_EVAL: {
        "when": OldKeyRefusal(
            "E_TASK_WHEN", 'a task has no "when"', "put a kind: noop before it, with an eval entry that has do: jump"
        ),
        "expr": OldKeyRefusal(
            "E_TASK_KEY", '"expr" is not a key of a task', "write it in an eval entry: eval: [{expr: …}]"
        ),
        "case": _EVAL_CASE,
        "retry": _EVAL_RETRY,
        "sink": _SINK,
        "pipe": _PIPE,
    },
    Dialect.V2_CASE: {"when": _TASK_WHEN, "pipe": _PIPE},
}

# Step options of the older dialects, in a v10 document.
V10_STEP_OPTIONS: dict[str, OldKeyRefusal] = {
    "next_mode": OldKeyRefusal("E_NEXT_SHAPE", 'v10 has no "next_mode" on a step', "write next.spec.mode"),
    "case_mode": OldKeyRefusal("E_CASE", 'v10 has no case, so no "case_mode"', "write next.spec.mode for next.arcs"),
    "eval_mode": OldKeyRefusal(
        "E_CASE", 'v10 has no case, so no "eval_mode"', "wait for events with wait blocks or on_event"
    ),
    "on_error": OldKeyRefusal(
        "E_SPEC_OPTION", 'v10 has no "on_error" on a step', "write step.spec.policy.failure.mode"
    ),
}


def refuse(reading: ReadContext, node: Mapping, refusals: dict[str, OldKeyRefusal]) -> None:
    """Note each of the refused keys that `node` has."""
    for key, refusal in refusals.items():
        if key in node:
            reading.error(refusal.code, node.keys[key], refusal.message, refusal.hint)


# Keys of other systems that a playbook has under another name, each with its replacement. People write them at the
# root, on a step, inside a task and on an arc, so each names its place.
_TIMER = "a step that waits has timer: {duration: 5s} in place of tool"
_PERSON = "a step that asks a person has human_task: {title: …, form: […]} in place of tool"
_GUARD = (
    'a condition stands on the arc that leads here: next: {arcs: [{step: …, when: "{{ … }}"}]}; '
    'between the tasks of one step: tool: [{choose: [{when: "{{ … }}", then: [{kind: …}]}]}]'
)
_LOOP = 'a step that repeats has loop: {in: "{{ … }}", iterator: item} beside tool'
_FAILURE = "decide it in the task: spec: {policy: {rules: [{when: …, then: {do: retry | continue | fail}}]}}"
_JOINING = (
    "arcs of several steps lead here, and spec: {join: all} waits for their tokens; an arc takes a failure "
    "with when: \"{{ event.name == 'step.failed' }}\""
)
_TOOL = "what a step runs is its tool: tool: {kind: python, code: …}, or a list of such tasks"
_LEADING = (
    "arcs lead on: next: {arcs: [{step: …, when: \"{{ event.name == 'step.done' }}\"}, "
    "{step: …, when: \"{{ event.name == 'step.failed' }}\"}]}"
)
_AGAIN = (
    "an arc may lead back to a step: next: {arcs: [{step: …, when: …}]}; "
    "within one step: tool: [{while: {when: …, then: [{kind: …}]}}]"
)
_SIDE_BY_SIDE = (
    "a step that forks has next: {spec: {mode: inclusive}, arcs: [{step: …}, …]}; "
    "the items of a loop run side by side with loop: {…, spec: {mode: parallel}}"
)
_TIME_LIMIT = "write timeout: 5m on the step, or spec: {timeout: 5m} in a task; the unit stands behind the number"
_RESULT = (
    "the result of a step is what its last task returns, and templates read it by the name of the step; "
    "set_ctx: {name: …} gives a value a name of its own"
)
_NOTICE = "the playbook has it: on: {failed: {notify: {email: {to: […], auth: …}}}} beside workflow"
_ENCODED = "write the text itself, without base64"
WORDS_OF_OTHERS = {
    **{f"{name}_b64": f"{_ENCODED}: {name}: …" for name in ("code", "command", "commands", "query", "script")},
    "loop": "a loop stands on the step, beside tool, and runs all its tasks for each item",
    "description": "write desc",
    "save": "storage is a task of its own: {kind: postgres, auth: …, table: …, args: {…}} in tool",
    **dict.fromkeys(("sleep", "wait", "delay", "pause"), _TIMER),
    **dict.fromkeys(("approval", "approve", "manual", "form", "human"), _PERSON),
    **dict.fromkeys(("if", "condition", "unless", "switch", "run_if", "only_if", "skip_if", "skip"), _GUARD),
    **dict.fromkeys(("enabled", "disabled"), _GUARD),
    **dict.fromkeys(("trigger_rule", "wait_for", "join"), _JOINING),
    **dict.fromkeys(("retry_strategy", "retry_policy", "retry_delay"), _RETRIES),
    **dict.fromkeys(("continue_on_error", "ignore_errors", "allow_failure"), _FAILURE),
    **dict.fromkeys(("call", "task", "tasks", "action", "uses", "pipeline", "operator"), _TOOL),
    **dict.fromkeys(("python_callable", "bash_command", "jobs", "dag"), _TOOL),
    **dict.fromkeys(("concurrency", "max_concurrency"), "write spec: {concurrency: {limit: 2}} of the step"),
    **dict.fromkeys(("pool", "queue", "worker_pool", "runs_on", "task_runner"), "write spec: {pool: name} of the step"),
    **dict.fromkeys(("finally", "on_success", "errors", "fallback", "rescue", "always"), _LEADING),
    **dict.fromkeys(("goto", "then", "else", "next_step", "next_steps", "transition", "transitions"), _LEADING),
    **dict.fromkeys(("foreach", "for_each", "for", "each", "items", "with_items", "map", "iterate"), _LOOP),
    **dict.fromkeys(("matrix", "strategy"), _LOOP),
    **dict.fromkeys(("while", "until", "repeat"), _AGAIN),
    **dict.fromkeys(("parallel", "fork"), _SIDE_BY_SIDE),
    **dict.fromkeys(
        (f"timeout_{unit}" for unit in ("ms", "seconds", "in_seconds", "minutes", "in_minutes", "hours")), _TIME_LIMIT
    ),
    **dict.fromkeys(("output", "outputs", "return", "register"), _RESULT),
    **dict.fromkeys(("save_as", "store_as", "assign", "result_key", "output_key"), _RESULT),
    **dict.fromkeys(("notify", "notifications"), _NOTICE),
    "secrets": "write keychain: [{name: …, kind: credential}] beside workflow, and auth: name in the task",
    "image": "write tool: {kind: container, image: …}",
    **dict.fromkeys(("retry", "retries", "max_retries", "retry_count", "max_attempts", "attempts"), _RETRIES),
    **dict.fromkeys(("on_error", "on_failure", "catch", "except", "try"), _FAILURE),
    **dict.fromkeys(
        ("depends_on", "needs", "after", "requires"),
        "the step before leads here: it has next: {arcs: [{step: …}]}; "
        "one that waits for several has spec: {join: all}",
    ),
    **dict.fromkeys(
        ("env", "environment", "vars", "variables"),
        "give values as workload: {…} of the playbook, or as args: {…} of the step",
    ),
    **dict.fromkeys(("run", "script", "bash", "shell"), 'write tool: {kind: shell, command: "…"}'),
    **dict.fromkeys(
        ("schedule", "cron", "schedule_interval", "triggers"),
        'the playbook has it: trigger: {timer: {cron: "…"}} beside workflow',
    ),
}


def hint_for_foreign_word(word: str) -> str | None:
    """The way to write what another system calls by this word, in its spelling or in snake case."""
    return WORDS_OF_OTHERS.get(word) or WORDS_OF_OTHERS.get(snake_case(word))
