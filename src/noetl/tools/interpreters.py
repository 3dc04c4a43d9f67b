"""Programs of ours that run in another interpreter: for libraries too heavy, or too choosy, to live beside NoETL.

The setting `interpreters` names one for a kind (`dbt=/opt/dbt/bin/python`); without it the worker's own is used, which
then needs the extra. The program is one file that imports nothing of NoETL: it reads a request as JSON from its
standard input, prints what people should see, and writes its answer as JSON into its folder. Nothing is unpickled here.
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
LARGEST_ANSWER = 64 << 20  # bytes


def named_interpreter(kind: str) -> str | None:
    """The interpreter that the settings name for a kind; None where they name none."""
    from noetl.base.settings import load_settings  # most workers run no such kind

    for entry in load_settings().settings.interpreters:
        name, _, place = entry.partition("=")
        if name.strip() == kind and place.strip():
            return os.path.expanduser(place.strip())
    return None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a program left: its answer, and what it printed."""

    fields: dict[str, Any]
    ended: EndedProgram


async def answered_by(
    kind: str, runner: Path, request: Mapping[str, Any], context: ToolContext, env: Mapping[str, str] | None = None
) -> Answer:
    """Run `runner` with a request, to its end; cancelled, everything it started ends. ToolError `KIND.error` where it
    leaves no answer, and that of the answer where it holds one."""
    python = named_interpreter(kind) or sys.executable
    if not os.access(python, os.X_OK):
        raise ToolError(f"{kind}.input", f'the setting interpreters names "{python}" for {kind}, which is no program')
    limits = limits_from(context, kind=f"{kind}.input")
    async with private_folder() as folder:
        program = ShellProgram(
            argv=(python, "-I", str(runner), str(folder / ANSWER)),
            stdin=msgspec.json.encode(request),
            env={"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", "HOME": str(folder), **(env or {})},
            limits=limits,
            printed=context.printed,
        )
        ended = await run(program, folder)
        fields = _answer(folder / ANSWER)
    if fields is None:
        raise _silent(kind, ended, context)
    if (problem := fields.get("error")) is not None:
        raise _failure(kind, problem, context)
    return Answer(fields=fields, ended=ended)


def _answer(file: Path) -> dict[str, Any] | None:
    """What the program wrote; None where it is none. The program ran code of others, so the file is theirs to spoil."""
    try:
        # No link, which could lead out of the folder, and no waiting for a pipe that nobody writes to.
        opener = partial(os.open, flags=os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(file, "rb", opener=lambda place, _: opener(place)) as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                return None
            content = source.read(LARGEST_ANSWER + 1)
    except OSError:
        return None
    if len(content) > LARGEST_ANSWER:
        raise ToolError("result.too_large", f"the answer has more than {LARGEST_ANSWER >> 20} MiB")
    try:
        decoded = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _failure(kind: str, problem: Any, context: ToolContext) -> ToolError:
    told = problem if isinstance(problem, dict) else {"message": str(problem)}
    word = str(told.get("kind") or "error")
    message = readable_text(str(told.get("message") or "it said nothing"), context)
    details = {name: value for name, value in told.items() if name not in ("kind", "message", "retryable")}
    known = word if word in ("input", "failed", "missing", "denied") else "error"
    return ToolError(f"{kind}.{known}", message, retryable=told.get("retryable") is True, **details)


def _silent(kind: str, ended: EndedProgram, context: ToolContext) -> ToolError:
    how = f"was killed by signal {-ended.exit_code}" if ended.exit_code < 0 else f"ended with code {ended.exit_code}"
    lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1:]
    said = f": {readable_text(lines[0], context)}" if lines else ""
    return ToolError(f"{kind}.error", f"the process of {kind} {how} before it answered{said}", code="process")


def readable_text(text: str, context: ToolContext) -> str:
    """Masked before it is cut, since half a secret is not recognised; on one line."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in context.masked(text)).split())[:2000]
