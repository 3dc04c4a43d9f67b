"""Helpers of the spelling tests: a document around a fragment, and its findings."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import NamedTuple

from noetl.base.diagnostics import Source
from noetl.language.checking import Checked, check
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.spellings.model import Spelling
from noetl.tools.kinds import load_kinds

KINDS = load_kinds()
EXAMPLES = Path(__file__).parents[2] / "golden" / "spellings"


class Example(NamedTuple):
    """Steps, or sections of the root; the rewriting turns the older ones into the canonical ones."""

    older: str
    canonical: str


def example(row: Spelling) -> Example:
    older, canonical = (EXAMPLES / f"{row.id}.yaml").read_text().split("\n---\n")
    return Example(older, canonical)


def document_of(fragment: str, dialect: Dialect, api: str = "v2") -> str:
    """A document with these steps, or with these sections of the root."""
    text = textwrap.dedent(fragment).strip("\n")
    named = f", dialect: {dialect}" if api == "v2" else ""
    version, metadata = f"apiVersion: noetl.io/{api}\nkind: Playbook\n", "name: t, path: tests/t"
    if text.startswith("metadata:"):
        return f"{version}{text.replace(metadata, metadata + named)}\n"
    head = f"{version}metadata: {{{metadata}{named}}}\n"
    if text.startswith("- "):
        return f"{head}workflow:\n{textwrap.indent(text, '  ')}\n"
    return f"{head}{text}\n"


def checked_text(text: str) -> Checked:
    return check(Source("test.yaml", text), kinds=KINDS)
