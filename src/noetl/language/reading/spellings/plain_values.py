"""Other shapes of values: a length of time by its units, keys with a unit such as `timeout_seconds: 30`, numbers and
booleans in quotes, a timer written as its duration, and a trigger written as its schedule."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where

_LENGTHS = (
    *("timeout", "timeout_s", "deadline_s", "duration", "delay", "initial_delay", "max_delay", "interval", "wait"),
    *("ttl", "heartbeat", "after", "due_date", "window", "per", "throttle", "retention"),
)
_COUNTS = (
    *("attempts", "max_attempts", "max_retries", "retries", "retry", "max_in_flight", "batch_size", "limit", "count"),
    *("concurrency", "max_concurrency", "max_concurrent", "max_parallel", "max_rounds", "max_runs", "tokens"),
)
_FLAGS = (
    *("allow", "park", "extend", "async", "parallel", "interrupting", "idempotent", "cancellable", "paused"),
    *("verify_ssl", "verify", "follow_redirects", "allow_redirects", "continue_on_error", "reference_first"),
    *("trigger_compensation", "ignore_errors", "allow_failure", "fail_fast"),
)
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_UNITS = {
    **dict.fromkeys(("milliseconds", "millis", "ms"), "ms"),
    **dict.fromkeys(("seconds", "second", "s"), "s"),
    **dict.fromkeys(("minutes", "minute", "m"), "m"),
    **dict.fromkeys(("hours", "hour", "h"), "h"),
    **dict.fromkeys(("days", "day", "d"), "d"),
    **dict.fromkeys(("weeks", "week", "w"), "w"),
}
_ENDINGS = {
    "ms": "ms",
    "millis": "ms",
    "milliseconds": "ms",
    "sec": "s",
    "secs": "s",
    "seconds": "s",
    "min": "m",
    "mins": "m",
    "minutes": "m",
    "hours": "h",
}
_MEASURED = ("timeout", "delay", "initial_delay", "max_delay", "interval", "retry_delay", "deadline", "duration")
# `delay_seconds: 2`, each with the key and the unit that it means.
UNIT_KEYS = {f"{key}_{ending}": (key, unit) for key in _MEASURED for ending, unit in _ENDINGS.items()}


# Keys of every task. The others may be inputs of its tool, which keep their shape.
KEYS_OF_TASKS = frozenset(
    {"timeout", "timeout_s", "retry", "retries", "max_retries", "retry_delay", "verify_ssl", "verify"}
    | {"follow_redirects", "allow_redirects", "continue_on_error", "ignore_errors", "allow_failure"}
    | {key for key, (name, _) in UNIT_KEYS.items() if name in ("timeout", "retry_delay")}
)


def with_plain_values(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A construct with lengths of time, numbers and booleans as the language writes them."""
    is_task = "kind" in node
    for key, value in list(node.values.items()):
        if is_task and key not in KEYS_OF_TASKS:
            continue
        if key in UNIT_KEYS:
            node = _duration_with_unit(node, key, rewriting)
        elif (plain := _plain(key, value)) is not None:
            rewriting.note(value, f"this value of {key}", str(plain.value).lower())
            node = model.with_value(node, key, plain)
    return node


def _duration_with_unit(node: Mapping, key: str, rewriting: Rewriting) -> Mapping:
    """`timeout_minutes: 5` as `timeout: 5m`."""
    name, unit = UNIT_KEYS[key]
    amount = _amount(node.values[key])
    if amount is None or name in node:
        return node
    rewriting.note(node.keys[key], f'"{key}"', f"{name}: {amount}{unit}")
    value = model.made_text(f"{amount}{unit}", node.values[key])
    return model.with_value(model.with_key(node, key, name), name, value)


def _plain(key: str, value: Node) -> Scalar | None:
    """The value in its canonical form; None if it has that form already, or does not belong to the language."""
    if key in _LENGTHS and isinstance(value, Mapping):
        return length(value)
    if not isinstance(value, Scalar) or not isinstance(value.value, str):
        return None
    word = value.value.strip()
    if key in _COUNTS and word.isascii() and word.isdigit():
        return model.made_text(int(word), value)
    if key in _FLAGS and word.lower() in _WORDS:
        return model.made_text(_WORDS[word.lower()], value)
    return None


def length(node: Mapping) -> Scalar | None:
    """`{minutes: 1, seconds: 30}` as `1m30s`."""
    if not len(node) or not node.values.keys() <= _UNITS.keys():
        return None
    amounts = {_UNITS[key]: _amount(value) for key, value in node.values.items()}
    if None in amounts.values() or len(amounts) < len(node):
        return None
    return model.made_text("".join(f"{amount}{unit}" for unit, amount in amounts.items()), node)


def _amount(node: Node) -> str | None:
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return f"{value:g}" if value == int(value) and value < 1e6 else str(value)


def _read_timer(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`timer: 90s`, `timer: {seconds: 90}` and `timer: {duration: {minutes: 1}}`."""
    timer = node.get("timer")
    if isinstance(timer, Mapping) and isinstance(written := timer.get("duration"), Mapping):
        found: Node | None = length(written)
    else:
        is_length = isinstance(timer, Scalar) and isinstance(timer.value, str | int | float)
        found = timer if is_length else length(timer) if isinstance(timer, Mapping) else None
        timer = model.made_mapping((), timer) if timer is not None else None
    if found is None or not isinstance(timer, Mapping):
        return node
    rewriting.note(node.keys["timer"], "this timer", "timer: {duration: …}")
    return model.with_value(node, "timer", model.with_value(timer, "duration", found))


# Read wherever the visitor comes to a construct, after its keys are in snake_case.
def _name_limit(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`concurrency: 2` of a step without a loop; beside a loop it may be meant for the iterations."""
    limit, spec = node.get("concurrency"), node.get("spec")
    is_number = isinstance(limit, Scalar) and isinstance(limit.value, int) and not isinstance(limit.value, bool)
    if not is_number or limit is None or "loop" in node or not isinstance(spec, Mapping | None):
        return node
    if spec is not None and "concurrency" in spec:
        return node
    rewriting.note(node.keys["concurrency"], '"concurrency" of a step', "spec: {concurrency: {limit: …}}")
    block = model.made_mapping([("limit", limit)], limit)
    return model.with_path(model.without_keys(node, "concurrency"), ("spec", "concurrency"), block, limit)


SPELLINGS = (
    Spelling(
        id="step-concurrency",
        where=Where.STEP,
        older="`concurrency: 2` of a step without a loop",
        canonical="`spec: {concurrency: {limit: 2}}`",
        dialects=(model.V10,),
        refused_by_v10=True,
        rewrite=_name_limit,
    ),
    Spelling(
        id="plain-values",
        where=Where.DOCUMENT,
        older='`delay: {seconds: 30}`, `timeout_minutes: 5`, `attempts: "3"`, `allow: "false"`',
        canonical="`delay: 30s`, `timeout: 5m`, `attempts: 3`, `allow: false`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
    ),
    Spelling(
        id="step-timer",
        where=Where.STEP,
        older="`timer: 90s`, `timer: {seconds: 90}`",
        canonical="`timer: {duration: 90s}`",
        dialects=(model.V10, model.V2_CASE),
        refused_by_v10=True,
        rewrite=_read_timer,
    ),
)


# `trigger`: the schedule alone, under `cron` or `schedule`, with its zone beside it.

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


TRIGGER_SPELLINGS = (
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
