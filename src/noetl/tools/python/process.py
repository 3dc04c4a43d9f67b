"""Child processes of the `python` tool: started once, reused for one execution, killed as a group.

A child whose call was cancelled, or that broke the protocol, is never used again.
"""

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
from noetl.tools.python.child import descendants

_CHILD = Path(__file__).with_name("child.py")
_LARGEST = 64 << 20  # bytes of one answer (RELIABILITY 3.6)


class Child:
    """One process. It answers one call at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.usable = True

    @classmethod
    async def start(cls) -> Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(_CHILD),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env=_environment(),
            limit=1 << 20,
        )
        return cls(process)

    async def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """The child's answer. ToolError when it died, was killed by a limit, or answered too much."""
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
                raise ToolError("result.too_large", f"the result has {size} bytes, at most {_LARGEST} are allowed")
            answer: dict[str, Any] = msgspec.json.decode(await stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._died() from None
        except msgspec.DecodeError as problem:
            raise ToolError("py.result", f"the result is not JSON: {problem}") from problem
        self.usable = True
        return answer

    async def _died(self) -> ToolError:
        code = await self._process.wait()
        if code == -signal.SIGXCPU:
            return ToolError("py.exception", "the python process used up its CPU time", exception="TimeoutError")
        how = f"was killed by signal {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return ToolError("py.exception", f"the python process {how} before it gave a result", exception="SystemExit")

    async def kill(self) -> None:
        """End the process and everything it started, in its session or out of it."""
        self.usable = False
        below = descendants(self._process.pid) if self._process.returncode is None else []
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in below:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()  # the pipes first: who inherited them would be waited for, and the loop would complain
        await self._process.wait()


def _environment() -> dict[str, str]:
    """What a program needs to start, and nothing of ours: no tokens, no settings."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT")
    return {name: os.environ[name] for name in kept if name in os.environ}


class Children:
    """Idle children by execution: one is never used for another execution (DESIGN §8)."""

    def __init__(self) -> None:
        self._idle: dict[str, list[Child]] = {}
        self._all: set[Child] = set()

    async def take(self, execution_id: str, *, fresh: bool) -> Child:
        idle = self._idle.get(execution_id)
        if idle and not fresh:
            return idle.pop()
        child = await Child.start()
        self._all.add(child)
        return child

    async def give_back(self, execution_id: str, child: Child, *, fresh: bool) -> None:
        if child.usable and not fresh:
            self._idle.setdefault(execution_id, []).append(child)
        else:
            await self._end(child)

    async def close(self) -> None:
        for child in list(self._all):
            await self._end(child)

    async def _end(self, child: Child) -> None:
        self._all.discard(child)
        await child.kill()
