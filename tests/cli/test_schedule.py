"""`noetl schedule`: what the clock starts, looked at and changed from the command line (TMR-01)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import call
from tests.cli.waiting_run import done, json_output, refused
from tests.engine_script import HEAD

DAILY = (
    HEAD
    + """\
trigger: {timer: {cron: "0 6 * * *", spec: {timezone: America/New_York, overlap: skip}}}
workflow: [{step: start, tool: {kind: noop}}]
"""
)
PATH = "tests/test"


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A store with one schedule."""
    (tmp_path / "daily.yaml").write_text(DAILY)
    db = str(tmp_path / "s.db")
    assert call("register", str(tmp_path / "daily.yaml"), "--db", db)[0] == 0
    return db


@pytest.mark.req("TMR-01")
def test_a_registered_playbook_with_a_trigger_is_scheduled(db: str) -> None:
    [schedule] = json_output(db, "schedule", "list")

    assert (schedule["path"], schedule["cron"], schedule["version"]) == (PATH, "0 6 * * *", 1)
    assert schedule["next"][0][10:19] == "T06:00:00"
    assert "America/New_York" in done(db, "schedule", "list")
    times = done(db, "schedule", "next", PATH, "-n", "3").split()
    assert [time[10:19] for time in times] == ["T06:00:00"] * 3
    as_json = json_output(db, "schedule", "next", PATH, "-n", "3")
    assert as_json in (times, done(db, "schedule", "next", PATH, "-n", "3").split()), "it may be six just now"


@pytest.mark.req("TMR-01")
def test_the_newest_registered_version_is_scheduled(db: str, tmp_path: Path) -> None:
    (tmp_path / "daily.yaml").write_text(DAILY.replace("0 6", "30 7"))
    call("register", str(tmp_path / "daily.yaml"), "--db", db)
    [schedule] = json_output(db, "schedule", "list")
    assert (schedule["cron"], schedule["version"]) == ("30 7 * * *", 2)

    (tmp_path / "daily.yaml").write_text("\n".join(line for line in DAILY.split("\n") if "trigger" not in line))
    call("register", str(tmp_path / "daily.yaml"), "--db", db)
    assert done(db, "schedule", "list") == "no schedules\n"


@pytest.mark.req("TMR-01")
def test_an_embedded_run_ignores_triggers(tmp_path: Path) -> None:
    (tmp_path / "daily.yaml").write_text(DAILY)
    db = str(tmp_path / "s.db")

    assert call("run", str(tmp_path / "daily.yaml"), "--db", db)[0] == 0

    assert done(db, "schedule", "list") == "no schedules\n"


def test_a_schedule_is_paused_and_resumed(db: str) -> None:
    assert done(db, "schedule", "pause", PATH) == f"paused the schedule of {PATH}\n"
    [schedule] = json_output(db, "schedule", "list")
    assert (schedule["paused"], schedule["next"]) == (True, [])
    assert "it is paused" in done(db, "schedule", "next", PATH)

    assert done(db, "schedule", "resume", PATH) == f"resumed the schedule of {PATH}\n"
    assert json_output(db, "schedule", "list")[0]["next"] is not None
    assert '"tests/other" has no schedule' in refused(db, "schedule", "pause", "tests/other")


@pytest.mark.req("TMR-01")
def test_a_backfill_can_be_previewed(db: str) -> None:
    span = ("--from", "2025-03-08", "--to", "2025-03-10T05:59")

    shown = done(db, "schedule", "backfill", PATH, *span, "--dry-run")
    assert shown == ("2025-03-08T06:00:00-05:00\n2025-03-09T06:00:00-04:00\n2 of 2 times to run, 0 have run\n"), (
        "the clocks changed between them"
    )
    assert "backfill" not in done(db, "schedule", "list")

    assert "2 of 2 times to run, 0 have run" in done(db, "schedule", "backfill", PATH, *span)
    assert f"backfill of {PATH}: 0 started" in done(db, "schedule", "list")


def test_invalid_times_are_refused(db: str) -> None:
    code, _, stderr = call("schedule", "backfill", PATH, "--from", "yesterday", "--db", db)
    assert code == 2
    assert '"yesterday" is not a time such as' in stderr
