"""Block scalars: the lines after `|` or `>` without their indentation, so that they can be written with another."""

from __future__ import annotations

from noetl.language.formatting.model import BlockText
from noetl.language.formatting.tokens import Header, Piece, header_of


def block_text(piece: Piece, column: int, *, ends_bare: bool) -> BlockText:
    """The text of a block scalar whose entry stands in `column`.

    `ends_bare`: the document ends in it without a line break, and will be given one, which must not become text.
    """
    header = header_of(piece)
    lines = _dedented(piece, column, header)
    chomping = header.chomping
    if ends_bare and lines:
        chomping = "-" if lines[-1] else chomping
        lines = lines if lines[-1] else lines[:-1]
    while lines and not lines[-1] and chomping != "+":
        lines.pop()
    return BlockText(header.style, chomping, lines, needs_hint=bool(header.hint))


def _dedented(piece: Piece, column: int, header: Header) -> list[str]:
    """The lines without the header; of a line of spaces only what is past the indentation is text."""
    lines = piece.text.removesuffix("\n").split("\n")[1:]
    indents = (len(line) - len(line.lstrip(" ")) for line in lines if line.strip(" "))
    indent = column + int(header.hint) if header.hint else next(indents, 0)
    return [line[indent:] if line.strip(" ") or len(line) > indent > 0 else "" for line in lines]
