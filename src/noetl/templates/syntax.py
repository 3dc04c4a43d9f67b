"""Syntax: template text to Jinja2's syntax tree, and where in the text a mistake is.

Jinja2 is used as the parser only: no Python code is generated from a template, and nothing of Jinja2's runtime is ever
called. This module is imported on the first template that is more than paths and constants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser

from noetl.base.errors import TemplateError
from noetl.templates.values import clipped

Tree = nodes.Template

# The parser recurses with its input and takes memory for each token; text that long is no template.
MAX_TOKENS = 8_000
MAX_LENGTH = 256 * 1024

# Which fields of a node hold nodes. Written out: asking each node for its fields takes most of the time otherwise.
CHILDREN: dict[str, tuple[str, ...]] = {
    "Template": ("body",),
    "Output": ("nodes",),
    "If": ("test", "body", "elif_", "else_"),
    "For": ("target", "iter", "test", "body", "else_"),
    "Assign": ("target", "node"),
    "AssignBlock": ("target", "filter", "body"),
    "With": ("targets", "values", "body"),
    "FilterBlock": ("filter", "body"),
    "Name": (),
    "Const": (),
    "TemplateData": (),
    "Tuple": ("items",),
    "List": ("items",),
    "Dict": ("items",),
    "Pair": ("key", "value"),
    "Keyword": ("value",),
    "CondExpr": ("test", "expr1", "expr2"),
    "Filter": ("node", "args", "kwargs"),
    "Test": ("node", "args", "kwargs"),
    "Call": ("node", "args", "kwargs"),
    "Getitem": ("node", "arg"),
    "Getattr": ("node",),
    "Slice": ("start", "stop", "step"),
    "Concat": ("nodes",),
    "Compare": ("expr", "ops"),
    "Operand": ("expr",),
    **dict.fromkeys(("Mul", "Div", "FloorDiv", "Add", "Sub", "Mod", "Pow", "And", "Or"), ("left", "right")),
    **dict.fromkeys(("Not", "Neg", "Pos"), ("node",)),
}


def children(node: Any) -> Iterator[Any]:
    """The nodes directly below `node`, in the order they are written."""
    for field in CHILDREN[type(node).__name__]:
        value = getattr(node, field)
        if type(value) is list:
            yield from value
        elif value is not None:
            yield value


class _Grammar(Environment):
    """Jinja2's grammar with our bounds on the number of tokens."""

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        # A text cannot have more tokens than characters, so most are not counted at all.
        if len(source) <= MAX_TOKENS:
            return self.lexer.tokenize(source, name, filename, state)
        return TokenStream(_bounded(self.lexer.tokenize(source, name, filename, state)), name, filename)


def _bounded(tokens: TokenStream) -> Iterator[Token]:
    for count, token in enumerate(tokens):
        if count > MAX_TOKENS:
            raise TemplateError(f"the template is too long: more than {MAX_TOKENS:,} words and signs")
        yield token


_GRAMMAR = _Grammar(keep_trailing_newline=True, autoescape=False)


def read_tree(text: str) -> Tree:
    """The syntax tree of `text`. TemplateError with the parser's words and the place."""
    if len(text) > MAX_LENGTH:
        raise TemplateError(f"the template is longer than {MAX_LENGTH:,} characters")
    if text.count("{#") > MAX_TOKENS:  # the parser never sees comments, so their number is bounded here
        raise TemplateError(f"the template is too long: more than {MAX_TOKENS:,} comments")
    try:
        return nodes.Template(Parser(_GRAMMAR, text).subparse(), lineno=1)
    except TemplateSyntaxError as wrong:
        raise TemplateError(_error_text(str(wrong.message)), offset=_offset_of_failure(text)) from None
    except RecursionError:
        raise TemplateError("the template is nested too deeply") from None
    except (ValueError, OverflowError):  # a number with thousands of digits
        raise TemplateError("the template holds a number that is too large") from None


_PLAIN_WORDS = {  # the parser's names of what ends an expression and a statement
    "expected token": "expected",
    "'end of print statement'": "'}}'",
    "'end of statement block'": "'%}'",
}


def _error_text(message: str) -> str:
    """The message of the parser in our style: lower case, no full stop, double quotes."""
    message = re.sub(r" at \d+$", "", message.split(". ")[0].rstrip("."))
    for jargon, plain in _PLAIN_WORDS.items():
        message = message.replace(jargon, plain)
    message = re.sub(r"'([^']+)'", lambda word: f'"{clipped(word[1])}"', message)
    return message[:1].lower() + message[1:].replace("\n", " ")


def _offset_of_failure(text: str) -> int | None:
    """Where the parser stopped: parse again, counting the tokens it took, and find the last one in the text."""
    taken = 0

    def counted(tokens: Iterator[Token]) -> Iterator[Token]:
        nonlocal taken
        for token in tokens:
            taken += 1
            yield token

    class Counting(_Grammar):
        def _tokenize(
            self, source: str, name: str | None, filename: str | None = None, state: str | None = None
        ) -> TokenStream:
            # The parser's errors know only the line. The number of tokens it took shows at which one it stopped.
            raw = self.lexer.tokeniter(source, name, filename, state)
            return TokenStream(counted(self.lexer.wrap(raw, name, filename)), name, filename)

    try:
        Parser(Counting(keep_trailing_newline=True), text).parse()
    except (TemplateSyntaxError, RecursionError, ValueError):
        places, end = _token_places(text, taken)
        return places[taken - 1] if 0 < taken < len(places) or end is None else end
    return None


def _token_places(text: str, enough: int) -> tuple[list[int], int | None]:
    """The offsets of the tokens the parser took, and where the lexer gave up, if it did."""
    places, offset = [], 0
    try:
        for _, kind, value in _GRAMMAR.lexer.tokeniter(text, None):
            place = text.find(value, offset)
            if place < 0:  # line breaks are rewritten in raw text
                continue
            offset = place + len(value)
            if kind not in ("whitespace", "comment", "comment_begin", "comment_end", "raw_begin", "raw_end"):
                places.append(place)
            if len(places) > enough:
                break
    except TemplateSyntaxError:
        return places, offset + len(text[offset:]) - len(text[offset:].lstrip())
    return places or [0], None


def _line_start(text: str, line: int) -> int:
    return sum(len(part) + 1 for part in text.split("\n")[: line - 1])


def place_of(text: str, word: str, line: int | None) -> int | None:
    """The place of `word` in the text, at or after `line`; for refusals, whose nodes know their line only."""
    line = line or 1
    start = _line_start(text, line)
    inside = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)").search(text, start)
    return inside.start() if inside else (start if line > 1 else None)
