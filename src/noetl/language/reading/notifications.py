"""The root `on`: whom servers tell when an execution fails, completes, is late or assigns a task (NTF-01)."""

from __future__ import annotations

from noetl.language.grammar.root import DESTINATION, NOTIFICATION, ON
from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.numbers import duration, is_templated
from noetl.language.reading.playbook import DestinationSyntax, NotificationSyntax
from noetl.language.reading.shared_checks import ReadContext, check_keys, did_you_mean, mapping, opening, sequence, text
from noetl.net.net import DESTINATIONS, EVENTS

_CODE = "E_NOTIFY"
_FORM = "write on: {failed: {notify: [{email: {to: ops@example.org, auth: mail}}]}}"
_DESTINATION_FORM = f"write one of {', '.join(DESTINATIONS)}: - email: {{to: …, auth: …}}"


def read_notifications(reading: ReadContext, node: Node | None) -> tuple[NotificationSyntax, ...]:
    """One for each event that can be read."""
    block = mapping(reading, node, _CODE, "on", _FORM)
    if block is None:
        return ()
    check_keys(reading, block, ON, _CODE)
    found = (_notification(reading, event, inner) for event, _, inner in block.items() if event in EVENTS)
    return tuple(one for one in found if one is not None)


def _notification(reading: ReadContext, event: str, node: Node) -> NotificationSyntax | None:
    block = mapping(reading, node, _CODE, f"on.{event}", _FORM)
    if block is None:
        return None
    check_keys(reading, block, NOTIFICATION[event], _CODE)
    after = _fixed(reading, duration(reading, block.get("after"), "after", _CODE), "after")
    if event == "late" and "after" not in block:
        reading.error(_CODE, opening(block), "on.late does not say when an execution is late", "write after: 2h")
    return NotificationSyntax(
        node=block,
        event=event,
        notify=_destinations(reading, block, event),
        after=after if event == "late" else None,
        throttle=_fixed(reading, duration(reading, block.get("throttle"), "throttle", _CODE), "throttle"),
        subject=text(reading, block.get("subject"), _CODE, "subject"),
        text=text(reading, block.get("text"), _CODE, "text"),
    )


def _fixed(reading: ReadContext, node: Node | None, what: str) -> Scalar | None:
    if node is not None and is_templated(node):
        reading.error(_CODE, node, f"{what} must be a duration, and this is a template", "write 10m")
        return None
    return node if isinstance(node, Scalar) else None


def _destinations(reading: ReadContext, block: Mapping, event: str) -> tuple[DestinationSyntax, ...]:
    written = block.get("notify")
    if isinstance(written, Mapping):
        return _of_mapping(reading, written)
    items = sequence(reading, written, _CODE, f"on.{event}.notify", _DESTINATION_FORM)
    if items is None or not len(items):
        if written is None or items is not None:
            reading.error(_CODE, opening(block), f"on.{event} tells nobody: notify is missing", _DESTINATION_FORM)
        return ()
    return tuple(one for item in items for one in _of_item(reading, item))


def _of_item(reading: ReadContext, item: Node) -> tuple[DestinationSyntax, ...]:
    if isinstance(item, Mapping):
        return _of_mapping(reading, item)
    reading.error(_CODE, item, f"a destination must be a mapping, and this is {describe(item)}", _DESTINATION_FORM)
    return ()


def _of_mapping(reading: ReadContext, block: Mapping) -> tuple[DestinationSyntax, ...]:
    found = []
    for kind, key, node in block.items():
        if kind not in DESTINATIONS:
            hint = did_you_mean(kind, tuple(DESTINATIONS))
            reading.error(_CODE, key, f'there is no destination "{kind}"', hint)
            continue
        options = mapping(reading, node, _CODE, kind, _DESTINATION_FORM)
        if options is None:
            continue
        check_keys(reading, options, DESTINATION[kind], _CODE)
        needed = _needed(kind, options)
        if needed is not None:
            reading.error(_CODE, key, f'"{needed}" of the destination "{kind}" is missing', _DESTINATION_FORM)
        text(reading, options.get("auth"), _CODE, "auth", "write the name of a credential")
        found.append(DestinationSyntax(node=options, kind=kind))
    return tuple(found)


def _needed(kind: str, options: Mapping) -> str | None:
    """An option that it cannot do without. The URL of a webhook may be in its credential."""
    if kind == "webhook":
        return None if "url" in options or "auth" in options else "url"
    needed = ("to", "auth") if kind == "email" else ("auth",)
    return next((key for key in needed if key not in options), None)
