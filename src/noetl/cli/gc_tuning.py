"""How often a process that lives long looks for cycles among its objects.

Python looks after every 700 new objects, which is several times a step: a fifth of the time of a server with a crowd of
executions. What servers and workers leave behind has hardly any cycles, so they look far less often, and never again at
what was there from the start.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 50_000  # some 10 MiB; nearly all of them are freed at once when nobody has them any more
_YOUNGER, _OLDER = 20, 20


def look_rarely() -> None:
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, _YOUNGER, _OLDER)


@contextmanager
def not_looking() -> Iterator[None]:
    """Look for no cycles meanwhile: while a program is loaded, there is nothing to be found."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
