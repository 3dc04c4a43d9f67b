"""Programs: one run of a program, from its arguments to its output and exit code.

A program runs in its own session and is killed as a group. Processes that it started in other sessions are killed too:
they carry the mark of the run in their environment. Tokens and settings of the worker are not in that environment.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import OutputWriter
from noetl.tools.python.child.condition import descendants, kill, threads_of_user
from noetl.tools.sandbox import TMP, Sandbox, sandbox_command, variables_file
from noetl.tools.sandbox_limits import read_proc, watched

MAX_OUTPUT_BYTES = 1 << 20  # of each stream
# How long a process that could not be found may hold the output open.
LINGER_S = 0.5
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
_STDOUT, _STDERR = 1, 2
MARK = "NOETL_RUN"
_ROUNDS = 20  # a process may have started another one before it was killed
# A program that is just starting has no environment for some microseconds; it is read again after this delay.
_RECHECK_S = 0.01


class ShellProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program to run, with its input, environment and limits."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    cwd: str | None = None
    stdin: bytes | None = None
    limits: Mapping[str, Any] = {}
    sandbox: Sandbox | None = None
    write_output: OutputWriter | None = None  # receives the output as it is read


class EndedProgram(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended. A negative `exit_code` is the signal that killed it."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool = False


class _OutputProtocol(asyncio.SubprocessProtocol):
    """Keeps the beginning of the output, and knows when the program itself has ended. Processes that it started may
    hold its streams open for longer."""

    def __init__(self, write_output: OutputWriter | None) -> None:
        self._kept = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self._write_output = write_output
        self.truncated = False
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self._kept[fd]
        room = MAX_OUTPUT_BYTES - len(kept)
        kept += data[:room]
        self.truncated = self.truncated or len(data) > room
        if self._write_output is not None:
            self._write_output(data, "stdout" if fd == _STDOUT else "stderr")

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, problem: Exception | None) -> None:
        self.closed.set()

    def text(self, fd: int) -> str:
        return self._kept[fd].decode("utf-8", "replace")


async def run(program: ShellProgram, folder: Path) -> EndedProgram:
    """Run a program to its end, with `folder` for its temporary files. If cancelled, it leaves no process. Raises
    ToolError `sandbox.limit` if its processes in a sandbox used more than its limits together."""
    since = boot_clock_s()
    transport, protocol = await _start(program, folder)
    try:
        async with watched(transport.get_pid(), program.limits, is_sandboxed=program.sandbox is not None) as watch:
            await protocol.exited.wait()
    finally:
        await _end(transport, protocol, run=folder.name, since=since)
    watch.raise_excess()
    exit_code = transport.get_returncode()
    assert exit_code is not None, "it has exited"
    return EndedProgram(
        exit_code=exit_code,
        stdout=protocol.text(_STDOUT),
        stderr=protocol.text(_STDERR),
        truncated=protocol.truncated,
    )


async def _start(program: ShellProgram, folder: Path) -> tuple[asyncio.SubprocessTransport, _OutputProtocol]:
    # A file and not the pipe: the pipe is the guard's sign of life of the worker.
    stdin = Path(os.devnull)
    if program.stdin is not None:
        stdin = folder / "stdin"
        stdin.write_bytes(program.stdin)
    command = guarded_command(program.argv, stdin=str(stdin), folder=str(folder), limits=program.limits)
    own, fds = {**_environment(), MARK: folder.name}, list[int]()
    with ExitStack() as stack:
        if program.sandbox is None:
            own = {**own, "TMPDIR": str(folder), **program.env, MARK: folder.name}
        else:
            fds.append(stack.enter_context(variables_file({"TMPDIR": TMP, **program.env, MARK: folder.name})))
            # It can only read its input there: the folder is on the disk of the machine, which it could fill.
            command = await sandbox_command(program.sandbox, command, reads=[str(folder)], variables_fd=fds[0])
        try:
            return await asyncio.get_running_loop().subprocess_exec(
                lambda: _OutputProtocol(program.write_output),
                *command,
                start_new_session=True,
                env=own,
                cwd=program.cwd,
                pass_fds=fds,
            )
        except OSError as problem:  # no such folder, arguments that are too long
            raise ToolError("shell.input", f"the command cannot be started: {problem}") from None


async def _end(transport: asyncio.SubprocessTransport, protocol: _OutputProtocol, *, run: str, since: float) -> None:
    """Kill all processes of the run, also those that the program left running, and read the rest of the output."""
    # Listed before the kill: afterwards they are children of init, and cannot be distinguished from other processes.
    below = [] if protocol.exited.is_set() else descendants(transport.get_pid())
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(transport.get_pid(), signal.SIGKILL)
    kill(below)
    await kill_marked(run, since=since)
    await protocol.exited.wait()
    if (stdin := transport.get_pipe_transport(0)) is not None:
        stdin.close()
    with suppress(TimeoutError):  # a process that could not be found may hold the streams open
        async with asyncio.timeout(LINGER_S):
            await protocol.closed.wait()
    transport.close()


def _environment() -> dict[str, str]:
    """The variables that a program needs to start, without tokens or settings of ours."""
    return {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}


@asynccontextmanager
async def private_folder() -> AsyncIterator[Path]:
    """A temporary folder for one run, deleted with all its content at the end."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-run-"))
    try:
        yield folder
    finally:
        # In a thread, since a large folder takes long. Shielded, so that a cancelled task leaves no folder behind.
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


# The guard: a few lines of `sh` before the program that set its limits and end it with its worker.
# Its standard input is a pipe that the worker holds open and never writes to. When the pipe closes, because the worker
# was killed, the guard kills the session and all processes with the mark of the run: a task must not run on beside the
# attempt that replaces it.
OPEN_FILES = 1024
# The watcher carries the mark as well, so it must skip itself; `kill 0` ends the session, itself included.
# It searches twice: a process in the middle of `exec` has no environment for a moment.
_KILL_MARKED = (
    "read self _ </proc/self/stat; for look in 1 2; do "
    f'for file in $(grep -lsxaz "{MARK}=${MARK}" /proc/[0-9]*/environ); do '
    'pid=${file#/proc/}; pid=${pid%/environ}; [ "$pid" = "$self" ] || kill -KILL "$pid"; done; sleep 0.2; done'
)
_WATCH = f'( ( read _ <&3; rm -rf -- "$folder"; {_KILL_MARKED}; kill -KILL 0 ) >/dev/null 2>&1 & )'


def guarded_command(program: Sequence[str], *, stdin: str, folder: str, limits: Mapping[str, Any]) -> list[str]:
    """The command that runs `program` with the file `stdin` as its standard input. The guard deletes `folder` if the
    worker dies."""
    text = f'exec 3<&0 <"$1"; folder=$2; shift 2; {_WATCH}; exec 3<&-; {_limits(limits)}exec "$@"'
    return ["/bin/sh", "-c", text, "sh", stdin, folder, *program]


def _limits(limits: Mapping[str, Any]) -> str:
    """The limits as `ulimit` commands. A refused one is ignored: it is above the present limit, which is tighter."""
    options = ["-c 0", f"-n {limits.get('open_files', OPEN_FILES)}"]
    if (size := limits.get("file_bytes")) is not None:
        options.append(f"-f {max(int(size) >> 9, 1)}")  # in blocks of 512 bytes
    if (memory := limits.get("memory_bytes")) is not None:
        options.append(f"-v {max(int(memory) >> 10, 1)}")
    if (cpu := limits.get("cpu_s")) is not None:
        seconds = max(int(cpu + 0.999), 1)
        options += [f"-S -t {seconds}", f"-H -t {seconds + 1}"]
    commands = [f"ulimit {option}" for option in options]
    if (processes := limits.get("processes")) is not None:
        # The system counts all processes and threads of the user. The option has two names: -p in dash, -u elsewhere.
        number = threads_of_user() + processes
        commands.append(f"ulimit -u {number} 2>/dev/null || ulimit -p {number}")
    return "".join(f"{command} 2>/dev/null; " for command in commands)


# Marked processes: all descendants of a program carry the mark of its run in their environment.
#
# A daemon makes a session of its own and so leaves the group that is killed, but it keeps the mark. The search reads
# /proc, on systems that have it. It cannot find a process that was started with an empty environment. A process in the
# middle of `exec` has no environment for a moment, so a process without one is read again.


def boot_clock_s() -> float:
    """Seconds on the clock that /proc uses for the start times of processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


async def kill_marked(run: str, *, since: float) -> None:
    """Kill every process of a run, in any session. `since` is the start time of the run."""
    for _ in range(_ROUNDS):
        pids, is_certain = marked_processes(run, since)
        kill(pids)
        if not pids:
            if is_certain:
                return
            await asyncio.sleep(_RECHECK_S)


def marked_processes(run: str, since: float) -> tuple[list[int], bool]:
    """The processes with the mark of `run`, and whether no other process that began since then can have it."""
    mark, pids, is_certain = f"{MARK}={run}".encode(), list[int](), True
    for pid in _own_process_ids():
        environment = read_proc(pid, "environ")
        if mark in environment.split(b"\0"):
            pids.append(pid)
        elif (
            not environment and _is_running(pid) and _started_at(pid) >= since - 1
        ):  # one second for the resolution of the clocks
            is_certain = False
    return pids, is_certain


def _own_process_ids() -> list[int]:
    ours = os.getuid()
    with suppress(OSError), os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit() and _owner(entry) == ours]
    return []


def _owner(entry: os.DirEntry[str]) -> int | None:
    with suppress(OSError):  # it ended meanwhile
        return entry.stat().st_uid
    return None


def _is_running(pid: int) -> bool:
    """Whether a process runs a program; zombies and kernel threads do not."""
    with suppress(OSError):
        return bool(os.readlink(f"/proc/{pid}/exe"))
    return False


def _started_at(pid: int) -> float:
    fields = read_proc(pid, "stat").rpartition(b")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK") if len(fields) > 19 else 0.0
