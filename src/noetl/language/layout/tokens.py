"""Tokens of a document with what stands between them: comments and blank lines, which no parser event mentions."""

from __future__ import annotations

import re

import msgspec
import yaml

from noetl.language.layout.model import BLANK, LayoutComment

# The hint of indentation may stand before or after the chomping sign.
_HEADER = re.compile(r"([|>])([0-9]?)([-+]?)([0-9]?)[ \t]*(#.*)?")


class Piece(msgspec.Struct):
    """A token with its text, and the comments since the token before it."""

    token: yaml.Token
    start: int
    end: int
    text: str
    column: int
    trailing: LayoutComment | None = None  # ends the line of the token before
    above: list[LayoutComment] = []

    def is_a(self, *kinds: type[yaml.Token]) -> bool:
        return isinstance(self.token, kinds)

    @property
    def is_block_text(self) -> bool:
        return isinstance(self.token, yaml.ScalarToken) and self.token.style in ("|", ">")


class Header(msgspec.Struct, frozen=True):
    """What `|2- # comment` says."""

    style: str
    hint: str  # how far its lines are indented, where the author says so
    chomping: str
    comment: LayoutComment | None


def scan(text: str) -> list[Piece]:
    """All tokens of `text`, whose line breaks are single line feeds."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    pieces: list[Piece] = []
    covered = 0
    for token in yaml.scan(text, Loader=loader):
        assert token.start_mark is not None
        assert token.end_mark is not None
        start, end = token.start_mark.index, token.end_mark.index
        piece = Piece(token, start, end, text[start:end], _column(text, start))
        _read_gap(piece, text, covered)
        pieces.append(piece)
        covered = max(covered, _content_end(piece))
    return pieces


def _read_gap(piece: Piece, text: str, covered: int) -> None:
    """Take the comments and blank lines between `covered`, where the token before ends, and this one."""
    gap = text[covered : piece.start]
    if "\n" not in gap and "#" not in gap:
        return
    comments: list[LayoutComment] = []
    position = covered
    for line in gap.split("\n"):
        comments.append(_comment(text, line, position))
        position += len(line) + 1
    if covered and text[covered - 1] != "\n":
        first = comments.pop(0)
        piece.trailing = first if first.text else None
    if not piece.is_a(yaml.StreamEndToken):
        comments = comments[:-1]  # what stands before the token on its own line
    piece.above = comments


def _comment(text: str, line: str, position: int) -> LayoutComment:
    stripped = line.strip()
    if not stripped:
        return BLANK
    start = position + len(line) - len(line.lstrip())
    return LayoutComment(stripped, _column(text, start), start)


def _column(text: str, offset: int) -> int:
    return offset - (text.rfind("\n", 0, offset) + 1)


def _content_end(piece: Piece) -> int:
    """The blank lines below a block scalar separate entries, unless the author keeps them as text."""
    if not piece.is_block_text:
        return piece.end
    if header_of(piece).chomping == "+":
        return piece.end
    return piece.start + len(piece.text.rstrip(" \n"))


def header_of(piece: Piece) -> Header:
    """The first line of a block scalar, taken apart."""
    found = _HEADER.match(piece.text)
    assert found is not None
    style, before, chomping, after, comment = found.groups()
    at = found.start(5)
    written = LayoutComment(comment.rstrip(), piece.column + at, piece.start + at) if comment else None
    return Header(style, before or after, chomping, written)
