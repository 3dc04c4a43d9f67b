"""Fixes: the proposal of a diagnostic's hint, as a change that an editor can make.

A hint is written for people. If it names one replacement, and the replaced name occurs once in the place of the
diagnostic, both together are a change; everything else stays advice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from noetl.base.diagnostics import Diagnostic, Severity, Source
from noetl.language.migrating.edits import Fix, apply_fixes
from noetl.language.migrating.moving_fixes import moving_fixes, spaces_for_tabs
from noetl.language.reading.shared_checks import snake_case
from noetl.net.kinds import Kinds

if TYPE_CHECKING:
    from noetl.language.checking import Checked

_MEANT = re.compile(r'did you mean "([^"\n]{1,200})"')
# `key: value` alone on its line, where one key in the place of another is sure to mean what its author meant.
_LINE = re.compile(r"^(?P<before>\s*(?:- +)?)(?P<key>[\w-]+): +(?P<value>[^\s#|>&*!].*?)\s*(?:\s#.*)?$")
_LOOPED = ("loop: {in: VALUE, iterator: item}", re.compile(r"\[.*\]|\"\{\{.*\}\}\"|'\{\{.*\}\}'"))
# Keys of a step in other systems: the form, and the values with an unambiguous meaning.
_REWORDED = {
    "foreach": _LOOPED,
    "for_each": _LOOPED,
    "timeout_minutes": ("timeout: VALUEm", re.compile(r"\d+")),
    "timeout_seconds": ("timeout: VALUEs", re.compile(r"\d+")),
    "sleep": ("timer: {duration: VALUE}", re.compile(r"\d+(?:\.\d+)?(?:ms|[smhd])?")),
}
_MOVED = re.compile(r"^move it under spec: spec: \{(\w+): …\}$")
_WRITTEN = re.compile(r"^write (?P<key>\w+): (?P<value>[\w./-]+)$")
_BRACED = re.compile(r'^write "(?P<template>\{\{ .+? \}\})"')
_CLOSED = re.compile(r"""^close the text with (?P<quote>["'])$""")
_VALUE = re.compile(r"[\"']?\s*:\s+(?:#[^\n]*\s+)?(?:- +)?")
_COMMENT = re.compile(r"\s#.*$")
# Each fix is tried by checking the text again, so only a few are offered: checking a long text takes long.
_MOST_TRIALS = 12
# Finding the place of a name takes a pass over the text for each finding, and an editor requests this during typing.
_MOST_CHARACTERS = 200_000
# Of `"workload" has no "nam"` only the second is the mistake: the first is right and must stay.
_NAMED = re.compile(r'(?:"[^"\n]{1,200}" has no )?"([^"\n]{1,200})"')


def fix_for(found: Diagnostic, source: Source) -> Fix | None:
    if found.code == "E_YAML":
        return _closing_fix(found, source) or _quoting_fix(found, source) or _colon_fix(found, source)
    if (reworded := _reworded_line(found, source)) is not None:
        return reworded
    if (written := _written_fix(found, source)) is not None:
        return written
    if (braced := _braces_fix(found, source)) is not None:
        return braced
    meant = _MEANT.search(found.hint)
    if meant is None or found.span.line != found.span.end_line:
        return None
    covered = source.cut(found.span)
    for name in _NAMED.findall(found.message):
        at = _only_place(covered, name)
        if at is not None and name != meant[1]:
            column = found.span.column + at
            return Fix(replacement=meant[1], line=found.span.line, column=column, end_column=column + len(name))
    return None


def _written_fix(found: Diagnostic, source: Source) -> Fix | None:
    """`write KEY: VALUE` about the value of this key."""
    written, span = _WRITTEN.match(found.hint), found.span
    if written is None or span.line != span.end_line:
        return None
    if not re.search(rf"(?<![\w-]){re.escape(written['key'])}:\s+$", source.line(span.line)[: span.column - 1]):
        return None
    return Fix(replacement=written["value"], line=span.line, column=span.column, end_column=span.end_column)


def _braces_fix(found: Diagnostic, source: Source) -> Fix | None:
    """The braces of another system as those of a template; a "$" before a template goes."""
    written, span = _BRACED.match(found.hint), found.span
    if found.code != "W_FOREIGN_NAME" or written is None or span.line != span.end_line:
        return None
    covered = source.cut(span)
    if covered == "$":
        return Fix(
            title='Remove the "$"', replacement="", line=span.line, column=span.column, end_column=span.end_column
        )
    quote = covered[0] if covered[0] in "\"'" else '"'
    replacement = f"{quote}{written['template']}{quote}"
    return Fix(replacement=replacement, line=span.line, column=span.column, end_column=span.end_column)


def _closing_fix(found: Diagnostic, source: Source) -> Fix | None:
    """Quotes that are never closed, closed at the end of their line."""
    closing = _CLOSED.match(found.hint)
    if closing is None:
        return None
    line = _COMMENT.sub("", source.line(found.span.line)).rstrip()
    column = len(line) + 1
    title = f"Close the text on line {found.span.line}"
    return Fix(title=title, replacement=closing["quote"], line=found.span.line, column=column, end_column=column)


def _colon_fix(found: Diagnostic, source: Source) -> Fix | None:
    """A full-width colon as ":" and a space."""
    if not found.hint.endswith(':" and a space'):
        return None
    column = found.span.column
    rest = source.line(found.span.line)[column:]
    replacement = ":" if not rest or rest[0] == " " else ": "
    return Fix(replacement=replacement, line=found.span.line, column=column, end_column=column + 1)


def _quoting_fix(found: Diagnostic, source: Source) -> Fix | None:
    """A template without quotes, with quotes: the text in its place, or the rest of the line."""
    if not found.hint.startswith("quote it: ") or found.span.line != found.span.end_line:
        return None
    line = source.line(found.span.line)
    whole = source.cut(found.span)
    if "}}" not in whole:
        whole = _COMMENT.sub("", line[found.span.column - 1 :]).rstrip()
    quote = "'" if '"' in whole else '"'
    if quote in whole or "\\" in whole:
        return None
    column = found.span.column
    return Fix(
        replacement=f"{quote}{whole}{quote}", line=found.span.line, column=column, end_column=column + len(whole)
    )


def _reworded_line(found: Diagnostic, source: Source) -> Fix | None:
    """A whole line `key: value` in other words: `next: end`, `sleep: 10`, `foreach: …`, an option beside its `spec`."""
    line = source.line(found.span.line)
    parts = _LINE.match(line)
    if parts is None or len(parts["before"]) != found.span.column - 1:
        return None
    word, key, moved = snake_case(parts["key"]), parts["key"], _MOVED.match(found.hint)
    if found.code == "I_ALIAS" and key == "next" and found.message.startswith("next as a name"):
        form = "next: {arcs: [{step: VALUE}]}"
    elif found.code == "E_STEP_KEY" and word in _REWORDED and _REWORDED[word][1].fullmatch(parts["value"]):
        # Beside a tool, it is not said whether to wait before or after.
        if word == "sleep" and _has_sibling("tool", source, found.span.line, len(parts["before"])):
            return None
        form = _REWORDED[word][0]
    elif moved is not None and moved[1] == key:
        form = f"spec: {{{key}: VALUE}}"
    else:
        return None
    replacement = form.replace("VALUE", parts["value"])
    return Fix(
        replacement=replacement,
        line=found.span.line,
        column=found.span.column,
        end_column=parts.end("value") + 1,
    )


def _has_sibling(key: str, source: Source, number: int, indent: int) -> bool:
    """Whether `key` is in the mapping of a line whose keys begin after `indent` characters."""
    lines = source.text.split("\n")
    wanted = re.compile(rf"[ -]{{{indent}}}{re.escape(key)}\s*:")

    def ends(line: str) -> bool:
        return bool(line.strip()) and len(line) - len(line.lstrip(" ")) < indent

    first = number - 1
    while first > 0 and not ends(lines[first]):
        first -= 1
    last = number
    while last < len(lines) and not ends(lines[last]):
        last += 1
    return any(wanted.match(line) for line in lines[first:last])


def _only_place(text: str, name: str) -> int | None:
    """The place of `name` in `text` as a separate word, if it occurs once."""
    places = [one.start() for one in re.finditer(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)]
    return places[0] if len(places) == 1 else None


def tried_fixes(checked: Checked, kinds: Kinds) -> dict[Diagnostic, Fix]:
    """The fixes that help: with the fix alone, nothing else is refused at its place, and the text is still a
    document."""
    # Loaded here, so that a server that starts does not load the checker.
    from noetl.language.checking import check

    found: dict[Diagnostic, Fix] = {}
    source = checked.source
    if len(source.text) > _MOST_CHARACTERS:
        return found
    trials = 0
    for one in checked.diagnostics:
        best: tuple[bool, int, int] | None = None
        for fix in _fixes_for(one, source, kinds):
            if (trials := trials + 1) > _MOST_TRIALS:
                return found
            fixed = Source(source.name, apply_fixes(source.text, [fix]))
            dialect = None if one.code == "E_METADATA" else checked.dialect  # the fix may name another one
            after = check(fixed, kinds=kinds, dialect=dialect, strict=checked.strict, proofs=False).diagnostics
            if any(_is_in_the_way(left, one, fix) for left in after) or _is_another_language(one, after):
                continue
            if (value := _value_behind(fix, fixed)) and any(_refuses(left, value) for left in after):
                continue
            left = _mistakes_left(after)
            if best is None or left < best:
                found[one], best = fix, left
    return found


def _fixes_for(found: Diagnostic, source: Source, kinds: Kinds) -> list[Fix]:
    """The possible fixes of a finding, which are not tried yet."""
    if found.code == "E_YAML" and (spaced := spaces_for_tabs(source)):
        return spaced
    fix = fix_for(found, source)
    return [fix] if fix is not None else moving_fixes(found, source, kinds)


def _mistakes_left(after: Iterable[Diagnostic]) -> tuple[bool, int, int]:
    """The number of mistakes that are left: of several fixes, the one that leaves the fewest is taken. A text that is
    no YAML hides all other mistakes."""
    severities = Counter(one.severity for one in after)
    is_no_yaml = any(one.code == "E_YAML" for one in after)
    return is_no_yaml, severities[Severity.ERROR], severities[Severity.WARNING]


def _is_in_the_way(left: Diagnostic, found: Diagnostic, fix: Fix) -> bool:
    """Whether what is found after a fix refuses it. The same mistake at another place does not: that one has a fix of
    its own, made next."""
    at, fixed = (left.span.line, left.span.column), (fix.line, fix.column)
    if left.code == "E_YAML":
        # Of a text that is not a document only the first mistake is reported: a later one existed before.
        return found.code != "E_YAML" or at <= fixed
    if found.code.endswith("UNDEFINED_NAME") and left.code == "W_WORKLOAD_KEY" and left.span.line == fix.line:
        return True  # `load.rows` was not meant as `workload.rows`, which is not there either
    is_within = any(
        left.span.line == edit.line and edit.column <= left.span.column < edit.column + len(edit.replacement)
        for edit in (fix, *fix.also)
    )
    return is_within and left.severity is not Severity.NOTE


def _value_behind(fix: Fix, fixed: Source) -> int | None:
    """The position of the value whose key a fix has replaced."""
    lines = fixed.text.split("\n", fix.line)[: fix.line - 1]
    start = sum(len(line) + 1 for line in lines) + fix.column - 1 + len(fix.replacement)
    found = _VALUE.match(fixed.text, start)
    return found.end() if found is not None else None


def _refuses(left: Diagnostic, value: int) -> bool:
    """Whether the corrected key does not accept the written value: a list in place of one name."""
    return left.severity is Severity.ERROR and left.span.start == value


def _is_another_language(found: Diagnostic, after: Iterable[Diagnostic]) -> bool:
    """Whether a text is refused in the dialect that the fix gives it. The whole text is read again then, so a
    refusal is not a second mistake that the first one hid."""
    return found.code == "E_METADATA" and any(left.severity is Severity.ERROR for left in after)
