"""JSON Schema fragments that inputs of several tool kinds share.

They describe rendered values; `noetl.language.grammar` adds "or a template" to each of them.
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
    """The schema of a text that must be one of `words`."""
    return {"type": "string", "enum": list(words)}


def script_source(*places: str) -> Schema:
    """The schema of code in another place: `{uri, source: {type: file}}`; the tool can read it from `places`."""
    source = {"anyOf": [one_of(*places), {"type": "object", "properties": {"type": one_of(*places)}}]}
    reference = {"type": "object", "properties": {"uri": TEXT, "source": source}, "required": ["uri"]}
    return {"anyOf": [TEXT, reference]}


_AUTH_FORMS = "the name of a credential, {credential: NAME}, or its fields"
AUTH = Input(
    name="auth",
    schema={"anyOf": [TEXT, {**OBJECT, "minProperties": 1}], "description": _AUTH_FORMS},
    read_strictly=True,
    doc="Name of a keychain entry or stored credential.",
    aliases=("credential", "credentials", "connection"),
)
ARGS = Input(name="args", schema=OBJECT, doc="Arguments by name.")
