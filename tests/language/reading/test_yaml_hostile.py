"""Hostile YAML: whatever the text, the answer is a mapping or E_YAML, with little work and memory (reliability.md
§2.7)."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.base.diagnostics import Findings, Source
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.yaml import read_yaml
from tests.language.reading.yaml_texts import documents
from tests.work_counting import count_calls

MIB = 1024 * 1024
MOST_CALLS = 4_000_000  # twice what the worst of these texts takes; `make bench` has the time
MOST_BYTES = 100 * MIB

DEEP_KEYS = "".join("{" + "k" * 1000 + ": " for _ in range(60))
BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))

REFUSED = {
    "nested lists": ("a: " + "[" * 100_000, "nested deeper"),
    "nested mappings": ("a: " + "{a: " * 100_000, "nested deeper"),
    "nested dashes": ("- " * 100_000, "nested deeper"),
    "nested keys": ("? " * 100_000, "nested deeper"),
    "nested blocks": ("".join("  " * n + "a:\n" for n in range(700)), "nested deeper"),
    "an alias bomb": (BOMB, "more than 50,000 values"),
    "a tower of aliases": (
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 9999)),
        "nested deeper",
    ),
    "many aliases": ("a: &a x\nb: [" + "*a," * 200_000 + "]", "more than 50,000 values"),
    "many values": ("a: [" + "x," * 300_000 + "]", "more than 50,000 values"),
    "many mappings": ("a: [" + "{b: 1}," * 100_000 + "]", "more than 50,000 values"),
    "many keys above many values": (f"a: {DEEP_KEYS}[" + "a," * 40_000 + "]" + "}" * 60, "keys above this value"),
    "aliases below long keys": (
        f"a: {DEEP_KEYS}&x [" + "a," * 99 + "]" + "}" * 60 + f"\nb: {DEEP_KEYS}[" + "*x," * 400 + "]" + "}" * 60,
        "keys above this value",
    ),
    "one key of half a megabyte": ("? " + "k" * 500_000 + "\n: [" + "a," * 40_000 + "]", "keys above"),
    "one byte too many": ("a: " + "x" * (MIB - 2), "larger than 1 MiB"),
    "too many bytes in few characters": ("a: '" + "😀" * (MIB // 4) + "'", "larger than 1 MiB"),
    "tag directives": ("".join(f"%TAG !a{n}! x\n" for n in range(30_000)) + "---\na: 1", "%TAG"),
    "many duplicates": ("a: 1\n" * 100_000, "written twice"),
    "many tags": ("a: [" + "!!str x," * 100_000 + "]", "the tag"),
    "nothing but colons": (":" * MIB, ""),
    "nothing but tabs": ("\t" * MIB, "tab"),
    "nothing but percent signs": ("%" * MIB, ""),
    "unclosed quotes": ("a: '" + "x\n " * 340_000, "never closed"),
    "an unclosed mapping": ("{" + "a\n" * 500_000, "not closed"),
    "digits": ("a: " + "1" * (MIB - 3), "64 bits"),
    "a fraction": ("a: 1." + "1" * (MIB - 5), "too large"),
    "NUL": ("a: 1\nb: \0", "U+0000"),
}

READ = {
    "a long word": "a: " + "x" * (MIB - 3),
    "a long quoted text": 'a: "' + "\\n" * (MIB // 2 - 5) + '"',
    "a long block": "a: |\n" + " x\n" * 340_000,
    "many anchors": "".join(f"a{n}: &a{n} x\n" for n in range(45_000)),
    "many keys": "".join(f"k{n}: 1\n" for n in range(49_000)),
    "comments": "#\n" * 500_000 + "a: 1",
    "blank lines": "\n" * 1_000_000 + "a: 1",
    "an anchor of a megabyte": "a: &" + "b" * 1_000_000 + " x",
    "as deep as allowed": "a: " + "[" * 63 + "]" * 63,
    "as large as allowed": "a: '" + "x" * (MIB - 5) + "'",
}


def calls_to_read(text: str) -> tuple[int, Mapping | None, Findings]:
    findings = Findings()
    root, calls = count_calls(lambda: read_yaml(Source("hostile.yaml", text), findings))
    return calls, root, findings


@pytest.mark.req("DOC-01")
@pytest.mark.parametrize("name", REFUSED)
def test_hostile_text_is_refused_in_bounded_work(name: str) -> None:
    text, message = REFUSED[name]
    calls, _, findings = calls_to_read(text)

    assert findings.has_errors
    assert any(message in found.message for found in findings)
    assert len(findings) <= 51
    assert calls < MOST_CALLS


@pytest.mark.parametrize("name", READ)
def test_large_valid_text_is_read_in_bounded_work(name: str) -> None:
    calls, root, findings = calls_to_read(READ[name])

    assert root is not None
    assert list(findings) == []
    assert calls < MOST_CALLS


@pytest.mark.parametrize(
    "name", ["an alias bomb", "aliases below long keys", "many keys above many values", "many duplicates"]
)
def test_hostile_text_is_refused_in_bounded_memory(name: str) -> None:
    tracemalloc.start()
    try:
        read_yaml(Source("hostile.yaml", REFUSED[name][0]), Findings())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < MOST_BYTES


def test_the_work_per_line_of_a_long_playbook_equals_that_of_a_short_one() -> None:
    fixture = (Path(__file__).parents[2] / "fixtures" / "F-004-H.yaml").read_text()
    head, step, tail = fixture.partition("  - step: fetch_all_endpoints")
    copies = 460 // tail.count("\n")
    fewer, _, _ = calls_to_read(head + (step + tail) * copies)
    calls, root, findings = calls_to_read(head + (step + tail) * 10 * copies)

    assert root is not None
    assert list(findings) == []
    assert calls < 11 * fewer


def test_nesting_one_level_beyond_the_limit_is_refused() -> None:
    _, root, findings = calls_to_read("a: " + "[" * 64 + "]" * 64)

    assert root is None
    assert [found.message for found in findings] == ["the document is nested deeper than 64 levels"]


SIGNS = st.text(
    st.sampled_from([*"abx01:-?[]{},#&*!|>'\"%@`~<. \n\t\r", "é", "😀", "\ufeff", "\x85", "\u2028", "\0"]),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(SIGNS, st.text(max_size=40), documents()))
def test_any_text_gives_a_mapping_or_a_diagnostic_inside_the_text(text: str) -> None:
    """Never an exception, never silence, and every place lies inside the text."""
    findings = Findings()
    root = read_yaml(Source("any.yaml", text), findings)

    assert root is not None or findings.has_errors
    lines = text.split("\n")
    for found in findings:
        assert found.code == "E_YAML"
        assert found.message
        assert 0 <= found.span.start <= found.span.end <= len(text)
        assert 1 <= found.span.line <= len(lines)


@settings(max_examples=100, deadline=None)
@given(documents(), st.data())
def test_a_damaged_document_still_gives_a_result(text: str, data: st.DataObject) -> None:
    where = data.draw(st.integers(0, len(text)))
    damage = data.draw(st.sampled_from(["", ":", "{{", '"', "\t", "- ", "}", "\n", "  "]))
    findings = Findings()
    root = read_yaml(Source("any.yaml", text[:where] + damage + text[where + 1 :]), findings)

    assert root is not None or findings.has_errors


def test_the_pure_python_parser_gives_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where libyaml is missing, the pure parser stands in: slower, the same tree."""
    import yaml

    text = "a: &x [1, 'b', {c: ~}]\nd: *x\ne: |\n  text\nf: {{ g }}\n"
    fast, fast_found = read_yaml(Source("t", text), one := Findings()), one
    monkeypatch.setattr("noetl.language.reading.yaml.PARSER", yaml.SafeLoader)
    slow, slow_found = read_yaml(Source("t", text), two := Findings()), two

    assert slow == fast
    assert list(slow_found) == list(fast_found)


@pytest.mark.parametrize("text", ['a: "\\ud800"', 'a: "\\UFFFFFFFF"', "a: [", "a: b: c", "\ta"])
def test_the_pure_python_parser_reports_errors_the_same_way(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    monkeypatch.setattr("noetl.language.reading.yaml.PARSER", yaml.SafeLoader)
    findings = Findings()
    read_yaml(Source("t", text), findings)

    assert findings.has_errors
