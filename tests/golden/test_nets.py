"""Every acceptance fixture compiled, as text: a change of any net shows as a diff to be read.

`NOETL_GOLDEN=1` rewrites the files.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from noetl.base.diagnostics import Findings, Severity, Source
from noetl.language.compiling.compiler import compile_playbook
from noetl.language.reading.reader import read_playbook
from noetl.net.dump import dump
from noetl.tools.kinds import KINDS

HERE = Path(__file__).parent
FIXTURES = sorted((HERE.parent / "fixtures").glob("*.yaml"))
# What a fixture must be told about, beside the note about an older dialect (requirements.md §6).
EXPECTED = {"F-002-O": ["E_TOOL_KIND"]}
DIALECTS = {
    "F-000-A": "v10",
    "F-000": "v2-eval",
    "F-001": "v2-case",
    "F-002": "v2-case",
    "F-003": "v2-eval",
    "F-004": "v10",
    "F-R": "v10",
}


@pytest.mark.req("SUGAR-05", "V2E-01", "TASK-01", "TASK-02", "TASK-03")
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_fixture_compiles_to_its_golden_net(path: Path) -> None:
    findings = Findings()
    playbook = read_playbook(Source(path.name, path.read_text()), findings, kinds=KINDS)
    assert playbook is not None
    net = compile_playbook(playbook, KINDS, findings).net
    assert net is not None
    golden = HERE / "nets" / f"{path.stem}.net"
    if os.environ.get("NOETL_GOLDEN"):
        golden.write_text(dump(net))

    assert dump(net) == golden.read_text()


@pytest.mark.req("DIA-01", "DIA-06", "VAL-04")
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_fixture_has_its_dialect_and_only_the_stated_findings(path: Path) -> None:
    findings = Findings()
    playbook = read_playbook(Source(path.name, path.read_text()), findings, kinds=KINDS)
    assert playbook is not None
    compile_playbook(playbook, KINDS, findings)
    dialect = next(name for start, name in DIALECTS.items() if path.stem.startswith(start))
    notes = [found.code for found in findings if found.severity is Severity.NOTE]

    assert playbook.dialect == dialect
    assert [found.code for found in findings if found.severity is not Severity.NOTE] == EXPECTED.get(path.stem, [])
    assert notes == ([] if dialect == "v10" else ["I_DIALECT"])
