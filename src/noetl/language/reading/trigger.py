"""The root trigger: a playbook that starts by the clock (TMR-01).

Only what is written is checked here: that the schedule and its zone exist. When it fires is the server's business.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from noetl.language.grammar.root import TRIGGER, TRIGGER_SPEC, TRIGGER_TIMER
from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.numbers import duration, is_templated
from noetl.language.reading.playbook import TriggerSyntax
from noetl.language.reading.shared_checks import (
    ReadContext,
    boolean,
    check_keys,
    choice,
    is_typo,
    mapping,
    nearest,
    opening,
    text,
)

_CODE = "E_TRIGGER"
_FORM = 'write trigger: {timer: {cron: "0 6 * * *", spec: {timezone: …}}}'
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
    """The schedule of `trigger.timer`; its cron is always the five-field form, whatever was written."""
    block = mapping(reading, node, _CODE, "trigger", _FORM)
    if block is None:
        return None
    check_keys(reading, block, TRIGGER, _CODE)
    timer = mapping(reading, block.get("timer"), _CODE, "trigger.timer", _FORM)
    if timer is None:
        if "timer" not in block:
            reading.error(_CODE, opening(block), "this trigger has no timer", _FORM)
        return None
    check_keys(reading, timer, TRIGGER_TIMER, _CODE)
    if "cron" not in timer:
        reading.error(_CODE, opening(timer), "this timer has no cron schedule", _FORM)
    cron = _cron(reading, text(reading, timer.get("cron"), _CODE, "cron", _CRON_FORM))
    spec = mapping(reading, timer.get("spec"), _CODE, "trigger.timer.spec")
    timezone = _options(reading, spec) if spec is not None else None
    return TriggerSyntax(node=timer, cron=cron, timezone=timezone, spec=spec) if cron is not None else None


def _cron(reading: ReadContext, node: Scalar | None) -> Scalar | None:
    if node is None:
        return None
    from cronsim import CronSim, CronSimError  # only playbooks with a trigger pay for it

    written = str(node.value).strip()
    expression = _NICKNAMES.get(written.lower(), written)
    if expression.startswith("@"):
        reading.error(_CODE, opening(node), f'"{written}" is not a schedule', f"write one of {', '.join(_NICKNAMES)}")
        return None
    try:
        if len(expression.split()) != 5:
            raise CronSimError("wrong number of fields")
        CronSim(expression, datetime(2025, 1, 1, tzinfo=UTC))
    except CronSimError as problem:
        reason = cron_reason(str(problem))
        reading.error(_CODE, opening(node), f'"{written}" is not a cron schedule: {reason}', _CRON_FORM)
        return None
    return msgspec.structs.replace(node, value=expression)


_FIELDS = {
    "Bad minute": "the minute is 0-59",
    "Bad hour": "the hour is 0-23",
    "Bad day-of-month": "the day of the month is 1-31",
    "Bad month": "the month is 1-12, or JAN to DEC",
    "Bad day-of-week": "the day of the week is 0-7 (0 and 7 are Sunday), or SUN to SAT",
}


def cron_reason(problem: str) -> str:
    """What is wrong with a cron schedule, with what is allowed there."""
    return _FIELDS.get(problem, problem[:1].lower() + problem[1:])


def _options(reading: ReadContext, spec: Mapping) -> Scalar | None:
    """Checks the timer's spec and gives its time zone."""
    check_keys(reading, spec, TRIGGER_SPEC, _CODE)
    choice(reading, spec.get("missed"), TRIGGER_SPEC["missed"].words, _CODE, "missed")
    choice(reading, spec.get("overlap"), TRIGGER_SPEC["overlap"].words, _CODE, "overlap")
    boolean(reading, spec.get("paused"), _CODE, "paused")
    jitter = duration(reading, spec.get("jitter"), "jitter", _CODE)
    if jitter is not None and is_templated(jitter):
        reading.error(_CODE, jitter, "jitter must be a duration, and this is a template")
    zone = text(reading, spec.get("timezone"), _CODE, "timezone", "write a zone like America/New_York")
    return zone if zone is not None and _zone_exists(reading, zone) else None


def _zone_exists(reading: ReadContext, node: Scalar) -> bool:
    from zoneinfo import ZoneInfo, available_timezones

    name = str(node.value)
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        guess = nearest(name, available_timezones()) if is_typo(name, available_timezones()) else None
        hint = f'did you mean "{guess}"?' if guess else "write a zone like America/New_York"
        reading.error(_CODE, opening(node), f'"{name}" is not a time zone', hint)
        return False
    return True
