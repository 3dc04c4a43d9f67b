"""A step as a form: what is read is written back to the letter, and what is changed changes nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from noetl.base.diagnostics import Findings, Source
from noetl.base.errors import InvalidError
from noetl.language.checking import check
from noetl.language.formatting.formatter import FormatError
from noetl.language.formatting.layout import NewStep
from noetl.language.formatting.step_form import control_of, form_inputs, step_form, with_inputs, with_step
from noetl.language.reading.nodes import Mapping, Sequence, data
from noetl.language.reading.yaml import read_yaml
from noetl.operations.example_files import example_files
from noetl.tools.kinds import load_kinds

EXAMPLES = [one.file for one in example_files()]
KINDS = load_kinds()
TEXT = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: t, path: t }
workflow:
  - step: start
    tool:
      kind: http
      url: "https://example.org/{{ workload.n }}"   # where it is
      headers:
        Accept: text/plain
    next: { arcs: [{ step: end, when: "{{ start.ok }}" }, { step: other }] }  # two ways

  # the last one
  - step: end
    tool: { kind: noop }

  - step: other
workload: { n: 1 }
"""


def changed(text: str, step: str, **inputs: str) -> str:
    source = Source("t.yaml", text)
    form = step_form(source, step)
    return with_inputs(source, msgspec.structs.replace(form, inputs={**form.inputs, **inputs}), KINDS)


def forms(path: Path) -> list[tuple[Source, str, int]]:
    """Every task of an example that a form can show."""
    source = Source(path.name, path.read_text("utf-8"))
    root = read_yaml(source, Findings())
    workflow = root.get("workflow") if root is not None else None
    assert isinstance(workflow, Sequence)
    names = [str(data(one.get("step"))) for one in workflow if isinstance(one, Mapping)]
    found = []
    for name in names:
        try:
            found += [(source, name, task) for task in range(step_form(source, name).tasks)]
        except InvalidError:
            continue  # a step that waits, or one with sugar in its pipeline
    return found


def test_reading_and_writing_the_steps_of_every_example_changes_nothing() -> None:
    shown = [one for path in EXAMPLES if path.name != "broken.yaml" for one in forms(path)]

    assert len(shown) > 30
    for source, step, task in shown:
        form = step_form(source, step, task)
        assert with_inputs(source, form, KINDS) == source.text, (source.name, step)
        for name, text in form.inputs.items():
            without = with_inputs(source, msgspec.structs.replace(form, inputs={**form.inputs, name: ""}), KINDS)
            again = step_form(Source(source.name, without), step, task)
            assert name not in again.inputs, (source.name, step, name)
            back = with_inputs(
                Source(source.name, without),
                msgspec.structs.replace(again, inputs={**again.inputs, name: text}),
                KINDS,
            )
            assert step_form(Source(source.name, back), step, task).inputs == form.inputs, (source.name, step, name)


def test_changing_one_input_changes_nothing_else() -> None:
    after = changed(TEXT, "start", url="https://example.org/all", method="POST", json="{ a: 1 }")

    assert after == TEXT.replace('"https://example.org/{{ workload.n }}"', '"https://example.org/all"').replace(
        "        Accept: text/plain\n", "        Accept: text/plain\n      method: POST\n      json: { a: 1 }\n"
    )


def test_data_over_several_lines_keeps_its_layout() -> None:
    assert step_form(Source("t", TEXT), "start").inputs["headers"] == "Accept: text/plain"
    after = changed(TEXT, "start", headers="Accept: text/html\nX-Who: me")

    assert "      headers:\n        Accept: text/html\n        X-Who: me\n    next:" in after


def test_code_becomes_a_block() -> None:
    inserted = with_step(
        Source("t", TEXT),
        NewStep(name="count", kind="python", after="end", inputs={"code": "n = 1\n\nresult = n\n"}),
        KINDS,
    )

    assert "      code: |\n        n = 1\n\n        result = n\n\n  - step: other" in inserted


def test_a_step_is_inserted_into_an_arc_with_its_condition() -> None:
    new = NewStep(name="load", kind="http", after="start", before="end", inputs={"url": "https://x.org"})
    after = with_step(Source("t", TEXT), new, KINDS)

    assert '{ step: load, when: "{{ start.ok }}" }, { step: other }] }  # two ways\n\n  - step: load\n' in after
    assert '      url: "https://x.org"\n    next: { arcs: [{ step: end }] }\n\n  # the last one\n  - step: end' in after
    assert check(Source("t", after), kinds=KINDS).ok


def test_a_step_without_arcs_gets_one() -> None:
    after = with_step(Source("t", TEXT), NewStep(name="more", kind="noop", after="other"), KINDS)

    assert "  - step: other\n    next: { arcs: [{ step: more }] }\n\n  - step: more\n" in after
    assert check(Source("t", after), kinds=KINDS).ok


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (NewStep(name="end", kind="noop", after="end"), "already"),
        (NewStep(name="a b", kind="noop", after="end"), "letters"),
        (NewStep(name="x", kind="nope", after="end"), "not a tool kind"),
        (NewStep(name="x", kind="noop", after="nowhere"), "no step"),
        (NewStep(name="x", kind="noop", after="start"), "which one it goes into"),
        (NewStep(name="x", kind="noop", after="start", before="nowhere"), "no arc"),
        (NewStep(name="x", kind="noop", after="end", inputs={"args": "{ a: "}), "args"),
    ],
)
def test_an_impossible_insertion_is_reported(new: NewStep, words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        with_step(Source("t", TEXT), new, KINDS)


def test_a_text_that_is_not_yaml_is_left_unchanged() -> None:
    with pytest.raises(FormatError):
        step_form(Source("t", "workflow: ["), "start")


def test_every_kind_declares_its_form_controls() -> None:
    controls = {kind.name: {one.name: control_of(one) for one in form_inputs(kind)} for kind in KINDS.values()}

    assert controls["http"]["method"] == "choice"
    assert controls["http"]["headers"] == "data"
    assert controls["python"]["code"] == "long"
    assert all("args" in inputs for inputs in controls.values())


WORDS = "Note: answer in one word # and no more\nin: English"


@pytest.mark.parametrize(
    ("kind", "name"), [("llm", "prompt"), ("llm", "system"), ("email", "text"), ("slack", "text"), ("log", "message")]
)
def test_words_for_people_and_models_are_text_of_several_lines_whatever_they_look_like(kind: str, name: str) -> None:
    declared = KINDS[kind].input(name)
    assert declared is not None
    assert control_of(declared) == "long"
    step = NewStep(name="fresh", kind=kind, after="other", inputs={name: WORDS})

    text = with_step(Source("t.yaml", TEXT), step, KINDS)

    assert step_form(Source("t.yaml", text), "fresh").inputs[name] == WORDS
    assert f"      {name}: |-\n        Note: answer" in text


def test_a_prompt_that_is_a_mapping_stays_one_when_it_is_changed() -> None:
    text = TEXT.replace("{ kind: noop }", "\n      kind: llm\n      prompt:\n        question: a\n")

    assert "      prompt:\n        question: b\n" in changed(text, "end", prompt="question: b")
