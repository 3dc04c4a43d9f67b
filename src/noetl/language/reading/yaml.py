"""Reading YAML: text in, a tree of nodes with places out, or diagnostics that explain the failure (DOC-01).

One lazy pass over parser events, so that hostile text is refused before it costs anything (reliability.md §2.7):
nothing is composed, constructed or expanded that `yaml_tree.py` has not allowed. This module does not know the meaning
of keys.

For text that does not parse, `explain` turns the parser's error into what the author most likely did: first mistakes
that can be seen in the text around that place (templates without quotes, tabs, the shape of `on_event`), then a table
of the parser's own messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec
import yaml
from yaml.reader import Reader

from noetl.base.diagnostics import DiagnosticPosition, Findings, Source
from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.yaml_problems import Places, YamlProblem, YamlRefused, quoted, refuse
from noetl.language.reading.yaml_tree import MAX_BYTES, MAX_PROBLEMS, MAX_TAG_DIRECTIVES, TreeBuilder

# libyaml if it is installed, else the same parser in Python.
PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Reuse YAML's compiled pattern: compiling it again would add 3 ms to every start.
_UNREADABLE = Reader.NON_PRINTABLE


def read_yaml(source: Source, findings: Findings) -> Mapping | None:
    """The mapping at the root of `source`, or None; every problem is noted as E_YAML, and nothing is ever raised."""
    places = Places(source.text)
    builder = TreeBuilder(places)
    try:
        _check_text(places)
        root, last = builder.build(_events(places.text)), []
    except YamlRefused as refusal:
        root, last = None, [refusal.problem]
    except yaml.YAMLError as error:
        root, last = None, [explain(error, places, builder.open_bracket)]
    for problem in _without_repeats(builder.problems[:MAX_PROBLEMS], last):
        findings.add("E_YAML", problem.place, problem.message, problem.hint)
    return _mapping(root, findings) if root is not None else None


def _without_repeats(problems: list[YamlProblem], last: list[YamlProblem]) -> list[YamlProblem]:
    """The finding that stopped the reading explains a place better than earlier ones."""
    stops = {problem.place.span.start for problem in last}
    return [problem for problem in problems if problem.place.span.start not in stops] + last


def _events(text: str) -> Iterator[yaml.Event]:
    """Parser events, lazily; comments, quotes and line breaks are already understood."""
    loader = PARSER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    except (ValueError, OverflowError) as error:  # the parser in Python, about an escape past the last character
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


def _check_text(places: Places) -> None:
    """Refuse text that is too long, or holds characters no YAML may hold."""
    text = places.text
    if len(text) > MAX_BYTES or (not text.isascii() and len(text.encode(errors="surrogatepass")) > MAX_BYTES):
        refuse(places.between(0, 0), "the document is larger than 1 MiB", "move large data out of the playbook")
    # The parser compares each %TAG directive with all others, which is quadratic.
    if text.count("\n%TAG") > MAX_TAG_DIRECTIVES:
        refuse(places.between(0, 0), "the document begins with many %TAG lines", "remove them: tags are not read")
    found = _UNREADABLE.search(text)
    if found:
        message = f"the character U+{ord(found[0]):04X} cannot be part of a playbook"
        hint = "remove it; in double quotes it can be written as an escape"
        refuse(places.between(found.start(), found.end()), message, hint)


def _mapping(root: Node, findings: Findings) -> Mapping | None:
    if isinstance(root, Mapping):
        return root
    empty = isinstance(root, Scalar) and root.value is None
    message = "the document is empty" if empty else f"a playbook is a mapping, and this is {describe(root)}"
    findings.add("E_YAML", root, message, "begin with apiVersion: noetl.io/v10")
    return None


_QUOTED_OR_COMMENT = re.compile(r"""(?<![^\s:,\[{(-])(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|(?<!\S)#.*""")
_BARE_TEMPLATE = re.compile(r"(?:^|[:,\[{-])\s*(?P<template>\{[{%#])")
_KEY_WITHOUT_SPACE = re.compile(r"\s*(?:- +)*[A-Za-z_][\w-]*:[^\s/]")
# A word, or a word and a value, where a key and its value are meant.
_KEY_WITHOUT_COLON = re.compile(r"""(?P<before> *(?:- +)*)(?P<key>[A-Za-z_][\w-]*)(?: +(?P<value>[^\s:#"']+))? *""")
# U+FF1A, U+FE55 and U+A789, which look like a colon.
_KEY_WITH_WIDE_COLON = re.compile(r"\s*(?:- +)*(?P<key>[A-Za-z_][\w-]*) *(?P<colon>[\uff1a\ufe55\ua789])")
# Spaces that do not break, ideographic ones, those of no width, and a byte order mark within the text: in the
# indentation or behind the colon of a key.
_ODD_SPACE = re.compile(r"[ -]*(?:[A-Za-z_][\w-]*:)?(?P<sign>[\u00a0\u2000-\u200d\u202f\u2060\u3000\ufeff])")
_ON_EVENT = re.compile(r"\s*(?:- +)?on_event\s*:")
_WORD_OR_BLANK = re.compile(r"\S+|[^\S\n]")
# Number of lines above the failing one to search for `on_event:`.
_NEAR = 8


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
        """A problem at the place, or at another one, as long as the word there."""
        start = self.at if at is None else at
        word = _WORD_OR_BLANK.match(self.places.text, start)
        end = word.end() if word else start
        return YamlProblem(DiagnosticPosition("", self.places.between(start, end)), message, hint)


Explanation = Callable[[Complaint], YamlProblem]


def explain(error: yaml.YAMLError, places: Places, opened: int | None = None) -> YamlProblem:
    """The message for text that does not parse; `opened` is the offset of a bracket still open."""
    mark = getattr(error, "problem_mark", None)
    began = getattr(error, "context_mark", None) or mark
    end = len(places.text)
    words = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "this cannot be read")
    at = getattr(mark, "index", getattr(error, "position", end))
    complaint = Complaint(places, min(at, end), min(getattr(began, "index", at), end), opened)
    # First the visible mistakes: the parser often reports only a consequence of them.
    for seen in (_bare_template, _odd_character, _tab, _on_event):
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
    """The corrected line; in a flow collection only the corrected template."""
    if "{" in before or "[" in before:
        end = max(text.rfind("}}"), text.rfind("%}"))
        return f"quote it: {quoted(text[: end + 2] if end >= 0 else text)}"
    key = before.strip().removeprefix("- ")
    return f"quote it: {key} {quoted(text.strip())}" if key.endswith(":") else f"quote it: {quoted(text.strip())}"


def _odd_character(complaint: Complaint) -> YamlProblem | None:
    """On the line or the one above: `step： start`, with the colon of a keyboard for Chinese or Japanese; or a space
    that was copied from a web page."""
    # A second ":" of the failing line is a mistake of its own.
    above = () if ": " in complaint.before else (complaint.line - 1, complaint.began_line)
    for number in (complaint.line, *above):
        line, start = complaint.places.line(number), complaint.places.offset(number)
        if (found := _KEY_WITH_WIDE_COLON.match(line)) is not None:
            message = f'"{found["colon"]}" is a full-width colon, which YAML takes for text'
            return complaint.problem(message, f'write "{found["key"]}:" and a space', start + found.start("colon"))
        if (found := _ODD_SPACE.match(line)) is not None:
            name = f"U+{ord(found['sign']):04X}"
            message = f"the invisible character {name} stands where YAML takes only plain spaces"
            hint = f"replace every {name} in the file by a space, or remove it"
            return complaint.problem(message, hint, start + found.start("sign"))
    return None


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
    indent = len(complaint.before) - len(complaint.before.lstrip(" -"))
    if (key := _KEY_WITHOUT_COLON.fullmatch(above)) and len(key["before"]) == indent:
        start = complaint.at - len(complaint.before) - 1 - len(above) + indent
        written = f"write {key['key']}: {key['value'] or '…'}"
        return complaint.problem(f'a ":" is missing after "{key["key"]}"', written, start)
    return complaint.problem(
        "a key where the value above still goes on", "indent it like the key above, or quote the text that holds it"
    )


_QUOTE_THAT_OPENS = re.compile(r"""(?:^|[:,\[{-])\s*(?P<quote>["'])""")


def _unclosed_above(complaint: Complaint) -> YamlProblem | None:
    """Quotes that were forgotten some lines above end at the next ones, which were meant to open a text."""
    for number in range(complaint.line - 1, max(0, complaint.line - _NEAR), -1):
        blanked = _QUOTED_OR_COMMENT.sub(lambda found: "·" * len(found[0]), complaint.places.line(number))
        if opened := _QUOTE_THAT_OPENS.search(blanked):
            if opened["quote"] not in complaint.before:
                return None
            offset = complaint.places.offset(number) + opened.start("quote")
            message = f"quotes that are not closed before line {complaint.line}"
            return complaint.problem(message, f"close the text with {opened['quote']}", offset)
    return None


def _no_key(complaint: Complaint) -> YamlProblem:
    before = complaint.before.strip()
    if before and before != "-" and (unclosed := _unclosed_above(complaint)) is not None:
        return unclosed
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


def _unclosed_bracket(message: str) -> Explanation:
    return lambda complaint: complaint.problem(
        message, f'close it, or put "," before line {complaint.line}', complaint.began
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


def _block_tab(complaint: Complaint) -> YamlProblem:
    return complaint.problem(f"line {complaint.line} is indented with a tab", "indent with spaces")


def _plain_explanation(message: str, hint: str) -> Explanation:
    return lambda complaint: complaint.problem(message, hint)


_AFTER_END = _plain_explanation(
    "text after the end of the document", "a playbook is one mapping; put this text inside it"
)
# Parts of the messages of libyaml and of the parser in Python, which words the same mistake differently.
_EXPLANATIONS: dict[str, Explanation] = {
    "mapping values are not allowed": _second_colon,
    "did not find expected key": _no_key,
    "expected <block end>, but found": _no_key,
    "block sequence entries are not allowed": _no_key,
    "did not find expected '-' indicator": _no_item,
    "expected ',' or ']'": _unclosed_bracket('a list that is not closed with "]"'),
    "expected ',' or '}'": _unclosed_bracket('a mapping that is not closed with "}"'),
    "unexpected end of stream": _open_quotes,
    "unexpected document indicator": _open_quotes,
    "could not find expected ':'": _no_colon,
    "expected node content": _no_value,
    "cannot start any token": _no_token,
    "alphabetic or numeric character": _star,
    "unknown escape character": _escape,
    "expected comment or line break": _plain_explanation(
        'text on the line of "|" or ">"', "begin the text on the next line, indented"
    ),
    "found a tab character": _block_tab,
    "expected <document start>": _AFTER_END,
    "expected '<document start>'": _AFTER_END,
}
