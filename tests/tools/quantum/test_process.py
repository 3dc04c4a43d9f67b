"""The processes of Qiskit: whatever happens in one is an ordinary error of a task, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from noetl.base.errors import ToolError
from noetl.tools import child_process
from noetl.tools.quantum.process import Engine
from tests.tools.quantum_tasks import refused

ANSWERS = """
import os, sys
while header := sys.stdin.buffer.read(8):
    sys.stdin.buffer.read(int(header, 16))
    body = b'{"answer": %d}' % os.getpid()
    sys.stdout.buffer.write(b"%08x" % len(body) + body)
    sys.stdout.buffer.flush()
"""
CRASHES = "import os, signal, sys; sys.stdin.buffer.read(8); os.kill(os.getpid(), signal.SIGSEGV)"
HANGS = "import time; time.sleep(600)"


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine("aer")
    yield made
    await made.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.req("QNT-03", "OUT-05")
async def test_a_native_crash_is_an_error_of_the_task_and_the_next_one_has_another_process(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_PROGRAM", CRASHES)
    error = await refused(engine.ask(circuit={}))
    monkeypatch.setattr(child_process, "_PROGRAM", ANSWERS)

    assert (error.kind, error.retryable) == ("quantum.job", True)
    assert error.message == "the process of Qiskit was killed by signal SIGSEGV before it answered"
    assert await engine.ask(circuit={}) != os.getpid()


async def test_one_process_handles_consecutive_calls(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing Qiskit takes seconds."""
    monkeypatch.setattr(child_process, "_PROGRAM", ANSWERS)

    pids = await asyncio.gather(*(engine.ask(number=number) for number in range(5)))

    assert len(set(pids)) == 1


async def test_a_process_that_died_while_idle_is_replaced(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_PROGRAM", ANSWERS)
    first = await engine.ask()
    assert engine._child is not None
    os.kill(first, 9)
    await engine._child._process.wait()

    assert await engine.ask() != first


async def test_a_cancelled_call_ends_its_process(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_PROGRAM", HANGS)
    asking = asyncio.ensure_future(engine.ask())
    while engine._child is None:
        await asyncio.sleep(0.01)
    pid = engine._child.pid
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert not is_running(pid)
    assert engine._child is None


async def test_an_idle_quantum_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_PROGRAM", ANSWERS)
    engine = Engine("aer", idle_s=0.01)
    pid = await engine.ask()
    while engine._child is not None:
        await asyncio.sleep(0.01)
    await engine.close()

    assert not is_running(pid)


async def test_an_import_error_is_returned_as_a_response(engine: Engine) -> None:
    """The child itself, whether or not its libraries are installed: a call without a circuit is refused."""
    with pytest.raises(ToolError) as caught:
        await engine.ask(shots=1)

    assert caught.value.kind == "quantum.job"
    assert caught.value.message.startswith(("ModuleNotFoundError: ", "KeyError: "))


async def test_the_process_receives_only_the_environment_it_needs(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tells = ANSWERS.replace("%d}' % os.getpid()", '%d}\' % ("NOETL_MASTER_KEY" in os.environ)')
    monkeypatch.setattr(child_process, "_PROGRAM", tells)
    monkeypatch.setenv("NOETL_MASTER_KEY", "secret")

    assert await engine.ask() == 0
