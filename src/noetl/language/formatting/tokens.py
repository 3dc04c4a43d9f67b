"""Tokens of a document with what stands between them: comments and blank lines, which no parser event mentions."""

from __future__ import annotations

import re

import msgspec
import yaml

from noetl.language.formatting.model import BLANK, LayoutComment

_HEADER = re.compile(r"([|>])([0-9]?)([-+]?)([0-9]?)[ \t]*(#.*)?")


class Piece(msgspec.Struct):
    """A token with its text, and the comments since the token before it."""

    token: yaml.Token
    start: int
    end: int
    text: str
    column: int
    trailing: str = ""  # the comment that ends the line of the token before
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
    comment: str


def scan(text: str) -> list[Piece]:
    """All tokens of `text`, whose line breaks are single line feeds."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    pieces: list[Piece] = []
    covered = 0
    for token in yaml.scan(text, Loader=loader):
        assert token.start_mark is not None
        assert token.end_mark is not None
        start, end = token.start_mark.index, token.end_mark.index
        piece = Piece(token, start, end, text[start:end], start - (text.rfind("\n", 0, start) + 1))
        _read_gap(piece, text[covered:start], at_line_start=not covered or text[covered - 1] == "\n")
        pieces.append(piece)
        covered = max(covered, _content_end(piece))
    return pieces


def _read_gap(piece: Piece, gap: str, *, at_line_start: bool) -> None:
    if "\n" not in gap and "#" not in gap:
        return
    first, *lines = gap.split("\n")
    if at_line_start:
        lines.insert(0, first)
    else:
        piece.trailing = first.strip()
    if not piece.is_a(yaml.StreamEndToken):
        lines = lines[:-1]  # what stands before the token on its own line
    piece.above = [_comment(line) for line in lines]


def _comment(line: str) -> LayoutComment:
    stripped = line.strip()
    return LayoutComment(stripped, len(line) - len(line.lstrip())) if stripped else BLANK


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
    return Header(style, before or after, chomping, (comment or "").rstrip())
