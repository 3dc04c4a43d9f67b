"""Columns: rows of text under their headings, as wide as what is in them."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.cli.terminal import visible, width


def columns(headings: Sequence[str], rows: Sequence[Sequence[str]], *, nothing: str) -> list[str]:
    """The lines of a table; `nothing` alone when there are no rows. Text is made safe to print."""
    if not rows:
        return [nothing]
    shown = [tuple(headings), *(tuple(visible(cell) for cell in row) for row in rows)]
    widths = [max(width(row[column]) for row in shown) for column in range(len(headings))]
    return [
        "  ".join(cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
