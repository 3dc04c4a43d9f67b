"""Writing a layout: two spaces per level, lists indented below their key, comments in their column where that is free.

Text that is kept to the letter (`Verbatim`) is moved as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from noetl.language.layout.model import (
    Block,
    BlockText,
    DocumentLayout,
    LayoutComment,
    LayoutEntry,
    Leaf,
    UnformattableError,
    Verbatim,
)


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
            page.line(_commented(layout.root.anchor, layout.root.trailing))
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
                self.line(_commented(anchored, entry.trailing))
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
                self._lines[begin] = _commented(head + " " + self._lines[begin][column + 2 :], entry.trailing)
            case Block():
                self.line(_commented(anchored, entry.trailing))
                self.block(entry.value, column + 2)

    def leaf(self, head: str, leaf: Leaf, trailing: LayoutComment | None, column: int) -> None:
        first, *more = leaf.text.split("\n")
        least = column if leaf.is_flow else column + 2
        lines = [(head + " " if head else "") + _end_trimmed(first)]
        for line in more:
            # Continuation lines keep their indentation relative to the entry, but never less than YAML needs.
            indent = len(line) - len(line.lstrip()) + column - leaf.column
            lines.append((" " * max(indent, least) + _end_trimmed(line.lstrip())).rstrip("\n") if line.strip() else "")
        lines[-1] = _commented(lines[-1], trailing)
        for line in lines:
            self.line(line)

    def _block_text(self, head: str, entry: LayoutEntry, text: BlockText, column: int) -> None:
        hint = "2" if text.needs_hint else ""
        self.line(_commented(f"{head} {text.style}{hint}{text.chomping}", entry.trailing))
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
        self.line(_commented(head, entry.trailing))
        for line in rest:
            self.line(_shifted(line, place - value.column))


def _commented(line: str, comment: LayoutComment | None) -> str:
    """A line with a comment behind it: in its old column if the line leaves room for that, else two spaces on."""
    return line if comment is None else line.ljust(comment.column - 2) + "  " + comment.text


def _shifted(line: str, shift: int) -> str:
    """A line moved to the right or left; to the left at most by the spaces it begins with."""
    if shift >= 0:
        return " " * shift + line if line else line
    spaces = len(line) - len(line.lstrip(" "))
    return line[min(-shift, spaces) :]


def _end_trimmed(line: str) -> str:
    """Without spaces at the end, unless a backslash in double quotes keeps them."""
    trimmed = line.rstrip()
    return line if trimmed.endswith("\\") else trimmed
