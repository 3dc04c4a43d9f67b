"""Names in templates: finding and renaming them, token by token.

It works on the text of the document, so that quotes, spacing and everything that is not a name stay as written. This
module does not know the meaning of a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from noetl.base.diagnostics import is_template

if TYPE_CHECKING:
    from jinja2 import Environment

_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "if", "else", "elif", "for", "set", "true", "false", "none"})

Renames = Mapping[str, str]  # a dotted path, or its beginning, and what stands in its place


class NameToken(msgspec.Struct, frozen=True):
    kind: str
    text: str


def tokens(text: str) -> list[NameToken] | None:
    """All of the text in pieces that join to it again; None if it contains no complete template."""
    from jinja2 import TemplateSyntaxError

    try:
        found = [NameToken(kind, value) for _, kind, value in _lexer().lex(text)]
    except TemplateSyntaxError:
        return None
    rest = text.removeprefix("".join(token.text for token in found))
    return [*found, NameToken("data", rest)] if rest else found  # the lexer drops a line break at the end


@cache
def _lexer() -> Environment:
    """Only its lexer is used: nothing is rendered here. The import waits, as most runs need none."""
    from jinja2 import Environment

    return Environment(autoescape=True)


def renamed(text: str, names: Renames) -> str | None:
    """`text` with the longest matching path of each name replaced; None if its templates cannot be taken apart."""
    if not is_template(text):
        return text
    found = tokens(text)
    if found is None:
        return None
    out: list[str] = []
    position = 0
    while position < len(found):
        path = _path_at(found, position)
        length, replacement = _longest(path, names)
        if length:
            out.append(replacement)
            position += 2 * length - 1  # names and the dots between them
        else:
            out.append(found[position].text)
            position += 1
    return "".join(out)


def paths(text: str) -> list[tuple[str, ...]]:
    """Every dotted path that begins with a name, as far as its dots go."""
    found = tokens(text) if is_template(text) else None
    every = (_path_at(found, position) for position in range(len(found))) if found else ()
    return [path for path in every if path]


def _path_at(found: list[NameToken], position: int) -> tuple[str, ...]:
    """The path whose first name is at `position`: not a member of something else, a filter or a keyword argument."""
    token = found[position]
    if token.kind != "name" or token.text.lower() in _KEYWORDS:
        return ()
    before = _neighbour(found, position, -1)
    after = _neighbour(found, position, 1)
    if before in (".", "|", "is") or after == "=":
        return ()
    parts = [token.text]
    while position + 2 < len(found) and found[position + 1].text == "." and found[position + 2].kind == "name":
        position += 2
        parts.append(found[position].text)
    return tuple(parts)


def _neighbour(found: list[NameToken], position: int, step: int) -> str:
    position += step
    while 0 <= position < len(found) and found[position].kind == "whitespace":
        position += step
    return found[position].text if 0 <= position < len(found) else ""


def _longest(path: tuple[str, ...], names: Renames) -> tuple[int, str]:
    for length in range(len(path), 0, -1):
        replacement = names.get(".".join(path[:length]))
        if replacement is not None:
            return length, replacement
    return 0, ""


def expression(text: str) -> str | None:
    """The expression between the braces, if the text is exactly one expression."""
    found = tokens(text.strip())
    if not found or found[0].kind != "variable_begin" or found[-1].kind != "variable_end":
        return None
    if sum(token.kind == "variable_begin" for token in found) != 1:
        return None
    return "".join(token.text for token in found[1:-1]).strip()


def template(inner: str) -> str:
    return f"{{{{ {inner} }}}}"


def has_text_around(text: str) -> bool:
    """Whether text stands beside the expressions, so that the whole is text and never empty. The text of a block is not
    always given, so a template with blocks has none."""
    kinds = {token.kind for token in tokens(text) or () if token.kind != "data" or token.text.strip()}
    return {"data", "variable_begin"} <= kinds and "block_begin" not in kinds


# Expressions with these bind less tightly than a comparison beside them.
_LOOSE = frozenset({"and", "or", "not", "if", "in", "is", "==", "!=", "<", ">", "<=", ">="})


def as_one_expression(text: str) -> str | None:
    """The expression that is meant by expressions with text beside them: `n > 5` for "{{ n }} > 5". None where the text
    makes no expression of them."""
    from jinja2 import TemplateSyntaxError

    # `'{{ env }}' == 'prod'` quotes the value, and `${{ env }}` is how GitHub Actions begins an expression.
    found = tokens(re.sub(r"(['\"])({{.*?}})\1", r"\2", re.sub(r"\$(?={{)", "", text)))
    beside = any(token.kind == "data" for token in found or ())
    pieces: list[str] = []
    inner: list[NameToken] = []
    for token in found or ():
        if token.kind == "variable_end":
            expressed = "".join(part.text for part in inner).strip()
            pieces.append(f"({expressed})" if beside and _LOOSE & {part.text for part in inner} else expressed)
        elif token.kind == "data":
            pieces.append(token.text.strip())
        inner = [] if token.kind == "variable_begin" else [*inner, token]
    one = " ".join(piece for piece in pieces if piece)
    try:
        _lexer().parse(template(one))
    except TemplateSyntaxError:
        return None
    return one
