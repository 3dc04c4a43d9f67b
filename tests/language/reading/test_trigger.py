"""The root trigger: schedules and zones that exist, and what is said of those that do not."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Diagnostic, Findings
from noetl.language.reading.nodes import data
from noetl.language.reading.playbook import Dialect, TriggerSyntax
from noetl.language.reading.shared_checks import ReadContext
from noetl.language.reading.trigger import read_trigger
from tests.language.v2_case.case_text import codes, root_of


def read(text: str) -> tuple[TriggerSyntax | None, list[Diagnostic]]:
    reading = ReadContext(Dialect.V10, Findings())
    trigger = read_trigger(reading, root_of(text).get("trigger"))
    return trigger, list(reading.findings)


@pytest.mark.req("TMR-01")
def test_a_schedule_has_a_time_zone_and_options() -> None:
    trigger, found = read(
        """
        trigger:
          timer:
            cron: "0 6 * * *"
            spec: {timezone: America/New_York, missed: all, overlap: skip, jitter: 30s}
        """
    )

    assert found == []
    assert trigger is not None
    assert (trigger.cron.value, data(trigger.timezone)) == ("0 6 * * *", "America/New_York")
    assert data(trigger.spec)["overlap"] == "skip"


@pytest.mark.req("TMR-01")
def test_a_cron_nickname_is_expanded_to_five_fields() -> None:
    trigger, found = read('trigger: {timer: {cron: "@daily"}}')

    assert found == []
    assert trigger is not None
    assert trigger.cron.value == "0 0 * * *"


@pytest.mark.req("TMR-01")
@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        ('{timer: {cron: "61 * * * *"}}', "the minute is 0-59"),
        ('{timer: {cron: "0 0 30 2 *"}}', "that day never comes: its months have fewer days"),
        ('{timer: {cron: "0 0 32 2 *"}}', "the day of the month is 1-31"),
        ('{timer: {cron: "* * *"}}', "wrong number of fields"),
        ('{timer: {cron: "* * * * * *"}}', "wrong number of fields"),
        ('{timer: {cron: "@fortnightly"}}', "not a schedule"),
        ('{timer: {cron: "{{ when }}"}}', "not a cron schedule"),
        ("{timer: {cron: 5}}", "must be text"),
        ("{timer: {spec: {timezone: UTC}}}", "no cron schedule"),
        ('{timer: {cron: "0 6 * * *", spec: {timezone: America/New_Yrok}}}', "not a time zone"),
        ('{timer: {cron: "0 6 * * *", spec: {timezone: ../../etc}}}', "not a time zone"),
        ('{timer: {cron: "0 6 * * *", spec: {timezone: America}}}', "not a time zone"),
        ('{timer: {cron: "0 6 * * *", spec: {missed: some}}}', "all, last, none"),
        ('{timer: {cron: "0 6 * * *", spec: {overlap: wait}}}', "skip, queue, allow"),
        ('{timer: {cron: "0 6 * * *", spec: {jitter: some}}}', "must be a duration"),
        ('{timer: {cron: "0 6 * * *", spec: {jitter: "{{ x }}"}}}', "a template"),
        ('{timer: {cron: "0 6 * * *", zone: UTC}}', "not a key"),
        ('{timer: {cron: "0 6 * * *"}, webhook: {}}', "not a key"),
        ("{}", "no timer"),
        ("daily", "must be a mapping"),
    ],
)
def test_an_invalid_schedule_is_refused(trigger: str, words: str) -> None:
    _, found = read(f"trigger: {trigger}")

    assert codes(found) == ["E_TRIGGER"]
    assert words in found[0].message
