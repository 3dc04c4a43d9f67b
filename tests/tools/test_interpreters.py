"""What dbt, dlt, dask and ray share: a process in another interpreter, whose answer may be anything, missing or too
large.

None of them is needed here: a program of ours stands where their interpreter would be.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.events.outcomes import Outcome
from noetl.tools.frameworks.clusters import DaskTool, RayTool
from noetl.tools.frameworks.dbt import DbtTool
from noetl.tools.frameworks.dlt import DltTool
from tests.process_liveness import is_alive
from tests.tools.sql_tasks import outcome_of

TOOLS: dict[str, Any] = {"dbt": DbtTool, "dlt": DltTool, "dask": DaskTool, "ray": RayTool}
GOOD = {"dbt": {"nodes": []}, "dlt": {"tables": {}}, "dask": {"result": 1}, "ray": {"result": 1}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/dbt_project.yml").write_text("name: shop\n")
    return tmp_path


@pytest.fixture(params=TOOLS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, kind: str, program: str) -> None:
    """An interpreter that ignores what it is to run, and runs `program`; `answer` is the file for its answer."""
    file = folder / "interpreter"
    begin = "import json, os, sys, time\nanswer = sys.argv[3]\nrequest = json.load(sys.stdin)\n"
    # Without the packages of this environment, which it has no use for: it starts in a third of the time.
    file.write_text(f"#!{sys.executable} -IS\n{begin}good = {GOOD[kind]!r}\n{program}\n")
    file.chmod(0o755)
    monkeypatch.setenv("NOETL_INTERPRETERS", f"{kind}={file}")


async def ran(kind: str, folder: Path, words: list[str] | None = None, **more: Any) -> Outcome:
    """A task of the kind that gets as far as its interpreter. `words` stand wherever a playbook can put a secret."""
    said = words or ["nothing"]
    inputs: dict[str, dict[str, Any]] = {
        "dbt": {"project": "shop", "vars": dict(enumerate(said)), "auth": {"adapter": "postgres", "password": said[0]}},
        "dlt": {"destination": "postgres", "data": said, "table": "t", "auth": {"password": said[0]}},
        "dask": {"code": "result = 1", "args": {"words": said}, "auth": "tcp://127.0.0.1:1"},
        "ray": {"code": "result = 1", "args": {"words": said}, "auth": "ray://127.0.0.1:1"},
    }
    return await outcome_of(TOOLS[kind](), inputs[kind], None, **{"data_folders": (str(folder),), **more})


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("", "error"),
        ("sys.exit(3)", "error"),
        ("os.kill(os.getpid(), 9)", "error"),
        ("open(answer, 'w').write('no json')", "error"),
        ("open(answer, 'w').write('[' * 100_000)", "error"),
        ("open(answer, 'w').write('[1]')", "error"),
        ("open(answer, 'w').write(json.dumps({'nodes': 3, 'tables': 3}))", "error"),
        ("open(answer, 'w').write(json.dumps({'error': {'message': '\\x1b[31m', 'kind': 'tool.unknown'}}))", "error"),
        ("open(answer, 'w').write(json.dumps({'error': 7}))", "error"),
        ("os.symlink('/etc/passwd', answer)", "error"),
        ("os.mkfifo(answer)", "error"),
        ("f = open(answer, 'wb'); f.truncate(65 << 20)", "result.too_large"),
        ("print('x' * (5 << 20)); open(answer, 'w').write(json.dumps(good))", None),
    ],
)
async def test_a_broken_interpreter_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, program: str, error: str | None
) -> None:
    stand_in(monkeypatch, folder, kind, program)

    outcome = await ran(kind, folder)

    expected = f"{kind}.error" if error == "error" else error
    assert (outcome.error.kind if outcome.error else None) == expected
    assert outcome.error is None or outcome.error.message.isprintable()


async def test_a_cancelled_task_ends_its_process_and_the_children_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    program = "child = os.fork()\nprint(os.getpid(), flush=True)\ntime.sleep(1000)"
    stand_in(monkeypatch, folder, kind, program)
    said, both = bytearray(), asyncio.Event()

    def printed(data: bytes, _: Any) -> None:
        said.extend(data)
        if said.count(b"\n") == 2:
            both.set()

    task = asyncio.ensure_future(ran(kind, folder, write_output=printed))
    await both.wait()
    task.cancel()
    left = await asyncio.gather(task, return_exceptions=True)

    assert isinstance(left[0], asyncio.CancelledError)
    pids = [int(word) for word in said.split()]
    assert os.getpid() not in pids
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.req("KEY-06")
async def test_no_byte_of_a_secret_is_revealed(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The process tells all it was given, as code with a mistake may: in its error, and in what it prints."""
    told = "print(json.dumps(request)); open(answer, 'w').write(json.dumps({'error': {'message': str(request)}}))"
    stand_in(monkeypatch, folder, kind, told)
    words = [secrets.token_urlsafe(12) for _ in range(50)]

    def masked(text: str) -> str:
        for word in words:
            text = text.replace(word, "***")
        return text

    outcome = await ran(kind, folder, words, mask=masked)

    assert outcome.error is not None
    assert "***" in outcome.error.message
    written = msgspec.json.encode(outcome)
    assert [word for word in words if word.encode() in written] == []
