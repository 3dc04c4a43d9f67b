"""Any text that reads as YAML gives a net or diagnostics, never an exception; nets survive JSON (VAL-19)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.base.diagnostics import Findings, Source
from noetl.language.compiling.compiler import Compiled, compile_playbook
from noetl.language.reading.reader import read_playbook
from noetl.net.dump import dump
from noetl.net.net import from_json, to_json
from noetl.tools.kinds import KINDS

FIXTURES = Path(__file__).parent.parent / "fixtures"
TEXTS = {path.stem: path.read_text() for path in sorted(FIXTURES.glob("*.yaml"))}
KEYS = sorted({line.strip().lstrip("- ").partition(":")[0] for text in TEXTS.values() for line in text.split("\n")})
VALUES = [
    *("", "null", "true", "1", "-1", "1.5", "[]", "{}", "text", '"{{ x }}"', '"{{ x. }}"', "[[1]]", "{ a: { b: 1 } }"),
    *("start", "end", "all", "{ count: 2 }", '"{{ keychain.a }}"', "[{ kind: noop }]", "{ kind: workbook, task: a }"),
    *("\"{{ 'a' if x else 'b' }}\"", "{ then: [] }", "{ when: true, then: {} }", "[{ else: {} }]"),
]


def checked(text: str) -> tuple[Findings, Compiled | None]:
    findings = Findings()
    playbook = read_playbook(Source("t.yaml", text), findings, kinds=KINDS)
    return findings, compile_playbook(playbook, KINDS, findings) if playbook is not None else None


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A fixture with a few lines deleted, doubled, swapped, moved in, or given another key or value."""
    lines = TEXTS[draw(st.sampled_from(sorted(TEXTS)))].split("\n")
    for _ in range(draw(st.integers(1, 4))):
        at, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        key, colon, _ = lines[at].partition(":")
        match draw(st.integers(0, 5)):
            case 0 if len(lines) > 1:
                del lines[at]
            case 1:
                lines.insert(at, lines[at])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = " " * draw(st.integers(0, 6)) + lines[at].lstrip()
            case 4 if colon:
                lines[at] = f"{key}: {draw(st.sampled_from(VALUES))}"
            case 5 if colon:
                indent = key[: len(key) - len(key.lstrip(" -"))]
                lines[at] = f"{indent}{draw(st.sampled_from(KEYS))}{lines[at][len(key) :]}"
    return "\n".join(lines)


@pytest.mark.req("VAL-19")
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutations())
def test_a_mutated_playbook_gives_a_net_or_diagnostics_and_never_an_exception(text: str) -> None:
    findings, compiled = checked(text)

    for found in findings:
        assert found.message
        assert found.line >= 1
    if compiled is None or compiled.net is None:
        assert findings.has_errors
    else:
        assert from_json(to_json(compiled.net)) == compiled.net
        assert dump(compiled.net)


@settings(max_examples=100, deadline=None)
@given(mutations())
def test_checking_twice_gives_the_same_result(text: str) -> None:
    first, one = checked(text)
    second, other = checked(text)

    assert list(first) == list(second)
    assert (one and one.net) == (other and other.net)
    assert (one and one.debug) == (other and other.debug)


@settings(max_examples=100, deadline=None)
@given(mutations())
def test_every_element_of_a_net_links_to_its_source(text: str) -> None:
    """SUGAR-06: no compiled element without its origin."""
    _, compiled = checked(text)
    if compiled is None or compiled.net is None:
        return

    for step in compiled.net.transitions:
        assert f"steps/{step.name}" in compiled.debug
        for task in step.tasks:
            assert f"steps/{step.name}/tasks/{task.name}" in compiled.debug
        for index in range(len(step.router.arcs) if step.router else 0):
            assert f"steps/{step.name}/arcs/{index}" in compiled.debug
