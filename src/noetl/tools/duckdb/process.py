"""Child processes of the `duckdb` tool: kept for the execution that used them, killed as a group."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from noetl.errors import ToolError

_SOURCE = Path(__file__).parents[3]
# a clean interpreter (`-I`) does not know where this package is
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from noetl.tools.duckdb.child import serve; serve()"
_LARGEST = 128 << 20  # bytes of one answer; the child counts its rows against the limit of a result
_IDLE = 4
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")  # nothing of ours: no tokens, no settings


class Child:
    """One process. It answers one call at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.usable = True

    @classmethod
    async def start(cls) -> Child:
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-c",
                _PROGRAM,
                str(_SOURCE),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                limit=1 << 20,
            )
        )

    async def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """The child's answer. ToolError `duckdb.error` when it died."""
        self.usable = False  # until a whole answer is here
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
        self.usable = True
        return answer

    async def _died(self) -> ToolError:
        code = await self._process.wait()
        how = f"was killed by signal {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return ToolError("duckdb.error", f"the duckdb process {how} before it answered")

    async def kill(self) -> None:
        """End the process and everything in its session."""
        self.usable = False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()  # the pipes too, or the loop complains about them when it ends


class Children:
    """Idle children and their executions: one is never used for another execution. Only a few are kept."""

    def __init__(self) -> None:
        self._idle: list[tuple[str, Child]] = []
        self._busy: set[Child] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def take(self, execution_id: str) -> Child:
        owners = [owner for owner, _ in self._idle]
        if execution_id in owners:
            _, child = self._idle.pop(owners.index(execution_id))
        else:
            child = await Child.start()
        self._busy.add(child)
        return child

    async def give_back(self, execution_id: str, child: Child) -> None:
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
