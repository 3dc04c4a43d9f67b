"""The few JSON Schema shapes that inputs of tool kinds share, named once.

These describe values before templates are allowed for; `noetl.language.grammar` adds "or a template" to each of
them.
"""

from __future__ import annotations

from typing import Any

from noetl.net.kinds import Input

Schema = dict[str, Any]

ANYTHING: Schema = {}
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 1}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
TEXTS: Schema = {"type": "array", "items": TEXT}
TEXT_OR_TEXTS: Schema = {"anyOf": [TEXT, TEXTS]}
DURATION: Schema = {"anyOf": [{"type": "number", "minimum": 0}, TEXT]}


def one_of(*words: str) -> Schema:
    """One of a few words."""
    return {"type": "string", "enum": list(words)}


def script_source(*places: str) -> Schema:
    """Code kept elsewhere: `{uri, source: {type: file}}`, where the tool reads it from such places."""
    source = {"anyOf": [one_of(*places), {"type": "object", "properties": {"type": one_of(*places)}}]}
    written = {"type": "object", "properties": {"uri": TEXT, "source": source}, "required": ["uri"]}
    return {"anyOf": [TEXT, written]}


_SHAPES_OF_AUTH = "the name of a credential, {credential: NAME}, or its fields"
AUTH = Input(
    name="auth",
    schema={"anyOf": [TEXT, {**OBJECT, "minProperties": 1}], "description": _SHAPES_OF_AUTH},
    read_strictly=True,
    doc="Name of a keychain entry or stored credential.",
    aliases=("credential", "credentials", "connection"),
)
ARGS = Input(name="args", schema=OBJECT, doc="Arguments by name.")
