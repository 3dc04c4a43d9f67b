"""From the parser's complaint to what the author most likely did, and the way out.

The parser says where it gave up; people want to know what to change. First come mistakes that can be seen in the text
around that place (templates without quotes, tabs, the shape of `on_event`), then a table of the parser's own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import yaml

from noetl.base.diagnostics import DiagnosticPosition
from noetl.language.reading.syntax.positions import Places
from noetl.language.reading.syntax.problems import YamlProblem, quoted

_QUOTED_OR_COMMENT = re.compile(r"""(?<![^\s:,\[{(-])(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|(?<!\S)#.*""")
_BARE_TEMPLATE = re.compile(r"(?:^|[:,\[{-])\s*(?P<template>\{[{%#])")
_KEY_WITHOUT_SPACE = re.compile(r"\s*(?:- +)*[A-Za-z_][\w-]*:[^\s/]")
_ON_EVENT = re.compile(r"\s*(?:- +)?on_event\s*:")
_WORD_OR_BLANK = re.compile(r"\S+|[ \t]")
_NEAR = 8  # lines above the failing one in which `on_event:` explains it


class Complaint(msgspec.Struct, frozen=True):
    """Where the parser gave up; `began` is the offset of what it was reading, `opened` of the bracket around it."""

    places: Places
    at: int
    began: int
    opened: int | None = None

    @property
    def line(self) -> int:
        return self.places.position(self.at)[0]

    @property
    def began_line(self) -> int:
        return self.places.position(self.began)[0]

    @property
    def before(self) -> str:
        """The failing line up to the place."""
        return self.places.line(self.line)[: self.places.position(self.at)[1] - 1]

    @property
    def found_character(self) -> str:
        """The character at the place, nothing at the end of the text."""
        return self.places.text[self.at : self.at + 1]

    def problem(self, message: str, hint: str, at: int | None = None) -> YamlProblem:
        """A problem at the place, or at another one, as long as the word that stands there."""
        start = self.at if at is None else at
        word = _WORD_OR_BLANK.match(self.places.text, start)
        end = word.end() if word else start
        return YamlProblem(DiagnosticPosition("", self.places.between(start, end)), message, hint)


def explain(error: yaml.YAMLError, places: Places, opened: int | None = None) -> YamlProblem:
    """What to tell the author about text that does not parse; `opened` is the offset of a bracket still open."""
    mark = getattr(error, "problem_mark", None)
    began = getattr(error, "context_mark", None) or mark
    end = len(places.text)
    words = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "this cannot be read")
    at = getattr(mark, "index", getattr(error, "position", end))
    complaint = Complaint(places, min(at, end), min(getattr(began, "index", at), end), opened)
    for seen in (_bare_template, _tab, _on_event):
        problem = seen(complaint)
        if problem is not None:
            return problem
    for part, explanation in _EXPLANATIONS.items():
        if part in words:
            return explanation(complaint)
    return complaint.problem(f"this is not YAML: {words}", "see the line and the one above it")


# mistakes that show in the text ---------------------------------------------------------------------------------


def _bare_template(complaint: Complaint) -> YamlProblem | None:
    """`url: {{ workload.url }}/x`: the braces begin a mapping, and what follows makes no sense."""
    last = complaint.line
    first = max(complaint.began_line if complaint.began else last, last - 1)
    for number in range(last, first - 1, -1):
        line = complaint.places.line(number)
        blanked = _QUOTED_OR_COMMENT.sub(lambda found: "·" * len(found[0]), line)
        found = _BARE_TEMPLATE.search(blanked)
        if found:
            column = found.start("template")
            offset = complaint.places.offset(number) + column
            hint = _quoted_template(blanked[:column], line[column:])
            return complaint.problem("a template without quotes, which YAML reads as a mapping", hint, offset)
    return None


def _quoted_template(before: str, text: str) -> str:
    """The line as it should be; in a flow collection only the template itself, for the rest is another matter."""
    if "{" in before or "[" in before:
        end = max(text.rfind("}}"), text.rfind("%}"))
        return f"quote it: {quoted(text[: end + 2] if end >= 0 else text)}"
    key = before.strip().removeprefix("- ")
    return f"quote it: {key} {quoted(text.strip())}" if key.endswith(":") else f"quote it: {quoted(text.strip())}"


def _tab(complaint: Complaint) -> YamlProblem | None:
    line = complaint.places.line(complaint.line)
    indentation = line[: len(line) - len(line.lstrip())]
    if "\t" not in indentation:
        return None
    offset = complaint.places.offset(complaint.line) + indentation.index("\t")
    return complaint.problem(f"line {complaint.line} is indented with a tab", "indent with spaces", offset)


def _on_event(complaint: Complaint) -> YamlProblem | None:
    """The example of the seed puts list items beside `spec` (C-36)."""
    near = range(max(1, complaint.line - _NEAR), complaint.line)
    if complaint.found_character != "-" or not any(_ON_EVENT.match(complaint.places.line(number)) for number in near):
        return None
    hint = "put the items under handlers: on_event: { spec: { interrupting: false }, handlers: [{ event, then }] }"
    return complaint.problem("list items stand beside the keys of on_event", hint)


# the parser's own words -----------------------------------------------------------------------------------------


def _second_colon(complaint: Complaint) -> YamlProblem:
    above = complaint.places.line(complaint.line - 1)
    if ": " in complaint.before:
        return complaint.problem('a second ": " in one value', 'quote the value that holds ": "')
    if _KEY_WITHOUT_SPACE.match(above):
        return complaint.problem(
            "the line above is not a key and a value", f'put a space after the ":" on line {complaint.line - 1}'
        )
    return complaint.problem(
        "a key where the value above still goes on", "indent it like the key above, or quote the text that holds it"
    )


def _no_key(complaint: Complaint) -> YamlProblem:
    before = complaint.before.strip()
    if before and before != "-":
        return complaint.problem(
            "the value has already ended here", "quote the whole value, or remove the rest of the line"
        )
    if complaint.found_character == "-":
        return complaint.problem(
            "a list item among the keys of a mapping", "put the items under a key of their own, or indent them with it"
        )
    line, column = complaint.places.position(complaint.began)
    return complaint.problem(
        "this line does not line up with any key above",
        f"the keys of this mapping begin in column {column} (line {line})",
    )


def _no_item(complaint: Complaint) -> YamlProblem:
    line, column = complaint.places.position(complaint.began)
    if complaint.places.position(complaint.at)[1] > column:
        hint = f"the items of the list begin in column {column} (line {line}), the keys of an item further right"
        return complaint.problem("this line does not line up with anything above", hint)
    return complaint.problem(
        "a key among the items of a list",
        f'begin it with "- " in column {column} (line {line}), or indent it below one',
    )


def _open_list(complaint: Complaint) -> YamlProblem:
    return complaint.problem(
        'a list that is not closed with "]"', f'close it, or put "," before line {complaint.line}', complaint.began
    )


def _open_mapping(complaint: Complaint) -> YamlProblem:
    return complaint.problem(
        'a mapping that is not closed with "}"', f'close it, or put "," before line {complaint.line}', complaint.began
    )


def _open_quotes(complaint: Complaint) -> YamlProblem:
    quote = complaint.places.text[complaint.began : complaint.began + 1]
    return complaint.problem("quotes that are never closed", f"close the text with {quote}", complaint.began)


def _no_colon(complaint: Complaint) -> YamlProblem:
    return complaint.problem(
        "a line that is neither a key with a value nor a list item",
        'write "key: value" with a space after the colon, or indent the line if the text above goes on',
        complaint.began,
    )


def _no_value(complaint: Complaint) -> YamlProblem:
    if not complaint.found_character:
        return complaint.problem("this is never closed", 'close it with "]" or "}"', complaint.opened)
    return complaint.problem(
        f'a value cannot begin with "{complaint.found_character}"', "quote the text, or remove the sign"
    )


def _no_token(complaint: Complaint) -> YamlProblem:
    if complaint.found_character == "\t":
        return complaint.problem(f"a tab on line {complaint.line} where YAML wants spaces", "replace it by spaces")
    return complaint.problem(f'text cannot begin with "{complaint.found_character}" in YAML', "quote the text")


def _star(complaint: Complaint) -> YamlProblem:
    sign = complaint.places.text[complaint.began : complaint.began + 1]
    rest = complaint.places.line(complaint.began_line)[complaint.places.position(complaint.began)[1] - 1 :]
    if complaint.opened is not None:
        rest = re.split(r"[,}\]]", rest)[0]
    what = "repeats" if sign == "*" else "names"
    return complaint.problem(
        f'"{sign}" {what} a value in YAML, and no name follows it',
        f"quote the text: {quoted(rest.strip())}",
        complaint.began,
    )


def _escape(complaint: Complaint) -> YamlProblem:
    sign = complaint.places.text[complaint.at : complaint.at + 2]
    return complaint.problem(
        f'"{sign}" is no escape in double quotes', "write the backslash twice, or use single quotes"
    )


def _header(complaint: Complaint) -> YamlProblem:
    return complaint.problem('text on the line of "|" or ">"', "begin the text on the next line, indented")


def _block_tab(complaint: Complaint) -> YamlProblem:
    return complaint.problem(f"line {complaint.line} is indented with a tab", "indent with spaces")


def _after_end(complaint: Complaint) -> YamlProblem:
    return complaint.problem("text after the end of the document", "a playbook is one mapping; put this text inside it")


_EXPLANATIONS: dict[str, Callable[[Complaint], YamlProblem]] = {
    "mapping values are not allowed": _second_colon,
    "did not find expected key": _no_key,
    "expected <block end>, but found": _no_key,
    "block sequence entries are not allowed": _no_key,
    "did not find expected '-' indicator": _no_item,
    "expected ',' or ']'": _open_list,
    "expected ',' or '}'": _open_mapping,
    "unexpected end of stream": _open_quotes,
    "unexpected document indicator": _open_quotes,
    "could not find expected ':'": _no_colon,
    "expected node content": _no_value,
    "cannot start any token": _no_token,
    "alphabetic or numeric character": _star,
    "unknown escape character": _escape,
    "expected comment or line break": _header,
    "found a tab character": _block_tab,
    "expected <document start>": _after_end,
    "expected '<document start>'": _after_end,
}
