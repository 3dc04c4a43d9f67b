"""The process of a server or worker: its event loop, its garbage collection, and its protection.

Python collects garbage after every 700 new objects, several times a step: a fifth of the time of a busy server. Servers
and workers create hardly any cycles, so they collect far less often, and never examine objects from their start again.

Code of playbooks runs as the user of its worker, unless in a sandbox. Such code could read the environment and the
memory of the worker from /proc (reliability.md §2.6). Only a process of the `noetl` command is changed, not one that
imports NoETL as a library.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Not imported at run time: it is a tenth of what a short command loads, and every command loads this module.
    import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not on every system
        import asyncio

        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


# About 10 MiB of new objects; reference counting frees nearly all of them without a collection.
NEW_OBJECTS = 50_000
_YOUNGER, _OLDER = 20, 20


def pause_collection() -> None:
    """Disable collection until `tune_collection`: loading the engine of a run creates no cycles."""
    if is_own_process:
        gc.disable()


def tune_collection() -> None:
    """Collect rarely from now on. Call this when everything that the process needs is loaded."""
    if not is_own_process:
        return
    gc.enable()
    # Loaded objects stay for the life of the process: no collection examines them again.
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, _YOUNGER, _OLDER)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Disable collection in the block: imports create no cycles."""
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()


# PR_SET_DUMPABLE of prctl(2): 0 prevents other processes of the same user from reading this one's memory.
_SET_DUMPABLE = 4

# Set by the entry point of the installed command.
is_own_process = False


def protect(*variables: str) -> None:
    """Remove the master key and these variables from the environment, and prevent other processes of this user from
    reading the memory and the initial environment of this one. It writes no core file either."""
    if not is_own_process:
        return
    from noetl.secrets.encryption import take_from_environment

    take_from_environment()
    for variable in variables:
        os.environ.pop(variable, None)
    if sys.platform == "linux":
        # Not every system supports the call.
        with suppress(Exception):
            import ctypes

            ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
