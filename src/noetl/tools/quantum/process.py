"""The child processes in which Qiskit runs: one for each engine, started when first needed, ended when idle.

Qiskit's native core belongs to the thread that imported it: once that thread has ended, creating a circuit in another
thread crashes the process. In a child it runs in the main thread, which lasts, and a crash of a native library ends
only the child. Calls of one engine take turns: one simulation already uses all cores.
"""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.child_process import Child, Program
from noetl.tools.quantum.jobs import JOB

IDLE_S = 120.0  # importing Qiskit takes seconds, so a sweep and its polls had better share a process
# Settings of the machine: the threads of the simulator, and its way to the network.
_KEEPS = (
    *("HOME", "OMP_NUM_THREADS"),
    *("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"),
)


class Engine:
    """One engine by its name in `child`: `aer` or `ibm`."""

    def __init__(self, name: str, *, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._program = Program(
            module="noetl.tools.quantum.child",
            name="Qiskit",
            error=JOB,
            arguments=(name,),
            keeps=_KEEPS,
            retryable=True,  # another try has another process
        )
        self._turn = asyncio.Lock()
        self._child: Child | None = None
        self._tired: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def ask(self, **call: Any) -> Any:
        """The response of the engine. Raises ToolError if the engine refuses, or if its process died."""
        # One call at a time: the child reads the next only after it has answered.
        async with self._turn:
            child = await self._ready()
            try:
                answer = await child.call(call)
            finally:
                if child.usable:
                    self._tired = asyncio.get_running_loop().call_later(self._idle_s, self._end)
                else:  # it died, or the call was cancelled: the next answer would belong to that call
                    self._child = None
                    await child.kill()
        if "kind" in answer:
            raise ToolError(answer["kind"], answer["message"], retryable=answer["retryable"])
        return answer["answer"]

    async def _ready(self) -> Child:
        self._cancel_idle_stop()
        if self._child is not None and not self._child.usable:
            self._end()  # it died between two calls
        if self._child is None:
            self._child = await Child.start(self._program)
        return self._child

    def _cancel_idle_stop(self) -> None:
        if self._tired is not None:
            self._tired.cancel()
            self._tired = None

    def _end(self) -> None:
        self._cancel_idle_stop()
        if self._child is not None:
            ending = asyncio.ensure_future(self._child.kill())
            self._child = None
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End the process, and wait for its end."""
        self._end()
        await asyncio.gather(*self._ending)
