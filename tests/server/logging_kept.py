"""Restores the logging of the test process: `serve` and `configure_logging` change it for the whole process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LIBRARIES = ("uvicorn.access", "httpx2")


@contextmanager
def logging_kept() -> Iterator[None]:
    root, libraries = logging.getLogger(), [logging.getLogger(name) for name in _LIBRARIES]
    handlers, level = list(root.handlers), root.level
    before = [(one.level, one.disabled) for one in libraries]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for one, (its_level, is_disabled) in zip(libraries, before, strict=True):
            one.setLevel(its_level)
            one.disabled = is_disabled
