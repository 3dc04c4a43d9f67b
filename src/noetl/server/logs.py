"""Logs: one JSON object a line on standard error. What comes from outside is escaped and cut, and bodies and secrets
are never written (reliability.md §2.7).

A line is made by the standard library alone: importing a logging package took 0.3 s of a server's start.
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
    """Says what happened in a few words, and with which values."""

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
    """A record as one line, those of libraries too."""

    def format(self, record: logging.LogRecord) -> str:
        told = {"event": record.getMessage(), **getattr(record, _FIELDS, {})}
        told["level"] = record.levelname.lower()
        told["ts"] = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        # every character past ASCII leaves as an escape, so that no control of a terminal survives
        return json.dumps({key: cut(value) for key, value in told.items()}, ensure_ascii=True, default=repr)


def cut(value: Any) -> Any:
    """No value is longer than anybody reads."""
    return value[:LONGEST] + "…" if isinstance(value, str) and len(value) > LONGEST else value


def configure_logging(level: int = logging.INFO) -> None:
    """Write log lines of this process as JSON, those of libraries too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.set_name(_NAME)
    root = logging.getLogger()
    for known in [one for one in root.handlers if one.name == _NAME]:
        root.removeHandler(known)
    root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger("uvicorn.access").disabled = True  # ours says the same with less
    logging.getLogger("httpx2").setLevel(logging.WARNING)


log = Log("noetl.server")


def log_ends(events: Sequence[Event]) -> None:
    """Executions that end and steps that fail, by their ids; what they worked on is not told."""
    for event in events:
        match event.payload:
            case PlaybookProcessed(status=status, error=error):
                kind = error.kind if error is not None else None
                log.info("execution.ended", execution_id=event.execution_id, status=status.value, error=kind)
            case StepFailed(error=error):
                run = {"step": event.step, "step_run_id": event.step_run_id}
                log.info("step.failed", execution_id=event.execution_id, **run, error=error.kind)
