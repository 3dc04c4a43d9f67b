"""Writes fragments as text, with every comment of the old document at the element that it was about.

Decides what goes on one line and which element each comment follows; `formatting.layout` writes the lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from noetl.language.formatting import layout
from noetl.language.formatting.layout import Block, DocumentLayout, LayoutComment, LayoutEntry, Leaf, Value, Verbatim
from noetl.language.migrating import fragments
from noetl.language.migrating.document_editor import ElementPosition, SourceComment, SourceDocument

Part = fragments.Entry | fragments.Item


def write(old: SourceDocument, document: fragments.Mapped) -> str:
    """The whole text, with the line ends of the old one."""
    text = layout.write_layout(_Layouts(old, document).document())
    # The layout writes `\n`; a file with the line ends of Windows keeps them, or every line would differ.
    return text.replace("\n", "\r\n") if "\r\n" in old.source.text else text


class _Layouts:
    """The layout of new text, made from its fragments and the comments of the old one."""

    def __init__(self, old: SourceDocument, document: fragments.Mapped) -> None:
        self.old = old
        self.text = old.source.text
        self.root = document
        emitted = set(_origins(document))
        kept = _joined_stretches(sorted((copy.start, copy.end) for copy in _copies(document)))
        starts = [start for start, _ in kept]
        self.comments: dict[str, list[SourceComment]] = defaultdict(list)
        for comment in old.comments:
            position = bisect_right(starts, comment.start) - 1
            # A comment inside kept text moves with that text.
            if position < 0 or comment.start >= kept[position][1]:
                self.comments[self._nearest_element(comment.element, emitted)].append(comment)

    def _nearest_element(self, identity: str, emitted: set[str]) -> str:
        """The element that a comment is written at: its own, or the nearest enclosing element that still exists."""
        while identity and identity not in emitted:
            identity = self.old.elements[identity].parent
        return identity

    def document(self) -> DocumentLayout:
        root = LayoutEntry(column=-1, value=self._block(self.root.entries, 0))
        footer = _plain(self.comments[""])
        return DocumentLayout(root, has_start_mark=self.text.lstrip("\ufeff").startswith("---"), footer=footer)

    # blocks ----------------------------------------------------------------------------------------------------

    def _block(self, parts: tuple[Part, ...], column: int) -> Block:
        entries: list[LayoutEntry] = []
        # Comments above the next element.
        above: list[LayoutComment] = []
        for part in parts:
            above += [layout.BLANK] if (entries or above) and self._had_blank_above(part.origin) else []
            if isinstance(part, fragments.CopiedEntry) and part.is_comment:
                lines = self._as_comments(part)
                before, behind, after = self._comments(part.origin, lines[0])
                lines[0] += f"  {behind.text}" if behind is not None else ""
                above += [*before, *(LayoutComment(f"# {line}".rstrip()) for line in lines), *after]
                continue
            made = self._entry(part, column)
            before, made.trailing, after = self._comments(part.origin, _first_line(made))
            made.before = [*above, *before, *made.before]
            entries.append(made)
            above = after
        return Block(entries, above)

    def _had_blank_above(self, origin: str) -> bool:
        return origin in self.old.elements and self.old.elements[origin].has_blank_above

    def _as_comments(self, entry: fragments.CopiedEntry) -> list[str]:
        """The lines of an entry, to be written as comments."""
        first, *rest = self._edited_text(entry.whole).split("\n")
        return [first, *(layout.shifted(line, 1 - entry.whole.base) for line in rest)]

    def _entry(self, part: fragments.Entry | fragments.Item, column: int) -> LayoutEntry:
        if isinstance(part, fragments.CopiedEntry):
            return LayoutEntry(column, key="", value=self._verbatim(part.whole, has_key=True))
        key = part.key if isinstance(part, fragments.FragmentEntry) else None
        inline = self.inline(part.value, column + 2 + len(key or ""))
        entry = LayoutEntry(column, key, value=Leaf(inline, 0) if inline is not None else None)
        if inline is None:
            entry.value = self._value(part.value, column + 2)
        if key is None and isinstance(entry.value, Block) and entry.value.entries:
            # There is no room between a dash and its value: comments there go above the dash.
            first = entry.value.entries[0]
            entry.before, first.before = [comment for comment in first.before if comment.text], []
        elif isinstance(entry.value, Block) and not entry.value.entries:
            entry.inner, entry.value = entry.value.tail, None
        return entry

    def _value(self, piece: fragments.Piece, column: int) -> Value:
        match piece:
            case fragments.Literal():
                return Leaf(piece.text, 0)
            case fragments.Copied():
                return self._verbatim(piece)
            case fragments.Mapped():
                return self._block(piece.entries, column)
            case fragments.ListFragment():
                return self._block(piece.items, column)

    def _verbatim(self, piece: fragments.Copied, *, has_key: bool = False) -> Verbatim:
        return Verbatim(self._edited_text(piece), piece.base - 1, has_key=has_key, starts_line=piece.block)

    def _edited_text(self, piece: fragments.Copied) -> str:
        parts, position = [], piece.start
        for start, end, changed in piece.edits:
            parts += [self.text[position:start], changed]
            position = end
        return "".join([*parts, self.text[position : piece.end]]).replace("\r", "")

    # one line --------------------------------------------------------------------------------------------------

    def inline(self, piece: fragments.Piece, column: int, *, inside: bool = False) -> str | None:
        """The piece on one line, if it is meant to be and can be."""
        text: str | None
        match piece:
            case fragments.Literal():
                return piece.text
            case fragments.Copied():
                text = self._edited_text(piece)
                # Inside braces these would end the value, where it needs no quotes on a line of its own.
                fragile = inside and piece.plain and any(mark in text for mark in ",[]{}")
                return None if piece.block or "\n" in text or fragile else text
            case fragments.Mapped():
                text = self._flow_mapping(piece)
            case fragments.ListFragment():
                text = self._flow_list(piece)
        return text if text is not None and column + len(text) <= fragments.WIDTH else None

    def _flow_mapping(self, piece: fragments.Mapped) -> str | None:
        if not piece.entries:
            return "{}"
        parts = []
        for entry in piece.entries:
            if not piece.flow or not isinstance(entry, fragments.FragmentEntry) or self.comments.get(entry.origin):
                return None
            value = self.inline(entry.value, 0, inside=True)
            if value is None:
                return None
            parts.append(f"{entry.key}: {value}")
        return "{ " + ", ".join(parts) + " }"

    def _flow_list(self, piece: fragments.ListFragment) -> str | None:
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

    def _comments(
        self, origin: str, first_line: str
    ) -> tuple[list[LayoutComment], LayoutComment | None, list[LayoutComment]]:
        """The comments of one element: above it, behind its first line, and below it."""
        # Write comments once, even if the part is written twice.
        comments = self.comments.pop(origin, []) if origin else []
        behind = next((one for one in comments if one.place is ElementPosition.BEHIND), None)
        # Then the comment is written above the element.
        if behind is not None and not _fits_behind(first_line):
            behind = None
        before = [one for one in comments if one is not behind and one.place is not ElementPosition.AFTER]
        after = [one for one in comments if one.place is ElementPosition.AFTER]
        return _plain(before), LayoutComment(behind.text, behind.column) if behind is not None else None, _plain(after)


def _plain(comments: list[SourceComment]) -> list[LayoutComment]:
    return [LayoutComment(comment.text) for comment in comments]


def _first_line(entry: LayoutEntry) -> str:
    """The first line of an entry."""
    if isinstance(entry.value, Block) and entry.key is None:
        return _first_line(entry.value.entries[0])
    text = entry.value.text.split("\n")[0] if isinstance(entry.value, Leaf | Verbatim) else ""
    shown = "" if isinstance(entry.value, Verbatim) and entry.value.starts_line and entry.key else text
    return f"{entry.key or ''} {shown}{' #' if entry.trailing is not None else ''}"


def _fits_behind(line: str) -> bool:
    """Whether a comment can follow: not behind another one, nor where a quoted text goes on in the next line."""
    return " #" not in line and line.count('"') % 2 == 0 and line.count("'") % 2 == 0


def _origins(piece: fragments.Piece) -> Iterator[str]:
    match piece:
        case fragments.Mapped():
            for entry in piece.entries:
                yield entry.origin
                if isinstance(entry, fragments.FragmentEntry):
                    yield from _origins(entry.value)
        case fragments.ListFragment():
            for item in piece.items:
                yield item.origin
                yield from _origins(item.value)


def _joined_stretches(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches without overlaps, in order."""
    apart: list[tuple[int, int]] = []
    for start, end in spans:
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


def _copies(piece: fragments.Piece) -> Iterator[fragments.Copied]:
    match piece:
        case fragments.Copied():
            yield piece
        case fragments.Mapped():
            for entry in piece.entries:
                yield from _copies(entry.value) if isinstance(entry, fragments.FragmentEntry) else [entry.whole]
        case fragments.ListFragment():
            for item in piece.items:
                yield from _copies(item.value)
