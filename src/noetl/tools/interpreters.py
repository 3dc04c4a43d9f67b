"""Runner programs in another interpreter: for libraries that are too heavy for NoETL's environment or conflict with it.

The setting `interpreters` names the interpreter of a kind (`dbt=/opt/dbt/bin/python`). Without it the worker's own one
is used, which then needs the extra. A runner is one file that imports nothing of NoETL. It reads a request as JSON from
standard input, prints its progress, and writes its answer as JSON into its folder. Nothing is unpickled here.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext
from noetl.tools.shell.inputs import limits_from
from noetl.tools.shell.programs import EndedProgram, ShellProgram, private_folder, run

ANSWER = "answer.json"
MAX_ANSWER_BYTES = 64 << 20  # as large as one result may be


def named_interpreter(kind: str) -> str | None:
    """The interpreter that the settings name for a kind, if any."""
    from noetl.base.settings import load_settings  # most workers run no such kind

    for entry in load_settings().settings.interpreters:
        name, _, place = entry.partition("=")
        if name.strip() == kind and place.strip():
            return os.path.expanduser(place.strip())
    return None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a runner, and its ended program with the output."""

    fields: dict[str, Any]
    ended: EndedProgram


async def run_in_interpreter(
    kind: str, runner: Path, request: Mapping[str, Any], context: ToolContext, env: Mapping[str, str] | None = None
) -> Answer:
    """Run `runner` with a request, to its end. Cancelling it ends everything that it started. Raises ToolError
    `KIND.error` if it leaves no answer, and the error of the answer if that has one."""
    python = named_interpreter(kind) or sys.executable
    if not os.access(python, os.X_OK):
        raise ToolError(f"{kind}.input", f'the setting interpreters names "{python}" for {kind}, which is no program')
    limits = limits_from(context, kind=f"{kind}.input")
    async with private_folder() as folder:
        program = ShellProgram(
            # Isolated: neither the folder of the runner nor PYTHONPATH may bring modules of NoETL into the other
            # interpreter.
            argv=(python, "-I", str(runner), str(folder / ANSWER)),
            stdin=msgspec.json.encode(request),
            # Unbuffered, so that people see progress while it runs. HOME is a new folder: frameworks write caches and
            # state there.
            env={"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", "HOME": str(folder), **(env or {})},
            limits=limits,
            write_output=context.live.write_output,
        )
        ended = await run(program, folder)
        fields = _answer_fields(folder / ANSWER)
    if fields is None:
        raise _no_answer_error(kind, ended, context)
    if (problem := fields.get("error")) is not None:
        raise _answer_error(kind, problem, context)
    return Answer(fields=fields, ended=ended)


def _answer_fields(file: Path) -> dict[str, Any] | None:
    """The answer in the file, if it has one. The runner executed foreign code, so the file may hold anything."""
    try:
        # Follow no link, which could lead out of the folder, and do not block on a pipe that has no writer.
        opener = partial(os.open, flags=os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(file, "rb", opener=lambda place, _: opener(place)) as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                return None
            content = source.read(MAX_ANSWER_BYTES + 1)
    except OSError:
        return None
    if len(content) > MAX_ANSWER_BYTES:
        raise ToolError("result.too_large", f"the answer has more than {MAX_ANSWER_BYTES >> 20} MiB")
    try:
        decoded = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _answer_error(kind: str, problem: Any, context: ToolContext) -> ToolError:
    fields = problem if isinstance(problem, dict) else {"message": str(problem)}
    error = str(fields.get("kind") or "error")
    message = readable_text(str(fields.get("message") or "it gave no message"), context)
    details = {name: value for name, value in fields.items() if name not in ("kind", "message", "retryable")}
    known = error if error in ("input", "failed", "missing", "denied") else "error"
    return ToolError(f"{kind}.{known}", message, retryable=fields.get("retryable") is True, **details)


def _no_answer_error(kind: str, ended: EndedProgram, context: ToolContext) -> ToolError:
    how = f"was killed by signal {-ended.exit_code}" if ended.exit_code < 0 else f"ended with code {ended.exit_code}"
    lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1:]
    detail = f": {readable_text(lines[0], context)}" if lines else ""
    return ToolError(f"{kind}.error", f"the process of {kind} {how} before it answered{detail}", code="process")


def readable_text(text: str, context: ToolContext) -> str:
    """The text masked, on one line, and cut. It is masked first, since half a secret is not recognised."""
    return " ".join("".join(char if char.isprintable() else " " for char in context.mask(text)).split())[:2000]
