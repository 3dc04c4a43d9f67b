"""Notification rules of the installation: which events of which playbooks are sent to which destinations (NTF-01).

The rules are in the store, so that all servers follow the same ones. A commit cannot wait for the store, so a server
reads them every five seconds, and at once when they are changed through it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import msgspec

from noetl.base.clock import Clock
from noetl.base.durations import seconds
from noetl.base.errors import BackendError, InvalidError, NotFoundError, Outage
from noetl.base.redaction import MASK
from noetl.net.net import DESTINATIONS, EVENTS, Destination, Net, Notification
from noetl.store.installation import KeyValues, each_key_value
from noetl.templates.values import Authored

KIND = "notification_rule"  # on the key-value table
EVERY_S = 5.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_NEEDED = {"email": ("to", "auth"), "slack": ("auth",), "teams": ("auth",), "webhook": ()}
_TRIES = 10
_SECRET_LENGTH = 8  # characters of a segment of a path, from which it is taken for a key
_log = logging.getLogger(__name__)


class NotificationRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`on` are events, `notify` destinations such as {email: {to, auth}}. `path` is a pattern with `*`; `labels` must
    all be among those of the playbook's metadata. `late_after` is the expected duration of the event late."""

    name: str
    # Events: failed, completed, cancelled, late, task_assigned, task_overdue.
    on: tuple[str, ...] = ()
    # A credential appears by its name only.
    notify: tuple[dict[str, dict[str, Any]], ...] = ()
    path: str = "*"
    labels: dict[str, str] = {}
    late_after: str | float | None = None
    # At most one notice in this time; further ones are counted in the next notice.
    throttle: str | float | None = None
    subject: str | None = None
    text: str | None = None
    enabled: bool = True

    def applies_to(self, net: Net) -> bool:
        return (
            self.enabled and fnmatchcase(net.path, self.path) and _has_labels(net.metadata.get("labels"), self.labels)
        )

    def notification(self, event: str) -> Notification:
        """The rule for one of its events, in the form that a playbook has."""
        return Notification(
            event=event,
            notify=tuple(
                Destination(kind=kind, options=options) for entry in self.notify for kind, options in entry.items()
            ),
            after_s=seconds(self.late_after) if self.late_after is not None else None,
            throttle_s=seconds(self.throttle) if self.throttle is not None else 0.0,
            subject=Authored(self.subject) if self.subject is not None else None,
            text=Authored(self.text) if self.text is not None else None,
        )


def _has_labels(carried: Any, wanted: Mapping[str, str]) -> bool:
    return not wanted or (
        isinstance(carried, dict) and all(str(carried.get(key)) == value for key, value in wanted.items())
    )


def checked_rule(rule: NotificationRule) -> NotificationRule:
    """The rule, if it is valid. InvalidError says what is wrong with it."""
    if not _NAME.fullmatch(rule.name):
        raise InvalidError(f'name: found "{rule.name[:100]}", allowed are letters, digits, ".", "_" and "-"')
    if not rule.on:
        raise InvalidError(f"on: name at least one event: {', '.join(EVENTS)}")
    for event in rule.on:
        if event not in EVENTS:
            raise InvalidError(f'on: there is no event "{event}"; there are {", ".join(EVENTS)}')
    if ("late" in rule.on) != (rule.late_after is not None):
        raise InvalidError(
            "late_after: the event late and an expected duration belong together, such as late_after: 2h"
        )
    for name in ("late_after", "throttle"):
        try:
            seconds(getattr(rule, name) or 0)
        except ValueError as problem:
            raise InvalidError(f"{name}: {problem}") from None
    if not rule.notify:
        raise InvalidError(f"notify: name at least one destination: {', '.join(DESTINATIONS)}")
    for entry in rule.notify:
        for kind, options in entry.items():
            _check_destination(kind, options)
    return rule


def _check_destination(kind: str, options: Mapping[str, Any]) -> None:
    allowed = DESTINATIONS.get(kind)
    if allowed is None:
        raise InvalidError(f'notify: there is no destination "{kind}"; there are {", ".join(DESTINATIONS)}')
    for key in options:
        if key not in allowed:
            raise InvalidError(f'notify: {kind} has no option "{key}"; there are {", ".join(allowed)}')
    missing = next((key for key in _NEEDED[kind] if not options.get(key)), None)
    if kind == "webhook" and not options.get("url") and not options.get("auth"):
        missing = "url"
    if missing is not None:
        raise InvalidError(f'notify: "{missing}" of {kind} is missing')
    if not isinstance(options.get("auth", ""), str):
        raise InvalidError(f"notify: auth of {kind} is the name of a credential")


# Secrets of destinations. A URL of a webhook is one behind its host, and its headers may hold a token.


def destination_secrets(options: Mapping[str, Any]) -> set[str]:
    """The parts of the options that are masked in errors."""
    parts = urlsplit(str(options.get("url") or ""))
    pieces = {parts.path, parts.query, *(value for _, value in parse_qsl(parts.query)), *_header_values(options)}
    # A word such as "hooks" is no secret by itself, and stands in other texts.
    pieces |= {piece for piece in parts.path.split("/") if len(piece) >= _SECRET_LENGTH}
    return {piece for piece in (*pieces, parts.password) if piece and piece != "/"}


def _header_values(options: Mapping[str, Any]) -> list[str]:
    headers = options.get("headers")
    return [str(value) for value in headers.values()] if isinstance(headers, dict) else []


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as everybody may see them."""
    shown = dict(options)
    if url := options.get("url"):
        parts = urlsplit(str(url))
        rest = f"/{MASK}" if parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc else ""
        shown["url"] = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], rest, "", "")) if rest else url
    if isinstance(options.get("headers"), dict):
        shown["headers"] = dict.fromkeys(options["headers"], MASK)
    return shown


def shown_rule(rule: NotificationRule) -> NotificationRule:
    notify = tuple({kind: shown_options(options) for kind, options in entry.items()} for entry in rule.notify)
    return msgspec.structs.replace(rule, notify=notify)


def with_stored_secrets(rule: NotificationRule, stored: NotificationRule | None) -> NotificationRule:
    """The rule with the stored URLs and headers where masked ones came back. InvalidError if it is unclear which."""
    old = list(stored.notify) if stored is not None else []
    is_same_number = len(old) == len(rule.notify)
    notify = []
    for index, entry in enumerate(rule.notify):
        near = [old[index]] if is_same_number else old
        notify.append({kind: _unmasked_options(kind, options, near, old) for kind, options in entry.items()})
    return msgspec.structs.replace(rule, notify=tuple(notify))


def _unmasked_options(
    kind: str, options: dict[str, Any], near: Sequence[dict[str, dict[str, Any]]], old: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    headers = options.get("headers")
    masked = isinstance(headers, dict) and MASK in headers.values()
    if not masked and not str(options.get("url") or "").endswith(f"/{MASK}"):
        return options
    for entries in (near, old):
        same = [entry[kind] for entry in entries if kind in entry and _is_shown_as(entry[kind], options)]
        if same and all(one == same[0] for one in same):
            break
    else:
        raise InvalidError(f'notify: {kind} has a masked URL or header ("{MASK}"), and it is unclear which: write it')
    stored = same[0]
    kept = {"url": stored["url"]} if options.get("url") == shown_options(stored).get("url") and "url" in stored else {}
    if isinstance(headers, dict):
        known = stored.get("headers") or {}
        kept["headers"] = {name: known[name] if value == MASK else value for name, value in headers.items()}
    return {**options, **kept}


def _is_shown_as(stored: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether the masked parts of `options` are those of a stored destination. A masked header goes to its own URL
    only: another address must not get it."""
    if options.get("url") not in (stored.get("url"), shown_options(stored).get("url")):
        return False
    headers = options.get("headers")
    known = stored.get("headers") or {}
    return not isinstance(headers, dict) or all(name in known for name, value in headers.items() if value == MASK)


class NotificationRules:
    """The rules of the store. `known` are those that this process has read last."""

    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self.known: tuple[NotificationRule, ...] = ()

    async def all(self) -> list[NotificationRule]:
        """All rules, by name."""
        return [
            msgspec.json.decode(thing.body, type=NotificationRule)
            async for thing in each_key_value(self._key_values, KIND)
        ]

    async def get(self, name: str) -> NotificationRule:
        thing = await self._key_values.get(KIND, name)
        if thing is None:
            raise NotFoundError(f'there is no notification rule "{name}"')
        return msgspec.json.decode(thing.body, type=NotificationRule)

    async def put(self, rule: NotificationRule) -> None:
        """Create a rule, or replace the one with its name."""
        body = msgspec.json.encode(checked_rule(rule))
        for _ in range(_TRIES):
            thing = await self._key_values.get(KIND, rule.name)
            over = thing.version if thing is not None else 0
            if await self._key_values.put(KIND, rule.name, body, over=over, at=self._clock.now()) is not None:
                return await self.refresh()
        raise BackendError(f'the notification rule "{rule.name}" is being changed by others: try again')

    async def delete(self, name: str) -> None:
        if not await self._key_values.delete(KIND, name):
            raise NotFoundError(f'there is no notification rule "{name}"')
        await self.refresh()

    async def refresh(self) -> None:
        self.known = tuple(await self.all())

    async def serve(self) -> None:
        """Read the rules every five seconds, since other servers change them too; runs until it is cancelled."""
        outage = Outage(_log, "notification rules could not be read", "notification rules are read again")
        while True:
            try:
                await self.refresh()
                outage.worked()
            except BackendError as problem:
                outage.failed(problem)
            await asyncio.sleep(EVERY_S)
