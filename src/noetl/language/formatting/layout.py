"""The layout of a document, with its comments, blank lines, quotes and anchors; used by formatting and migrating.

Unlike `nodes` it knows no values, only how they are written. A comment belongs to the entry below it, to the line it
ends, or to the collection at whose end it is.

Written with two spaces per level, lists indented below their key, comments in their column where that is free. Text
that is kept to the letter (`Verbatim`) is moved as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class LayoutComment(msgspec.Struct, frozen=True):
    """A comment, `#` included; a blank line when it has no text. `start` is its offset in the text it was read from."""

    text: str
    column: int = 0
    start: int = 0


BLANK = LayoutComment("")


class Leaf(msgspec.Struct):
    """A scalar, alias or flow collection as written; `column` is that of the entry it belonged to."""

    text: str
    column: int
    is_flow: bool = False
    # Comments inside a flow collection; they are part of `text`.
    comments: list[LayoutComment] = []

    @property
    def is_long(self) -> bool:
        return "\n" in self.text


class BlockText(msgspec.Struct):
    """A literal or folded scalar: its header without indentation hint, and its lines without indentation."""

    style: str  # | or >
    chomping: str  # "", - or +
    lines: list[str]
    # An indentation indicator is needed: the first line begins with a space, or the author wrote one.
    needs_hint: bool
    is_long: bool = True


class Verbatim(msgspec.Struct):
    """A stretch of a document to the letter, comments and all, moved as a whole from `column` to where it goes now."""

    text: str
    column: int
    # The text begins with the key of its entry.
    has_key: bool = False
    # A block, which begins on the line below its key.
    starts_line: bool = False
    is_long: bool = True


class Block(msgspec.Struct):
    """A block mapping or sequence; `tail` are the comments after its last entry."""

    entries: list[LayoutEntry]
    tail: list[LayoutComment] = []

    @property
    def is_long(self) -> bool:
        """Whether it takes more than one line as an item of a list."""
        return len(self.entries) > 1 or bool(self.tail) or any(entry.is_long for entry in self.entries)


Value = Leaf | BlockText | Verbatim | Block


class LayoutEntry(msgspec.Struct):
    """A key with its value, or an item of a list (`key` None); the root of a document is an item in column -1."""

    column: int
    key: str | None = None
    anchor: str = ""
    value: Value | None = None
    # Offset of its key, or of the value if it is a list item.
    start: int = 0
    before: list[LayoutComment] = []
    # The comment at the end of its first line (of its last line if the value is a leaf).
    trailing: LayoutComment | None = None
    # Comments in the place of a value.
    inner: list[LayoutComment] = []

    @property
    def is_long(self) -> bool:
        """Whether it takes more than one line when written after a key."""
        return isinstance(self.value, Block) or (self.value is not None and self.value.is_long) or bool(self.inner)

    @property
    def name(self) -> str:
        return (self.key or "").strip("\"'")


class DocumentLayout(msgspec.Struct):
    """A whole document: `preamble` holds directives and the comments above the start mark."""

    root: LayoutEntry
    preamble: list[LayoutComment] = []
    has_start_mark: bool = False
    has_anchors: bool = False
    footer: list[LayoutComment] = []
    # Why the document can be inspected but not written. Empty if it can be written.
    obstacle: str = ""
    # Every comment. They are counted again after rewriting, so that none is lost.
    comments: list[str] = []


class UnformattableError(Exception):
    """The text is good YAML, but written in a way that is not rewritten here; the message says which."""


class StepForm(msgspec.Struct, frozen=True, kw_only=True):
    """What a form of a task shows: `inputs` as text, data as it is written. `tasks` are how many the step has."""

    step: str
    kind: str
    inputs: dict[str, str]
    task: int = 0
    tasks: int = 1


class NewStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step to insert behind the step `after`: into its arc to `before`, or as the next step where it has none."""

    name: str
    kind: str
    inputs: dict[str, str] = {}
    after: str
    before: str = ""


def write_layout(layout: DocumentLayout) -> str:
    """The text of a layout, with one line feed at its end; raises UnformattableError where it has an obstacle."""
    if layout.obstacle:
        raise UnformattableError(layout.obstacle)
    page = _Page()
    page.comments(layout.preamble, 0)
    if layout.has_start_mark:
        page.line("---")
    page.comments(layout.root.before, 0)
    value = layout.root.value
    if isinstance(value, Block):
        if layout.root.anchor:
            page.line(_with_comment(layout.root.anchor, layout.root.trailing))
        page.block(value, 0)
    elif isinstance(value, Leaf):
        page.leaf(layout.root.anchor, value, layout.root.trailing, 0)
    page.comments(layout.footer, 0)
    return page.text()


class _Page:
    """Lines so far. After kept line breaks (`|+`) a blank line would become part of the text above."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._is_open = False

    def text(self) -> str:
        while self._lines and not self._lines[-1] and not self._is_open:
            self._lines.pop()
        return "\n".join(self._lines) + "\n"

    def line(self, text: str) -> None:
        self._lines.append(text)
        self._is_open = False

    def comments(self, comments: Sequence[LayoutComment], column: int) -> None:
        for comment in comments:
            if comment.text:
                self.line(" " * column + comment.text)
            # One blank line at most, and none at the top.
            elif self._lines and self._lines[-1] and not self._is_open:
                self._lines.append("")

    def block(self, block: Block, column: int) -> None:
        for entry in block.entries:
            self.comments(entry.before, column)
            self._entry(entry, column)
        self.comments(block.tail, column)

    def _entry(self, entry: LayoutEntry, column: int) -> None:
        head = " " * column + ("-" if entry.key is None else entry.key + ":")
        anchored = head + (" " + entry.anchor if entry.anchor else "")
        match entry.value:
            case None:
                self.line(_with_comment(anchored, entry.trailing))
                self.comments(entry.inner, column + 2)
            case Leaf():
                self.leaf(anchored, entry.value, entry.trailing, column)
            case BlockText():
                self._block_text(anchored, entry, entry.value, column)
            case Verbatim():
                self._verbatim(anchored, entry, entry.value, column)
            case Block() if entry.key is None and not entry.anchor:
                # An item that is a mapping begins on the line of its dash: it is written below, and its first line
                # pulled up.
                begin = len(self._lines)
                self.block(entry.value, column + 2)
                self._lines[begin] = _with_comment(head + " " + self._lines[begin][column + 2 :], entry.trailing)
            case Block():
                self.line(_with_comment(anchored, entry.trailing))
                self.block(entry.value, column + 2)

    def leaf(self, head: str, leaf: Leaf, trailing: LayoutComment | None, column: int) -> None:
        first, *more = leaf.text.split("\n")
        # A closing bracket may be in the column of its entry; the further lines of a scalar must be deeper.
        least = column if leaf.is_flow else column + 2
        lines = [(head + " " if head else "") + _without_trailing_spaces(first)]
        for line in more:
            # Continuation lines keep their indentation relative to the entry, but never less than YAML needs.
            indent = len(line) - len(line.lstrip()) + column - leaf.column
            lines.append(
                (" " * max(indent, least) + _without_trailing_spaces(line.lstrip())).rstrip("\n")
                if line.strip()
                else ""
            )
        lines[-1] = _with_comment(lines[-1], trailing)
        for line in lines:
            self.line(line)

    def _block_text(self, head: str, entry: LayoutEntry, text: BlockText, column: int) -> None:
        hint = "2" if text.needs_hint else ""
        self.line(_with_comment(f"{head} {text.style}{hint}{text.chomping}", entry.trailing))
        for line in text.lines:
            self.line(" " * (column + 2) + line if line else "")
        self._is_open = text.chomping == "+"

    def _verbatim(self, head: str, entry: LayoutEntry, value: Verbatim, column: int) -> None:
        first, *rest = value.text.split("\n")
        if value.has_key:
            head, place = " " * column + first, column
        elif value.starts_line and entry.key is not None:
            head, place, rest = head, column + 2, [" " * value.column + first, *rest]
        else:  # the lines of a value are counted from its key; those of an item, which has none, from itself
            head, place = f"{head} {first.strip()}", column if entry.key is not None else column + 2
        self.line(_with_comment(head, entry.trailing))
        for line in rest:
            self.line(shifted(line, place - value.column))


def _with_comment(line: str, comment: LayoutComment | None) -> str:
    """A line with a comment behind it: in its old column if the line leaves room for that, else two spaces on."""
    return line if comment is None else line.ljust(comment.column - 2) + "  " + comment.text


def shifted(line: str, shift: int) -> str:
    """A line moved to the right or left; to the left at most by the spaces it begins with."""
    if shift >= 0:
        return " " * shift + line if line else line
    spaces = len(line) - len(line.lstrip(" "))
    return line[min(-shift, spaces) :]


def _without_trailing_spaces(line: str) -> str:
    """Without spaces at the end, unless a backslash in double quotes keeps them."""
    trimmed = line.rstrip()
    return line if trimmed.endswith("\\") else trimmed
