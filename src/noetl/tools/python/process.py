"""One child process of the `python` tool: a conversation over a socket, killed as a group.

A child whose call was cancelled, or that broke the protocol, is never used again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import Printed
from noetl.tools.python.child.processes import descendants, kill
from noetl.tools.python.template import ENTRY, Ended, TemplateClient, environment
from noetl.tools.sandbox import Sandbox, sandboxed

# What a child, or anything it starts, writes straight to its standard output and error (O-11).
#
# It is read as it comes, so that nobody ever waits for us, and all but its beginning is dropped. Where somebody looks
# while the code runs, what it prints comes this way too.

LIMIT = 64 * 1024  # characters that are kept; also the bytes that a pipe holds
_KEPT_BYTES = 4 * LIMIT  # no character is longer
_CONTINUING = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that begin no character


class Output:
    """The reading end of a child's pipe. `writer` is the other end, to be closed once the child has it."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._read)
        self._kept = bytearray()
        self._dropped = 0  # characters
        self._printed: Printed | None = None

    def begin(self, printed: Printed | None) -> None:
        """A call begins, and what came before it belongs to nobody. `printed` is given what comes."""
        self._printed = None
        self._read()
        self._kept.clear()
        self._dropped = 0
        self._printed = printed

    def text(self, printed: str = "", dropped: int = 0) -> str:
        """Everything written so far and what was `printed` besides, cut. `dropped` were cut from the latter before."""
        self._read()  # once is all of it: the pipe holds no more
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
        if not data:  # nobody is left who could write
            self.close()
        kept = data[: _KEPT_BYTES - len(self._kept)]
        self._kept += kept
        self._dropped += len(data[len(kept) :].translate(None, _CONTINUING))
        if self._printed is not None and data:
            self._printed(data)


_LARGEST = 64 << 20  # bytes of one answer (reliability.md §3.6)


class PythonChild:
    """One process. It answers one call at a time."""

    def __init__(self, pid: int, ended: Ended, conversation: socket.socket, output: Output) -> None:
        self._pid, self._ended = pid, ended
        self._conversation, self._output = conversation, output
        self._usable = True

    @classmethod
    async def start(
        cls, template: TemplateClient | None, sandbox: Sandbox | None = None, folder: Path | None = None
    ) -> PythonChild:
        """Forked from the template, else a program of its own, in a sandbox if there is to be one. TemplateGoneError
        when the former cannot be."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        output = Output()
        try:
            if template is not None:
                pid, ended = await template.fork(theirs.fileno(), output.writer)
            else:
                pid, ended = await _spawned(theirs, output.writer, sandbox, folder)
        except BaseException:
            ours.close()
            output.close()
            raise
        finally:
            theirs.close()
            output.close_writer()
        return cls(pid, ended, ours, output)

    @property
    def usable(self) -> bool:
        """Whether the last answer was whole and left the process as it was, and nothing came since then: neither its
        end nor a word that nobody asked for."""
        if not self._usable or self._ended.done():
            return False
        try:
            self._conversation.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    async def call(self, request: dict[str, Any], printed: Printed | None = None) -> dict[str, Any]:
        """The child's answer. ToolError when it died, was killed by a limit, or answered too much. `printed` is given
        what it prints meanwhile."""
        self._usable = False  # until a whole answer is here
        self._output.begin(printed)
        body = msgspec.json.encode({**request, "live": printed is not None})
        try:
            await asyncio.get_running_loop().sock_sendall(self._conversation, b"%08x" % len(body) + body)
            size = int(await self._received(8), 16)
            if size > _LARGEST:
                raise ToolError("result.too_large", f"the result has {size} bytes, at most {_LARGEST} are allowed")
            answer = msgspec.json.decode(await self._received(size), type=dict[str, Any])
            answer["stdout"] = self._output.text(answer["stdout"], answer["dropped"])
        except ConnectionError:
            raise await self._died() from None
        except (ValueError, KeyError, TypeError) as problem:  # garbage: no length, or no answer
            raise ToolError("py.result", f"the python process broke the conversation: {problem}") from problem
        self._usable = bool(answer.get("clean"))
        return answer

    async def _received(self, size: int) -> bytearray:
        loop, received = asyncio.get_running_loop(), bytearray(size)
        rest = memoryview(received)
        while rest:
            count = await loop.sock_recv_into(self._conversation, rest)
            if count == 0:
                raise ConnectionResetError
            rest = rest[count:]
        return received

    async def _died(self) -> ToolError:
        # The end is awaited by others too; a cancelled call must not cancel it for them.
        code = await asyncio.shield(self._ended)
        stdout = self._output.text() or None
        if code == -signal.SIGXCPU:
            message = "the python process used up its CPU time"
            return ToolError("py.exception", message, exception="TimeoutError", stdout=stdout)
        message = f"the python process {_how(code)} before it gave a result"
        return ToolError("py.exception", message, exception="SystemExit", stdout=stdout)

    def kill(self) -> None:
        """End the process and everything it started, in its session or out of it."""
        self._usable = False
        if not self._ended.done():
            # Listed before the kill: what has made a session of its own is not in the group, and is found only while
            # its parents live.
            below = descendants(self._pid)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            kill(below)
        self._conversation.close()
        self._output.close()

    async def wait_ended(self) -> None:
        """Return once it has ended."""
        await asyncio.shield(self._ended)


async def _spawned(
    conversation: socket.socket, output: int, sandbox: Sandbox | None, folder: Path | None
) -> tuple[int, Ended]:
    program = [sys.executable, "-I", str(ENTRY), "child"]
    if sandbox is not None:
        program = await sandboxed(sandbox, program, folder=folder, reads=[str(ENTRY.parent)])
    process = await asyncio.create_subprocess_exec(
        *program,
        stdin=conversation.fileno(),
        stdout=output,
        stderr=output,
        start_new_session=True,
        env=environment(),
    )
    return process.pid, asyncio.ensure_future(_exit_code(process, is_told=sandbox is not None))


async def _exit_code(process: asyncio.subprocess.Process, *, is_told: bool) -> int:
    """`is_told`: by the sandbox, which ends with 128 and the number of the signal that killed its program."""
    code = await process.wait()
    return 128 - code if is_told and 128 < code < 128 + signal.NSIG else code


def _how(code: int | None) -> str:
    if code is None:
        return "ended"
    return f"was killed by signal {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
