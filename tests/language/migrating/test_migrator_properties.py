"""Properties: whatever a valid document of an older dialect says, it becomes valid v10 or is reported."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.base.diagnostics import Diagnostic, Source
from noetl.language.conversion import ConversionOutcome, convert
from noetl.language.migrating.migrator import migrate
from tests import quick_yaml
from tests.language.migrating.migrated import KINDS, compiled, essence, migrated

UNDEFINED = ("W_FOREIGN_NAME", "W_UNDEFINED_NAME")  # what an older dialect warns of and v10 refuses
COMMENT = re.compile(r"# c\d+\.")
GUARDS = [
    "{{ event.name == 'call.done' }}",
    "{{ event.name == 'call.done' and response.status_code == 200 }}",
    "{{ event.name == 'call.error' }}",
    "{{ event.name == 'call.error' and response.status_code in [404, 410] }}",
    "{{ event.name == 'step.exit' }}",
    "{{ event.name == 'step.exit' and vars.x or vars.y }}",
    "{{ event.name in ['call.done', 'call.error'] and vars.x }}",
    "{{ vars.x }}",
    True,
]
VALUES = ["{{ result.n }}", "{{ this.status }}", "{{ vars.x }}", "{{ a.data }}", 5, "plain"]

values = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.sampled_from(VALUES), min_size=1, max_size=2)
tools = st.one_of(
    st.builds(lambda url: {"kind": "http", "url": url}, st.sampled_from(["u", "{{ vars.u }}"])),
    st.builds(lambda args: {"kind": "noop", "args": args}, values),
    st.just({"kind": "python", "code": "result = 1"}),
)
sinks = st.builds(lambda args: {"tool": {"kind": "postgres", "table": "t", "auth": "pg"}, "args": args}, values)
targets = st.one_of(
    st.just("end"),
    st.just(["end", "b"]),
    st.builds(lambda args: [{"step": "b", "args": args}], values),
    st.just("{{ 'b' if vars.x else 'end' }}"),
)
listed = st.builds(
    lambda tasks, last: [{f"t{n}": {"tool": tool}} for n, tool in enumerate(tasks)] + last,
    st.lists(tools, max_size=2),
    st.one_of(st.just([]), st.builds(lambda to: [{"next": {"next": to, "spec": {"delay": "5s"}}}], targets)),
)
mapped = st.fixed_dictionaries({}, optional={"sink": sinks, "set": values, "next": targets})
thens = st.one_of(listed.filter(bool), mapped.filter(bool))
rules = st.builds(lambda when, then: {"when": when, "then": then}, st.sampled_from(GUARDS), thens)
cases = st.builds(
    lambda some, last: some + last,
    st.lists(rules, max_size=3),
    st.one_of(st.just([]), listed.map(lambda t: [{"else": t}])),
)
retries = st.one_of(
    st.just({"max_attempts": 3, "delay": "2s", "spec": {"mode": "linear", "jitter": True}}),
    st.just([{"when": "{{ error.status == 429 }}", "then": {"max_attempts": 5, "initial_delay": 1}}]),
    st.just(
        [{"when": "{{ response.more }}", "then": {"max_attempts": 5, "backoff_multiplier": 1.5, "initial_delay": 1}}]
    ),
)
steps = st.fixed_dictionaries(
    {"tool": tools, "next": targets},
    optional={
        "spec": st.sampled_from([{"case_mode": "inclusive"}, {"on_error": "continue", "timeout": "5m"}]),
        "loop": st.sampled_from(
            [
                {"in": [1, 2], "iterator": "item", "mode": "parallel"},
                {"collection": "{{ workload.xs }}", "element": "item", "spec": {"batch_size": 2}},
            ]
        ),
        "args": values,
        "vars": values,
        "sink": sinks,
        "retry": retries,
        "case": cases,
    },
)


def playbook(dialect: str, *steps: dict[str, Any]) -> str:
    """A document with a comment behind every line."""
    document = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "t", "path": "t", "dialect": dialect},
        "workflow": list(steps),
    }
    lines = quick_yaml.written(document).splitlines()
    return "".join(f"{line}  # c{number}.\n" for number, line in enumerate(lines))


def names(found: Iterable[Diagnostic]) -> set[str]:
    """The first quoted word of each message; the places may differ, since migration moves arguments to their task."""
    return {one.message.split('"')[1] for one in found}


def outcome(text: str) -> ConversionOutcome:
    return convert(Source("test.yaml", text), kinds=KINDS, extensions=True).outcome


@pytest.mark.req("MIG-03", "MIG-06")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, steps)
def test_any_case_document_becomes_valid_v10_or_is_reported(start: dict[str, Any], a: dict[str, Any]) -> None:
    text = playbook("v2-case", {"step": "start", **start}, {"step": "a", **a}, {"step": "b", "next": "end"})
    before = compiled(text)[2]
    if [one for one in before if one.code[0] == "E"]:
        return

    migration = migrated(text)

    new, _, found = compiled(migration.text)
    errors = [one for one in found if one.code[0] == "E"]
    assert new.dialect == "v10"
    assert all(one.code == "E_UNDEFINED_NAME" for one in errors), migration.text
    assert names(errors) <= names(one for one in before if one.code in UNDEFINED), migration.text
    assert migrate(Source("test.yaml", migration.text), new).text == migration.text
    assert "vars." not in migration.text
    assert migration.blocked or sorted(COMMENT.findall(migration.text)) == sorted(COMMENT.findall(text))
    whole = not errors and not migration.blocked and not migration.differing
    assert (outcome(text) == ConversionOutcome.MIGRATED) == whole


directives = st.one_of(
    st.just({"do": "continue"}),
    st.just({"do": "fail"}),
    st.just({"do": "break"}),
    st.builds(
        lambda to, n: {"do": "jump", "to": to, "set_iter": {"n": n}},
        st.sampled_from(["t0", "t1"]),
        st.integers(0, 9),
    ),
    st.just({"do": "retry", "attempts": 3, "backoff": "fixed", "delay": 2}),
    st.just({"do": "continue", "set_ctx": {"a.b": "{{ outcome.result }}", "c": [1, 2]}}),
)
expressions = st.sampled_from(["{{ outcome.status == 'error' }}", "{{ outcome.http.status in [500, 503] }}", True])
evals = st.builds(
    lambda some, last: some + last,
    st.lists(st.builds(lambda when, do: {"expr": when, **do}, expressions, directives), max_size=3),
    st.one_of(st.just([]), directives.map(lambda do: [{"else": do}])),
)
labelled = st.builds(
    lambda tool, rules: {**tool, **({"eval": rules} if rules else {})},
    st.sampled_from(
        [
            {"kind": "http", "url": "u", "spec": {"timeout": 5}},
            {"kind": "noop"},
            {"kind": "python", "code": "result = 1"},
        ]
    ),
    evals,
)
eval_steps = st.fixed_dictionaries(
    {"tool": st.lists(labelled, min_size=2, max_size=3)},
    optional={
        "when": st.sampled_from(["{{ workload.go }}", "{{ true }}", False]),
        "spec": st.sampled_from([{"next_mode": "inclusive"}, {"timeout": 90, "pool": "big"}]),
        "loop": st.just({"in": [1, 2], "iterator": "x", "spec": {"mode": "parallel"}}),
        "next": st.just([{"step": "b", "when": "{{ event.name == 'step.failed' }}", "args": {"n": 1}}, {"step": "b"}]),
    },
)


@pytest.mark.req("MIG-01", "MIG-02")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(eval_steps)
def test_any_eval_document_compiles_to_the_same_net_as_its_v10_form(step: dict[str, Any]) -> None:
    tasks = [{f"t{number}": task} for number, task in enumerate(step["tool"])]
    text = playbook("v2-eval", {"step": "start", **step, "tool": tasks}, {"step": "b"})

    migration = migrated(text)

    assert (migration.blocked, migration.notes) == ((), ())
    assert essence(compiled(migration.text)[1]) == essence(compiled(text)[1])
    assert sorted(COMMENT.findall(migration.text)) == sorted(COMMENT.findall(text))
