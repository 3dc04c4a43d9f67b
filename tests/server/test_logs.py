"""Log lines are JSON without terminal control characters, and never contain the content of a request (reliability.md
§2.7)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from noetl.base.errors import RefusedError
from noetl.server.configuration import ServerSettings
from noetl.server.logs import LONGEST, configure_logging, log
from noetl.server.server_process import log_level
from tests.server.logging_kept import logging_kept
from tests.server.talking import talking


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    text = io.StringIO()
    monkeypatch.setattr("sys.stderr", text)
    with logging_kept():
        configure_logging()
        yield text


def test_terminal_control_characters_are_escaped(written: io.StringIO) -> None:
    log.info("request", path="/a\x1b[31m\x9b\u202e\n{}")
    logging.getLogger("elsewhere").warning("line\r\n\x1b]0;x\x07")
    lines = written.getvalue().splitlines()

    assert len(lines) == 2
    for line in lines:
        assert line.isascii()
        assert line.isprintable()
    assert json.loads(lines[0])["path"] == "/a\x1b[31m\x9b\u202e\n{}"
    assert json.loads(lines[1])["level"] == "warning"


def test_long_values_are_truncated(written: io.StringIO) -> None:
    log.info("request", path="x" * 100_000)

    assert len(json.loads(written.getvalue())["path"]) == LONGEST + 1


def test_configuring_logging_twice_logs_once(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", written)  # pytest has put its own there meanwhile
    configure_logging()
    log.info("once")

    assert len(written.getvalue().splitlines()) == 1


async def test_a_request_is_logged_in_one_line_without_its_contents(written: io.StringIO) -> None:
    async with talking(workers=0) as talk:
        await talk.client.post("/api/validate?note=in-the-query", json={"source": "correct-horse: battery"})
        await talk.client.get("/api/health/live")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    asked = [line for line in lines if line["event"] == "request"]

    assert [(line["path"], line["status"]) for line in asked] == [("/api/validate", 200)]
    assert "horse" not in written.getvalue()
    assert "in-the-query" not in written.getvalue()
    assert "noetl_first" not in written.getvalue()


@pytest.mark.parametrize(
    ("chosen", "local", "level"),
    [("info", False, "INFO"), ("info", True, "WARNING"), ("error", True, "ERROR"), ("debug", True, "DEBUG")],
)
def test_a_server_logs_at_the_chosen_level(chosen: str, local: bool, level: str) -> None:
    """At a terminal what happens as it should is left out, unless everything is asked for."""
    assert logging.getLevelName(log_level(ServerSettings(log_level=chosen, local=local))) == level


def test_an_unknown_log_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RefusedError, match='debug, info, warning or error, found "loud"'):
        log_level(ServerSettings(log_level="loud"))
