"""The guard: a few lines of `sh` that stand before a program, set its limits, and end it with its worker.

Its standard input is a pipe that the worker holds open and never writes to. When that ends, because the worker was
killed, everything in the session and everything with the mark of the run ends too: a task must not go on beside the
one that takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl.tools.shell.marked_processes import MARK

OPEN_FILES = 1024

# The watcher carries the mark as well, so it must know itself; `kill 0` is the end of the session, its own too.
# It looks twice: a process that is just becoming another program shows no environment for that moment.
_MARKED = (
    "read self _ </proc/self/stat; for look in 1 2; do "
    f'for file in $(grep -lsxaz "{MARK}=${MARK}" /proc/[0-9]*/environ); do '
    'pid=${file#/proc/}; pid=${pid%/environ}; [ "$pid" = "$self" ] || kill -KILL "$pid"; done; sleep 0.2; done'
)
_WATCH = f'( ( read _ <&3; rm -rf -- "$folder"; {_MARKED}; kill -KILL 0 ) >/dev/null 2>&1 & )'


def guarded(program: Sequence[str], *, stdin: str, folder: str, limits: Mapping[str, Any]) -> list[str]:
    """The command that runs `program` with the file `stdin` as its standard input; `folder` goes with the worker."""
    text = f'exec 3<&0 <"$1"; folder=$2; shift 2; {_WATCH}; exec 3<&-; {_limits(limits)}exec "$@"'
    return ["/bin/sh", "-c", text, "sh", stdin, folder, *program]


def _limits(limits: Mapping[str, Any]) -> str:
    """Limits as `ulimit` sets them. One that is refused is above what holds already, and that is tighter."""
    wanted = ["-c 0", f"-n {limits.get('open_files', OPEN_FILES)}"]
    if (size := limits.get("file_bytes")) is not None:
        wanted.append(f"-f {max(int(size) >> 9, 1)}")  # in blocks of 512 bytes
    if (memory := limits.get("memory_bytes")) is not None:
        wanted.append(f"-v {max(int(memory) >> 10, 1)}")
    if (cpu := limits.get("cpu_s")) is not None:
        seconds = max(int(cpu + 0.999), 1)
        wanted += [f"-S -t {seconds}", f"-H -t {seconds + 1}"]
    return "".join(f"ulimit {limit} 2>/dev/null; " for limit in wanted)
