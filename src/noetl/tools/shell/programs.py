"""Programs: one run of a program, from its arguments to what it printed and how it ended.

It runs in a session of its own and is killed as a group, and so is whatever it started outside of that, which carries
the mark of its run; its environment holds nothing of ours besides.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import Printed
from noetl.tools.python.child.processes import descendants, kill
from noetl.tools.sandbox import Sandbox, sandboxed
from noetl.tools.shell.marked_processes import MARK, end_marked, now

MAX_OUTPUT_BYTES = 1 << 20  # of each stream
# How long what was killed may still hold the output open.
LINGER_S = 0.5
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
_STDOUT, _STDERR = 1, 2


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
