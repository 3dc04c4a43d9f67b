"""Cron schedules in words: usual ones, rare ones, and those for which there are none."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, product

import pytest
from cronsim import CronSim

from noetl.operations.cron_words import cron_words

USUAL = {
    "* * * * *": "every minute",
    "*/1 * * * *": "every minute",
    "*/5 * * * *": "every 5 minutes",
    "*/15 * * * *": "every 15 minutes",
    "*/30 * * * 1-5": "every 30 minutes, on weekdays",
    "0 * * * *": "every hour",
    "15 * * * *": "every hour at minute 15",
    "0 */2 * * *": "every 2 hours",
    "30 */6 * * *": "every 6 hours at minute 30",
    "0 */1 * * *": "every hour",
    "0 6 * * *": "every day at 06:00",
    "30 2 * * *": "every day at 02:30",
    "0 6,18 * * *": "every day at 06:00 and 18:00",
    "0,30 6 * * *": "every day at 06:00 and 06:30",
    "0 4,8,12 * * *": "every day at 04:00, 08:00 and 12:00",
    "0 6 * * 1-5": "every weekday at 06:00",
    "0 6 * * MON-FRI": "every weekday at 06:00",
    "0 6 * * mon,tue,wed,thu,fri": "every weekday at 06:00",
    "0 6 * * 1": "every Monday at 06:00",
    "0 6 * * 0": "every Sunday at 06:00",
    "0 6 * * 7": "every Sunday at 06:00",
    "0 6 * * 6,0": "every Saturday and Sunday at 06:00",
    "0 6 * * 1,3,5": "every Monday, Wednesday and Friday at 06:00",
    "0 6 * * 0-6": "every day at 06:00",
    "0 * * * 6": "every hour, on Saturdays",
    "0 0 1 * *": "on the 1st of every month at 00:00",
    "0 0 1,15 * *": "on the 1st and 15th of every month at 00:00",
    "0 0 2,3,11,12,13,22,31 * *": "on the 2nd, 3rd, 11th, 12th, 13th, 22nd and 31st of every month at 00:00",
    "0 0 L * *": "on the last day of every month at 00:00",
    "0 0 1 1 *": "on the 1st of January at 00:00",
    "0 0 1 1,4,7,10 *": "on the 1st of January, April, July and October at 00:00",
    "0 0 1 jan *": "on the 1st of January at 00:00",
    "*/10 8-17 * * 1-5": "every 10 minutes from 08:00 to 17:50, on weekdays",
    "* 8-9 * * *": "every minute from 08:00 to 09:59",
    "0 8-17 * * 1-5": "every hour from 08:00 to 17:00, on weekdays",
    "30 8-17 * * *": "every hour from 08:30 to 17:30",
}
RARE = {
    "*/7 * * * *": "every seventh minute of every hour",  # 56 minutes past, then 0
    "0 */5 * * *": "at minute 0 past every fifth hour",
    "5/10 * * * *": "every 10th minute from 5 through 59 of every hour",
    "10-20 * * * *": "every minute from 10 through 20 of every hour",
    "0 0 13 * 5": "at 00:00 on the 13th day of month and on Friday",  # either
    "0 0 */2 * *": "at 00:00 on every second day of month",
    "0 9 1-7 * *": "at 09:00 on every day of month from 1 through 7",
    "0 0 LW * *": "at 00:00 on the last weekday of every month",
    "0 8 * * 1#1": "at 08:00 on the first Monday of the month",
    "0 8 * * 5L": "at 08:00 on the last Friday of the month",
    "0 0 1 */3 *": "at 00:00 on the first day of every third month",
    "0 6 * 6-8 *": "at 06:00 in every month from June through August",
    "0 0 * * */2": "at 00:00 on every second day of week",
}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ODD = ("", "soon", "@daily", "61 * * * *", "0 0 31 2 *", "0 6 * *", "* * * * * * *")


@pytest.mark.parametrize(("cron", "words"), [*USUAL.items(), *RARE.items()])
def test_a_cron_expression_is_described_in_words(cron: str, words: str) -> None:
    assert cron_words(cron) == words


@pytest.mark.parametrize("cron", ODD)
def test_an_invalid_cron_expression_is_shown_unchanged(cron: str) -> None:
    assert cron_words(cron) == cron


FIELDS = (
    ("*", "0", "5", "*/5", "*/7", "0,30", "10-20"),
    ("*", "0", "6", "*/2", "*/5", "6,18", "8-17"),
    ("*", "1", "1,15", "L", "1-7"),
    ("*", "1", "1,7", "6-8"),
    ("*", "1", "1-5", "0,6", "sat,sun", "7", "5L"),
)


def test_two_schedules_with_the_same_description_have_the_same_times() -> None:
    by_words: dict[str, list[str]] = {}
    for cron in map(" ".join, product(*FIELDS)):
        by_words.setdefault(cron_words(cron), []).append(cron)

    for words, crons in by_words.items():
        first, *others = (list(islice(CronSim(cron, BEGIN), 20)) for cron in crons)
        assert all(times == first for times in others), (words, crons)
    assert len(by_words) < len(list(product(*FIELDS))), "some are written in two ways"
