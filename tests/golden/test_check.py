"""What `noetl check` says, file by file: ok/ is silent, and every report of err/ is kept to the letter in its .out.

A file's first line may ask for options of the command: `# check: --strict --dialect v2-eval`. NOETL_GOLDEN=1 writes the
.out files anew; read the difference before you keep it.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest

from noetl.base.diagnostics import CODES, Source
from noetl.cli.report import text_report
from noetl.language.checking import Checked, check
from noetl.language.reading.playbook import Dialect
from noetl.tools.kinds import KINDS

HERE = Path(__file__).parent / "check"
OK = sorted((HERE / "ok").glob("*.yaml"))
ERR = sorted((HERE / "err").glob("*.yaml"))
REWRITE = os.environ.get("NOETL_GOLDEN") == "1"


@cache  # one file needs all of the analysis's budget
def checked(path: Path) -> Checked:
    """The file checked under its bare name, so that reports do not depend on where they are made."""
    text = path.read_bytes().decode()
    asked = re.match(r"# check:(.*)", text)
    options = asked[1].split() if asked else []
    dialect = Dialect(options[options.index("--dialect") + 1]) if "--dialect" in options else None
    return check(
        Source(path.name, text),
        kinds=KINDS,
        dialect=dialect,
        strict="--strict" in options,
        extensions="--allow-extensions" in options,
    )


def code_of(path: Path) -> str:
    return path.stem.split("-")[0]


@pytest.mark.parametrize("path", OK, ids=lambda path: path.stem)
def test_a_correct_playbook_has_no_findings(path: Path) -> None:
    said = [found for found in checked(path).diagnostics if found.code != "I_DIALECT"]

    assert said == []


@pytest.mark.req("VAL-19")
@pytest.mark.parametrize("path", ERR, ids=lambda path: path.stem)
def test_the_report_matches_its_golden_file(path: Path) -> None:
    report = "\n".join(text_report([checked(path)])) + "\n"
    kept = path.with_suffix(".out")
    if REWRITE:
        kept.write_text(report)

    assert kept.exists(), f"{kept.name} is missing: run with NOETL_GOLDEN=1, and read what it says"
    assert report == kept.read_text()


@pytest.mark.req("VAL-19")
@pytest.mark.parametrize("code", CODES)
def test_every_code_has_an_example_with_its_place(code: str) -> None:
    examples = [path for path in ERR if code_of(path) == code]
    placed = re.compile(rf"^{re.escape(code)}[\w-]*\.yaml:\d+:\d+: (error|warning|note)\[{code}\]: ", re.MULTILINE)

    assert examples, f"no example: add tests/golden/check/err/{code}.yaml"
    for path in examples:
        assert placed.search(path.with_suffix(".out").read_text()), f"{path.name} does not show {code}"


def test_every_report_has_its_playbook() -> None:
    assert {path.stem for path in (HERE / "err").glob("*.out")} <= {path.stem for path in ERR}


@pytest.mark.parametrize("path", ERR, ids=lambda path: path.stem)
def test_messages_follow_the_style_rules(path: Path) -> None:
    """docs/style.md §5: lower case, no full stop, one line; a hint leads on and does not repeat the message."""
    for found in checked(path).diagnostics:
        assert found.message == found.message.strip()
        assert not found.message[:1].isupper() or found.message[:2].isupper(), found.message
        assert not found.message.endswith(".") or found.message.endswith("…"), found.message
        assert "\n" not in found.message, found.message
        assert not found.hint.endswith("."), found.hint
        assert found.hint != found.message
        assert found.span.line >= 1
        assert found.span.column >= 1
