"""Formatting: one layout, the same meaning, every comment kept; formatting twice changes nothing more."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.base.diagnostics import Findings, Source
from noetl.language.formatting import formatter as formatting
from noetl.language.formatting.formatter import FormatError, format_text
from noetl.language.formatting.layout_reader import read_layout
from noetl.language.reading.nodes import data
from noetl.language.reading.yaml import read_yaml
from tests.language.reading.yaml_texts import documents

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("*.yaml"))


def formatted(text: str) -> str:
    return format_text(Source("test.yaml", text))


def meaning(text: str) -> bytes:
    findings = Findings()
    root = read_yaml(Source("test.yaml", text), findings)
    assert list(findings) == []
    return msgspec.json.encode(data(root), order="deterministic")


def holds(text: str) -> None:
    """The three promises of the formatter."""
    once = formatted(text)
    plain = re.sub("\r\n?", "\n", text.removeprefix("\ufeff"))

    assert meaning(once) == meaning(text)
    assert sorted(read_layout(once).comments) == sorted(read_layout(plain).comments)
    assert formatted(once) == once


# the promises -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_formatting_fixtures_keeps_meaning_and_comments_and_is_idempotent(path: Path) -> None:
    text = path.read_text()
    holds(text)

    assert formatted(text).count("#") == text.count("#")


@settings(max_examples=150, deadline=None)
@given(documents())
def test_formatting_any_document_keeps_meaning_and_comments_and_is_idempotent(text: str) -> None:
    holds(text)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "a b", "x: y", "# no", "é", "l1\nl2\n", " s"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcde"), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["kind", "workflow", "a"]), VALUES, min_size=1), st.booleans(), st.integers(1, 7)
)
def test_output_of_other_yaml_programs_can_be_formatted(value: dict[str, object], flow: bool, indent: int) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, indent=indent, width=40, allow_unicode=True)
    holds(text)


# the layout -------------------------------------------------------------------------------------------------------

UNTIDY = """\
# Orders, every hour.

workflow:
- next: {arcs: [{step: b,when: "{{ a }}"}]} # on

  # what it is called
  step: start
  tool:
      # the task
      - url:   "http://h"   # where
        spec:
            timeout:  5
        kind: http
        name: fetch


  # the end
- step: b
- step: c
kind:   Playbook
apiVersion: noetl.io/v10
metadata:
    name: a
    path: x/a
    # more to come
# the end of it all
"""

TIDY = """\
# Orders, every hour.

apiVersion: noetl.io/v10
kind: Playbook

metadata:
  name: a
  path: x/a
  # more to come

workflow:
  # what it is called
  - step: start
    tool:
      # the task
      - name: fetch
        kind: http
        url: "http://h"  # where
        spec:
          timeout: 5
    next: { arcs: [{ step: b, when: "{{ a }}" }] }  # on

    # the end

  - step: b
  - step: c

# the end of it all
"""


def test_a_whole_playbook_is_ordered_indented_and_spaced() -> None:
    assert formatted(UNTIDY) == TIDY
    holds(UNTIDY)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a:   1", "a: 1\n"),
        ("a:\n- 1\n- 2\n", "a:\n  - 1\n  - 2\n"),
        ("a:\n    b:\n        c: 1\n", "a:\n  b:\n    c: 1\n"),
        ("a:\n  -   - 1\n      - 2\n  -\n    - 3\n", "a:\n  - - 1\n    - 2\n  - - 3\n"),
        ("a: {b: 1,c: [ x,y ], d: {}, e: [],}\n", "a: { b: 1, c: [x, y], d: {}, e: [] }\n"),
        ("a: [b: 1, {c: 2}]\n", "a: [b: 1, { c: 2 }]\n"),
        ("a: {b: , c}\n", "a: { b: , c }\n"),
        ("a:\n  b: 1\n...\n# d\n", "a:\n  b: 1\n\n# d\n"),
        ("  a: |\n    x\n# c\n", "a: |\n  x\n\n# c\n"),
        ("a: {? b : 1}\n", "a: { ? b: 1 }\n"),
        ("? a\n: 1\n", "a: 1\n"),
        ("a: [\n    1,   # one\n    2\n  ]\n", "a: [\n    1,   # one\n    2\n  ]\n"),
        ("a: 1    # c\n", "a: 1  # c\n"),
        ("a: 1   \n\n\n\nb: 2\n\n\n", "a: 1\nb: 2\n"),
        ("a: {b: 1}\nc:\n  d: 1\n\n\n\n  e: 2\n", "a: { b: 1 }\n\nc:\n  d: 1\n\n  e: 2\n"),
        ("a: # here\n  b: 1\n", "a:  # here\n  b: 1\n"),
        ("a:\n  # todo\nb: 1\n", "a:\n  # todo\n\nb: 1\n"),
        ("a:\n  # why\n  text\n", "# why\na: text\n"),
        ("a:\n  - # one\n    # two\n    b: 1\n", "a:\n  # one\n  # two\n  - b: 1\n"),
        (
            "a:\n    b: 1\n    # inside\n  # outside\n# below\nc: 1\n",
            "a:\n  b: 1\n  # inside\n\n# outside\n# below\nc: 1\n",
        ),
        ("a: |  # c\n     x\n       y\n\nb: 1\n", "a: |  # c\n  x\n    y\n\nb: 1\n"),
        ("a: |1\n   x\n", "a: |2\n    x\n"),
        ("a:\n    b: |+\n        x\n\n\nc: 1\n", "a:\n  b: |+\n    x\n\n\nc: 1\n"),
        ("a: |\n  x", "a: |-\n  x\n"),
        ("a: >-\n      x\n      y\n", "a: >-\n  x\n  y\n"),
        ("a: one\n      two\n", "a: one\n      two\n"),
        ("a:\n    b: 'x\n     y'\n", "a:\n  b: 'x\n    y'\n"),
        ("a: &x\n    b: 1\nc: *x\n", "a: &x\n  b: 1\n\nc: *x\n"),
        ("workflow: []\nkind: &k Playbook\napiVersion: *k\n", "workflow: []\nkind: &k Playbook\napiVersion: *k\n"),
        ("--- # c\na: 1\n...\n# d\n", "---\n# c\na: 1\n# d\n"),
        ("%YAML 1.2\n---\na: 1\n", "%YAML 1.2\n---\na: 1\n"),
        ("{a: 1}\n", "{ a: 1 }\n"),
        ("\ufeffa: 1\r\nb: 2\r\n", "a: 1\nb: 2\n"),
        ("'a' : \"x\"\n", "'a': \"x\"\n"),
        ("a: &n x\nb:\n  *n : 1\n", "a: &n x\n\nb:\n  *n : 1\n"),
    ],
)
def test_a_layout_is_normalised(before: str, after: str) -> None:
    assert formatted(before) == after
    holds(before)


def test_keys_of_data_keep_their_order() -> None:
    text = "workload:\n  step: 1\n  kind: 2\n  apiVersion: 3\n"

    assert formatted(text) == text


def test_tasks_with_labels_are_ordered_below_their_label() -> None:
    task = "          eval: []\n          spec: {}\n          kind: http\n"
    text = f"workflow:\n  - step: a\n    tool:\n      - fetch:\n{task}"

    assert formatted(text).split("fetch:\n")[1].split() == ["kind:", "http", "spec:", "{}", "eval:", "[]"]


# refusals ---------------------------------------------------------------------------------------------------------


def test_unreadable_text_is_refused_with_its_diagnostics() -> None:
    with pytest.raises(FormatError) as refused:
        formatted("a: 1\na: 2\n")

    assert [found.code for found in refused.value.findings] == ["E_YAML"]


def test_a_key_longer_than_a_line_is_refused() -> None:
    with pytest.raises(FormatError, match="longer than a line"):
        formatted(f"? {'k' * 1100}\n: 1\n")


def test_a_formatter_that_changes_the_meaning_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is read again before anybody writes it."""
    monkeypatch.setattr(formatting, "write_layout", lambda layout: "a: 2\n")

    with pytest.raises(FormatError, match="would change its meaning"):
        formatted("a: 1\n")


def test_a_formatter_that_loses_a_comment_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formatting, "write_layout", lambda layout: "a: 1\n")

    with pytest.raises(FormatError, match="would change its meaning"):
        formatted("a: 1 # c\n")
