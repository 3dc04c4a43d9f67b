"""`trigger` in other words: the schedule alone, under `cron` or `schedule`, with its zone beside it."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where

_SCHEDULES = ("cron", "schedule")
_ZONES = ("timezone", "tz", "time_zone")


def _name_timer(node: Mapping, rewriting: Rewriting) -> Mapping:
    trigger = node.get("trigger")
    timer = _timer(trigger) if isinstance(trigger, Mapping) else None
    if timer is None or not isinstance(trigger, Mapping):
        return node
    rewriting.note(next(iter(trigger.keys.values())), "the schedule of a trigger", "trigger: {timer: {cron: …}}")
    return model.with_value(node, "trigger", model.made_mapping([("timer", timer)], trigger))


def _timer(trigger: Mapping) -> Mapping | None:
    """The timer that a trigger means which has a schedule, perhaps a zone, and nothing else."""
    words = [key for key in _SCHEDULES if key in trigger]
    zones = [key for key in _ZONES if key in trigger]
    if len(words) != 1 or len(zones) > 1 or len(trigger) != 1 + len(zones):
        return None
    held = trigger.values[words[0]]
    if isinstance(held, Mapping):
        return _timer(held) if not zones else None
    if not isinstance(held, Scalar):
        return None
    entries: list[tuple[str, Node]] = [("cron", held)]
    if zones:
        zone = trigger.values[zones[0]]
        entries.append(("spec", model.made_mapping([("timezone", zone)], zone)))
    return model.made_mapping(entries, trigger)


SPELLINGS = (
    Spelling(
        id="root-trigger",
        where=Where.DOCUMENT,
        older="`trigger: {cron: …, timezone: …}`, `trigger: {schedule: …}`",
        canonical="`trigger: {timer: {cron: …, spec: {timezone: …}}}`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=_name_timer,
    ),
)
