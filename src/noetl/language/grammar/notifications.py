"""The root `on`: events, and the destinations that hear of them (NTF-01)."""

from __future__ import annotations

from noetl.language.grammar.model import Construct, Key, RenderedAt
from noetl.language.grammar.shapes import DURATION, FREE, TEXT, Schema, array, mapping
from noetl.net.notifications import DESTINATIONS, EVENTS
from noetl.templates.scopes import TemplateSite

_ADDRESSES: Schema = {"anyOf": [TEXT, array(TEXT)]}
_OPTIONS = {
    "to": Key("to", _ADDRESSES, "E-mail addresses."),
    "cc": Key("cc", _ADDRESSES),
    "bcc": Key("bcc", _ADDRESSES),
    "from": Key("from", TEXT, "The sender; else the one of the credential."),
    "reply_to": Key("reply_to", TEXT),
    "url": Key("url", TEXT, "Address of the webhook; it may be in the credential instead."),
    "auth": Key("auth", TEXT, "Name of the credential."),
    "headers": Key("headers", FREE, "Further headers of the request."),
}
DESTINATION = {
    kind: Construct(kind, tuple(_OPTIONS[option] for option in options)) for kind, options in DESTINATIONS.items()
}
_PLACE = mapping({kind: construct.schema() for kind, construct in DESTINATION.items()})
_NOTICE = RenderedAt(TemplateSite.NOTICE, "a notice")
_KEYS = (
    Key("notify", {"anyOf": [array(_PLACE, minItems=1), _PLACE]}, "Who is told.", required=True),
    Key("throttle", DURATION, "Repeats within this time become one notice with their count."),
    Key("subject", TEXT, "Template of the subject; it reads notice, execution, error and task.", rendered=_NOTICE),
    Key("text", TEXT, "Template of the text; it reads notice, execution, error and task.", rendered=_NOTICE),
)
_AFTER = Key("after", DURATION, "The expected duration: an open execution that is older is late.", required=True)
NOTIFICATION = {name: Construct(f"on.{name}", (_AFTER, *_KEYS) if name == "late" else _KEYS) for name in EVENTS}
ON = Construct(
    "on",
    tuple(Key(name, NOTIFICATION[name]) for name in EVENTS),
    doc="Whom servers tell when an execution fails, completes, is late or assigns a task.",
)
