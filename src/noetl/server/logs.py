"""Logs: one JSON object a line on standard error. What comes from outside is escaped and cut, and bodies and secrets
are never written (RELIABILITY 2.7).
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import MutableMapping, Sequence
from typing import Any

import structlog

from noetl.records.envelope import Event
from noetl.records.executions import PlaybookProcessed
from noetl.records.steps import StepFailed

LONGEST = 4_000  # characters of one value
_NAME = "noetl"

_SHARED: list[Any] = [
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    structlog.processors.format_exc_info,
]


def _logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger of ours, whatever else is configured in this process."""
    processors = [
        structlog.stdlib.filter_by_level,
        *_SHARED,
        cut,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ]
    wrapped: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name), processors=processors, wrapper_class=structlog.stdlib.BoundLogger
    )
    return wrapped


def configure_logging(level: int = logging.INFO) -> None:
    """Write log lines of this process as JSON, those of libraries too."""
    formatter = structlog.stdlib.ProcessorFormatter
    handler = logging.StreamHandler(sys.stderr)
    # every character past ASCII leaves as an escape, so that no control of a terminal survives
    renderer = structlog.processors.JSONRenderer(serializer=_ascii)
    handler.setFormatter(
        formatter(foreign_pre_chain=[*_SHARED, cut], processors=[formatter.remove_processors_meta, renderer])
    )
    handler.set_name(_NAME)
    root = logging.getLogger()
    for known in [one for one in root.handlers if one.name == _NAME]:
        root.removeHandler(known)
    root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger("uvicorn.access").disabled = True  # ours says the same with less
    logging.getLogger("httpx2").setLevel(logging.WARNING)


def cut(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """No value is longer than anybody reads."""
    for key, value in event.items():
        if isinstance(value, str) and len(value) > LONGEST:
            event[key] = value[:LONGEST] + "…"
    return event


def _ascii(event: Any, **options: Any) -> str:
    return json.dumps(event, ensure_ascii=True, **options)


log = _logger("noetl.server")


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
