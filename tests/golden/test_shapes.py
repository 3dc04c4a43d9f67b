"""What `noetl check` says about each shape that people write, and what `noetl migrate` makes of it, kept to the letter
in shapes/NAME.out.

NOETL_GOLDEN=1 writes the files anew; read the difference before you keep it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.base.diagnostics import Source
from noetl.cli.report import text_report
from noetl.language.checking import check
from noetl.language.conversion import convert
from noetl.tools.kinds import KINDS
from tests.dialects.found_shapes import FOUND, documents
from tests.dialects.more_shapes import MORE
from tests.dialects.shapes import RESCUED, SHAPES

HERE = Path(__file__).parent / "shapes"
REWRITE = os.environ.get("NOETL_GOLDEN") == "1"


def texts() -> Iterator[tuple[str, list[str]]]:
    """Every shape by the name of its file: one document, or one for v10 and one for v2."""
    for name, shape in (SHAPES | MORE | RESCUED).items():
        yield _file(name), [shape.text]
    for name, found in FOUND.items():
        yield _file(f"found {name}"), [text for text, _ in documents(found)]


def _file(name: str) -> str:
    return "-".join("".join(sign if sign.isalnum() else " " for sign in name).split())


@pytest.mark.req("DIA-08", "MIG-06")
@pytest.mark.parametrize(("name", "documents"), [pytest.param(*one, id=one[0]) for one in texts()])
def test_the_report_and_the_migration_of_a_shape_match_their_golden_files(name: str, documents: list[str]) -> None:
    told = []
    for text in documents:
        source = Source(f"{name}.yaml", text)
        migrated = convert(source, kinds=KINDS)
        report = "\n".join(text_report([check(source, kinds=KINDS)]))
        told.append(
            f"{text.rstrip()}\n\n# check\n{report}\n\n# migrate: {migrated.outcome.value}\n{migrated.text or ''}"
        )
    whole = "\n---\n".join(told).rstrip() + "\n"
    kept = HERE / f"{name}.out"
    if REWRITE:
        kept.write_text(whole)

    assert kept.exists(), f"{kept.name} is missing: run with NOETL_GOLDEN=1, and read what it says"
    assert whole == kept.read_text()


def test_every_golden_file_has_its_shape() -> None:
    names = [name for name, _ in texts()]

    assert len(set(names)) == len(names)
    assert {path.stem for path in HERE.glob("*.out")} == set(names)
