"""A document as it looks, with its comments, blank lines, quotes and anchors; what formatting and migrating write.

Unlike `nodes` it knows no values, only how they are written. A comment belongs to the entry below it, to the line it
ends, or to the collection whose end it stands at.
"""

from __future__ import annotations

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
    comments: list[LayoutComment] = []  # inside a flow collection, and part of `text`

    @property
    def is_long(self) -> bool:
        return "\n" in self.text


class BlockText(msgspec.Struct):
    """A literal or folded scalar: its header without indentation hint, and its lines without indentation."""

    style: str  # | or >
    chomping: str  # "", - or +
    lines: list[str]
    needs_hint: bool  # its first line begins with a space, or the author said so
    is_long: bool = True


class Verbatim(msgspec.Struct):
    """A stretch of a document to the letter, comments and all, moved as a whole from `column` to where it goes now."""

    text: str
    column: int
    has_key: bool = False  # it begins with the key of its entry
    starts_line: bool = False  # it is a block, which begins below its key
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
    start: int = 0  # the offset of its key, or of the value of an item
    before: list[LayoutComment] = []
    trailing: LayoutComment | None = None  # at the end of its first line (of its last, if the value is a leaf)
    inner: list[LayoutComment] = []  # comments where a value could be

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
    obstacle: str = ""  # why the layout can be looked at, but not written
    comments: list[str] = []  # every comment, to be counted again when the text has been rewritten


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
