"""A child process that answers calls over pipes, for libraries whose native code the worker should survive. Also the
pool of such processes that one tool keeps, by execution.

A clean interpreter with little of the environment, in a session of its own, so that all of it can be killed. Frames are
a length in eight hexadecimal digits and that many bytes of JSON; `child_pipes` is the other end.
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
# a clean interpreter (`-I`) does not know where this package is
_PROGRAM = (
    "import importlib, sys; sys.path.insert(0, sys.argv[1]); importlib.import_module(sys.argv[2]).serve(*sys.argv[3:])"
)
_LARGEST = 128 << 20  # bytes of one answer; a child counts what it gives against the limit of a result
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")  # nothing of ours: no tokens, no settings
_IDLE = 4


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What a child runs."""

    module: str  # whose function `serve` is called
    name: str  # what people know it by, in messages
    error: str  # the kind of the error when it ends in the middle of a call
    arguments: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()  # variables of the environment that it has beside the usual few
    retryable: bool = False  # whether its sudden end may be tried again
    python: str = sys.executable  # another one has its packages in an environment of its own


class Child:
    """One process. It answers one call at a time."""

    def __init__(self, process: asyncio.subprocess.Process, program: Program) -> None:
        self._process, self._program = process, program
        self._whole = True

    @classmethod
    async def start(cls, program: Program) -> Child:
        process = await asyncio.create_subprocess_exec(
            *(program.python, "-I", "-c", _PROGRAM, str(_SOURCE), program.module, *program.arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env={name: os.environ[name] for name in (*_KEPT, *program.keeps) if name in os.environ},
            limit=1 << 20,
        )
        return cls(process, program)

    @property
    def usable(self) -> bool:
        """Whether the last answer was whole, and the process has not ended since."""
        return self._whole and self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """The child's answer. ToolError when it died."""
        self._whole = False  # until a whole answer is here
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        body = msgspec.json.encode(request)
        try:
            stdin.write(b"%08x" % len(body) + body)
            await stdin.drain()
            size = int(await stdout.readexactly(8), 16)
            if size > _LARGEST:
                raise ToolError("result.too_large", f"the answer has {size} bytes, at most {_LARGEST} are allowed")
            answer: dict[str, Any] = msgspec.json.decode(await stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._died() from None
        self._whole = True
        return answer

    async def _died(self) -> ToolError:
        code = await self._process.wait()
        how = f"was killed by signal {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        message = f"the process of {self._program.name} {how} before it answered"
        return ToolError(self._program.error, message, retryable=self._program.retryable)

    async def kill(self) -> None:
        """End the process and everything in its session."""
        self._whole = False
        # PermissionError: on some systems that is the answer for a group of which only zombies are left.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()  # the pipes too, or the loop complains about them when it ends


# Child processes of one tool: each is kept for the execution that used it, and killed as a group.
#
# A child is never used for another execution: what one execution left in its memory stays out of reach of the next.


class ChildPool:
    """Idle and busy children of one program. Only a few idle ones are kept."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._idle: list[tuple[str, Child]] = []
        self._busy: set[Child] = set()
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def child(self, execution_id: str) -> AsyncIterator[Child]:
        """A child for one call. A child whose call did not end (cancelled, timed out) is killed."""
        child = await self._take(execution_id)
        try:
            yield child
        finally:
            await self._give_back(execution_id, child)

    async def call(self, execution_id: str, request: dict[str, Any]) -> dict[str, Any]:
        """The answer of a child, without its error: that is raised as ToolError."""
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
        while len(self._idle) > _IDLE:
            await self._idle.pop(0)[1].kill()

    def release(self, execution_id: str) -> None:
        """This execution is over: its children end."""
        for child in [child for owner, child in self._idle if owner == execution_id]:
            ending = asyncio.ensure_future(child.kill())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        self._idle = [(owner, child) for owner, child in self._idle if owner != execution_id]

    async def close(self) -> None:
        await asyncio.gather(*self._ending)
        children = [*self._busy, *(child for _, child in self._idle)]
        self._idle, self._busy = [], set()
        for child in children:
            await child.kill()
