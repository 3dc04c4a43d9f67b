"""Logs: one JSON object per line on standard error. Values from outside are escaped and cut; bodies and secrets are
never logged (reliability.md §2.7).

This uses only the standard library: importing a logging package took 0.3 s of a server's start.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from noetl.events.envelope import Event
from noetl.events.executions import PlaybookProcessed
from noetl.events.steps import StepFailed

LONGEST = 4_000  # characters of one value
_NAME = "noetl"
_FIELDS = "noetl_fields"


class Log:
    """Logs an event name with fields."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._log(logging.ERROR, event, fields)

    def _log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            exc_info = fields.pop("exc_info", None)
            self._logger.log(level, "%s", event, extra={_FIELDS: fields}, exc_info=exc_info)


class JsonLines(logging.Formatter):
    """Formats a log record, also of libraries, as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {"event": record.getMessage(), **getattr(record, _FIELDS, {})}
        fields["level"] = record.levelname.lower()
        fields["ts"] = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # All characters beyond ASCII are escaped, so that no control sequence reaches a terminal.
        return json.dumps({key: cut(value) for key, value in fields.items()}, ensure_ascii=True, default=repr)


def cut(value: Any) -> Any:
    """The value, cut to LONGEST characters."""
    return value[:LONGEST] + "…" if isinstance(value, str) and len(value) > LONGEST else value


def configure_logging(level: int = logging.INFO) -> None:
    """Write the log lines of this process, also of libraries, as JSON."""
    json_handler = logging.StreamHandler(sys.stderr)
    json_handler.setFormatter(JsonLines())
    # A second call replaces the handler of this name: several servers in one process (tests) log each line once.
    json_handler.set_name(_NAME)
    root = logging.getLogger()
    for earlier in [handler for handler in root.handlers if handler.name == _NAME]:
        root.removeHandler(earlier)
    root.addHandler(json_handler)
    root.setLevel(level)
    # `Observer` logs requests already.
    logging.getLogger("uvicorn.access").disabled = True
    # It logs each request with its URL, and a URL may contain a secret.
    logging.getLogger("httpx2").setLevel(logging.WARNING)


log = Log("noetl.server")


def log_ends(events: Sequence[Event]) -> None:
    """Log ended executions and failed steps by id, without their data."""
    for event in events:
        match event.payload:
            case PlaybookProcessed(status=status, error=error):
                kind = error.kind if error is not None else None
                log.info("execution.ended", execution_id=event.execution_id, status=status.value, error=kind)
            case StepFailed(error=error):
                run = {"step": event.step, "step_run_id": event.step_run_id}
                log.info("step.failed", execution_id=event.execution_id, **run, error=error.kind)
