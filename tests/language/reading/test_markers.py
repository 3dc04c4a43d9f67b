"""Dialect detection: who decides, what each marker says, and what happens to a mixture (DIA-01…05, DOC-04)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.reading.constructs import document_parts
from noetl.language.reading.markers import STRONG
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.reader import detect
from noetl.language.reading.yaml import read_yaml

FIXTURES = Path(__file__).parents[2] / "fixtures"
V10, V2_EVAL, V2_CASE = Dialect.V10, Dialect.V2_EVAL, Dialect.V2_CASE


def tree(text: str) -> Mapping:
    root = read_yaml(Source("test.yaml", text), Findings())
    assert root is not None
    return root


def detected(text: str, override: Dialect | None = None) -> tuple[Dialect | None, list[Diagnostic]]:
    findings = Findings()
    root = read_yaml(Source("test.yaml", text), findings)
    assert root is not None
    assert list(findings) == []
    return detect(root, findings, override), list(findings)


def document(step: str = "", root: str = "", api: str = "noetl.io/v2", metadata: str = "") -> str:
    """A neutral document of one step, to which a marker is added."""
    return (
        f"apiVersion: {api}\nkind: Playbook\nmetadata: {{ name: a, path: x/a{metadata} }}\n{root}\n"
        f"workflow:\n  - step: start\n{step}\n"
    )


def on_step(text: str) -> str:
    return document("\n".join("    " + line for line in text.split("\n")))


# strong markers ---------------------------------------------------------------------------------------------------

MARKERS = [
    (V10, document(root="executor: { spec: { policy: { limits: {} } } }")),
    (V10, on_step("spec: { policy: { failure: { mode: best_effort } } }")),
    (V10, on_step("loop: { in: [1], iterator: x, spec: { policy: { exec: local } } }")),
    (V10, on_step("tool: { kind: noop, spec: { policy: { rules: [] } } }")),
    (V10, on_step("next: { arcs: [] }")),
    (V10, on_step("tool: [{ kind: noop }]")),
    (V10, on_step("tool: [{ name: a, kind: noop, url: x }]")),
    (V10, on_step("tool: [{ choose: [] }]")),
    (V10, on_step("tool: [{ name: x, while: { when: '{{ a }}', then: [] } }]")),
    (V10, on_step("tool: [{ until: { when: '{{ a }}', then: [] } }]")),
    (V2_EVAL, on_step("tool: { kind: noop, eval: [] }")),
    (V2_EVAL, on_step("when: '{{ true }}'")),
    (V2_EVAL, on_step("spec: { next_mode: exclusive }")),
    (V2_EVAL, on_step("next: [{ step: b, when: '{{ a }}' }]")),
    (V2_EVAL, on_step("tool: [{ fetch: { kind: http } }]")),
    (V2_EVAL, on_step("tool: [{ until: { kind: http } }]")),
    (V2_EVAL, on_step("tool: [{ a: { kind: noop, eval: [{ else: { do: continue, set_vars: {} } }] } }]")),
    (V2_EVAL, on_step("tool: [{ a: { kind: noop, eval: [{ expr: '{{ a }}', set_shared: {} }] } }]")),
    (V2_EVAL, on_step("tool: [{ a: { kind: noop, eval: [{ expr: '{{ a }}', set_prev: 7 }] } }]")),
    (V2_CASE, on_step("case: []")),
    (V2_CASE, on_step("retry: []")),
    (V2_CASE, on_step("sink: { tool: { kind: postgres } }")),
    (V2_CASE, on_step("vars: { a: 1 }")),
    (V2_CASE, on_step("then: []")),
    (V2_CASE, on_step("next: [{ step: b, then: [] }]")),
    (V2_CASE, on_step("tool: { kind: noop, then: [] }")),
    (V2_CASE, on_step("loop: { in: [1], iterator: x, mode: parallel }")),
    (V2_CASE, on_step("loop: { collection: [1], iterator: x }")),
    (V2_CASE, on_step("loop: { in: [1], element: x }")),
    (V2_CASE, on_step("loop: { in: [1], iterator: x, loop: { collection: [1] } }")),
    (V2_CASE, on_step("loop: { in: [1], iterator: x, spec: { batch_size: 2 } }")),
    (V2_CASE, on_step("spec: { case_mode: inclusive }")),
    (V2_CASE, on_step("spec: { eval_mode: on_event }")),
    (V2_CASE, on_step("spec: { on_error: continue }")),
    (V2_CASE, document(root="name: a")),
    (V2_CASE, document(root="path: x/a")),
]


@pytest.mark.req("DIA-02")
@pytest.mark.parametrize(("dialect", "text"), MARKERS)
def test_a_strong_marker_decides_alone(dialect: Dialect, text: str) -> None:
    assert detected(text) == (dialect, [])


@pytest.mark.req("DIA-02")
def test_every_marker_of_the_table_has_a_document_above() -> None:
    """A marker added to the table without its test would be believed and never seen."""
    shown = set()
    for _, text in MARKERS:
        root = read_yaml(Source("t", text), Findings())
        assert root is not None
        shown |= {marker.name for marker in STRONG if any(marker.find(document_parts(root)))}

    assert shown == {marker.name for marker in STRONG if marker.dialect is not Dialect.V10_IO}  # they stand below


@pytest.mark.req("DIA-02")
@pytest.mark.parametrize(
    "text",
    [
        on_step("tool:\n  kind: http\n  json: { case: 1, then: 2, eval: 3, retry: 4 }"),
        document(root="workload: { case: [], keychain: {}, spec: { policy: {} } }"),
        on_step("spec: { timeout: 5 }\nloop: { in: [1], iterator: x, spec: { mode: parallel } }"),
        on_step("timer: { duration: 1h }\non_event: { handlers: [{ event: e, then: [{ log: { tool: {} } }] }] }"),
        on_step("compensate: [{ undo: { kind: noop, eval: [] } }]"),
        document(),
    ],
)
def test_data_and_neutral_constructs_are_no_markers(text: str) -> None:
    assert detected(text) == (V10, [])


@pytest.mark.req("DIA-02")
def test_then_in_rules_admission_and_sugar_is_not_a_v2_case_marker() -> None:
    step = (
        "spec: { policy: { admit: { rules: [{ else: { then: { allow: true } } }] } } }\n"
        "tool:\n  - name: a\n    kind: noop\n    spec: { policy: { rules: [{ when: true, then: { do: break } }] } }\n"
        "  - choose: [{ when: true, then: [{ name: b, kind: noop }] }, { else: { then: [{ name: c, kind: noop }] } }]"
    )

    assert detected(on_step(step)) == (V10, [])


@pytest.mark.req("DIA-02")
def test_markers_inside_sugar_and_the_workbook_count() -> None:
    inside = on_step("tool: [{ while: { when: true, then: [{ name: a, kind: noop, eval: [] }] } }]")
    dialect, (found,) = detected(inside)
    assert (dialect, found.code) == (None, "E_DIALECT_MIXED")

    assert detected(document(root="workbook: { tasks: { a: { kind: noop, eval: [] } } }")) == (V2_EVAL, [])
    assert detected(document(root="workbook: [{ name: a, kind: noop, eval: [] }]")) == (V2_EVAL, [])


@pytest.mark.req("DIA-02", "KEY-01")
def test_a_keychain_is_not_a_marker() -> None:
    assert detected(document(root="keychain: []")) == (V10, [])
    assert detected(document("    case: []", root="keychain: []")) == (V2_CASE, [])
    assert detected(document("    tool: [{ a: { kind: noop, eval: [] } }]", root="keychain: []")) == (V2_EVAL, [])


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize(
    ("step", "dialect"),
    [
        ("tool: [{ fetch: { kind: noop } }]\nnext: { arcs: [] }", V10),
        ("loop: { in: [1], iterator: x, mode: parallel }\nnext: { arcs: [] }", V10),
        ("retry: { max_attempts: 3 }\ntool: [{ name: a, kind: noop }]", V10),
        ("retry: { max_attempts: 3 }\ntool: [{ a: { kind: noop } }]", V10),
        ("vars: { a: 1 }\ntool: [{ a: { kind: noop, eval: [] } }]", V2_EVAL),
        ("vars: { a: 1 }\nnext: [{ step: b, when: '{{ true }}' }]", V2_EVAL),
        ("next: [{ step: b, when: '{{ a }}' }]\ntool: [{ name: a, kind: noop }]", V10),
    ],
)
def test_a_spelling_that_two_dialects_accept_is_not_a_mixture(step: str, dialect: Dialect) -> None:
    assert detected(on_step(step)) == (dialect, [])


# the order of deciding --------------------------------------------------------------------------------------------


@pytest.mark.req("DIA-01")
@pytest.mark.parametrize(
    ("fixture", "dialect"), [("F-004-H", V10), ("F-000-E", V2_EVAL), ("F-003-A", V2_EVAL), ("F-001-E", V2_CASE)]
)
def test_fixtures_have_the_expected_dialect(fixture: str, dialect: Dialect) -> None:
    text = (FIXTURES / f"{fixture}.yaml").read_text()

    assert detected(text) == (dialect, [])
    assert detected(text.replace("noetl.io/v10", "noetl.io/v2")) == (dialect, [])


@pytest.mark.req("DIA-01")
def test_every_fixture_has_a_dialect_and_only_one() -> None:
    families = {"F-000": {V2_EVAL, V10}, "F-001": {V2_CASE}, "F-002": {V2_CASE}, "F-003": {V2_EVAL}}
    for path in sorted(FIXTURES.glob("*.yaml")):
        dialect, found = detected(path.read_text().replace("noetl.io/v10", "noetl.io/v2"))
        assert found == [], path.name
        assert dialect in families.get(path.name[:5], {V10}), path.name


@pytest.mark.req("DIA-01")
def test_a_declared_dialect_overrides_all_markers() -> None:
    eval_text = on_step("tool: [{ a: { kind: noop, eval: [] } }]")
    named = eval_text.replace("path: x/a", "path: x/a, dialect: v2-case")

    assert detected(eval_text) == (V2_EVAL, [])
    assert detected(named) == (V2_CASE, [])
    assert detected(eval_text, V10) == (V10, [])
    assert detected(named, V10) == (V10, []), "the option is nearer than the document"


@pytest.mark.req("DIA-01")
def test_an_unknown_declared_dialect_is_refused_and_the_markers_decide() -> None:
    text = on_step("case: []").replace("path: x/a", "path: x/a, dialect: v2-cases")
    dialect, (found,) = detected(text)

    assert dialect is V2_CASE
    assert (found.code, found.path, found.hint) == ("E_METADATA", "metadata.dialect", 'did you mean "v2-case"?')


@pytest.mark.req("DIA-01", "DIA-05")
@pytest.mark.parametrize("by_option", [True, False])
def test_an_older_dialect_declared_under_v10_is_refused(by_option: bool) -> None:
    text = document(api="noetl.io/v10", metadata="" if by_option else ", dialect: v2-eval")
    dialect, (found,) = detected(text, V2_EVAL if by_option else None)

    assert dialect is V10
    assert (found.code, found.path) == ("E_API_VERSION", "apiVersion")
    assert ("--dialect" if by_option else "metadata.dialect") in found.message


@pytest.mark.req("DIA-03")
@pytest.mark.parametrize(
    ("steps", "dialect"),
    [
        ("[{ step: start, tool: { kind: noop }, next: end }]", V2_CASE),
        ("[{ step: start, args: { a: 1 } }]", V2_CASE),
        ("[{ step: start, next: [{ step: end }] }]", V2_EVAL),
        ("[{ step: start, next: [end] }]", V2_EVAL),
        ("[{ step: start, tool: { kind: noop } }]", V10),
        ("[{ step: start, next: [{ step: b }] }, { step: b, next: end }]", V2_CASE),
        ("[{ step: start, next: [{ step: b }] }, { step: b, args: {} }]", V2_CASE),
        ("[{ step: start, next: }]", V10),
    ],
)
def test_weak_markers_decide_without_strong_ones(steps: str, dialect: Dialect) -> None:
    text = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: a, path: a }}\nworkflow: {steps}\n"

    assert detected(text) == (dialect, [])


@pytest.mark.req("DIA-03")
def test_a_strong_marker_beats_every_weak_one() -> None:
    assert detected(on_step("args: { a: 1 }\nnext: { arcs: [] }")) == (V10, [])
    assert detected(on_step("args: { a: 1 }\ntool: [{ a: { kind: noop } }]")) == (V2_EVAL, [])


# mixtures ---------------------------------------------------------------------------------------------------------

MIXED = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: a, path: a }
workflow:
  - step: start
    next: { arcs: [{ step: b }] }
  - step: b
    tool:
      - kind: noop
        eval: [{ else: { do: continue } }]
"""


@pytest.mark.req("DIA-04")
def test_a_mixture_is_refused_with_a_marker_and_the_rewrite_of_each_dialect() -> None:
    dialect, (found,) = detected(MIXED)

    assert dialect is None
    assert (found.code, found.line) == ("E_DIALECT_MIXED", 10)
    assert '"workflow[0].next.arcs" is v10' in found.message
    assert '"workflow[1].tool[0].eval" is v2-eval' in found.message
    assert "in v10 write spec: { policy: { rules } } for eval" in found.hint
    assert "in v2-eval write next: [{ step, when }] for next.arcs" in found.hint
    assert "noetl migrate" in found.hint


@pytest.mark.req("DIA-04")
@pytest.mark.parametrize("first", MARKERS[::4])
@pytest.mark.parametrize("other", MARKERS[1::5])
def test_two_dialects_in_one_document_are_refused_unless_one_reader_accepts_both(
    first: tuple[Dialect, str], other: tuple[Dialect, str]
) -> None:
    head, _, steps = first[1].partition("workflow:\n")
    other_head, _, other_steps = other[1].partition("workflow:\n")
    extra = "\n".join(line for line in other_head.split("\n")[3:] if line and line not in head.split("\n"))
    text = f"{head}{extra}\nworkflow:\n{steps}{other_steps}"
    dialect, found = detected(text)

    shown = [marker for marker in STRONG if any(marker.find(document_parts(tree(text))))]
    readers = [one for one in (first[0], other[0], V10) if all(marker.is_read_in(one) for marker in shown)]
    if readers:
        assert (dialect, found) == (readers[0], [])
    else:
        assert (dialect, [one.code for one in found]) == (None, ["E_DIALECT_MIXED"])


@pytest.mark.req("DIA-04")
def test_a_mixture_of_three_names_all_three() -> None:
    _, (found,) = detected(MIXED + "  - step: c\n    case: []\n")

    assert found.message.startswith("three dialects")
    assert '"workflow[2].case" is v2-case' in found.message


@pytest.mark.req("V2C-04", "DIA-02")
def test_a_guarded_next_entry_next_to_case_is_read_as_v2_case() -> None:
    """`E_NEXT_WHEN` explains it better than a mixture would (C-04)."""
    assert detected(on_step("case: []\nnext: [{ step: a, when: '{{ b }}' }]")) == (V2_CASE, [])


@pytest.mark.req("DIA-05")
@pytest.mark.parametrize(("_", "text"), MARKERS)
def test_v10_by_api_version_or_option_is_never_read_as_an_older_dialect(_: Dialect, text: str) -> None:
    assert detected(text.replace("noetl.io/v2", "noetl.io/v10")) == (V10, [])
    assert detected(text, V10) == (V10, [])


# apiVersion -------------------------------------------------------------------------------------------------------


@pytest.mark.req("DOC-04")
@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("apiVersion: noetl.io/v1", 'apiVersion is "noetl.io/v1"'),
        ("apiVersion: noetl.io/v3", 'apiVersion is "noetl.io/v3"'),
        ("apiVersion: 2", 'apiVersion is "2"'),
        ("apiVersion:", "apiVersion is null"),
        ("apiVersion: [noetl.io/v2]", "apiVersion is a list"),
        ("", "apiVersion is missing"),
    ],
)
def test_an_unknown_or_missing_api_version_is_refused_and_the_markers_decide(written: str, shown: str) -> None:
    dialect, (found,) = detected(on_step("case: []").replace("apiVersion: noetl.io/v2", written))

    assert dialect is V2_CASE, "so that the other mistakes are found too"
    assert (found.code, found.path) == ("E_API_VERSION", "apiVersion")
    assert found.message == f"{shown}; playbooks must use noetl.io/v2 or noetl.io/v10"


# v10-io -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("DIA-09")
@pytest.mark.parametrize("api", ["noetl.io/v2", "noetl.io/v10"])
@pytest.mark.parametrize(
    "step",
    [
        "input: { a: 1 }",
        "tool: { kind: noop, input: { a: 1 } }",
        "tool: [{ name: a, kind: noop, input: { a: 1 } }]",
        "next: { arcs: [{ step: b, input: { a: 1 } }] }",
        "set: { a: 1 }",
        "tool: { kind: noop, set: { a: 1 } }",
        "next: { arcs: [{ step: b, set: { a: 1 } }] }",
        "tool: { kind: noop, spec: { policy: { rules: [{ else: { then: { do: continue, set: { a: 1 } } } }] } } }",
        "tool: { kind: noop, spec: { policy: { rules: [{ when: '{{ output.data }}', then: { do: break } }] } } }",
        "tool: { kind: noop, output: { rules: [] } }",
        "next: { arcs: [{ step: b, when: '{{ output.data.n > 1 }}' }] }",
    ],
)
def test_input_set_and_output_are_markers_of_v10_io(step: str, api: str) -> None:
    assert detected(on_step(step).replace("noetl.io/v2", api)) == (Dialect.V10_IO, [])


@pytest.mark.req("DIA-09")
@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (on_step("case: [{ when: '{{ true }}', then: { set: { a: 1 } } }]"), V2_CASE),
        (on_step("tool: { kind: http, json: { input: 1, output: 2, set: 3 } }"), V10),
        (on_step("next: { arcs: [{ step: b, when: '{{ export.output > 1 }}' }] }"), V10),
        (document("    next: { arcs: [{ step: output, when: '{{ output.n }}' }] }\n  - step: output"), V10),
        (document("    next: { arcs: [{ step: b, when: '{{ output > 1 }}' }] }", root="workload: { output: 2 }"), V10),
    ],
)
def test_the_same_words_elsewhere_are_not_markers_of_v10_io(text: str, dialect: Dialect) -> None:
    assert detected(text) == (dialect, [])


IO = "  - step: d\n    tool: {kind: python, input: {a: 1}, code: result = a}\n"
CASE = "  - step: c\n    case: []\n"
ARCS = "  - step: e\n    next: {arcs: [{step: c}]}\n"


@pytest.mark.req("DIA-04", "DIA-09")
@pytest.mark.parametrize("steps", [IO + CASE, CASE + IO, IO + ARCS + CASE, ARCS + IO + CASE, CASE + ARCS + IO])
def test_v10_io_beside_case_is_refused_with_what_v10_writes(steps: str) -> None:
    dialect, (found,) = detected(f"{MIXED.partition('workflow:')[0]}workflow:\n{steps}")

    assert (dialect, found.code) == (None, "E_DIALECT_MIXED")
    assert "write next: { arcs: [{ step, when }] } for case" in found.hint
