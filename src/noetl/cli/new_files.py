"""New files: all of them are written, or none, and nothing is replaced unasked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from noetl.base.errors import RefusedError


def write_new(texts: Mapping[Path, str], *, force: bool = False) -> None:
    """Write each text to its file. RefusedError names every file that is there already."""
    there = [str(file) for file in texts if file.exists()]
    if there and not force:
        raise RefusedError(f"nothing was written, for these files exist: {', '.join(there)}; --force replaces them")
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
