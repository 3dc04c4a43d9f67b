"""Protection of this process: what it knows is not for programs that run as the same user (reliability.md §2.6).

Code of playbooks runs as the user of its worker, if not in a sandbox. Such a program could read the environment and
the memory of the worker from /proc. Only a process that is NoETL's own is changed, not one that has it as a library.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

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
