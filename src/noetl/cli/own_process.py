"""The process of a server or worker: its event loop, how often it looks for garbage, and its protection.

Python looks for cycles after every 700 new objects, which is several times a step: a fifth of the time of a server with
a crowd of executions. What servers and workers leave behind has hardly any cycles, so they look far less often, and
never again at what was there from the start.

Code of playbooks runs as the user of its worker, if not in a sandbox. Such a program could read the environment and the
memory of the worker from /proc (reliability.md §2.6). Only a process that is NoETL's own is changed, not one that has
it as a library.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio  # a tenth of what a short command loads, and every command loads this module


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not on every system
        import asyncio

        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


NEW_OBJECTS = 50_000  # some 10 MiB; nearly all of them are freed at once when nobody has them any more
_YOUNGER, _OLDER = 20, 20


def stop_looking() -> None:
    """Look for no cycles until `look_rarely`: a run loads its engine first, which leaves none."""
    if is_own_process:
        gc.disable()


def look_rarely() -> None:
    """From now on, once what is needed for the life of the process is loaded."""
    if not is_own_process:
        return
    gc.enable()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, _YOUNGER, _OLDER)


@contextmanager
def not_looking() -> Iterator[None]:
    """Look for no cycles meanwhile: while a program is loaded, there is nothing to be found."""
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()


# PR_SET_DUMPABLE of prctl(2): 0 keeps other processes of the same user from reading this one's memory.
_SET_DUMPABLE = 4

is_own_process = False  # set by the entry point of the installed command


def protect(*variables: str) -> None:
    """Take the master key, and these variables, out of the environment, and let no process of this user read this
    one: neither its memory nor the environment it was started with. It leaves no core file either."""
    if not is_own_process:
        return
    from noetl.secrets.master_keys import take_from_environment

    take_from_environment()
    for variable in variables:
        os.environ.pop(variable, None)
    if sys.platform == "linux":
        with suppress(Exception):  # a system that does not know of it
            import ctypes

            ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
