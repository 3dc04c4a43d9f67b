"""What `noetl check` says about the example of each accepted spelling, kept to the letter in spellings/ID.out.

The example is spellings/ID.yaml: the older text, a line `---`, and the canonical one.

NOETL_GOLDEN=1 writes the files anew; read the difference before you keep it.
"""

from __future__ import annotations

import os

import pytest

from noetl.base.diagnostics import Source
from noetl.cli.report import text_report
from noetl.language.checking import check
from noetl.language.reading.spellings.model import Spelling
from noetl.language.reading.spellings.respelling import SPELLINGS
from noetl.tools.kinds import KINDS
from tests.language.reading.spelled import EXAMPLES, document_of, example

REWRITE = os.environ.get("NOETL_GOLDEN") == "1"


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize("row", SPELLINGS, ids=lambda row: row.id)
def test_the_report_of_an_accepted_spelling_matches_its_golden_file(row: Spelling) -> None:
    source = Source(f"{row.id}.yaml", document_of(example(row).older, row.dialects[0]))
    report = "\n".join(text_report([check(source, kinds=KINDS)])) + "\n"
    kept = EXAMPLES / f"{row.id}.out"
    if REWRITE:
        kept.write_text(report)

    assert kept.exists(), f"{kept.name} is missing: run with NOETL_GOLDEN=1, and read what it says"
    assert report == kept.read_text()


def test_every_golden_report_has_its_spelling() -> None:
    assert {path.stem for path in EXAMPLES.iterdir()} == {row.id for row in SPELLINGS}
