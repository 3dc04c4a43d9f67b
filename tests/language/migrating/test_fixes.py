"""Fixes: a change is offered only where it helps, and words of other systems lead to the right key."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.base.diagnostics import Diagnostic, Severity, Source
from noetl.language.checking import Checked, check
from noetl.language.migrating.edits import apply_fixes
from noetl.language.migrating.fixes import tried_fixes
from noetl.tools.kinds import load_kinds

HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: a, path: t/a }\nworkflow:\n"
KINDS = load_kinds()


def checked(step: str) -> Checked:
    return check(Source("a.yaml", HEAD + step), kinds=KINDS)


WAYS = {
    **dict.fromkeys(("sleep", "wait", "delay", "pause"), "timer: {duration: 5s}"),
    **dict.fromkeys(("approval", "approve"), "human_task:"),
    **dict.fromkeys(("if", "condition", "unless"), "when:"),
    **dict.fromkeys(("foreach", "for_each", "each", "items"), "loop: {in:"),
    **dict.fromkeys(("retry", "retries", "max_retries"), "then: {do: retry, attempts: 4"),
    **dict.fromkeys(("on_error", "catch", "try"), "do: retry | continue | fail"),
    # The same words as other systems join them.
    **dict.fromkeys(("forEach", "with-items", "matrix", "strategy"), "loop: {in:"),
    **dict.fromkeys(("retryPolicy", "retry-count"), "then: {do: retry, attempts: 4"),
    **dict.fromkeys(
        ("onFailure", "continueOnError", "continue-on-error", "allowFailure"), "do: retry | continue | fail"
    ),
    **dict.fromkeys(("dependsOn", "depends-on"), "arcs: [{step: …}]"),
    **dict.fromkeys(("errors", "fallback", "goto", "else", "nextStep", "transition"), "event.name == 'step.failed'"),
    **dict.fromkeys(("timeout-minutes", "timeoutSeconds", "timeout_ms"), "timeout: 5m"),
    **dict.fromkeys(("parallel", "fork"), "spec: {mode: inclusive}"),
    **dict.fromkeys(("output", "outputs", "return", "register"), "what its last task returns"),
    **dict.fromkeys(("notify", "notifications"), "on: {failed: {notify:"),
    **dict.fromkeys(("runs-on", "taskRunner"), "spec: {pool: name}"),
    "repeat": "an arc may lead back",
    "secrets": "keychain: [{name:",
    **dict.fromkeys(("env", "environment", "variables"), "workload: {"),
    "depends_on": "arcs: [{step: …}]",
    **dict.fromkeys(("schedule", "cron"), "trigger: {timer: {cron:"),
}
START = "workflow:\n  - step: start\n"
PLACES = {
    "root": "WORD\n" + START + "    tool: { kind: noop }\n",
    "step": START + "    tool: { kind: noop }\n    WORD\n",
    "task": START + "    tool: { kind: http, url: 'http://a', WORD }\n",
    "task of a list": START + "    tool:\n      - { kind: python, code: result = 1, WORD }\n      - { kind: noop }\n",
    "whole task": START + "    tool:\n      - { kind: noop }\n      - { WORD }\n",
    "spec of a task": START + "    tool: { kind: noop, spec: { WORD } }\n",
    "router": START + "    tool: { kind: noop }\n    next: { WORD, arcs: [{ step: end }] }\n  - step: end\n",
    "arc": START + "    tool: { kind: noop }\n    next: { arcs: [{ step: end, WORD }] }\n  - step: end\n",
}
# Words that are read there as what they mean.
# Values that belong to another place, where it is sure which.
MOVED = {(place, word, "{ a: b }") for place in ("step", "task of a list") for word in ("env", "environment")}
READ_THERE = {("arc", "if"), ("arc", "condition"), ("spec of a task", "retry"), ("task of a list", "variables")}


@pytest.mark.parametrize("value", ["5s", "{ a: b }"])
@pytest.mark.parametrize("word", WAYS)
@pytest.mark.parametrize("place", PLACES)
def test_a_key_of_another_system_suggests_the_right_key_in_any_place(place: str, word: str, value: str) -> None:
    text = HEAD.removesuffix("workflow:\n") + PLACES[place].replace("WORD", f"{word}: {value}")
    found = check(Source("a.yaml", text), kinds=KINDS)

    said = [*found.refusals, *found.warnings]
    if (place, word) in READ_THERE:
        assert [one for one in said if f'"{word}" is not' in one.message] == []
    else:
        assert WAYS[word] in said[0].hint
        assert len(tried_fixes(found, KINDS)) == ((place, word, value) in MOVED)


@pytest.mark.parametrize("place", ["step", "task", "task of a list", "whole task"])
def test_a_retry_that_is_not_a_rule_is_refused_once_with_the_rule_to_write(place: str) -> None:
    text = HEAD.removesuffix("workflow:\n") + PLACES[place].replace("WORD", "retry: often")
    found = check(Source("a.yaml", text), kinds=KINDS)

    assert [(one.code, WAYS["retry"] in one.hint) for one in found.refusals] == [("E_RETRY_BLOCK", True)]


@pytest.mark.parametrize("word", ["retry_count", "max_attempts", "attempts"])
def test_a_number_of_attempts_suggests_the_rule_with_attempts(word: str) -> None:
    found = checked(f"  - step: start\n    tool: {{ kind: http, url: 'http://a', {word}: 3 }}\n")

    assert ["then: {do: retry, attempts: 4" in one.hint for one in found.refusals] == [True]


@pytest.mark.parametrize("word", ["retry", "retries", "max_retries"])
@pytest.mark.parametrize("place", ["step", "task", "task of a list", "whole task"])
def test_a_retry_of_another_system_is_converted_to_a_rule(place: str, word: str) -> None:
    text = HEAD.removesuffix("workflow:\n") + PLACES[place].replace("WORD", f"{word}: 3")
    found = check(Source("a.yaml", text), kinds=KINDS)

    assert [one for one in found.diagnostics if "a rule with do: retry in spec.policy.rules" in one.message]


def test_a_task_without_a_kind_is_reported() -> None:
    found = checked("  - step: start\n    tool: { url: 'http://a', form: { a: 1 } }\n")

    assert [one.message for one in found.refusals] == ["this task has no kind"]


@pytest.mark.parametrize(
    ("step", "fixed"),
    [
        ("  - step: start\n    tol: { kind: noop }\n", "    tool: { kind: noop }\n"),
        ("  - step: start\n    tool: { kind: htp, url: 'http://a' }\n", "{ kind: http, url"),
        (
            "  - step: start\n    tool: { kind: duckdb, table: t, args: { a: 1 }, mode: upsrt, key: a }\n",
            "mode: upsert, key: a }",
        ),
        ("  - step: start\n    tool: { kind: duckdb, command: SELEC 1 }\n", "command: SELECT 1 }"),
        ("  - step: start\n    tool: { kind: duckdb, command: SELECT * FORM t }\n", "command: SELECT * FROM t }"),
        (
            "  - step: start\n    tool: { kind: noop, args: { n: '{{ workload.nam }}' } }\nworkload: { name: a }\n",
            "{{ workload.name }}",
        ),
        (
            "  - step: start\n    args: { n: \"{{ workload['db']['hos'] }}\" }\nworkload: { db: { host: a } }\n",
            "workload['db']['host']",
        ),
    ],
)
def test_a_fix_resolves_the_finding(step: str, fixed: str) -> None:
    found = checked(step)
    fixes = tried_fixes(found, KINDS)

    text = apply_fixes(found.source.text, fixes.values())

    assert fixed in text
    assert check(Source("a.yaml", text), kinds=KINDS).ok


def test_a_fix_that_is_invalid_in_its_place_is_not_offered() -> None:
    # the only key near to "stepp" is "step", which the mapping has already
    found = checked("  - step: start\n    stepp: again\n    tool: { kind: noop }\n")

    assert [one.hint for one in found.refusals] == ['did you mean "step"?']
    assert tried_fixes(found, KINDS) == {}


@pytest.mark.parametrize(
    "step",
    [
        "  - stepp: again\n    step: start\n    tool: { kind: noop }\n",  # no document: a key stands there twice
        "  - step: start\n    tool: { kind: duckdb, table: t, args: { a: 1 }, mode: upsrt }\n",  # upsert needs a key
    ],
)
def test_a_fix_that_causes_another_error_is_not_offered(step: str) -> None:
    found = checked(step)

    assert "did you mean" in found.refusals[0].hint
    assert tried_fixes(found, KINDS) == {}


@pytest.mark.parametrize(
    ("step", "fixed"),
    [
        (
            "  - step: start\n    args: { a: '{{ workload.nam }} {{ workload.nam }}' }\nworkload: { name: a }\n",
            "'{{ workload.name }} {{ workload.name }}'",
        ),
        ("  - step: start\n    args:\n      a: {{ 1 }}-{{ 2 }}\n      b: {{ 3 }}-{{ 4 }}\n", 'b: "{{ 3 }}-{{ 4 }}"'),
        (
            "  - step: start\n    tool:\n      kind: duckdb\n      command: |\n        SELEC 1;\n        SELEC 2\n",
            "        SELECT 1;\n        SELECT 2\n",
        ),
    ],
)
def test_a_repeated_mistake_is_fixed_one_click_at_a_time(step: str, fixed: str) -> None:
    found = checked(step)
    for _ in range(2):
        fix = next(iter(tried_fixes(found, KINDS).values()))
        found = check(Source("a.yaml", apply_fixes(found.source.text, [fix])), kinds=KINDS)

    assert fixed in found.source.text
    assert found.ok
    assert [one.code for one in found.warnings] == []


@pytest.mark.parametrize(
    ("step", "way"),
    [
        ("    tool: { kind: noop, spec: { on_error: continue } }\n", "decide it in the task: spec: {policy: {rules:"),
        (
            "    loop: { in: '{{ [1] }}', iterator: x, on_error: continue }\n    tool: { kind: noop }\n",
            "step.spec.policy.failure.mode: best_effort",
        ),
    ],
)
def test_an_error_handler_key_suggests_where_errors_are_handled(step: str, way: str) -> None:
    found = checked("  - step: start\n" + step)

    assert [way in one.hint for one in (*found.refusals, *found.warnings)] == [True]


NOOP = "    tool: { kind: noop }\n"
LOOPING = "    loop: { in: '{{ [1] }}', iterator: x, LOOP }\n" + NOOP


@pytest.mark.parametrize("word", ["on_error", "on_eror"])
@pytest.mark.parametrize(
    "step",
    [
        NOOP + "    WORD\n",
        NOOP + "    spec: { WORD }\n",
        NOOP + "    spec: { policy: { WORD } }\n",
        LOOPING.replace("LOOP", "WORD"),
        LOOPING.replace("LOOP", "spec: { WORD }"),
        LOOPING.replace("LOOP", "spec: { policy: { WORD } }"),
        "    tool: { kind: noop, WORD }\n",
        "    tool: { kind: noop, spec: { WORD } }\n",
    ],
)
def test_on_error_is_never_suggested(step: str, word: str) -> None:
    found = checked("  - step: start\n" + step.replace("WORD", f"{word}: continue"))

    said = [*found.refusals, *found.warnings]
    assert said
    assert [one.hint for one in said if "on_error" in one.hint] == []


@pytest.mark.parametrize("method", ["GET", "get", "Get"])
def test_a_method_is_accepted_in_any_case(method: str) -> None:
    assert checked(f"  - step: start\n    tool: {{ kind: http, method: {method}, url: 'http://a' }}\n").ok


def test_an_unknown_method_is_refused() -> None:
    found = checked("  - step: start\n    tool: { kind: http, method: FETCH, url: 'http://a' }\n")

    assert [(one.code, one.hint) for one in found.refusals] == [
        ("E_INPUT_SHAPE", "write GET or POST or PUT or PATCH or DELETE or HEAD or OPTIONS")
    ]


@pytest.mark.parametrize("word", ["while", "until"])
@pytest.mark.parametrize("place", ["root", "step", "arc"])
def test_a_loop_with_a_condition_leads_to_an_arc_that_leads_back(place: str, word: str) -> None:
    text = HEAD.removesuffix("workflow:\n") + PLACES[place].replace("WORD", f"{word}: '{{{{ true }}}}'")
    found = check(Source("a.yaml", text), kinds=KINDS)

    assert ["an arc may lead back" in one.hint for one in found.refusals] == [True]
    assert tried_fixes(found, KINDS) == {}


@pytest.mark.parametrize("word", ["on", "id", "to", "ur"])
def test_a_word_of_two_letters_is_near_only_to_what_has_no_more_than_one_beside_it(word: str) -> None:
    found = checked(f"  - step: start\n    tool: {{ kind: http, url: 'http://a', {word}: 3 }}\n")

    assert ["did you mean" in one.hint for one in found.refusals] == [word == "ur"]


@pytest.mark.parametrize(
    ("written", "fixed"),
    [
        ("timeout-minutes: 5", "timeout: 5m"),
        ("timeout_minutes: 5", "timeout: 5m"),
        ("timeoutSeconds: 30", "timeout: 30s"),
        ("timeout_ms: 500", None),
        ("timeout-minutes: ${{ inputs.t }}", None),
    ],
)
def test_a_time_limit_in_the_words_of_another_system_keeps_its_unit(written: str, fixed: str | None) -> None:
    text = HEAD + f"  - step: start\n    {written}\n    tool: {{ kind: noop }}\n"
    fixes = tried_fixes(check(Source("a.yaml", text), kinds=KINDS), KINDS)

    assert [fix.replacement for fix in fixes.values()] == ([fixed] if fixed else [])


ROOT = Path(__file__).parents[3]
BROKEN = sorted((ROOT / "tests" / "golden" / "check" / "err").glob("*.yaml"))
WHOLE = [one for one in sorted((ROOT / "examples").glob("*.yaml")) if ".test." not in one.name and one.stem != "broken"]
TYPOS = 14  # in each example, one at a time


def misspelled(text: str, chooser: random.Random) -> Iterator[str]:
    """The text with a letter of a word missing, each time of another word."""
    words = list(re.finditer(r"(?<![\w.-])[a-z_]{4,}(?![\w-])", text))
    for word in chooser.sample(words, min(TYPOS, len(words))):
        at = chooser.randrange(word.start() + 1, word.end())
        yield text[:at] + text[at + 1 :]


def said(found: Checked) -> Counter[str]:
    return Counter(f"{one.code} {one.message}" for one in found.diagnostics if one.severity is not Severity.NOTE)


def spoiled(found: Checked) -> list[tuple[Diagnostic, str]]:
    """Fixes that are offered and do not take their finding away, or bring another one."""
    before, bad = said(found), []
    for one, fix in tried_fixes(found, KINDS).items():
        fixed = check(Source(found.source.name, apply_fixes(found.source.text, [fix])), kinds=KINDS)
        # A name that is missing twice in one template is told once: then the second is told of in its place.
        is_left = any(
            (left.code, left.message, left.span) == (one.code, one.message, one.span) for left in fixed.diagnostics
        )
        if is_left or said(fixed) - before:
            bad.append((one, fix.replacement))
    return bad


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_each_offered_fix_removes_one_finding_and_adds_none(path: Path) -> None:
    found = check(Source(path.name, path.read_text("utf-8")), kinds=KINDS)

    # Where the jump leads nowhere, that its cycle has no end cannot be said; where it leads somewhere, it is so.
    assert [one for one, _ in spoiled(found) if one.code != "E_JUMP_TARGET"] == []


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_a_missing_letter_is_restored_correctly_or_not_at_all(path: Path) -> None:
    for text in misspelled(path.read_text("utf-8"), random.Random(path.stem)):
        assert spoiled(check(Source(path.name, text), kinds=KINDS)) == []


# What somebody writes who knows other systems, one mistake at a time: each is found, and no fix of it makes another.
RIGHT = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: w, path: tests/w }
keychain: [{ name: pg, kind: credential }]
workload: { items: [1, 2], n: 3 }
workflow:
  - step: start
    tool:
      kind: http
      url: https://x.example
      method: GET
    next:
      arcs:
        - step: load
  - step: load
    tool:
      kind: postgres
      auth: pg
      query: select * from t where a = {{ workload.n }}
    set_ctx:
      seen: "{{ load.rows }}"
    next: { arcs: [{ step: ask, when: "{{ event.name == 'step.done' }}" }, { step: end }] }
  - step: ask
    human_task:
      title: Sure?
      form:
        - { field: decision, type: enum, options: [yes, no] }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: noop }
"""
ASKING = RIGHT[
    RIGHT.index("    human_task:") : RIGHT.index("    next: { arcs: [{ step: end }] }\n  - step: end")
].rstrip()
MISTAKES = [
    ("GET", "FETCH"),
    ("type: enum", "type: select"),
    ("type: enum", "type: choice"),
    ("type: enum, options: [yes, no]", "type: bool"),
    ("noetl.io/v10", "noetl.io/v1"),
    ("kind: Playbook", "kind: playbook"),
    ("kind: Playbook", "kind: Workflow"),
    ("apiVersion: noetl.io/v10\n", ""),
    ("select *", "selct *"),
    ("from t", "form t"),
    ("where", "wehre"),
    ("a = {{ workload.n }}", "a = '{{ workload.n }}"),
    ("where a =", "where (a ="),
    ("    tool:\n      kind: http", "\ttool:\n\t  kind: http"),
    ("      url: https", "	url: https"),
    ("      url: https", "     url: https"),
    ("      url: https", "        url: https"),
    ('"{{ load.rows }}"', '"{{ load.rows }}'),
    ("title: Sure?", "title: 'Sure?"),
    ("[{ step: end }] }\n  - step: end", "[{ step: end }] \n  - step: end"),
    ("[yes, no]", "[yes, no"),
    ("kind: postgres", "kind:postgres"),
    ("title: Sure?", "title: Sure: really?"),
    ("title: Sure?", "title: 'Don't you?'"),
    ('"{{ load.rows }}"', "{{ load.rows }}"),
    ("{{ workload.n }}", "{{ inputs.n }}"),
    ("{{ load.rows }}", "{{ outputs.load.rows }}"),
    ("{{ workload.n }}", "{{ vars.n }}"),
    ("{{ workload.n }}", "{{ env.N }}"),
    ("{{ load.rows }}", "{{ steps.load.outputs.rows }}"),
    ("{{ workload.n }}", "{{ worklod.n }}"),
    ("{{ workload.n }}", "{{ workload.m }}"),
    ("{{ workload.n }}", "{{ workload.n }"),
    ("{{ load.rows }}", "{{ load.rows | lenght }}"),
    ("event.name == 'step.done'", "event.name == 'step.done' && workload.n"),
    ("event.name == 'step.done'", "event.name = 'step.done'"),
    ("'step.done'", "'step.success'"),
    ("event.name == 'step.done'", "workload.n is null"),
    ("load.rows", "workload.n ? 1 : 2"),
    ("event.name == 'step.done'", "workload.n == True"),
    ("arcs: [{ step: end }] }\n  - step: end", "arcs: [{ step: ned }] }\n  - step: end"),
    ("workflow:", "steps:"),
    ("workflow:", "tasks:"),
    ("workflow:", "jobs:"),
    ("- step: ask\n    human", "- step: load\n    human"),
    ("kind: postgres", "kind: postgress"),
    ("kind: postgres", "kind: mysql"),
    ("kind: http", "kind: io.kestra.plugin.core.http.Request"),
    ("kind: http", "kind: bash"),
    ("kind: http", "kind: timer"),
    ("field: decision", "name: decision"),
    ("field: decision", "field: decision, label: Decision"),
    ("form:", "fields:"),
    ("title:", "tilte:"),
    ("title: Sure?", "title: Sure?\n      assignees: [a]"),
    ("method: GET", "spec: { timeout: 5 minutes }"),
    ("method: GET", "spec: { policy: { retry: { attempts: 3 } } }"),
    ("method: GET", "retry: { type: constant, interval: PT5S, maxAttempt: 3 }"),
    (
        "method: GET",
        "spec: { policy: { rules: [{ when: \"{{ outcome.status == 'error' }}\", then: { do: rety, attempts: 3 } }] } }",
    ),
    ("method: GET", "spec: { policy: { rules: [{ when: \"{{ outcome.status == 'error' }}\", then: { do: skip } }] } }"),
    (
        "method: GET",
        "spec: { policy: { rules: [{ when: \"{{ outcome.status == 'failed' }}\", then: { do: continue } }] } }",
    ),
    ("    human_task:", '    loop: "{{ workload.items }}"\n    human_task:'),
    (
        "      method: GET",
        '      method: GET\n    loop: { in: "{{ workload.items }}", iterator: x, spec: { mode: paralel } }',
    ),
    (
        ASKING,
        "    timer: 5m",
    ),
    (
        ASKING,
        "    timer: { for: 5m }",
    ),
    (
        ASKING,
        "    timer: { duration: 5 minutes }",
    ),
    ("method: GET", 'headers: { Authorization: "Bearer {{ secrets.T }}" }'),
    ("workload:", 'trigger: { cron: "0 6 * *" }\nworkload:'),
    ("workload:", 'trigger: { timer: { cron: "0 6 * *" } }\nworkload:'),
    ("workload:", 'trigger: { schedule: { cron: "0 6 * * *" } }\nworkload:'),
    ("workload:", 'on: { schedule: [{ cron: "0 6 * * *" }] }\nworkload:'),
]


def test_the_text_without_mistakes_has_none() -> None:
    found = check(Source("a.yaml", RIGHT), kinds=KINDS)

    assert [*found.refusals, *found.warnings] == []


@pytest.mark.parametrize(("right", "wrong"), MISTAKES)
def test_a_mistake_of_a_stranger_is_found_and_no_fix_of_it_makes_another(right: str, wrong: str) -> None:
    found = check(Source("a.yaml", RIGHT.replace(right, wrong, 1)), kinds=KINDS)

    assert [*found.refusals, *found.warnings]
    assert all(one.hint for one in found.refusals)
    assert spoiled(found) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("noetl.io/v10", "noetl.io/v1"),
        ("kind: Playbook", "kind: Workflow"),
        ('"{{ load.rows }}"', '"{{ load.rows }}'),
        ("title: Sure?", "title: 'Sure?"),
        ("select *", "selct *"),
        ("type: enum", "type: enm"),
    ],
)
def test_one_press_makes_the_text_right_again(right: str, wrong: str) -> None:
    found = check(Source("a.yaml", RIGHT.replace(right, wrong, 1)), kinds=KINDS)

    (fix,) = tried_fixes(found, KINDS).values()
    after = check(Source("a.yaml", apply_fixes(found.source.text, [fix])), kinds=KINDS)
    assert [*after.refusals, *after.warnings] == []


def test_a_key_is_not_renamed_to_one_that_refuses_its_value() -> None:
    found = checked("  - step: start\n    human_task: { title: a, asignee: [a] }\n")

    assert [one.hint for one in found.refusals] == ['did you mean "assignee"?']
    assert tried_fixes(found, KINDS) == {}


def test_quotes_that_were_never_closed_are_found_where_they_open() -> None:
    found = check(Source("a.yaml", RIGHT.replace('"{{ load.rows }}"', '"{{ load.rows }}', 1)), kinds=KINDS)

    opened = next(number for number, line in enumerate(RIGHT.split("\n"), 1) if "seen:" in line)
    assert [(one.code, one.line) for one in found.refusals] == [("E_YAML", opened)]


@pytest.mark.req("VAL-19")
@pytest.mark.parametrize(
    ("written", "fixed"),
    [
        ("    tool: {kind: noop}\n    next: end  # on\n", "    next: {arcs: [{step: end}]}  # on\n"),
        ("    sleep: 10\n    next: {arcs: [{step: end}]}\n", "    timer: {duration: 10}\n"),
        (
            "    tool: {kind: noop}\n    foreach: [1, 2]\n    next: {arcs: [{step: end}]}\n",
            "    loop: {in: [1, 2], iterator: item}\n",
        ),
        (
            "    next: {arcs: [{step: end}]}\n    tool:\n      kind: noop\n      timeout: 5m\n",
            "      spec: {timeout: 5m}\n",
        ),
    ],
)
def test_a_line_in_the_words_of_another_system_is_fixed_with_one_click(written: str, fixed: str) -> None:
    text = HEAD + f"  - step: start\n{written}  - step: end\n"
    fixes = tried_fixes(check(Source("a.yaml", text), kinds=KINDS), KINDS)

    assert len(fixes) == 1
    after = apply_fixes(text, fixes.values())
    assert fixed in after
    assert list(check(Source("a.yaml", after), kinds=KINDS).diagnostics) == []


TABS = """  - step: start
\ttool:
\t  kind: shell
\t  cmds: |
\t    all:
\t    \ttouch a
    next:
\t  arcs: [{step: end}]
  - step: end
"""


ONLY_TABS = TABS.replace("\t    \ttouch", "\t\t\t\ttouch").replace("\t    all", "\t\t\t\tall").replace("\t  ", "\t\t\t")
ONLY_TABS = ONLY_TABS.replace("  - step", "\t- step").replace("\ttool", "\t\ttool").replace("    next", "\t\tnext")


@pytest.mark.req("VAL-19")
@pytest.mark.parametrize("text", [TABS, ONLY_TABS])
def test_tabs_become_spaces_with_one_press(text: str) -> None:
    found = check(Source("a.yaml", HEAD + text), kinds=KINDS)
    fixes = tried_fixes(found, KINDS)

    after = check(Source("a.yaml", apply_fixes(HEAD + text, fixes.values())), kinds=KINDS)
    assert [fix.title for fix in fixes.values()] == ["Indent with spaces"]
    assert list(after.diagnostics) == []
    assert after.net is not None
    assert [step.name for step in after.net.transitions] == ["start", "end"]


def test_a_tab_in_a_text_of_several_lines_stays() -> None:
    code = "    tool:\n      kind: shell\n      cmds: |\n        all:\n        \ttouch a\n"
    found = check(
        Source("a.yaml", HEAD + "  - step: start\n" + code + "\tnext: {arcs: [{step: start}]}\n"), kinds=KINDS
    )

    (fix,) = tried_fixes(found, KINDS).values()
    assert "        \ttouch a\n    next: {" in apply_fixes(found.source.text, [fix])


ENDS = "  - step: end\n    IF\n    tool: {kind: noop}\n"
TO_END = "    next: {arcs: [{step: end}]}\n"
SET = "workload: {go: true}\n"


@pytest.mark.req("VAL-19")
@pytest.mark.parametrize(
    ("written", "fixed"),
    [
        (  # a tool that runs programs has variables of the environment
            "    env: {A: b}\n    tool:\n      kind: shell\n      cmds: echo\n",
            "    tool:\n      kind: shell\n      cmds: echo\n      env: {A: b}\n",
        ),
        (
            "    env:\n      A: b\n      C: d\n    tool: \n      kind: shell\n      cmds: echo\n",
            "      cmds: echo\n      env:\n        A: b\n        C: d\n",
        ),
        (
            "    env: {A: b}  # of all\n    tool: {kind: shell, cmds: echo}\n",
            "    tool: {kind: shell, cmds: echo, env: {A: b} }\n",
        ),
        (
            "    environment: {A: b}\n    tool: {kind: python, code: result = A}\n",
            "    tool: {kind: python, code: result = A, args: {A: b} }\n",
        ),
        (
            "    tool: {kind: python, code: result = A, env: {A: b}}\n",
            "    tool: {kind: python, code: result = A, args: {A: b}}\n",
        ),
        ("    env: {A: b}\n    timer: {duration: 5}\n", "    args: {A: b}\n    timer: {duration: 5}\n"),
        (
            "    tool: {kind: noop}\n" + TO_END + ENDS.replace("IF", "if: workload.go"),
            'arcs: [{step: end, when: "{{ workload.go }}"}]}\n  - step: end\n    tool: {kind: noop}\n',
        ),
        (  # after a task that can fail
            "    tool: {kind: python, code: result = 1}\n" + TO_END + ENDS.replace("IF", 'if: "{{ workload.go }}"'),
            "[{step: end, when: \"{{ event.name != 'step.failed' and (workload.go) }}\"}]",
        ),
        (
            "    tool: {kind: noop}\n    next:\n      arcs:\n        - step: end\n"
            + ENDS.replace("IF", 'unless: "{{ workload.go }}"'),
            '        - step: end\n          when: "{{ not (workload.go) }}"\n  - step: end\n    tool',
        ),
    ],
)
def test_a_key_of_another_system_moves_with_one_press_to_where_it_belongs(written: str, fixed: str) -> None:
    text = HEAD.replace("workflow", SET + "workflow") + "  - step: start\n" + written
    fixes = tried_fixes(check(Source("a.yaml", text), kinds=KINDS), KINDS)

    after = apply_fixes(text, fixes.values())
    assert [len(fixes), fixed in after, after] == [1, True, after]
    assert [one for one in check(Source("a.yaml", after), kinds=KINDS).diagnostics if one.code[0] != "I"] == []


@pytest.mark.parametrize(
    "written",
    [
        "    tool: {kind: python, code: 'import os; result = os.environ[\"A\"]', env: {A: b}}\n",
        "    env: {A: b}\n    tool: {kind: shell, cmds: echo, env: {C: d}}\n",  # it has one
        "    if: '{{ workload.go }}'\n    tool: {kind: noop}\n",  # no arc leads to the first step
        TO_END.replace("end}", "end, when: '{{ 1 }}'}") + "  - step: end\n    if: workload.go\n",
    ],
)
def test_a_key_that_has_no_sure_place_is_left_to_its_author(written: str) -> None:
    text = HEAD.replace("workflow", SET + "workflow") + "  - step: start\n" + written
    found = check(Source("a.yaml", text), kinds=KINDS)

    assert found.refusals
    assert tried_fixes(found, KINDS) == {}


@pytest.mark.parametrize(
    "written",
    [
        "    sleep: 10\n    tool: {kind: noop}\n",  # a step waits or works
        "    tool: {kind: noop, timeout: 5m, args: {}}\n",  # not alone on its line
        "    tool:\n      kind: noop\n      timeout: 5m\n      spec: {isolation: process}\n",  # there is a spec
        "    tool: {kind: noop}\n    foreach:\n      - 1\n",
    ],
)
def test_a_line_with_other_errors_is_not_fixed(written: str) -> None:
    found = checked(f"  - step: start\n{written}")

    assert found.diagnostics
    assert tried_fixes(found, KINDS) == {}


@pytest.mark.parametrize(
    "written", ["    retry: 3\n", "      retry: 3\n", "      retry: {max_attempts: 3, delay: 2}\n"]
)
def test_the_suggested_retry_rule_passes_the_check(written: str) -> None:
    task = "  - step: start\n    tool:\n      kind: http\n      url: http://a/\n"
    (advice,) = checked(task + written).diagnostics

    rule = advice.hint.removeprefix("write ").removesuffix(" in the task")
    assert rule.startswith("spec: {policy: {rules: [")
    assert list(checked(f"{task}      {rule}\n").diagnostics) == []


def test_a_word_that_is_rewritten_in_two_steps_is_reported_once_with_the_final_word() -> None:
    (advice,) = checked("  - step: start\n    tool: {kind: noop}\n    timeout: 5m\n").diagnostics

    assert advice.message == '"timeout" of a step is read as spec.policy.lifecycle.timeout_s'
    assert advice.hint == "write spec: {policy: {lifecycle: {timeout_s: 5m}}}"


def test_a_misspelt_input_is_reported_and_not_as_missing() -> None:
    (found,) = checked("  - step: start\n    tool: {kind: http, urll: http://a/}\n").diagnostics

    assert (found.message, found.hint) == ('"urll" is not an input of kind http', 'did you mean "url"?')


def test_a_misspelt_kind_is_reported_with_one_suggestion() -> None:
    found = checked("  - step: start\n    tool: {kind: pyhton, code: result = 1}\n").diagnostics

    assert [one.hint for one in found] == ['did you mean "python"?']


@pytest.mark.parametrize(
    "step",
    [
        "  - step：start\n    tool: { kind: noop }\n",
        "  - step： start\n    tool: { kind: noop }\n",
        "  - step: start\n    tool：\n      kind: noop\n",
    ],
)
def test_a_full_width_colon_becomes_a_colon_and_a_space(step: str) -> None:
    found = checked(step)
    text = apply_fixes(found.source.text, tried_fixes(found, KINDS).values())

    assert text == found.source.text.replace("： ", ": ").replace("：\n", ":\n").replace("：", ": ")
    assert check(Source("a.yaml", text), kinds=KINDS).ok
