"""Children of the `python` tool: forked from a template, kept for one execution, ended on any doubt (design.md §8)."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from noetl.base.errors import ToolError
from noetl.operations.embedded import driving
from noetl.testing.tool_conformance import tool_context
from noetl.tools.python import template
from noetl.tools.python.process import PythonChild, PythonChildren
from noetl.tools.python.tool import PythonTool

PID = "import os; result = os.getpid()"


@pytest_asyncio.fixture(params=["forked", "started"])
async def children(request: pytest.FixtureRequest) -> AsyncIterator[PythonChildren]:
    """Children whichever way they come to be."""
    children = PythonChildren(template=request.param == "forked")
    yield children
    await children.close()


@pytest_asyncio.fixture
async def forked() -> AsyncIterator[PythonChildren]:
    children = PythonChildren(template=True)
    yield children
    await children.close()


async def ask(child: PythonChild, code: str, **limits: Any) -> dict[str, Any]:
    return await child.call({"code": code, "names": {"args": {}}, "libs": None, "limits": limits})


async def run(
    children: PythonChildren, code: str, execution_id: str = "x1", *, fresh: bool = False, **limits: Any
) -> Any:
    """The whole answer to one task."""
    child = await children.take(execution_id, fresh=fresh)
    try:
        return await ask(child, code, **limits)
    finally:
        await children.give_back(execution_id, child, fresh=fresh)


async def result(children: PythonChildren, code: str, execution_id: str = "x1", **more: Any) -> Any:
    answer = await run(children, code, execution_id, **more)
    assert answer["ok"], answer
    return answer["result"]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def gone(pid: int) -> None:
    """Return once the process has ended; the test's own timeout is the limit."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(watched, ended.set)
        await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(watched)
        os.close(watched)


# where they come from


async def test_children_are_forked_from_one_template_in_their_own_sessions(forked: PythonChildren) -> None:
    code = "import os; result = [os.getppid(), os.getsid(0) == os.getpid()]"

    first, second = [await result(forked, code, execution_id) for execution_id in ("x1", "x2")]

    assert first == second
    assert first[0] != os.getpid()
    assert first[1] is True


async def test_common_modules_are_preimported_once_several_children_needed_them(forked: PythonChildren) -> None:
    """A run of few children would pay for imports that nobody uses."""
    has_any = "import sys; result = 'asyncio' in sys.modules"
    await result(forked, "import time; time.sleep(0.5)", "x1")  # long enough for a template that would begin at once

    assert not await result(forked, has_any, "x2")

    execution_ids = (f"x{number}" for number in count(3))
    while not await result(forked, has_any, next(execution_ids)):
        await asyncio.sleep(0.02)


async def test_without_a_template_children_are_started_as_programs() -> None:
    children = PythonChildren(template=False)

    assert await result(children, "import os; result = os.getppid()") == os.getpid()
    await children.close()


async def test_a_killed_template_is_replaced(forked: PythonChildren) -> None:
    template = await result(forked, "import os; result = os.getppid()")

    os.kill(template, signal.SIGKILL)

    assert await result(forked, "result = 1", "x2") == 1
    assert await result(forked, "import os; result = os.getppid()", "x3") != template


# Never its parent where that is this process: a child that was started without a template.
STOP = f"""import os, signal
result = os.getppid()
if result != {os.getpid()}:
    os.kill(result, signal.SIGSTOP)
"""


async def test_a_stopped_template_is_killed_and_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Code of a task has the user of the template, and can stop it. Nobody waits for it afterwards."""
    children, go_on = PythonChildren(template=True, answer_s=3), tmp_path / "go_on"
    busy, fresh = [await children.take("x0", fresh=True) for _ in range(2)]
    code = f"import os, time\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.02)\nresult = 'ran on'"
    running = asyncio.create_task(ask(busy, code))

    stopped = await result(children, STOP, "x1")
    first = await asyncio.gather(*(result(children, "result = 1", f"x{number}") for number in (2, 3)))
    await gone(stopped)
    await children.give_back("x0", fresh, fresh=True)
    new = await result(children, "import os; result = os.getppid()", "x4")
    go_on.touch()

    assert first == [1, 1]
    assert new not in (stopped, os.getpid())
    assert (await running)["result"] == "ran on"
    assert [record.getMessage() for record in caplog.records if "template" in record.getMessage()] == [
        f"python template {stopped} gave no answer in 3 s: killed"
    ]
    await children.give_back("x0", busy, fresh=True)
    await children.close()


async def test_a_task_that_stops_its_template_ends_and_so_does_its_worker() -> None:
    children = PythonChildren(template=True, answer_s=3)

    stopped = await result(children, STOP, fresh=True)
    await gone(stopped)
    assert await result(children, "result = 1", "x2") == 1
    again = await result(children, STOP, "x3")
    assert again != os.getpid()

    await children.close()
    await gone(again)


async def test_a_template_that_never_works_is_given_up(forked: PythonChildren, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.python.template.ENTRY", Path("no_such_file.py"))

    for number in range(5):
        assert await result(forked, "import os; result = os.getppid()", f"x{number}") == os.getpid()


async def test_a_new_child_contains_nothing_of_the_worker_or_other_executions(children: PythonChildren) -> None:
    await result(children, "import json, builtins; json.left = builtins.left = 1\nimport colorsys", "x1")

    found = await result(
        children,
        "import sys, json, builtins\n"
        "result = [hasattr(json, 'left'), hasattr(builtins, 'left'), 'colorsys' in sys.modules,\n"
        "          [name for name in sys.modules if name.split('.')[0] in ('noetl', 'msgspec', 'pytest')]]",
        "x2",
    )

    assert found == [False, False, False, []]


async def test_children_have_different_random_seeds(children: PythonChildren) -> None:
    code = "import random; result = random.random()"

    assert len({await result(children, code, f"x{number}") for number in range(3)}) == 3


async def test_a_child_inherits_only_its_own_file_descriptors(children: PythonChildren) -> None:
    """Another execution's conversation must not be readable, nor kept open, from here."""
    await result(children, "result = 1", "x1")

    found = await result(children, "import os; result = os.listdir('/proc/self/fd')", "x2")

    assert len(found) == 7, "the three streams, the conversation, its own alarm (two), and the folder being listed"


# how long they live


async def test_children_end_with_their_execution(children: PythonChildren) -> None:
    one, other = await result(children, PID, "x1"), await result(children, PID, "x2")

    children.release("x1")
    again = await result(children, PID, "x1")

    assert again != one
    assert await result(children, PID, "x2") == other


async def test_an_idle_child_ends_after_a_timeout() -> None:
    children = PythonChildren(idle_s=0.01)
    pid = await result(children, PID)

    await gone(pid)

    assert await result(children, PID) != pid
    await children.close()


async def test_the_longest_idle_child_ends_first() -> None:
    children = PythonChildren(most_idle=2)
    first, second, third = [await result(children, PID, execution_id) for execution_id in ("x1", "x2", "x3")]

    assert await result(children, PID, "x3") == third
    assert await result(children, PID, "x2") == second
    assert await result(children, PID, "x1") != first
    await children.close()


async def test_a_fresh_child_ends_with_its_task(children: PythonChildren) -> None:
    assert not is_alive(await result(children, PID, fresh=True))


DOUBTS = {
    "a thread that goes on": "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "a trace function": "import sys; sys.setprofile(lambda *_: None)",
    "a signal handler": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "a recursion limit": "import sys; sys.setrecursionlimit(2000)",
}


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_a_modified_child_is_not_reused(children: PythonChildren, doubt: str) -> None:
    pid = await result(children, f"{DOUBTS[doubt]}\n{PID}")

    assert not is_alive(pid)
    assert await result(children, PID) != pid


async def test_restorable_changes_are_undone_and_the_child_is_reused(children: PythonChildren, tmp_path: Path) -> None:
    look = "import os, sys; result = [os.getpid(), os.getcwd(), dict(os.environ), list(sys.path)]"
    before = await result(children, look)

    await result(children, f"import os, sys; os.chdir({str(tmp_path)!r}); os.environ['A'] = 'b'; sys.path.append('x')")

    assert await result(children, look) == before


@pytest.mark.parametrize("garbage", ["00000002{}", "00000001[", "00000002[]", "whatever"])
async def test_code_that_breaks_the_protocol_affects_only_itself(children: PythonChildren, garbage: str) -> None:
    """The conversation is the first descriptor after the streams."""
    with pytest.raises(ToolError, match="broke the protocol"):
        await run(children, f"import os; os.write(3, {garbage.encode()!r}); result = 1")

    assert await result(children, "result = 'well'") == "well"


async def test_a_child_killed_while_idle_is_replaced(children: PythonChildren) -> None:
    pid = await result(children, PID)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)

    assert await result(children, PID) != pid


async def test_a_task_cancelled_during_the_fork_leaves_no_child(children: PythonChildren) -> None:
    await result(children, "result = 1", "x1")
    taking = asyncio.ensure_future(children.take("x2", fresh=False))
    await asyncio.sleep(0)
    taking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await taking
    assert await result(children, "result = 2", "x3") == 2, "its answer is taken for nobody else's"


STOPS = """
import os, subprocess
below = subprocess.Popen(['sleep', '60'], start_new_session=True)
open(path, 'w').write(f'{os.getpid()} {os.getppid()} {below.pid}')
os.rename(path, path + '.done')
os.kill(os.getpid(), 19)
"""
WORKER = """
import asyncio, sys
from noetl.tools.python.process import PythonChildren

async def main():
    child = await PythonChildren().take("x", fresh=False)
    names = {"args": {}, "path": sys.argv[2]}
    await child.call({"code": sys.argv[1], "names": names, "libs": None, "limits": {}})

asyncio.run(main())
"""


async def test_a_killed_worker_leaves_no_process(tmp_path: Path) -> None:
    """Not even where the child cannot see to it itself: this one has stopped."""
    told = tmp_path / "pids.done"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, STOPS, str(tmp_path / "pids")])
    while not told.exists():
        await asyncio.sleep(0.01)
    watched = [os.pidfd_open(int(pid)) for pid in told.read_text().split()]

    worker.kill()
    worker.wait()

    for descriptor in watched:
        assert select.select([descriptor], [], [], 60)[0], "it has ended"
        os.close(descriptor)


async def test_processes_of_a_crashed_child_end_too(forked: PythonChildren) -> None:
    code = (
        "import os, subprocess\nleft = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "os.write(1, str(left.pid).encode())\nos._exit(3)"
    )

    with pytest.raises(ToolError) as raised:
        await run(forked, code)

    assert not is_alive(int(str(raised.value.details["stdout"])))


SLOW = """
import importlib, importlib.util, time

spec = importlib.util.spec_from_file_location("entry", ENTRY)
entry = importlib.util.module_from_spec(spec)
spec.loader.exec_module(entry)
entry.load()
template = importlib.import_module(f"{entry.NAME}.template")
adopt = template.adopt
template.adopt = lambda: (time.sleep(0.3), adopt())
template.begin()
"""


async def test_processes_of_a_first_child_that_crashes_immediately_end_too(
    forked: PythonChildren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(SLOW.replace("ENTRY", repr(str(template.ENTRY))))
    monkeypatch.setattr(template, "ENTRY", slow)

    await test_processes_of_a_crashed_child_end_too(forked)


async def test_an_embedded_run_keeps_no_child_of_an_ended_execution() -> None:
    playbook = (
        "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: p, path: p}\n"
        f"workflow:\n- step: start\n  tool: {{kind: python, code: '{PID}'}}\n"
    )
    async with driving(":memory:") as driver:
        pid = (await driver.run(playbook)).result
        await gone(pid)

        assert (await driver.run(playbook)).result != pid


# what they write


@pytest.mark.req("O-11")
@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("import os; os.write(1, b'out '); os.write(2, b'err')", "out err"),
        ("import subprocess; print('a'); subprocess.run(['echo', 'b']); print('c')", "a\nb\nc\n"),
        ("import os; print('a'); os.system('echo b'); print('c'); os.system('echo d')", "a\nb\nc\nd\n"),
        ("import ctypes; ctypes.CDLL(None).printf(b'from C')", "from C"),
        ("import sys; sys.__stdout__.write('past us')", "past us"),
        ("import os; os.write(1, b'\\xff')", "\ufffd"),
        ("print(chr(0xD800))", "?\n"),
    ],
)
async def test_all_output_is_captured(children: PythonChildren, code: str, stdout: str) -> None:
    assert (await run(children, code))["stdout"] == stdout
    assert (await run(children, "result = 1"))["stdout"] == "", "and told once"


@pytest.mark.req("O-11")
@pytest.mark.parametrize("code", ["os.write(1, b'x' * 1_000_000)", "os.system('head -c 1000000 /dev/zero')"])
async def test_long_output_is_truncated(children: PythonChildren, code: str) -> None:
    stdout = (await run(children, f"import os; {code}; print('y' * 10)"))["stdout"]

    assert len(stdout) < 66_000
    assert stdout.endswith("\n... 934475 more characters"), "1_000_000 + 11 - 65_536"


async def test_a_log_handler_of_one_task_works_in_the_next(children: PythonChildren) -> None:
    await run(children, "import logging; logging.basicConfig(format='%(message)s'); logging.warning('one')")

    assert (await run(children, "import logging; logging.warning('two')"))["stdout"] == "two\n"


async def test_the_output_of_a_process_before_its_death_is_reported(children: PythonChildren) -> None:
    with pytest.raises(ToolError) as raised:
        await run(children, "import os; os.write(2, b'assertion failed'); os.abort()")

    assert "SIGABRT" in raised.value.message
    assert raised.value.details["stdout"] == "assertion failed"


# limits


@pytest.mark.req("TOOL-07")
async def test_limits_apply_to_their_task_only(children: PythonChildren) -> None:
    large = "x = bytearray(600 << 20); import os; result = os.getpid()"
    refused = await run(children, large, memory_bytes=512 << 20)

    assert refused["exception"] == "MemoryError"
    assert isinstance(await result(children, large), int)


@pytest.mark.req("TOOL-07")
async def test_files_are_limited_as_declared(tmp_path: Path) -> None:
    tool = PythonTool()
    context = tool_context({"resources": {"file_size": "1Ki", "open_files": 20}})
    codes = {
        "File too large": f"with open({str(tmp_path / 'f')!r}, 'wb') as f: f.write(b'x' * 4096)",
        "Too many open files": "import os\nfiles = [open(os.devnull) for _ in range(30)]",
    }

    for message, code in codes.items():
        with pytest.raises(ToolError, match=message):
            await tool.run({"code": code}, context)
    await tool.close()
