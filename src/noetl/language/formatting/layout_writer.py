"""Writing a layout: two spaces per level, lists indented below their key, two spaces before a comment."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.language.formatting.model import Block, BlockText, DocumentLayout, LayoutComment, LayoutEntry, Leaf


def write_layout(layout: DocumentLayout) -> str:
    """The text of a layout, with one line feed at its end."""
    page = _Page()
    page.comments(layout.preamble, 0)
    if layout.has_start_mark:
        page.line("---")
    page.comments(layout.root.before, 0)
    value = layout.root.value
    if isinstance(value, Block):
        if layout.root.anchor:
            page.line(layout.root.anchor + _comment(layout.root.trailing))
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
                self.line(anchored + _comment(entry.trailing))
                self.comments(entry.inner, column + 2)
            case Leaf():
                self.leaf(anchored, entry.value, entry.trailing, column)
            case BlockText():
                self._block_text(anchored, entry, entry.value, column)
            case Block() if entry.key is None and not entry.anchor:
                begin = len(self._lines)
                self.block(entry.value, column + 2)
                self._lines[begin] = head + " " + self._lines[begin][column + 2 :]
            case Block():
                self.line(anchored + _comment(entry.trailing))
                self.block(entry.value, column + 2)

    def leaf(self, head: str, leaf: Leaf, trailing: str, column: int) -> None:
        first, *more = leaf.text.split("\n")
        least = column if leaf.is_flow else column + 2
        lines = [(head + " " if head else "") + _end_trimmed(first)]
        for line in more:
            indent = len(line) - len(line.lstrip()) + column - leaf.column
            lines.append((" " * max(indent, least) + _end_trimmed(line.lstrip())).rstrip("\n") if line.strip() else "")
        lines[-1] += _comment(trailing)
        for line in lines:
            self.line(line)

    def _block_text(self, head: str, entry: LayoutEntry, text: BlockText, column: int) -> None:
        hint = "2" if text.needs_hint else ""
        self.line(f"{head} {text.style}{hint}{text.chomping}{_comment(entry.trailing)}")
        for line in text.lines:
            self.line(" " * (column + 2) + line if line else "")
        self._is_open = text.chomping == "+"


def _comment(text: str) -> str:
    return "  " + text if text else ""


def _end_trimmed(line: str) -> str:
    """Without spaces at the end, unless a backslash in double quotes keeps them."""
    trimmed = line.rstrip()
    return line if trimmed.endswith("\\") else trimmed
