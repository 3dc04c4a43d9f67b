"""Reading a layout: the tokens of a document to entries, each with the comments that belong to it.

Comments and blank lines are between tokens, and no parser event contains them (`scan`). The text must have passed
`read_yaml`: no tags, no merge keys, keys are text, one document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
import yaml

from noetl.language.formatting.layout import (
    BLANK,
    Block,
    BlockText,
    DocumentLayout,
    LayoutComment,
    LayoutEntry,
    Leaf,
    UnformattableError,
    Value,
)

# The indentation indicator may be before or after the chomping sign.
_HEADER = re.compile(r"([|>])([0-9]?)([-+]?)([0-9]?)[ \t]*(#.*)?")


class Piece(msgspec.Struct):
    """A token with its text, and the comments since the token before it."""

    token: yaml.Token
    start: int
    end: int
    text: str
    column: int
    # The comment that ends the line of the token before.
    trailing: LayoutComment | None = None
    above: list[LayoutComment] = []

    def is_a(self, *kinds: type[yaml.Token]) -> bool:
        return isinstance(self.token, kinds)

    @property
    def is_block_text(self) -> bool:
        return isinstance(self.token, yaml.ScalarToken) and self.token.style in ("|", ">")


class Header(msgspec.Struct, frozen=True):
    """The options of a block scalar, such as `|2- # comment`."""

    style: str
    # The indentation indicator, if the author wrote one.
    hint: str
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
    # The token before ends within its line: the first part of the gap is the text behind it.
    if covered and text[covered - 1] != "\n":
        first = comments.pop(0)
        piece.trailing = first if first.text else None
    if not piece.is_a(yaml.StreamEndToken):
        # The last part is the indentation of the token's own line, not a comment.
        comments = comments[:-1]
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


# Flow collections on one line, with one spacing: `{ a: 1, b: [x, y] }`.

_CLOSERS = (yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


def flow_text(pieces: Sequence[Piece]) -> str:
    """The text of a flow collection, given its tokens from bracket to bracket; it holds no comment."""
    written = ""
    for index, piece in enumerate(pieces):
        following = pieces[index + 1] if index + 1 < len(pieces) else None
        written += _one(piece, following, written)
    return written


def _one(piece: Piece, following: Piece | None, written: str) -> str:
    if piece.is_a(yaml.FlowMappingStartToken):
        empty = following is not None and following.is_a(yaml.FlowMappingEndToken)
        return "{" if empty else "{ "
    if piece.is_a(yaml.FlowMappingEndToken):
        return "}" if written.endswith(("{", " ")) else " }"
    if piece.is_a(yaml.FlowEntryToken):
        return "" if following is not None and following.is_a(*_CLOSERS) else ", "
    if piece.is_a(yaml.ValueToken):
        return ": "
    if piece.is_a(yaml.KeyToken):
        return "? " if piece.text.startswith("?") and piece.end > piece.start else ""
    if piece.is_a(yaml.AnchorToken) or _is_alias_key(piece, following):
        return piece.text + " "
    return piece.text


def _is_alias_key(piece: Piece, following: Piece | None) -> bool:
    """`*a :` needs its space, or the colon would be part of the name."""
    return piece.is_a(yaml.AliasToken) and following is not None and following.is_a(yaml.ValueToken)


# Block scalars: the lines after `|` or `>` without their indentation, so that they can be written with another.


def block_text(piece: Piece, column: int, *, ends_bare: bool) -> BlockText:
    """The text of a block scalar whose entry is in `column`.

    `ends_bare`: the document ends in it without a line break, and will be given one, which must not become text.
    """
    header = header_of(piece)
    lines = _dedented_lines(piece, column, header)
    chomping = header.chomping
    if ends_bare and lines:
        chomping = "-" if lines[-1] else chomping
        lines = lines if lines[-1] else lines[:-1]
    while lines and not lines[-1] and chomping != "+":
        lines.pop()
    return BlockText(header.style, chomping, lines, needs_hint=bool(header.hint))


def _dedented_lines(piece: Piece, column: int, header: Header) -> list[str]:
    """The lines without the header; of a line of spaces only what is past the indentation is text."""
    lines = piece.text.removesuffix("\n").split("\n")[1:]
    indents = (len(line) - len(line.lstrip(" ")) for line in lines if line.strip(" "))
    indent = column + int(header.hint) if header.hint else next(indents, 0)
    return [line[indent:] if line.strip(" ") or len(line) > indent > 0 else "" for line in lines]


# YAML accepts longer keys only after "? ".
_MAX_KEY = 1000


def read_layout(text: str) -> DocumentLayout:
    """The layout of `text`, whose line breaks are single line feeds."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._bare_end = 0 if text.endswith("\n") else len(text)
        # With a line feed at the end, every line is alike; a block scalar there has to know that this one is ours.
        self._text = text + "\n" if self._bare_end else text
        self._pieces = scan(self._text)
        self._next = 0
        # Comments and blank lines without an owner so far.
        self._pending: list[LayoutComment] = []
        # The entry that owns the next trailing comment.
        self._owner: LayoutEntry | None = None
        self._layout = DocumentLayout(LayoutEntry(column=-1))

    def read(self) -> DocumentLayout:
        layout = self._layout
        layout.comments = [comment.text for piece in self._pieces for comment in _comments(piece)]
        layout.has_anchors = any(piece.is_a(yaml.AnchorToken) for piece in self._pieces)
        self._take()  # the start of the stream
        self._read_preamble()
        root = self._owner = layout.root
        root.before, self._pending = self._pending, []
        root.value = self._value(root)
        # The text after the value has no meaning, but may have comments above it.
        while self._next < len(self._pieces):
            self._peek()
            self._take()
        # One of the lists of the layout itself, which `+=` extends in place.
        end = root.value.tail if isinstance(root.value, Block) else layout.footer
        end += self._pending
        return layout

    def _read_preamble(self) -> None:
        while self._peek().is_a(yaml.DirectiveToken):
            directive = self._take().text.split("#")[0].strip()
            self._layout.preamble += [*self._pending, LayoutComment(directive)]
            self._pending = []
        if self._peek().is_a(yaml.DocumentStartToken):
            self._layout.preamble += self._pending
            self._pending = []
            self._layout.has_start_mark = True
            self._take()
            self._peek()

    # values

    def _value(self, entry: LayoutEntry) -> Value | None:
        """The value after `key:` or `-`."""
        begin = self._peek().start
        if self._peek().is_a(yaml.AnchorToken):
            entry.anchor = self._take().text
        piece = self._peek()
        # The span of a collection includes its anchor, that of a scalar does not, as in the parsed nodes.
        if entry.key is None:
            entry.start = piece.start if piece.is_a(yaml.ScalarToken) else begin
        if piece.is_a(yaml.BlockMappingStartToken):
            self._take()
            return self._collection(piece.column, yaml.KeyToken, self._mapping_entry)
        if piece.is_a(yaml.BlockSequenceStartToken):
            self._take()
            return self._collection(piece.column, yaml.BlockEntryToken, self._item)
        # YAML allows the dashes of a list in the column of its key, and gives no token for the begin or the end of it
        # then.
        if piece.is_a(yaml.BlockEntryToken) and entry.key is not None:
            return self._unindented_items()
        if piece.is_a(yaml.ScalarToken, yaml.AliasToken, yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken):
            # A comment between a key and its value has no place in the line that both are written on: it goes above the
            # entry.
            entry.before += [comment for comment in self._pending if comment.text]
            self._pending = []
            return self._block_text(entry) if piece.is_block_text else self._leaf(entry)
        entry.inner = self._claim(entry.column + 1)
        return None

    def _leaf(self, entry: LayoutEntry) -> Leaf:
        if self._peek().is_a(yaml.ScalarToken, yaml.AliasToken):
            return Leaf(self._take().text, entry.column)
        first = self._next
        depth = 0
        while True:
            piece = self._pieces[self._next]
            depth += piece.is_a(yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken)
            depth -= piece.is_a(yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
            self._take()
            if not depth:
                break
        inside = self._pieces[first : self._next]
        raw = self._text[inside[0].start : inside[-1].end]
        comments = [comment for piece in inside for comment in _comments(piece)]
        # Over several lines its author has chosen a layout; on one line only the spacing is made uniform.
        text = raw if "\n" in raw else flow_text(inside)
        return Leaf(text, max(entry.column, 0), is_flow=True, comments=comments)

    def _block_text(self, entry: LayoutEntry) -> BlockText:
        piece = self._take()
        self._own_comment(header_of(piece).comment)
        return block_text(piece, entry.column, ends_bare=0 < self._bare_end < piece.end)

    # collections

    def _collection(self, column: int, opener: type[yaml.Token], read: Callable[[], LayoutEntry]) -> Block:
        entries = []
        while self._peek().is_a(opener):
            entries.append(read())
        tail = self._claim(column)
        # Explicit keys ("? key") come as other tokens. Refused, since guessing would move a comment or lose one.
        if not self._peek().is_a(yaml.BlockEndToken):
            raise UnformattableError("a key that is not written before its value")
        self._take()
        return Block(entries, tail)

    def _mapping_entry(self) -> LayoutEntry:
        entry = self._begin()
        entry.key, entry.start = self._key()
        if self._peek().is_a(yaml.ValueToken):
            self._take()
            entry.value = self._value(entry)
        return entry

    def _key(self) -> tuple[str, int]:
        """A key as it is written, and where it begins behind its anchor."""
        anchor = self._take().text + " " if self._peek().is_a(yaml.AnchorToken) else ""
        piece = self._peek()
        if not piece.is_a(yaml.ScalarToken, yaml.AliasToken):
            raise UnformattableError("a key that is not text")
        if "\n" in piece.text or len(piece.text) > _MAX_KEY:
            self._layout.obstacle = 'a key that is longer than a line, or written with "? "'
        self._take()
        return anchor + piece.text + (" " if piece.is_a(yaml.AliasToken) else ""), piece.start

    def _item(self) -> LayoutEntry:
        entry = self._begin()
        entry.value = self._value(entry)
        return entry

    def _unindented_items(self) -> Block:
        """A list whose dashes are in the column of the key; YAML closes it without saying so."""
        entries = []
        while self._peek().is_a(yaml.BlockEntryToken):
            entries.append(self._item())
        return Block(entries)

    # tokens and comments

    def _begin(self) -> LayoutEntry:
        """A new entry at the coming token, with the comments above it."""
        entry = LayoutEntry(column=self._peek().column, before=self._pending)
        self._pending = []
        self._owner = entry
        self._take()
        return entry

    def _peek(self) -> Piece:
        """The coming token; the comments before it are pending from now on."""
        piece = self._pieces[self._next]
        # Taken once: a token is looked at several times before it is taken.
        if piece.trailing:
            self._own_comment(piece.trailing)
            piece.trailing = None
        if piece.above:
            self._pending += piece.above
            piece.above = []
        return piece

    def _take(self) -> Piece:
        self._next += 1
        return self._pieces[self._next - 1]

    def _own_comment(self, comment: LayoutComment | None) -> None:
        """A comment at the end of a line; of two on one entry the earlier moves above it."""
        if comment is None:
            return
        if self._owner is None:
            self._pending.append(comment)
            return
        # An entry has one line, and so one place for a comment at its end.
        if self._owner.trailing is not None:
            self._owner.before.append(self._owner.trailing)
        self._owner.trailing = comment

    def _claim(self, column: int) -> list[LayoutComment]:
        """The pending comments up to the last one before any that is indented less than `column`."""
        end = 0
        for index, comment in enumerate(self._pending):
            if comment.text and comment.column < column:
                break
            if comment.text:
                end = index + 1
        claimed, self._pending = self._pending[:end], self._pending[end:]
        return claimed


def _comments(piece: Piece) -> list[LayoutComment]:
    found = [comment for comment in piece.above if comment.text]
    behind = header_of(piece).comment if piece.is_block_text else None
    return found + [comment for comment in (piece.trailing, behind) if comment is not None]
