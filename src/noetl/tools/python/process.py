"""Child processes of the `python` tool, from the worker's side: the output, one child, all children of a worker.

A child answers calls over a socket and is killed as a group. One whose call was cancelled, or that broke the protocol,
is never used again. A child is reused for further tasks of its execution, never for another execution (design.md §8).
Idle ones end with their execution, after a while, or when there are many.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import OutputWriter
from noetl.tools.python.child.condition import descendants, kill
from noetl.tools.python.template import (
    ANSWER_S,
    ENTRY,
    HAS_TEMPLATES,
    Ended,
    TemplateClient,
    TemplateGoneError,
    environment,
)
from noetl.tools.sandbox import Sandbox, sandbox_command
from noetl.tools.sandbox_limits import TaskWatch, watched

LIMIT = 64 * 1024  # characters of output in the outcome; also the bytes that a pipe holds
_MAX_KEPT_BYTES = 4 * LIMIT  # no character has more than four bytes
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that begin no character


class Output:
    """Output that a child, or a process it starts, writes straight to its standard output and error (O-11).

    The pipe is read as data arrives, so that the child never blocks, and all but the beginning is dropped. If the run
    is watched, the printed output of the code is sent this way too. `writer` is the child's end of the pipe; close it
    once the child has it.
    """

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._read)
        self._kept = bytearray()
        self._dropped = 0  # characters
        self._write_output: OutputWriter | None = None

    def begin(self, write_output: OutputWriter | None) -> None:
        """Start a call and forget earlier output. `write_output` receives the output of this call."""
        # Unset while the pipe is emptied: output of the call before must not reach the watchers of this one.
        self._write_output = None
        self._read()
        self._kept.clear()
        self._dropped = 0
        self._write_output = write_output

    def text(self, printed: str = "", dropped: int = 0) -> str:
        """All output so far, then the captured text `printed`, cut to the limit. `dropped` characters were cut from
        the latter before."""
        self._read()  # one read empties the pipe, which holds at most LIMIT bytes
        whole = self._kept.decode("utf-8", "replace") + printed
        dropped += self._dropped + max(len(whole) - LIMIT, 0)
        return whole[:LIMIT] + (f"\n... {dropped} more characters" if dropped else "")

    def close(self) -> None:
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _read(self) -> None:
        if self._reader < 0:
            return
        try:
            data = os.read(self._reader, LIMIT)
        except BlockingIOError:
            return
        if not data:  # no process has the writing end open any more
            self.close()
        kept = data[: _MAX_KEPT_BYTES - len(self._kept)]
        self._kept += kept
        self._dropped += len(data[len(kept) :].translate(None, _CONTINUATION_BYTES))
        if self._write_output is not None and data:
            self._write_output(data)


_MAX_ANSWER_BYTES = 64 << 20  # the limit of a result (reliability.md §3.6)
# The worker decodes an answer whole, and its other tasks wait meanwhile: 64 MiB of "[]," took 20 s and 1.7 GB.
_MAX_ANSWER_LISTS = 5_000_000  # and mappings


class SharedFiles(NamedTuple):
    """What a child in a sandbox shares with its worker: a folder to read, and one file in it to write."""

    folder: Path
    written: Path | None = None


class PythonChild:
    """One process. It answers one call at a time."""

    def __init__(
        self, pid: int, ended: Ended, conversation: socket.socket, output: Output, *, is_sandboxed: bool = False
    ) -> None:
        self._pid, self._ended, self._is_sandboxed = pid, ended, is_sandboxed
        self._conversation, self._output = conversation, output
        self._usable = True

    @classmethod
    async def start(
        cls, template: TemplateClient | None, sandbox: Sandbox | None = None, files: SharedFiles | None = None
    ) -> PythonChild:
        """A child forked from the template, or without one a new program, in a sandbox if there is one. Raises
        TemplateGoneError if the template cannot fork."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        output = Output()
        try:
            if template is not None:
                pid, ended = await template.fork(theirs.fileno(), output.writer)
            else:
                pid, ended = await _spawn(theirs, output.writer, sandbox, files)
        except BaseException:
            ours.close()
            output.close()
            raise
        finally:
            theirs.close()
            output.close_writer()
        return cls(pid, ended, ours, output, is_sandboxed=sandbox is not None)

    @property
    def usable(self) -> bool:
        """Whether the child can serve another call: the last answer was complete and left the process clean, and since
        then the process has neither ended nor sent anything."""
        if not self._usable or self._ended.done():
            return False
        try:
            self._conversation.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    async def call(self, request: dict[str, Any], write_output: OutputWriter | None = None) -> dict[str, Any]:
        """The child's answer. Raises ToolError if it died, was killed by a limit, or sent too large an answer.
        `write_output` receives its output meanwhile."""
        async with watched(self._pid, request["limits"], is_sandboxed=self._is_sandboxed) as watch:
            return await self._call(request, write_output, watch)

    async def _call(
        self, request: dict[str, Any], write_output: OutputWriter | None, watch: TaskWatch
    ) -> dict[str, Any]:
        # Stays False if the call is cancelled halfway: the rest of that answer would be taken for the next one.
        self._usable = False
        self._output.begin(write_output)
        call = msgspec.json.encode({**request, "live": write_output is not None})
        try:
            await asyncio.get_running_loop().sock_sendall(self._conversation, b"%08x" % len(call) + call)
            size = int(await self._receive(8), 16)
            if size > _MAX_ANSWER_BYTES:
                raise ToolError(
                    "result.too_large", f"the result has {size} bytes, at most {_MAX_ANSWER_BYTES} are allowed"
                )
            body = await self._receive(size)
            if body.count(b"[") + body.count(b"{") > _MAX_ANSWER_LISTS:
                message = (
                    f"the result has more than {_MAX_ANSWER_LISTS:,} lists and mappings: return a table (spec.rows)"
                )
                raise ToolError("result.too_large", message)
            answer = msgspec.json.decode(body, type=dict[str, Any])
            answer["stdout"] = self._output.text(answer["stdout"], answer["dropped"])
        except ConnectionError:
            death = await self._death_error()
            watch.raise_excess()
            raise death from None
        except (ValueError, KeyError, TypeError) as problem:  # no length, or no answer: the code wrote to the socket
            raise ToolError("py.result", f"the python process broke the protocol: {problem}") from problem
        self._usable = bool(answer.get("clean"))
        return answer

    async def _receive(self, size: int) -> bytearray:
        loop, received = asyncio.get_running_loop(), bytearray(size)
        rest = memoryview(received)
        while rest:
            count = await loop.sock_recv_into(self._conversation, rest)
            if count == 0:
                raise ConnectionResetError
            rest = rest[count:]
        return received

    async def _death_error(self) -> ToolError:
        # Others await the same future; a cancelled call must not cancel it for them.
        code = await asyncio.shield(self._ended)
        stdout = self._output.text() or None
        if code == -signal.SIGXCPU:
            message = "the python process used up its CPU time"
            return ToolError("py.exception", message, exception="TimeoutError", stdout=stdout)
        message = f"the python process {_ending(code)} before it gave a result"
        return ToolError("py.exception", message, exception="SystemExit", stdout=stdout)

    def kill(self) -> None:
        """Kill the process and its descendants, in its session or in others."""
        self._usable = False
        if not self._ended.done():
            # Listed before the kill: a descendant with a session of its own is not in the group, and can be found only
            # while its parents live.
            below = descendants(self._pid)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            kill(below)
        self._conversation.close()
        self._output.close()

    async def wait_ended(self) -> None:
        """Wait for the end of the process."""
        await asyncio.shield(self._ended)


async def _spawn(
    conversation: socket.socket, output: int, sandbox: Sandbox | None, files: SharedFiles | None
) -> tuple[int, Ended]:
    program = [sys.executable, "-I", str(ENTRY), "child"]
    if sandbox is not None:
        reads = [str(ENTRY.parent), *([str(files.folder)] if files is not None else [])]
        writes = [str(files.written)] if files is not None and files.written is not None else []
        program = await sandbox_command(sandbox, program, reads=reads, writes=writes)
    process = await asyncio.create_subprocess_exec(
        *program,
        stdin=conversation.fileno(),
        stdout=output,
        stderr=output,
        start_new_session=True,
        env=environment(),
    )
    return process.pid, asyncio.ensure_future(_exit_code(process, is_sandboxed=sandbox is not None))


async def _exit_code(process: asyncio.subprocess.Process, *, is_sandboxed: bool) -> int:
    """The exit code, negative for a signal. A sandbox ends with 128 plus the signal that killed its program."""
    code = await process.wait()
    return 128 - code if is_sandboxed and 128 < code < 128 + signal.NSIG else code


def _ending(code: int | None) -> str:
    if code is None:
        return "ended"
    return f"was killed by signal {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


IDLE_S = 60.0  # how long an idle child is kept
MOST_IDLE = 32  # idle children that are kept, over all executions
_MAX_BROKEN_TEMPLATES = 3  # after so many, children are started without a template


class Idle(NamedTuple):
    """Whose idle child it is, and since when."""

    execution_id: str
    since: float  # by the loop's clock


class PythonChildren:
    """The children of a worker, idle and busy, and the template they are forked from. A template that gives no answer
    in `answer_s` is killed."""

    def __init__(
        self,
        *,
        idle_s: float = IDLE_S,
        most_idle: int = MOST_IDLE,
        template: bool = HAS_TEMPLATES,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._idle_s, self._most_idle, self._answer_s = idle_s, most_idle, answer_s
        self._all: set[PythonChild] = set()
        self._idle: dict[PythonChild, Idle] = {}  # longest idle first
        self._ending: set[asyncio.Task[None]] = set()
        self._sweep_due: asyncio.TimerHandle | None = None
        self._template: asyncio.Task[TemplateClient] | None = None
        self._templates_left = _MAX_BROKEN_TEMPLATES if template else 0

    async def take(
        self, execution_id: str, *, fresh: bool, sandbox: Sandbox | None = None, files: SharedFiles | None = None
    ) -> PythonChild:
        """A child for the sole use of the caller until it is given back. A child in a sandbox is always fresh, and sees
        only `files` of its worker."""
        if sandbox is not None:
            sandboxed = await PythonChild.start(None, sandbox, files)
            self._all.add(sandboxed)
            return sandboxed
        if not fresh and (child := self._take_idle(execution_id)) is not None:
            return child
        child = await self._start_child()
        self._all.add(child)
        return child

    async def give_back(self, execution_id: str, child: PythonChild, *, fresh: bool) -> None:
        """Keep the child for the next task of the execution, or end it."""
        if fresh or not child.usable:
            self._end(child)
            await child.wait_ended()  # a task is over only when its process has ended
            return
        loop = asyncio.get_running_loop()
        self._idle[child] = Idle(execution_id, loop.time())
        while len(self._idle) > self._most_idle:
            self._end(next(iter(self._idle)))
        if self._sweep_due is None:
            self._sweep_due = loop.call_later(self._idle_s, self._sweep)

    def release(self, execution_id: str) -> None:
        """End the idle children of an execution that is over."""
        for child in [child for child, idle in self._idle.items() if idle.execution_id == execution_id]:
            self._end(child)

    async def close(self) -> None:
        """End all children and the template, and wait for their end."""
        if self._sweep_due is not None:
            self._sweep_due.cancel()
        for child in list(self._all):
            self._end(child)
        await asyncio.gather(*self._ending)
        if self._template is not None:
            template, self._template = self._template, None
            with suppress(OSError):
                await (await template).close()

    def _take_idle(self, execution_id: str) -> PythonChild | None:
        """The child of the execution that was used last, if any: its caches are warm."""
        for child in [child for child, idle in reversed(self._idle.items()) if idle.execution_id == execution_id]:
            del self._idle[child]
            if child.usable:
                return child
            self._end(child)
        return None

    async def _start_child(self) -> PythonChild:
        if self._templates_left:
            if self._template is None:
                self._template = asyncio.ensure_future(TemplateClient.start(self._answer_s))
            starting = self._template
            try:
                # Shielded: cancelling this task must not cancel the start of the template that others wait for.
                return await PythonChild.start(await asyncio.shield(starting))
            except (TemplateGoneError, OSError):
                self._template_broke(starting)
        return await PythonChild.start(None)

    def _template_broke(self, broken: asyncio.Task[TemplateClient]) -> None:
        if self._template is broken:
            if broken.exception() is None and not broken.result().gone:
                return  # it was only busy, and can serve the next request
            self._template = None
            self._templates_left -= 1

    def _sweep(self) -> None:
        """End children that have been idle for long, and schedule the next sweep."""
        loop = asyncio.get_running_loop()
        while self._idle and next(iter(self._idle.values())).since + self._idle_s <= loop.time():
            self._end(next(iter(self._idle)))
        self._sweep_due = None
        if self._idle:
            due = next(iter(self._idle.values())).since + self._idle_s
            self._sweep_due = loop.call_at(due, self._sweep)

    def _end(self, child: PythonChild) -> None:
        # Killed at once; the wait for its end is a task that `close` awaits.
        self._idle.pop(child, None)
        self._all.discard(child)
        child.kill()
        ending = asyncio.ensure_future(child.wait_ended())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
