"""`python`: what code may look like, what it sees, and what happens when it misbehaves (TOOL-07, O-11)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from noetl.base.clock import SystemClock
from noetl.events.outcomes import Outcome
from noetl.testing.tool_conformance import tool_context
from noetl.tools.contract import UNKNOWN, OutputWriter
from noetl.tools.python.tool import PythonTool
from noetl.worker.attempt import attempt


@pytest_asyncio.fixture
async def tool() -> AsyncIterator[PythonTool]:
    tool = PythonTool()
    yield tool
    await tool.close()


async def run(
    tool: PythonTool,
    code: str | None = None,
    args: dict[str, Any] | None = None,
    *,
    names: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    execution_id: str = "x1",
    folders: tuple[str, ...] = (),
    write_output: OutputWriter | None = None,
    **inputs: Any,
) -> Outcome:
    context = tool_context(
        spec,
        execution_id=execution_id,
        step="s",
        task="t",
        name=lambda name: (names or {}).get(name, UNKNOWN),
        data_folders=folders,
        write_output=write_output,
    )
    given = {"args": args, **inputs} | ({"code": code} if code is not None else {})
    return await attempt(tool, given, context, clock=SystemClock(), sleep=asyncio.sleep, trace_id="t")


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize(
    ("code", "args", "result"),
    [
        ("result = 1 + 1", {}, 2),
        ('result = {"processed": order_id}', {"order_id": "o-7"}, {"processed": "o-7"}),
        ("def main(a, b): return a + b", {"a": 1, "b": 2}, 3),
        ("def main(a, b=5): return a + b", {"a": 1}, 6),
        ("async def main(a): return a * 2", {"a": 4}, 8),
        ("def main(a, /, b, *, c=3): return [a, b, c]", {"a": 1, "b": 2}, [1, 2, 3]),
        ("def main(a=0, b=0, /): return [a, b]", {"b": 2}, [0, 0]),
        ("result = 1\ndef main(): return 2", {}, 2),
        ("def main(**rest): return sorted(rest)", {"b": 1, "a": 2}, ["a", "b"]),
        ("x = 3\nreturn x * input_data['n']", {"n": 2}, 6),
        ("if n:\n    return 'yes'\nreturn 'no'", {"n": 0}, "no"),
        ("def helper(): return 1\nresult = helper()", {}, 1),
        ("result = args", {"n": "404"}, {"n": "404"}),
        ("pass", {}, None),
        ("import math\nresult = math.floor(2.7)", {}, 2),
        ("total = 0\nfor i in range(n):\n    total += i\nreturn total", {"n": 4}, 6),
        ("result = [f(x) for x in (1, 2)] if False else '{{ not a template }}'", {}, "{{ not a template }}"),
    ],
)
async def test_every_form_of_code_returns_its_result(
    tool: PythonTool, code: str, args: dict[str, Any], result: Any
) -> None:
    outcome = await run(tool, code, args)

    assert outcome.error is None
    assert outcome.result == result
    assert outcome.helpers == {"py": {"exception": None}}


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize(
    "code",
    ["result = args", "return input_data", "def main(input_data): return input_data", "def main(**all): return all"],
)
async def test_in_one_mapping_args_of_the_task_override_those_of_the_token(tool: PythonTool, code: str) -> None:
    """Whoever passes args along an arc reads them in code as in a template (O-11)."""
    outcome = await run(tool, code, {"b": 2}, names={"args": {"a": 1, "b": 1}})

    assert outcome.result == {"a": 1, "b": 2}


@pytest.mark.req("TOOL-07", "TPL-06")
async def test_code_reads_the_names_of_a_template_and_receives_only_those_it_mentions(tool: PythonTool) -> None:
    known = {"ctx": {"n": 1}, "api_url": "http://x", "_prev": {"data": 2}, "unused": 1}

    outcome = await run(
        tool, "result = [ctx['n'], api_url, _prev['data'], a, 'unu' + 'sed' in globals()]", {"a": 9}, names=known
    )

    assert outcome.result == [1, "http://x", 2, 9, False]


async def test_args_take_precedence_over_other_names(tool: PythonTool) -> None:
    outcome = await run(tool, "result = n", {"n": "mine"}, names={"n": "other"})

    assert outcome.result == "mine"


@pytest.mark.parametrize(
    ("libs", "code", "result"),
    [
        ({"m": "math"}, "m.sqrt(16)", 4.0),
        (["math", "json"], "json.dumps(math.sqrt(16))", "4.0"),
        (["math as m", {"js": "json"}], "js.dumps(m.sqrt(16))", "4.0"),
        ("math, os.path as p", "p.join('a', str(math.floor(1.5)))", "a/1"),
        (["os.path"], "os.path.join('a', 'b')", "a/b"),
        ({"from": "math", "import": "sqrt"}, "sqrt(16)", 4.0),
        ({"from": "math", "import": ["sqrt", "floor as f"]}, "f(sqrt(17))", 4),
        ([{"from": "math", "import": "sqrt", "as": "root"}], "root(16)", 4.0),
        ({"root": {"from": "math", "import": "sqrt"}}, "root(16)", 4.0),
        ([{"import": "math", "as": "m"}], "m.sqrt(16)", 4.0),
        ([{"name": "math", "as": "m"}], "m.sqrt(16)", 4.0),
    ],
)
async def test_libs_are_accepted_in_every_clear_form(tool: PythonTool, libs: Any, code: str, result: Any) -> None:
    outcome = await run(tool, f"result = {code}", libs=libs)

    assert (outcome.error, outcome.result) == (None, result)


@pytest.mark.parametrize("libs", [5, [5], {"m": 5}, {"from": "math"}, ["import math"], {"x": {"from": "a"}}])
async def test_invalid_libs_are_an_error_that_shows_the_forms(tool: PythonTool, libs: Any) -> None:
    outcome = await run(tool, "result = 1", libs=libs)

    assert outcome.error is not None
    assert "{pd: pandas}" in outcome.error.message
    assert "{from: datetime, import:" in outcome.error.message


async def test_libs_are_imported_under_their_given_name(tool: PythonTool) -> None:
    outcome = await run(tool, "result = m.sqrt(16)", libs={"m": "math"})

    assert outcome.result == 4.0


async def test_a_script_is_read_from_its_file(tool: PythonTool, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("def main(n): return n + 1")

    script = {"uri": str(tmp_path / "job.py"), "source": {"type": "file"}}
    outcome = await run(tool, None, {"n": 1}, script=script, folders=(str(tmp_path),))

    assert outcome.result == 2


def without_marks(trace: list[str]) -> list[str]:
    """Without the lines that underline a part of the one above: each version of Python has its own way with them."""
    return [line for line in trace if line.strip(" ~^")]


@pytest.mark.req("TOOL-07", "OUT-02", "OUT-03")
async def test_an_exception_is_an_error_with_its_type_and_a_traceback_with_source_lines(tool: PythonTool) -> None:
    outcome = await run(tool, "def check():\n    raise ValueError('x')\n\ncheck()")

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == ("py.exception", "ValueError: x")
    assert outcome.helpers == {"py": {"exception": "ValueError"}}
    assert outcome.error.details is not None
    assert without_marks(outcome.error.details["trace"]) == [
        "Traceback (most recent call last):",
        '  File "s/t", line 4, in <module>',
        "    check()",
        '  File "s/t", line 2, in check',
        "    raise ValueError('x')",
    ]


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("x = 0\nreturn 1 / x", ['  File "s/t", line 2, in <module>', "    return 1 / x"]),
        ("async def main():\n    raise KeyError(1)", ['  File "s/t", line 2, in main', "    raise KeyError(1)"]),
        ("def f(:\n    pass", ['  File "s/t", line 1', "    def f(:"]),
    ],
)
async def test_a_traceback_starts_with_the_code_of_the_author(tool: PythonTool, code: str, lines: list[str]) -> None:
    outcome = await run(tool, code)

    assert outcome.error is not None
    assert outcome.error.details is not None
    told = [line for line in without_marks(outcome.error.details["trace"]) if not line.startswith("Traceback")]
    assert told == lines


async def test_a_traceback_names_files_modules_and_causes(tool: PythonTool, tmp_path: Path) -> None:
    code = (
        "import json\ntry:\n    json.loads('{')\nexcept ValueError as problem:\n    raise KeyError('k') from problem\n"
    )
    (tmp_path / "job.py").write_text(code)
    file = str(tmp_path / "job.py")
    outcome = await run(tool, None, script=file, folders=(str(tmp_path),))

    assert outcome.error is not None
    assert outcome.error.details is not None
    trace = "\n".join(outcome.error.details["trace"])
    assert f'File "{file}", line 3, in <module>\n    json.loads' in trace
    assert 'File "json/decoder.py"' in trace
    assert "The above exception was the direct cause" in trace
    assert trace.endswith(f"File \"{file}\", line 5, in <module>\n    raise KeyError('k') from problem")


async def test_a_printed_traceback_has_its_source_lines(tool: PythonTool) -> None:
    code = "import logging\ntry:\n    [][1]\nexcept IndexError:\n    logging.exception('broken')\n"
    outcome = await run(tool, code)

    assert outcome.meta.stdout is not None
    assert '  File "s/t", line 3, in <module>\n    [][1]\n' in outcome.meta.stdout


async def test_a_long_traceback_is_shortened_in_the_middle(tool: PythonTool) -> None:
    calls = "\n".join(f"def f{at}(): f{at + 1}()" for at in range(60))
    outcome = await run(tool, f"{calls}\ndef f60(): raise ValueError\nf0()")

    assert outcome.error is not None
    assert outcome.error.details is not None
    trace = outcome.error.details["trace"]
    assert len(trace) == 41
    assert any("lines left out" in line for line in trace)
    assert without_marks(trace)[-1] == "    def f60(): raise ValueError"


@pytest.mark.parametrize(
    ("code", "exception"),
    [
        ("def main(a): return a", "TypeError"),
        ("result = nope", "NameError"),
        ("result = (", "SyntaxError"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def f(): return f()\nf()", "RecursionError"),
    ],
)
async def test_any_raised_object_is_reported_by_its_type(tool: PythonTool, code: str, exception: str) -> None:
    outcome = await run(tool, code)

    assert outcome.error is not None
    assert outcome.error.kind == "py.exception"
    assert outcome.helpers["py"]["exception"] == exception


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize(
    "value",
    [
        *("float('nan')", "float('inf')", "{1, 2}", "object()", "b'x'", "'\\ud800'", "[1, {'a': {3}}]"),
        "(lambda x: [x.append(x), x][1])([])",
    ],
)
async def test_a_result_that_is_not_json_is_refused(tool: PythonTool, value: str) -> None:
    outcome = await run(tool, f"result = {value}")

    assert outcome.error is not None
    assert outcome.error.kind == "py.result"


async def test_large_whole_numbers_and_any_text_arrive_unchanged(tool: PythonTool) -> None:
    outcome = await run(tool, "result = [2**70, text]", {"text": "é\u2028\U0001f600\x00"})

    assert outcome.result == [2**70, "é\u2028\U0001f600\x00"]


async def test_output_is_stored_and_long_output_truncated(tool: PythonTool) -> None:
    little = await run(tool, "print('hello'); result = 1")
    much = await run(tool, "for _ in range(100_000): print('x' * 50)\nresult = 1")

    assert little.meta.stdout == "hello\n"
    assert much.ok
    assert much.meta.stdout is not None
    assert len(much.meta.stdout) < 70_000
    assert "more characters" in much.meta.stdout


async def test_output_before_an_exception_is_stored_too(tool: PythonTool) -> None:
    outcome = await run(tool, "print('so far'); raise ValueError")

    assert outcome.meta.stdout == "so far\n"


async def test_printing_to_the_file_descriptor_cannot_break_the_protocol(tool: PythonTool) -> None:
    outcome = await run(tool, "import os; os.write(1, b'garbage'); os.write(2, b'more'); result = 1")

    assert outcome.result == 1


@pytest.mark.req("TOOL-07")
async def test_endless_code_is_stopped_by_its_timeout(tool: PythonTool) -> None:
    outcome = await run(tool, "while True: pass", spec={"timeout": 0.3})

    assert outcome.error is not None
    assert outcome.error.kind == "timeout"
    assert (await run(tool, "result = 1")).result == 1, "the next task has a child that works"


async def test_a_process_that_exits_is_an_error_and_the_next_task_has_another(tool: PythonTool) -> None:
    gone = await run(tool, "import os; os._exit(7)")
    killed = await run(tool, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")

    assert gone.error is not None
    assert "ended with code 7" in gone.error.message
    assert killed.error is not None
    assert "SIGKILL" in killed.error.message
    assert (await run(tool, "result = 1")).result == 1


@pytest.mark.req("TOOL-07")
async def test_memory_and_cpu_time_are_limited(tool: PythonTool) -> None:
    memory = await run(tool, "x = bytearray(1 << 30)", spec={"resources": {"memory": "512Mi"}, "isolation": "fresh"})
    cpu = await run(tool, "while True: pass", spec={"resources": {"cpu_time": 0.1}, "timeout": 90})

    assert memory.helpers["py"]["exception"] == "MemoryError"
    assert cpu.error is not None
    assert "CPU time" in cpu.error.message


async def test_a_process_forked_by_the_code_is_ignored_and_ends_with_its_task(tool: PythonTool) -> None:
    code = "import os, time\npid = os.fork()\nif pid == 0:\n    time.sleep(60)\nresult = pid"

    outcome = await run(tool, code)

    with pytest.raises(ProcessLookupError):
        os.kill(outcome.result, 0)
    assert (await run(tool, "result = 1")).result == 1


async def test_a_child_is_reused_with_fresh_globals_and_only_by_its_execution(tool: PythonTool) -> None:
    first = await run(tool, "import os; left = 1; result = os.getpid()")
    again = await run(tool, "import os; result = [os.getpid(), 'left' in globals()]")
    other = await run(tool, "import os; result = os.getpid()", execution_id="x2")
    fresh = await run(tool, "import os; result = os.getpid()", spec={"isolation": "fresh"})

    assert again.result == [first.result, False]
    assert len({first.result, other.result, fresh.result}) == 3


@pytest.mark.req("SCOPE-01")
async def test_code_receives_a_copy_of_the_data(tool: PythonTool) -> None:
    workload = {"n": [1]}

    await run(tool, "workload['n'].append(2); result = workload", names={"workload": workload})

    assert workload == {"n": [1]}


async def test_the_child_inherits_nothing_of_our_environment(tool: PythonTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TOKEN", "secret")

    outcome = await run(tool, "import os; result = 'NOETL_TOKEN' in os.environ")

    assert outcome.result is False


async def test_closing_the_tool_leaves_no_process(tool: PythonTool) -> None:
    outcome = await run(tool, "import os; result = os.getpid()")

    await tool.close()

    with pytest.raises(ProcessLookupError):
        os.kill(outcome.result, 0)


async def test_several_tasks_of_one_execution_run_concurrently(tool: PythonTool) -> None:
    outcomes = await asyncio.gather(*(run(tool, "import os; result = os.getpid()") for _ in range(3)))

    assert len({outcome.result for outcome in outcomes}) == 3


@pytest.mark.parametrize("memory", ["lots", True, "12 parsecs"])
async def test_an_invalid_memory_limit_is_reported(tool: PythonTool, memory: Any) -> None:
    outcome = await run(tool, "result = 1", spec={"resources": {"memory": memory}})

    assert outcome.error is not None
    assert "is not a size" in outcome.error.message


class Gate:
    """Opens once something was printed: code that waits for it ends only if that is told while it runs."""

    def __init__(self, file: Path, word: bytes) -> None:
        self._file, self._word, self.heard = file, word, b""

    def printed(self, data: bytes, stream: str = "stdout") -> None:
        self.heard += data
        if self._word in self.heard:
            self._file.touch()


WAITING = """
import pathlib, time
while not pathlib.Path(gate).exists():
    time.sleep(0.01)
"""


@pytest.mark.parametrize(
    "printing",
    [
        "print('first')",
        "import sys; print('first', file=sys.stderr)",
        "import logging; logging.warning('first')",
        "import os; os.write(1, b'first')",
        "import subprocess; print('zero'); subprocess.run(['echo', 'first'])",
        "import os\nif os.fork() == 0:\n    os._exit(0)\nprint('first')",
    ],
)
async def test_output_of_code_is_streamed_live_and_stored_once(tool: PythonTool, tmp_path: Path, printing: str) -> None:
    gate = Gate(tmp_path / "gate", b"first")
    code = f"{printing}\n{WAITING}print('last')"

    outcome = await run(tool, code, {"gate": str(tmp_path / "gate")}, write_output=gate.printed)
    again = await run(tool, "print('of the next task')", write_output=None)

    assert outcome.error is None
    assert outcome.meta.stdout is not None
    assert outcome.meta.stdout.endswith("last\n")
    assert outcome.meta.stdout.count("first") == outcome.meta.stdout.count("last") == 1
    assert gate.heard.count(b"first") == 1
    assert again.meta.stdout == "of the next task\n"


async def test_very_long_live_output_is_stored_the_same_as_unwatched_output(tool: PythonTool, tmp_path: Path) -> None:
    heard = bytearray()
    gate = tmp_path / "gate"
    code = f"for i in range(30):\n    print('ä' * 9_999)\n{WAITING}"

    def hear(data: bytes, stream: str = "stdout") -> None:
        heard.extend(data)
        if len(heard) > 64 * 1024:
            gate.touch()

    outcome = await run(tool, code, {"gate": str(gate)}, write_output=hear)
    plain = await run(tool, code, {"gate": str(gate)})

    assert outcome.meta.stdout == plain.meta.stdout
    assert plain.meta.stdout is not None
    assert plain.meta.stdout.endswith(f"\n... {300_000 - 64 * 1024} more characters")
    assert len(heard) > 64 * 1024


async def test_live_output_of_code_that_died_is_stored(tool: PythonTool, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", b"first")

    outcome = await run(
        tool,
        f"print('first')\n{WAITING}import os; os._exit(3)",
        {"gate": str(tmp_path / "gate")},
        write_output=gate.printed,
    )

    assert outcome.error is not None
    assert outcome.meta.stdout == "first\n"


@pytest.mark.req("TOOL-07")
@pytest.mark.parametrize(
    "code",
    [
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nresult = P(3).x",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: 'int'\nreturn P(3).x",
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: 'int'\nresult = P(3).x",
    ],
)
async def test_classes_find_the_module_they_are_in(tool: PythonTool, code: str) -> None:
    """Dataclasses and type hints look it up by its name."""
    first, second = await run(tool, code), await run(tool, "result = sorted(globals().keys() & {'P', 'result'})")

    assert (first.error, first.result) == (None, 3)
    assert second.result == []
