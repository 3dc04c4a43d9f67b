"""Formatting: the same playbook with one layout, every comment kept, nothing of its meaning changed.

Works on text that reads as YAML, whether or not it is a good playbook. The output is read again and compared, so a
mistake here can cause a refusal, but never damage a playbook.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.base.errors import NoetlError
from noetl.language.formatting.layout import (
    BLANK,
    Block,
    DocumentLayout,
    LayoutComment,
    LayoutEntry,
    UnformattableError,
    write_layout,
)
from noetl.language.formatting.layout_reader import read_layout
from noetl.language.grammar.model import Construct
from noetl.language.grammar.root import ROOT
from noetl.language.grammar.steps import STEP
from noetl.language.grammar.tasks import TASK
from noetl.language.reading.nodes import data
from noetl.language.reading.yaml import read_yaml
from noetl.language.reading.yaml_problems import BYTE_ORDER_MARK

_LINE_BREAK = re.compile("\r\n?")


class FormatError(NoetlError):
    """The text stays as it is; `findings` say why when it does not read as YAML."""

    def __init__(self, message: str, findings: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


def format_text(source: Source) -> str:
    """The text of `source` in the one layout; raises FormatError rather than change what it says."""
    text = _LINE_BREAK.sub("\n", source.text.removeprefix(BYTE_ORDER_MARK))
    meaning = _meaning(source.name, source.text)
    try:
        layout = read_layout(text)
        comments = sorted(layout.comments)
        arrange(layout)
        formatted = write_layout(layout)
        kept = sorted(read_layout(formatted).comments)
    except UnformattableError as error:
        raise FormatError(f"{source.name}: left as it is: {error}") from None
    if kept != comments or _meaning(source.name, formatted) != meaning:
        raise FormatError(f"{source.name}: left as it is: formatting would change its meaning")
    return formatted


def _meaning(name: str, text: str) -> bytes:
    """Everything the text says, in bytes that do not depend on the order of keys."""
    findings = Findings()
    root = read_yaml(Source(name, text), findings)
    if root is None or findings.has_errors:
        raise FormatError(f"{name}: left as it is: it does not read as YAML", findings)
    return msgspec.json.encode(data(root), order="deterministic")


# Order: where the sections of a playbook, the keys of a step and the keys of a task stand, and the space between.
# Known keys come in one order; keys that are not known keep their order before the last ones. Lists are never
# reordered, nor the keys of data. A document with anchors keeps every order, since an alias must follow what it
# repeats.
def arrange(layout: DocumentLayout) -> None:
    """Bring a layout into the one order and spacing, in place."""
    root = layout.root.value
    if not isinstance(root, Block):
        _tidy_comments(layout.root)
        return
    # Comments above the first key are about the document, and that key may be sorted away from the top.
    header = root.entries[0].before
    root.entries[0].before = []
    if not layout.has_anchors:
        _sort_playbook(root)
    _tidy_comments(layout.root)
    _space(root.entries)
    if root.tail and _is_tall(root.entries[-1]):
        root.tail = [BLANK, *_without_doubled_blanks(root.tail, at_start=True)]
    for steps in _lists(root, "workflow"):
        _space(steps.entries)
    layout.root.before = _without_doubled_blanks([*layout.root.before, *header], at_start=True)
    root.entries[0].before = [comment for comment in root.entries[0].before if comment.text]


def _sort_playbook(root: Block) -> None:
    _sort(root, ROOT)
    for steps in _lists(root, "workflow"):
        for step in _blocks(steps):
            _sort(step, STEP)
            for tool in _lists(step, "tool"):
                for task in _tasks(tool):
                    _sort(task, TASK)


def _sort(block: Block, construct: Construct) -> None:
    ranks = construct.ranks()
    block.entries.sort(key=lambda entry: ranks.get(entry.name, 0))


def _lists(block: Block, name: str) -> list[Block]:
    return [entry.value for entry in block.entries if entry.name == name and isinstance(entry.value, Block)]


def _blocks(block: Block) -> list[Block]:
    return [entry.value for entry in block.entries if entry.key is None and isinstance(entry.value, Block)]


def _tasks(tool: Block) -> list[Block]:
    """One task, a list of tasks, or a list of labels with a task below each."""
    items = [tool] if any(entry.key is not None for entry in tool.entries) else _blocks(tool)
    below = [entry.value for item in items if len(item.entries) == 1 for entry in item.entries]
    tasks = [*items, *(value for value in below if isinstance(value, Block))]
    return [task for task in tasks if any(entry.name == "kind" for entry in task.entries)]


def _tidy_comments(entry: LayoutEntry) -> None:
    """No doubled blank lines, none at the start; comments between a dash and its value move above."""
    if entry.trailing is not None:
        # Drop the old column: a trailing comment follows its line after two spaces.
        entry.trailing = LayoutComment(entry.trailing.text)
    if not isinstance(entry.value, Block):
        entry.inner = _without_doubled_blanks(entry.inner, at_start=True)
        return
    for index, child in enumerate(entry.value.entries):
        _tidy_comments(child)
        child.before = _without_doubled_blanks(child.before, at_start=index == 0)
    entry.value.tail = _without_doubled_blanks(entry.value.tail)
    if entry.key is None and not entry.anchor and entry.column >= 0:
        first = entry.value.entries[0]
        entry.before += [entry.trailing] if entry.trailing is not None else []
        entry.before += [comment for comment in first.before if comment.text]
        entry.trailing, first.before = None, []


def _space(entries: Sequence[LayoutEntry]) -> None:
    """One blank line around what takes several lines, and none between single lines (root sections, steps)."""
    for above, entry in pairwise(entries):
        comments = _without_doubled_blanks(entry.before, at_start=True)
        apart = _is_tall(above) or _is_tall(entry) or bool(comments)
        entry.before = [BLANK, *comments] if apart else comments


def _is_tall(entry: LayoutEntry) -> bool:
    if entry.key is None and isinstance(entry.value, Block):
        return entry.value.is_long
    return entry.is_long


def _without_doubled_blanks(comments: Sequence[LayoutComment], *, at_start: bool = False) -> list[LayoutComment]:
    kept: list[LayoutComment] = []
    for comment in comments:
        if comment.text or (kept and kept[-1].text) or (not kept and not at_start):
            kept.append(comment)
    return kept
