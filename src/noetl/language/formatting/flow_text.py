"""Flow collections on one line, with one spacing: `{ a: 1, b: [x, y] }`."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from noetl.language.formatting.tokens import Piece

_CLOSERS = (yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


def flow_text(pieces: Sequence[Piece]) -> str:
    """The text of a flow collection, given its tokens from bracket to bracket; it holds no comment."""
    written = ""
    for index, piece in enumerate(pieces):
        following = pieces[index + 1] if index + 1 < len(pieces) else None
        written += _one(piece, following, written)
    return written


def _one(piece: Piece, following: Piece | None, written: str) -> str:
    if piece.is_a(yaml.FlowMappingStartToken):
        empty = following is not None and following.is_a(yaml.FlowMappingEndToken)
        return "{" if empty else "{ "
    if piece.is_a(yaml.FlowMappingEndToken):
        return "}" if written.endswith(("{", " ")) else " }"
    if piece.is_a(yaml.FlowEntryToken):
        return "" if following is not None and following.is_a(*_CLOSERS) else ", "
    if piece.is_a(yaml.ValueToken):
        return ": "
    if piece.is_a(yaml.KeyToken):
        return "? " if piece.text.startswith("?") and piece.end > piece.start else ""
    if piece.is_a(yaml.AnchorToken) or _is_alias_key(piece, following):
        return piece.text + " "
    return piece.text


def _is_alias_key(piece: Piece, following: Piece | None) -> bool:
    """`*a :` needs its space, or the colon would be part of the name."""
    return piece.is_a(yaml.AliasToken) and following is not None and following.is_a(yaml.ValueToken)
