"""Programs: one run of a program, from its arguments to what it printed and how it ended. Also the search for processes
that left that session.

It runs in a session of its own and is killed as a group, and so is whatever it started outside of that, which carries
the mark of its run; its environment holds nothing of ours besides.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import Printed
from noetl.tools.python.child.processes import descendants, kill
from noetl.tools.sandbox import Sandbox, sandboxed

MAX_OUTPUT_BYTES = 1 << 20  # of each stream
# How long what was killed may still hold the output open.
LINGER_S = 0.5
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
_STDOUT, _STDERR = 1, 2
MARK = "NOETL_RUN"
_ROUNDS = 20  # who is killed may have started another meanwhile
# A program that is just starting shows no environment for some microseconds; it is looked at again after this.
_MOMENT_S = 0.01


class ShellProgram(msgspec.Struct, frozen=True, kw_only=True):
    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    cwd: str | None = None
    stdin: bytes | None = None
    limits: Mapping[str, Any] = {}
    sandbox: Sandbox | None = None
    printed: Printed | None = None  # is given what it prints, as it comes


class EndedProgram(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended. A negative `exit_code` is the signal that killed it."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool = False


class _Watching(asyncio.SubprocessProtocol):
    """Keeps the beginning of what is printed, and knows when the program itself has ended, apart from those it
    started, who may hold its streams open."""

    def __init__(self, printed: Printed | None) -> None:
        self._kept = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self._printed = printed
        self.truncated = False
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self._kept[fd]
        room = MAX_OUTPUT_BYTES - len(kept)
        kept += data[:room]
        self.truncated = self.truncated or len(data) > room
        if self._printed is not None:
            self._printed(data, "stdout" if fd == _STDOUT else "stderr")

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, problem: Exception | None) -> None:
        self.closed.set()

    def text(self, fd: int) -> str:
        return self._kept[fd].decode("utf-8", "replace")


async def run(program: ShellProgram, folder: Path) -> EndedProgram:
    """Run a program to its end, with `folder` for its temporary files. Cancelled, nothing of it is left."""
    since = now()
    transport, watching = await _started(program, folder)
    try:
        await watching.exited.wait()
    finally:
        await _end(transport, watching, run=folder.name, since=since)
    exit_code = transport.get_returncode()
    assert exit_code is not None, "it has exited"
    return EndedProgram(
        exit_code=exit_code,
        stdout=watching.text(_STDOUT),
        stderr=watching.text(_STDERR),
        truncated=watching.truncated,
    )


async def _started(program: ShellProgram, folder: Path) -> tuple[asyncio.SubprocessTransport, _Watching]:
    stdin = Path(os.devnull)
    if program.stdin is not None:
        stdin = folder / "stdin"
        stdin.write_bytes(program.stdin)
    command = guarded(program.argv, stdin=str(stdin), folder=str(folder), limits=program.limits)
    if program.sandbox is not None:
        command = await sandboxed(program.sandbox, command, folder=folder)
    try:
        return await asyncio.get_running_loop().subprocess_exec(
            lambda: _Watching(program.printed),
            *command,
            start_new_session=True,
            env={**_environment(), "TMPDIR": str(folder), **program.env, MARK: folder.name},
            cwd=program.cwd,
        )
    except OSError as problem:  # no such folder, arguments that are too long
        raise ToolError("shell.input", f"the command cannot be started: {problem}") from None


async def _end(transport: asyncio.SubprocessTransport, watching: _Watching, *, run: str, since: float) -> None:
    """End everything of the run, what the program left running as well, and take what it printed to the last."""
    # Listed before the kill: afterwards they are children of init, and nobody can tell whose they were.
    below = [] if watching.exited.is_set() else descendants(transport.get_pid())
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(transport.get_pid(), signal.SIGKILL)
    kill(below)
    await end_marked(run, since=since)
    await watching.exited.wait()
    if (held := transport.get_pipe_transport(0)) is not None:
        held.close()
    with suppress(TimeoutError):  # one that could not be found may hold the streams: it is not waited for
        async with asyncio.timeout(LINGER_S):
            await watching.closed.wait()
    transport.close()


def _environment() -> dict[str, str]:
    """What a program needs to start, and nothing of ours: no tokens, no settings."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


@asynccontextmanager
async def private_folder() -> AsyncIterator[Path]:
    """A folder of one run's own, gone with it, however much is in it."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-run-"))
    try:
        yield folder
    finally:
        # Shielded: a cancelled task leaves no folder behind.
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


# The guard: a few lines of `sh` that stand before a program, set its limits, and end it with its worker.
# Its standard input is a pipe that the worker holds open and never writes to. When that ends, because the worker was
# killed, everything in the session and everything with the mark of the run ends too: a task must not go on beside the
# one that takes its place.
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


# Marked processes: everything that a program started carries the mark of its run in its environment.
#
# A daemon makes a session of its own and so leaves the group that is killed; the mark stays with it. Looked for in
# /proc, where there is one. A process that is started with an empty environment cannot be found by it. One that is just
# becoming another program shows no environment for that moment, so whoever shows none is looked at again.


def now() -> float:
    """Seconds on the clock by which /proc tells when a process began."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


async def end_marked(run: str, *, since: float) -> None:
    """Kill every process of this run, in whatever session it is. `since` is when it began."""
    for _ in range(_ROUNDS):
        found, is_certain = looked_for(run, since)
        kill(found)
        if not found:
            if is_certain:
                return
            await asyncio.sleep(_MOMENT_S)


def looked_for(run: str, since: float) -> tuple[list[int], bool]:
    """The live processes that carry the mark of `run`, and whether no other that began since might."""
    wanted, found, is_certain = f"{MARK}={run}".encode(), list[int](), True
    for pid in _own_process_ids():
        environment = read(pid, "environ")
        if wanted in environment.split(b"\0"):
            found.append(pid)
        elif not environment and _is_running(pid) and _began(pid) >= since - 1:
            is_certain = False
    return found, is_certain


def _own_process_ids() -> list[int]:
    ours = os.getuid()
    with suppress(OSError), os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit() and _owner(entry) == ours]
    return []


def _owner(entry: os.DirEntry[str]) -> int | None:
    with suppress(OSError):  # it ended meanwhile
        return entry.stat().st_uid
    return None


def read(pid: int, what: str) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/{what}", "rb") as file:  # it may have ended, or not be for us to read
        return file.read()
    return b""


def _is_running(pid: int) -> bool:
    """Whether it is a program: one that has ended, and a thread of the kernel, has none."""
    with suppress(OSError):
        return bool(os.readlink(f"/proc/{pid}/exe"))
    return False


def _began(pid: int) -> float:
    fields = read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK") if len(fields) > 19 else 0.0
