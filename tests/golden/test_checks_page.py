"""docs/checks.md is made from the golden reports, and the committed page is the current one."""

from __future__ import annotations

from noetl.base.diagnostics import CODES
from tools.checks_page import ROOT, checks_page


def test_the_checks_page_is_current() -> None:
    assert (ROOT / "docs" / "checks.md").read_text() == checks_page(), "run `make docs`"


def test_every_code_is_on_the_page_with_its_report() -> None:
    text = checks_page()

    assert [code for code in CODES if f"### {code}\n" not in text] == []
    assert [code for code in CODES if f"[{code}]: " not in text] == []
