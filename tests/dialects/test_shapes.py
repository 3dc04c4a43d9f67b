"""Every shape of the table runs, gives its value, and has a migrated twin with the same result and the same tasks; so
does the example of every accepted spelling."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.base.diagnostics import Source
from noetl.events.tasks import TaskProcessed
from noetl.language.checking import check
from noetl.language.conversion import ConversionOutcome, convert
from noetl.language.reading.spellings.model import Spelling
from noetl.language.reading.spellings.respelling import SPELLINGS
from noetl.tools.kinds import load_kinds
from tests.dialects.coverage import COVERED
from tests.dialects.found_shapes import FOUND, FoundShape, documents
from tests.dialects.more_shapes import MORE
from tests.dialects.shapes import RESCUED, SHAPES, Shape
from tests.language.reading.spelled import document_of, example
from tests.playbook_runs import Ran, Scripted, broken
from tests.worker.case_running import run_case

KINDS = load_kinds()
ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"


def ran(text: str, shape: Shape) -> Ran:
    answers = {name: given if not isinstance(given, list) else list(given) for name, given in shape.answers.items()}
    for given in answers.values():
        if isinstance(given, list):
            given[:] = [broken() if isinstance(one, Exception) else one for one in given]
    # An input that an example requires of its start.
    return run_case(text, {"region": "eu"}, tool=Scripted(**answers))


def tasks(one: Ran) -> list[str]:
    """The tasks that ended, in order, those of a loop too."""
    processed: list[TaskProcessed] = [event.payload for event in one.events if isinstance(event.payload, TaskProcessed)]
    names = [payload.task for payload in processed if not payload.task.startswith("set_vars")]  # a set of v2-case
    # v10 pages a call by jumps, and gives a step the result of an earlier task by one more; a
    # name with two underscores is a jump of `choose`
    return [name for name in names if not name.endswith(("_first", "_more", "_result")) and "__" not in name]


@pytest.mark.req("MIG-06", "DIA-08")
@pytest.mark.parametrize("shape", [pytest.param(shape, id=name) for name, shape in (SHAPES | MORE).items()])
def test_a_shape_and_its_migrated_text_give_the_same_value(shape: Shape) -> None:
    old = ran(shape.text, shape)
    done = convert(Source("t.yaml", shape.text), kinds=KINDS)
    assert done.outcome in (ConversionOutcome.MIGRATED, ConversionOutcome.UNCHANGED), done.blocked
    new = ran(done.text or "", shape)

    assert (old.result.status.value, old.result.result) == ("completed", shape.result)
    assert (new.result.status, new.result.result, new.result.ctx) == (old.result.status, shape.result, old.result.ctx)
    assert tasks(new) == tasks(old)


@pytest.mark.req("MIG-06", "DIA-08")
@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in SPELLINGS])
def test_an_accepted_spelling_and_its_migrated_text_behave_the_same(row: Spelling) -> None:
    text = document_of(example(row).older, row.dialects[0])
    shape = Shape(row.older, text, None)

    done = convert(Source("t.yaml", text), kinds=KINDS)
    old, new = ran(text, shape), ran(done.text or "", shape)

    assert done.outcome in (ConversionOutcome.MIGRATED, ConversionOutcome.UNCHANGED), done.blocked
    assert (new.result.status, new.result.result, new.result.ctx) == (
        old.result.status,
        old.result.result,
        old.result.ctx,
    )
    assert tasks(new) == tasks(old)


@pytest.mark.req("MIG-06", "DIA-04")
@pytest.mark.parametrize("shape", [pytest.param(shape, id=name) for name, shape in RESCUED.items()])
def test_migrate_fixes_a_refused_shape(shape: Shape) -> None:
    done = convert(Source("t.yaml", shape.text), kinds=KINDS)

    assert not done.before.ok
    assert done.outcome is ConversionOutcome.MIGRATED
    assert ran(done.text or "", shape).result.result == shape.result


@pytest.mark.parametrize("name", [shape.golden for shape in (SHAPES | MORE | RESCUED).values() if shape.golden])
def test_the_golden_example_of_a_shape_exists(name: str) -> None:
    assert (GOLDEN / "spellings" / f"{name}.out").exists() or (GOLDEN / "check" / "err" / f"{name}.out").exists()


@pytest.mark.req("VAL-20", "DOC-10")
@pytest.mark.parametrize("shape", [pytest.param(shape, id=name) for name, shape in FOUND.items()])
def test_an_ambiguous_shape_is_reported_with_a_hint(shape: FoundShape) -> None:
    for text, code in documents(shape):
        found = check(Source("t.yaml", text), kinds=KINDS).diagnostics

        assert any(one.code == code and shape.said in f"{one.message} {one.hint}" for one in found), found


@pytest.mark.parametrize("reference", COVERED.values())
def test_the_evidence_of_a_shape_exists(reference: str) -> None:
    where, _, name = reference.partition(":")
    if where == "test":
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text()
        return
    rows: dict[str, set[str]] = {
        "shape": set(SHAPES | MORE),
        "rescued": set(RESCUED),
        "found": set(FOUND),
        "spelling": {row.id for row in SPELLINGS},
    }
    assert name in rows[where]


def test_every_row_answers_a_shape() -> None:
    shown = set(COVERED.values())
    rows = [f"shape:{name}" for name in SHAPES | MORE] + [f"found:{name}" for name in FOUND]

    assert [row for row in rows if row not in shown] == []
