"""docs/checks.md: every code of the checker with a playbook that gets it and the report it gets.

The examples are the golden files of tests/golden/check/err, so that what the page shows is what the tests hold.
`make docs` writes it.
"""

from __future__ import annotations

import re
from pathlib import Path

from noetl.base.diagnostics import CODES, NOWHERE, Diagnostic, Severity

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "tests" / "golden" / "check" / "err"

WHOLE = 20  # lines of a playbook that is shown as it is
AROUND = 4  # lines of a longer one shown before and after the place a report points at

HEAD = """\
# What the checker says

`noetl check` reads a playbook, compiles it and proves what it can about the net, and reports everything it finds at
once, in the order of the text. Errors stop a playbook from running; warnings never do; notes tell you something. Every
finding has a code, a place and, where there is one, a way out.

This page is made from the checker's own tests (`make docs`), so each report below is what you will see.
"""

TITLES = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.NOTE: "Notes"}


def checks_page() -> str:
    """The whole text of docs/checks.md."""
    parts = [HEAD]
    for severity, title in TITLES.items():
        codes = [code for code in CODES if _severity(code) is severity]
        rows = [f"| [`{code}`](#{code.lower()}) | {_in_table(CODES[code])} |" for code in codes]
        parts.append("\n".join([f"## {title}\n", "| code | raised for |", "|---|---|", *rows]) + "\n")
        parts += [_entry(code) for code in codes]
    return "\n".join(parts)


def _severity(code: str) -> Severity:
    return Diagnostic(code, "", NOWHERE, "").severity


def _in_table(text: str) -> str:
    return text.replace("|", "\\|")


def _entry(code: str) -> str:
    lines = [f"### {code}\n", CODES[code] + "\n"]
    example = _example(code)
    if example is not None:
        report = _report(example.with_suffix(".out").read_text(), code)
        places = [int(found[1]) for found in re.finditer(r"^\S+\.yaml:(\d+):\d+: ", report, re.MULTILINE)]
        lines += ["```yaml", _around(example.read_text(), places), "```\n", "```text", report, "```\n"]
    return "\n".join(lines)


def _example(code: str) -> Path | None:
    """The plainest golden file of a code: the one without a variant, else the first."""
    named = [path for path in sorted(EXAMPLES.glob(f"{code}*.yaml")) if path.stem.split("-")[0] == code]
    return min(named, key=lambda path: (len(path.stem.split("-")), path.stem), default=None)


def _report(text: str, code: str) -> str:
    """The blocks of a report that are about `code`, under the name people know: the playbook's."""
    blocks = [block for block in text.split("\n\n") if f"[{code}]: " in block.split("\n", 1)[0]]
    return re.sub(rf"\b{code}[\w-]*\.yaml", "playbook.yaml", "\n\n".join(blocks)).rstrip()


def _around(text: str, places: list[int]) -> str:
    """The playbook; of a long one the lines near these places, an ellipsis standing for the rest."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) <= WHOLE:
        return "\n".join(line.rstrip() for line in lines)
    shown = {n for place in places for n in range(place - AROUND, place + AROUND + 1) if 1 <= n <= len(lines)}
    cut, last = [], 0
    for number in sorted(shown):
        if number > last + 1:
            cut.append("# …")
        cut.append(lines[number - 1].rstrip())
        last = number
    if last < len(lines):
        cut.append("# …")
    return "\n".join(cut)
