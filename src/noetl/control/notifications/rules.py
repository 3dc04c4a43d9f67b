"""Notification rules of the installation: which events of which playbooks are sent to which destinations (NTF-01).

The rules are in the store, so that all servers follow the same ones. A commit cannot wait for the store, so a server
reads them every five seconds, and at once when they are changed through it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.durations import seconds
from noetl.base.errors import BackendError, InvalidError, NotFoundError, Outage
from noetl.net.net import DESTINATIONS, EVENTS, Destination, Net, Notification
from noetl.store.installation import KeyValues, each_key_value
from noetl.templates.values import Authored

KIND = "notification_rule"  # on the key-value table
EVERY_S = 5.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_NEEDED = {"email": ("to", "auth"), "slack": ("auth",), "teams": ("auth",), "webhook": ()}
_TRIES = 10
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
    # At most one notice in this time; what comes meanwhile is counted in the next.
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
