"""Child processes that answer calls over pipes: a crash in the native code of a library must not end the worker.
`ChildPool` keeps the processes of one tool, by execution.

A child is a clean interpreter with few environment variables. It has a session of its own, so that it can be killed
with all its descendants. A frame is a length in eight hexadecimal digits and that many bytes of JSON. `child_pipes` is
the child's end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError

_SOURCE = Path(__file__).parents[2]
# An isolated interpreter (`-I`) ignores PYTHONPATH and the current folder, so it gets the place of this package.
_PROGRAM = (
    "import importlib, sys; sys.path.insert(0, sys.argv[1]); importlib.import_module(sys.argv[2]).serve(*sys.argv[3:])"
)
# Twice the largest result: children enforce the limit of a result themselves, this bounds a broken one.
_MAX_ANSWER_BYTES = 128 << 20
_INHERITED_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")  # no tokens and no settings of ours
_MAX_IDLE = 4  # bounds memory; a further child costs the start of an interpreter


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """The program of a child."""

    module: str  # its function `serve` is called
    name: str  # its name in messages
    error: str  # the error kind if it ends during a call
    arguments: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()  # further environment variables that it inherits
    retryable: bool = False  # whether a task may be retried after its sudden end
    python: str = sys.executable  # the interpreter; another one may have packages that this one lacks


class Child:
    """One process. It answers one call at a time."""

    def __init__(self, process: asyncio.subprocess.Process, program: Program) -> None:
        self._process, self._program = process, program
        self._in_step = True

    @classmethod
    async def start(cls, program: Program) -> Child:
        process = await asyncio.create_subprocess_exec(
            *(program.python, "-I", "-c", _PROGRAM, str(_SOURCE), program.module, *program.arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            # A clean environment: drivers read credentials and proxies from variables that are meant for other
            # programs.
            env={name: os.environ[name] for name in (*_INHERITED_VARIABLES, *program.keeps) if name in os.environ},
            limit=1 << 20,
        )
        return cls(process, program)

    @property
    def usable(self) -> bool:
        """Whether the last answer was complete and the process has not ended since."""
        return self._in_step and self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """The child's answer. Raises ToolError if the child died."""
        # Stays False if the call is cancelled halfway: the rest of that answer would be taken for the next one.
        self._in_step = False
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        body = msgspec.json.encode(request)
        try:
            stdin.write(b"%08x" % len(body) + body)
            await stdin.drain()
            size = int(await stdout.readexactly(8), 16)
            if size > _MAX_ANSWER_BYTES:
                raise ToolError(
                    "result.too_large", f"the answer has {size} bytes, at most {_MAX_ANSWER_BYTES} are allowed"
                )
            answer: dict[str, Any] = msgspec.json.decode(await stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._death_error() from None
        self._in_step = True
        return answer

    async def _death_error(self) -> ToolError:
        code = await self._process.wait()
        how = f"was killed by signal {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        message = f"the process of {self._program.name} {how} before it answered"
        return ToolError(self._program.error, message, retryable=self._program.retryable)

    async def kill(self) -> None:
        """End the process and everything in its session."""
        self._in_step = False
        # PermissionError: some systems answer so for a process group of which only zombies are left.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            # asyncio has no public way to close the pipes; an open one causes a ResourceWarning when the loop ends.
            transport.close()


class ChildPool:
    """Idle and busy children of one program, for one tool.

    A child serves one execution only: its memory must not reach another execution.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._idle: list[tuple[str, Child]] = []
        self._busy: set[Child] = set()
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def child(self, execution_id: str) -> AsyncIterator[Child]:
        """A child for one call. It is killed afterwards if the call did not end (cancelled, timed out)."""
        child = await self._take(execution_id)
        try:
            yield child
        finally:
            await self._give_back(execution_id, child)

    async def call(self, execution_id: str, request: dict[str, Any]) -> dict[str, Any]:
        """The answer of a child. An error in the answer is raised as ToolError."""
        async with self.child(execution_id) as child:
            answer = await child.call(request)
        if (error := answer.get("error")) is not None:
            raise ToolError(error.pop("kind"), error.pop("message"), **error)
        return answer

    async def _take(self, execution_id: str) -> Child:
        owners = [owner for owner, _ in self._idle]
        if execution_id in owners:
            _, child = self._idle.pop(owners.index(execution_id))
        else:
            child = await Child.start(self._program)
        self._busy.add(child)
        return child

    async def _give_back(self, execution_id: str, child: Child) -> None:
        self._busy.discard(child)
        if not child.usable:
            await child.kill()
            return
        self._idle.append((execution_id, child))
        # The oldest one first: its execution has run no such task for the longest time.
        while len(self._idle) > _MAX_IDLE:
            await self._idle.pop(0)[1].kill()

    def release(self, execution_id: str) -> None:
        """Kill the idle children of an execution that is over. Callers are synchronous, so this does not wait."""
        for child in [child for owner, child in self._idle if owner == execution_id]:
            ending = asyncio.ensure_future(child.kill())
            self._ending.add(ending)  # the event loop itself keeps only weak references to tasks
            ending.add_done_callback(self._ending.discard)
        self._idle = [(owner, child) for owner, child in self._idle if owner != execution_id]

    async def close(self) -> None:
        await asyncio.gather(*self._ending)
        children = [*self._busy, *(child for _, child in self._idle)]
        self._idle, self._busy = [], set()
        for child in children:
            await child.kill()
