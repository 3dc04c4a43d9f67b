"""Pieces to text, with every comment of the old document beside what it was about."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from noetl.language.migrating.document_editor import ElementPosition, Sheet, SourceComment
from noetl.language.migrating.fragments import (
    WIDTH,
    CommentedEntry,
    Copied,
    CopiedEntry,
    FragmentEntry,
    Item,
    ListFragment,
    Literal,
    Mapped,
    Piece,
)


def write(sheet: Sheet, document: Mapped) -> str:
    """The whole text, with the line ends of the old one."""
    writer = _Writer(sheet, document)
    text = "\n".join(writer.document()) + "\n"
    return text.replace("\n", "\r\n") if "\r\n" in sheet.source.text else text


class _Writer:
    def __init__(self, sheet: Sheet, document: Mapped) -> None:
        self.sheet = sheet
        self.text = sheet.source.text
        self.root = document
        emitted = set(_origins(document))
        kept = _joined(sorted((copy.start, copy.end) for copy in _copies(document)))
        starts = [start for start, _ in kept]
        self.comments: dict[str, list[SourceComment]] = defaultdict(list)
        for comment in sheet.comments:
            position = bisect_right(starts, comment.start) - 1
            if position < 0 or comment.start >= kept[position][1]:
                self.comments[self._nearest(comment.element, emitted)].append(comment)

    def _nearest(self, identity: str, emitted: set[str]) -> str:
        """The element a comment goes with: its own, or the nearest one around it that is still there."""
        while identity and identity not in emitted:
            identity = self.sheet.elements[identity].parent
        return identity

    def document(self) -> Iterator[str]:
        if self.text.lstrip("\ufeff").startswith("---"):
            yield "---"
        yield from self.mapped(self.root, 0)
        yield from (comment.text for comment in self.comments[""])

    # blocks ----------------------------------------------------------------------------------------------------

    def mapped(self, piece: Mapped, indent: int) -> list[str]:
        lines: list[str] = []
        for entry in piece.entries:
            lines += self._surrounded(self.entry(entry, indent), entry.origin, indent, first=not lines)
        return lines

    def entry(self, entry: FragmentEntry | CopiedEntry | CommentedEntry, indent: int) -> list[str]:
        pad = " " * indent
        if isinstance(entry, CommentedEntry):
            return [f"{pad}# {line}".rstrip() for line in self.copied(entry.whole, 0)]
        if isinstance(entry, CopiedEntry):
            return self.copied(entry.whole, indent)
        inline = self.inline(entry.value, indent + len(entry.key) + 2)
        if inline is not None:
            return [f"{pad}{entry.key}: {inline}".rstrip()]
        if isinstance(entry.value, Copied) and not entry.value.block:
            first, *rest = self.copied(entry.value, indent)
            return [f"{pad}{entry.key}: {first.strip()}", *rest]
        return [f"{pad}{entry.key}:", *self.block(entry.value, indent + 2)]

    def block(self, piece: Piece, indent: int) -> list[str]:
        match piece:
            case Literal():
                return [" " * indent + piece.text]
            case Copied():
                return self.copied(piece, indent)
            case Mapped():
                return self.mapped(piece, indent)
            case ListFragment():
                return self.listed(piece, indent)

    def listed(self, piece: ListFragment, indent: int) -> list[str]:
        lines: list[str] = []
        for item in piece.items:
            head, body = _without_leading_comments(self.item(item, indent))
            marked = [" " * indent + line.strip() for line in head] + body
            lines += self._surrounded(marked, item.origin, indent, first=not lines)
        return lines

    def item(self, item: Item, indent: int) -> list[str]:
        inline = self.inline(item.value, indent + 2)
        lines = [" " * (indent + 2) + inline] if inline is not None else self.block(item.value, indent + 2)
        head, body = _without_leading_comments(lines)
        first, *rest = body
        return [*head, f"{' ' * indent}- {first.lstrip()}", *rest]

    def copied(self, piece: Copied, indent: int) -> list[str]:
        """Old text, moved from its column to this one."""
        first, *rest = self._edited(piece).replace("\r", "").split("\n")
        shift = indent - (piece.base - 1)
        return [" " * indent + first, *(_shifted(line, shift) for line in rest)]

    def _edited(self, piece: Copied) -> str:
        parts, position = [], piece.start
        for start, end, changed in piece.edits:
            parts += [self.text[position:start], changed]
            position = end
        return "".join([*parts, self.text[position : piece.end]])

    # one line --------------------------------------------------------------------------------------------------

    def inline(self, piece: Piece, column: int, *, inside: bool = False) -> str | None:
        """The piece on one line, if it is meant to be and can be."""
        text: str | None
        match piece:
            case Literal():
                return piece.text
            case Copied():
                text = self._edited(piece)
                fragile = inside and piece.plain and any(mark in text for mark in ",[]{}")
                return None if piece.block or "\n" in text or fragile else text
            case Mapped():
                text = self._flow_mapping(piece)
            case ListFragment():
                text = self._flow_list(piece)
        return text if text is not None and column + len(text) <= WIDTH else None

    def _flow_mapping(self, piece: Mapped) -> str | None:
        if not piece.entries:
            return "{}"
        parts = []
        for entry in piece.entries:
            if not piece.flow or not isinstance(entry, FragmentEntry) or self.comments.get(entry.origin):
                return None
            value = self.inline(entry.value, 0, inside=True)
            if value is None:
                return None
            parts.append(f"{entry.key}: {value}")
        return "{ " + ", ".join(parts) + " }"

    def _flow_list(self, piece: ListFragment) -> str | None:
        if not piece.items:
            return "[]"
        parts = []
        for item in piece.items:
            value = (
                None if not piece.flow or self.comments.get(item.origin) else self.inline(item.value, 0, inside=True)
            )
            if value is None:
                return None
            parts.append(value)
        return "[" + ", ".join(parts) + "]"

    # comments --------------------------------------------------------------------------------------------------

    def _surrounded(self, lines: list[str], origin: str, indent: int, *, first: bool) -> list[str]:
        """The lines of one element with its comments, and the empty line its author put above it."""
        comments = self.comments.pop(origin, []) if origin else []  # once, though a part may be written twice
        behind = next((c for c in comments if c.place is ElementPosition.BEHIND and _fits_behind(lines[0])), None)
        before = [c for c in comments if c is not behind and c.place is not ElementPosition.AFTER]
        after = [c for c in comments if c.place is ElementPosition.AFTER]
        if behind is not None:
            lines = [lines[0].ljust(behind.column - 3) + "  " + behind.text, *lines[1:]]
        gap = [""] if not first and origin and self.sheet.blank_before(origin) else []
        pad = " " * indent
        return [*gap, *(pad + c.text for c in before), *lines, *(pad + c.text for c in after)]


def _fits_behind(line: str) -> bool:
    """Whether a comment can follow: not behind another one, nor where a quoted text goes on in the next line."""
    return " #" not in line and line.count('"') % 2 == 0 and line.count("'") % 2 == 0


def _without_leading_comments(lines: list[str]) -> tuple[list[str], list[str]]:
    count = 0
    while count < len(lines) - 1 and (not lines[count].strip() or lines[count].lstrip().startswith("#")):
        count += 1
    return lines[:count], lines[count:]


def _shifted(line: str, shift: int) -> str:
    if not line:
        return line
    if shift >= 0:
        return " " * shift + line
    spaces = len(line) - len(line.lstrip(" "))
    return line[min(-shift, spaces) :]


def _origins(piece: Piece) -> Iterator[str]:
    match piece:
        case Mapped():
            for entry in piece.entries:
                yield entry.origin
                if isinstance(entry, FragmentEntry):
                    yield from _origins(entry.value)
        case ListFragment():
            for item in piece.items:
                yield item.origin
                yield from _origins(item.value)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches without overlaps, in order."""
    apart: list[tuple[int, int]] = []
    for start, end in spans:
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


def _copies(piece: Piece) -> Iterator[Copied]:
    match piece:
        case Copied():
            yield piece
        case Mapped():
            for entry in piece.entries:
                yield from _copies(entry.value) if isinstance(entry, FragmentEntry) else [entry.whole]
        case ListFragment():
            for item in piece.items:
                yield from _copies(item.value)
