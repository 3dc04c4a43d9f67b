"""Fixes: a change is offered only where it helps, and words of other systems lead to the right key."""

from __future__ import annotations

import pytest

from noetl.base.source import Source
from noetl.language.checking import Checked, check
from noetl.language.migrating.fixes import apply_fixes, tried_fixes
from noetl.tools.kinds import load_kinds

HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: a, path: t/a }\nworkflow:\n"
KINDS = load_kinds()


def checked(step: str) -> Checked:
    return check(Source("a.yaml", HEAD + step), kinds=KINDS)


@pytest.mark.parametrize(
    ("word", "way"),
    [
        *((word, "timer: {duration: 5s}") for word in ("sleep", "wait", "delay")),
        ("approval", "human_task:"),
        ("if", "arcs: [{step: …, when:"),
        *((word, "loop: {in:") for word in ("foreach", "for_each")),
        ("retry", "do: retry"),
        ("env", "workload:"),
        ("depends_on", "arcs: [{step: …}]"),
    ],
)
def test_a_word_of_another_system_leads_to_the_right_key(word: str, way: str) -> None:
    found = checked(f"  - step: start\n    tool: {{ kind: noop }}\n    {word}: 5s\n")

    assert [way in one.hint for one in found.refusals] == [True]
    assert tried_fixes(found, KINDS) == {}


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
def test_a_fix_makes_the_finding_go(step: str, fixed: str) -> None:
    found = checked(step)
    fixes = tried_fixes(found, KINDS)

    text = apply_fixes(found.source.text, fixes.values())

    assert fixed in text
    assert check(Source("a.yaml", text), kinds=KINDS).ok


def test_a_fix_that_is_refused_in_its_place_is_not_offered() -> None:
    # the only key near to "stepp" is "step", which the mapping has already
    found = checked("  - step: start\n    stepp: again\n    tool: { kind: noop }\n")

    assert [one.hint for one in found.refusals] == ['did you mean "step"?']
    assert tried_fixes(found, KINDS) == {}


def test_an_option_that_is_refused_is_not_proposed() -> None:
    loop = "  - step: start\n    loop: { in: '{{ [1] }}', iterator: x, spec: { on_eror: continue } }\n"

    found = checked(loop + "    tool: { kind: noop }\n")

    assert [("on_error" in one.hint) for one in found.warnings] == [False]


@pytest.mark.parametrize("method", ["GET", "get", "Get"])
def test_a_method_may_be_written_in_any_case(method: str) -> None:
    assert checked(f"  - step: start\n    tool: {{ kind: http, method: {method}, url: 'http://a' }}\n").ok


def test_a_method_that_does_not_exist_is_refused() -> None:
    found = checked("  - step: start\n    tool: { kind: http, method: FETCH, url: 'http://a' }\n")

    assert [(one.code, one.hint) for one in found.refusals] == [
        ("E_INPUT_SHAPE", "write GET or POST or PUT or PATCH or DELETE or HEAD or OPTIONS")
    ]
