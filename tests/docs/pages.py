"""The examples in the pages of docs/: where they are, and how their output is compared."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: page, path: docs/page }\nworkflow:\n"


def whole(form: str, text: str) -> str:
    if form == "step":
        return HEAD + textwrap.indent(text, "  ")
    if form == "task":
        return HEAD + "  - step: start\n    tool:\n" + textwrap.indent(text, "      ")
    return text


def pattern(expected: str) -> str:
    lines = []
    for line in expected.rstrip().split("\n"):
        lines.append("(?:.*\n)*?" if line.strip() == "…" else _pattern(line.rstrip()) + "[ ]*\n")
    return "".join(lines) if expected.strip() else r"\s*"


def _pattern(line: str) -> str:
    return re.sub(r"…\\ m?s\b", "…", re.escape(line)).replace("…", ".*")
