"""Cron schedules in words: "every weekday at 06:00".

The usual forms have their own words; rarer forms are described by `cronsim`, which also computes the times. An
expression without a description is unchanged.
"""

from __future__ import annotations

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAY_NAMES = {name[:3].upper(): number for number, name in enumerate(_DAYS)}
_MONTH_NAMES = {name[:3].upper(): number for number, name in enumerate(_MONTHS, 1)}
_WEEK = [1, 2, 3, 4, 5]
_MOST_TIMES = 6  # of a day that are listed
_ANY_YEAR = datetime(2025, 1, 1, tzinfo=UTC)


def cron_words(cron: str) -> str:
    """The description of a cron schedule; the schedule itself if there is no description."""
    try:
        rare = CronSim(cron, _ANY_YEAR).explain()
    except CronSimError:
        return cron
    fields = cron.split()
    # With six fields the last ones are not what they are with five.
    usual = _usual_words(*fields) if len(fields) == 5 else None
    return usual or (rare[:1].lower() + rare[1:])


def _usual_words(minute: str, hour: str, day: str, month: str, weekday: str) -> str | None:
    days = _days(day, month, weekday)
    if days is None:
        return None
    if (times := _times(minute, hour)) is not None:
        # "every day at 06:00" begins with the days, "every hour, on weekdays" with the hours.
        return f"{days[0] or 'every day'} at {_joined_words(times)}"
    interval = _interval(minute, hour)
    if interval is None:
        return None
    return f"{interval}, {days[1]}" if days[1] else interval


def _times(minute: str, hour: str) -> list[str] | None:
    """The few times of a day: of one minute in some hours, or some minutes of one hour."""
    minutes, hours = _numbers(minute), _numbers(hour)
    if minutes is None or hours is None or len(minutes) * len(hours) > _MOST_TIMES or "-" in hour + minute:
        return None
    return [_time(at, past) for at in hours for past in minutes]


def _interval(minute: str, hour: str) -> str | None:
    past, step = _number(minute), _step(minute, 60)
    if hour == "*" or (every := _step(hour, 24)) == 1:
        if past is not None:
            return f"every hour at minute {past}" if past else "every hour"
        return _every_words(step, "minute") if step is not None else None
    if every is not None:
        begins = f" at minute {past}" if past else ""
        return f"{_every_words(every, 'hour')}{begins}" if past is not None else None
    first, dash, last = hour.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        return None
    if past is not None:
        return f"every hour from {_time(int(first), past)} to {_time(int(last), past)}"
    if step is None:
        return None
    return f"{_every_words(step, 'minute')} from {_time(int(first), 0)} to {_time(int(last), 60 - step)}"


def _days(day: str, month: str, weekday: str) -> tuple[str, str] | None:
    """The days as written before a time and after an interval; empty for every day."""
    if weekday != "*":
        # With a day of the month too, either of them is enough: that is rare, and not said in few words.
        return _weekdays(weekday) if (day, month) == ("*", "*") else None
    if day == "*":
        return ("", "") if month == "*" else None
    if day.upper() == "L":
        day_words = "the last day"
    elif (numbers := _numbers(day)) is not None and "-" not in day:
        day_words = "the " + _joined_words([_ordinal(number) for number in numbers])
    else:
        return None
    if month == "*":
        return (f"on {day_words} of every month",) * 2
    months = _numbers(month, _MONTH_NAMES)
    if months is None or "-" in month:
        return None
    return (f"on {day_words} of {_joined_words([_MONTHS[number - 1] for number in months])}",) * 2


def _weekdays(weekday: str) -> tuple[str, str] | None:
    found = _numbers(weekday, _DAY_NAMES)
    if found is None:
        return None
    numbers = sorted({number % 7 for number in found})  # Sunday is 0, and 7
    if numbers == _WEEK:
        return "every weekday", "on weekdays"
    if len(numbers) == 7:
        return "", ""
    # A week begins on Monday.
    names = [_DAYS[number] for number in sorted(numbers, key=lambda number: number or 7)]
    return f"every {_joined_words(names)}", f"on {_joined_words([f'{name}s' for name in names])}"


def _numbers(field: str, names: dict[str, int] | None = None) -> list[int] | None:
    """The numbers of a list of numbers, names and ranges, in order; None for anything else."""
    found: set[int] = set()
    for part in field.split(","):
        first, dash, last = part.partition("-")
        ends = [_number(end, names) for end in ((first, last) if dash else (first, first))]
        if ends[0] is None or ends[1] is None:
            return None
        found |= set(range(ends[0], ends[1] + 1))
    return sorted(found)


def _number(text: str, names: dict[str, int] | None = None) -> int | None:
    return int(text) if text.isdecimal() else (names or {}).get(text.upper())


def _step(field: str, length: int) -> int | None:
    """The step of `*/5` where it divides the hour or the day: else the last span is shorter than the others."""
    if field == "*":
        return 1
    step = _number(field[2:]) if field.startswith("*/") else None
    return step if step and length % step == 0 and step < length else None


def _every_words(number: int, unit: str) -> str:
    return f"every {unit}" if number == 1 else f"every {number} {unit}s"


def _time(hour: int, minute: int) -> str:
    return f"{hour:02}:{minute:02}"


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _joined_words(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
