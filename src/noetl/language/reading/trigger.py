"""The root keys `trigger` and `on`.

`trigger` is the schedule of a playbook (TMR-01): that its cron expression and its zone exist is checked here, and
`control/schedules.py` starts it. `on` says who is notified when an execution fails, completes, is late or assigns a
task (NTF-01).
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from noetl.base.diagnostics import nearest_word
from noetl.language.grammar.root import DESTINATION, NOTIFICATION, ON, TRIGGER, TRIGGER_SPEC, TRIGGER_TIMER
from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.playbook import DestinationSyntax, NotificationSyntax, TriggerSyntax
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    check_keys,
    choice,
    did_you_mean,
    duration,
    is_templated,
    is_typo,
    known_block,
    mapping,
    opening,
    sequence,
    text,
)
from noetl.net.net import DESTINATIONS, EVENTS

_TRIGGER_CODE = "E_TRIGGER"
_TRIGGER_FORM = 'write trigger: {timer: {cron: "0 6 * * *", spec: {timezone: …}}}'
_CRON_FORM = "write five fields: minute, hour, day of month, month, day of week"

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def read_trigger(reading: ReadContext, node: Node | None) -> TriggerSyntax | None:
    """The schedule of `trigger.timer`; its cron is always the five-field form, in any notation."""
    block = known_block(reading, node, TRIGGER, _TRIGGER_CODE, "trigger", _TRIGGER_FORM)
    if block is None:
        return None
    timer = mapping(reading, block.get("timer"), _TRIGGER_CODE, "trigger.timer", _TRIGGER_FORM)
    if timer is None:
        if "timer" not in block:
            reading.error(_TRIGGER_CODE, opening(block), "this trigger has no timer", _TRIGGER_FORM)
        return None
    check_keys(reading, timer, TRIGGER_TIMER, _TRIGGER_CODE)
    if "cron" not in timer:
        reading.error(_TRIGGER_CODE, opening(timer), "this timer has no cron schedule", _TRIGGER_FORM)
    cron = _cron(reading, text(reading, timer.get("cron"), _TRIGGER_CODE, "cron", _CRON_FORM))
    spec = mapping(reading, timer.get("spec"), _TRIGGER_CODE, "trigger.timer.spec")
    timezone = _options(reading, spec) if spec is not None else None
    return TriggerSyntax(node=timer, cron=cron, timezone=timezone, spec=spec) if cron is not None else None


def _cron(reading: ReadContext, node: Scalar | None) -> Scalar | None:
    if node is None:
        return None
    # Imported here so that only playbooks with a trigger pay for it.
    from cronsim import CronSim, CronSimError

    written = str(node.value).strip()
    expression = _NICKNAMES.get(written.lower(), written)
    if expression.startswith("@"):
        reading.error(
            _TRIGGER_CODE, opening(node), f'"{written}" is not a schedule', f"write one of {', '.join(_NICKNAMES)}"
        )
        return None
    try:
        if len(expression.split()) != 5:
            raise CronSimError("wrong number of fields")
        # Any moment: only whether the schedule parses is asked.
        CronSim(expression, datetime(2025, 1, 1, tzinfo=UTC))
    except CronSimError as problem:
        reason = cron_reason(str(problem), expression)
        reading.error(_TRIGGER_CODE, opening(node), f'"{written}" is not a cron schedule: {reason}', _CRON_FORM)
        return None
    # A nickname is written out, so that the net has one form of schedules.
    return msgspec.structs.replace(node, value=expression)


_FIELDS = {
    "Bad minute": "the minute is 0-59",
    "Bad hour": "the hour is 0-23",
    "Bad day-of-month": "the day of the month is 1-31",
    "Bad month": "the month is 1-12, or JAN to DEC",
    "Bad day-of-week": "the day of the week is 0-7 (0 and 7 are Sunday), or SUN to SAT",
}


def cron_reason(problem: str, expression: str) -> str:
    """The mistake in a cron schedule, with the allowed values."""
    fields = expression.split()
    # The parser refuses 30 February with the same message as the 32nd of a month.
    if problem == "Bad day-of-month" and len(fields) == 5 and fields[3] != "*" and _parses([*fields[:3], "*", "*"]):
        return "that day never comes: its months have fewer days"
    return _FIELDS.get(problem, problem[:1].lower() + problem[1:])


def _parses(fields: list[str]) -> bool:
    from cronsim import CronSim, CronSimError

    try:
        CronSim(" ".join(fields), datetime(2025, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True


def _options(reading: ReadContext, spec: Mapping) -> Scalar | None:
    """Checks the timer's spec and gives its time zone."""
    check_keys(reading, spec, TRIGGER_SPEC, _TRIGGER_CODE)
    choice(reading, spec.get("missed"), TRIGGER_SPEC["missed"].words, _TRIGGER_CODE, "missed")
    choice(reading, spec.get("overlap"), TRIGGER_SPEC["overlap"].words, _TRIGGER_CODE, "overlap")
    boolean(reading, spec.get("paused"), _TRIGGER_CODE, "paused")
    jitter = duration(reading, spec.get("jitter"), "jitter", _TRIGGER_CODE)
    if jitter is not None and is_templated(jitter):
        reading.error(_TRIGGER_CODE, jitter, "jitter must be a duration, and this is a template")
    zone = text(reading, spec.get("timezone"), _TRIGGER_CODE, "timezone", "write a zone like America/New_York")
    return zone if zone is not None and _zone_exists(reading, zone) else None


def _zone_exists(reading: ReadContext, node: Scalar) -> bool:
    from zoneinfo import ZoneInfo, available_timezones

    name = str(node.value)
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        # Only for a small typing mistake: among hundreds of zones there is always a similar one.
        guess = nearest_word(name, available_timezones()) if is_typo(name, available_timezones()) else None
        hint = f'did you mean "{guess}"?' if guess else "write a zone like America/New_York"
        reading.error(_TRIGGER_CODE, opening(node), f'"{name}" is not a time zone', hint)
        return False
    return True


_NOTIFICATION_CODE = "E_NOTIFY"
_NOTIFICATION_FORM = "write on: {failed: {notify: [{email: {to: ops@example.org, auth: mail}}]}}"
_DESTINATION_FORM = f"write one of {', '.join(DESTINATIONS)}: - email: {{to: …, auth: …}}"


# `on` says in other systems what starts something.
_STARTS = {
    **dict.fromkeys(("schedule", "cron"), 'on is about notices; write trigger: {timer: {cron: "…"}} beside workflow'),
    **dict.fromkeys(
        ("push", "pull_request", "workflow_dispatch", "webhook", "event"),
        "on is about notices; an administrator makes the trigger or webhook that starts a playbook",
    ),
}


def read_notifications(reading: ReadContext, node: Node | None) -> tuple[NotificationSyntax, ...]:
    """One for each event that can be read."""
    block = known_block(reading, node, ON, _NOTIFICATION_CODE, "on", _NOTIFICATION_FORM, _STARTS)
    if block is None:
        return ()
    found = (_notification(reading, event, inner) for event, _, inner in block.items() if event in EVENTS)
    return tuple(one for one in found if one is not None)


def _notification(reading: ReadContext, event: str, node: Node) -> NotificationSyntax | None:
    block = mapping(reading, node, _NOTIFICATION_CODE, f"on.{event}", _NOTIFICATION_FORM)
    if block is None:
        return None
    check_keys(reading, block, NOTIFICATION[event], _NOTIFICATION_CODE)
    after = _fixed(reading, duration(reading, block.get("after"), "after", _NOTIFICATION_CODE), "after")
    if event == "late" and "after" not in block:
        reading.error(
            _NOTIFICATION_CODE, opening(block), "on.late does not say when an execution is late", "write after: 2h"
        )
    return NotificationSyntax(
        node=block,
        event=event,
        notify=_destinations(reading, block, event),
        after=after if event == "late" else None,
        throttle=_fixed(reading, duration(reading, block.get("throttle"), "throttle", _NOTIFICATION_CODE), "throttle"),
        subject=text(reading, block.get("subject"), _NOTIFICATION_CODE, "subject"),
        text=text(reading, block.get("text"), _NOTIFICATION_CODE, "text"),
    )


def _fixed(reading: ReadContext, node: Node | None, what: str) -> Scalar | None:
    if node is not None and is_templated(node):
        reading.error(_NOTIFICATION_CODE, node, f"{what} must be a duration, and this is a template", "write 10m")
        return None
    return node if isinstance(node, Scalar) else None


def _destinations(reading: ReadContext, block: Mapping, event: str) -> tuple[DestinationSyntax, ...]:
    written = block.get("notify")
    if isinstance(written, Mapping):
        return _of_mapping(reading, written)
    items = sequence(reading, written, _NOTIFICATION_CODE, f"on.{event}.notify", _DESTINATION_FORM)
    if items is None or not len(items):
        if written is None or items is not None:
            reading.error(
                _NOTIFICATION_CODE, opening(block), f"on.{event} sends nothing: notify is missing", _DESTINATION_FORM
            )
        return ()
    return tuple(one for item in items for one in _of_item(reading, item))


def _of_item(reading: ReadContext, item: Node) -> tuple[DestinationSyntax, ...]:
    if isinstance(item, Mapping):
        return _of_mapping(reading, item)
    reading.error(
        _NOTIFICATION_CODE, item, f"a destination must be a mapping, and this is {describe(item)}", _DESTINATION_FORM
    )
    return ()


def _of_mapping(reading: ReadContext, block: Mapping) -> tuple[DestinationSyntax, ...]:
    found = []
    for kind, key, node in block.items():
        if kind not in DESTINATIONS:
            hint = did_you_mean(kind, tuple(DESTINATIONS))
            reading.error(_NOTIFICATION_CODE, key, f'there is no destination "{kind}"', hint)
            continue
        options = mapping(reading, node, _NOTIFICATION_CODE, kind, _DESTINATION_FORM)
        if options is None:
            continue
        check_keys(reading, options, DESTINATION[kind], _NOTIFICATION_CODE)
        needed = _missing_option(kind, options)
        if needed is not None:
            reading.error(
                _NOTIFICATION_CODE, key, f'"{needed}" of the destination "{kind}" is missing', _DESTINATION_FORM
            )
        text(reading, options.get("auth"), _NOTIFICATION_CODE, "auth", "write the name of a credential")
        found.append(DestinationSyntax(node=options, kind=kind))
    return tuple(found)


def _missing_option(kind: str, options: Mapping) -> str | None:
    """A required option that is missing. The URL of a webhook may be in its credential."""
    if kind == "webhook":
        return None if "url" in options or "auth" in options else "url"
    needed = ("to", "auth") if kind == "email" else ("auth",)
    return next((key for key in needed if key not in options), None)
