"""Inputs and results that `shell` and `script` share: environment, folder, standard input, limits, exit code."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.sandbox import Sandbox, default_limits, limits_of, sandbox_of
from noetl.tools.shell.programs import EndedProgram, ShellProgram

INPUT = "shell.input"
MAX_ERROR_OUTPUT = 4_000  # characters of each stream in an error
# Names of variables in every shell. A script could not read others, and some hold code (BASH_FUNC_x%%).
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def program_of(
    argv: list[str], inputs: Mapping[str, Any], context: ToolContext, env: Mapping[str, str] | None = None
) -> ShellProgram:
    """The program of a task. Raises ToolError `shell.input` for inputs that do not fit."""
    check_arguments(argv, context, way_out="env or stdin")
    sandbox = _sandbox(inputs, context)
    return ShellProgram(
        argv=tuple(argv),
        env={**task_environment(context), **environment_of(inputs.get("env")), **(env or {})},
        cwd=_folder(inputs.get("cwd")),
        stdin=_standard_input(inputs.get("stdin")),
        limits={**(default_limits(context.spec) if sandbox is not None else {}), **limits_from(context)},
        sandbox=sandbox,
        write_output=context.live.write_output,
    )


def _sandbox(inputs: Mapping[str, Any], context: ToolContext) -> Sandbox | None:
    sandbox = sandbox_of(context.spec, is_required=context.permissions.sandbox)
    if sandbox is not None and inputs.get("cwd") is not None:
        raise ToolError("shell.input", "cwd is a folder of this machine, which a sandbox does not have: leave it out")
    return sandbox


def check_arguments(argv: Sequence[str], context: ToolContext, *, kind: str = INPUT, way_out: str = "env") -> None:
    """Refuse secrets in the arguments of a program. Raises ToolError of `kind`, which names the fix."""
    for place, word in enumerate(argv):
        if context.mask(word) != word:
            raise ToolError(
                kind,
                f"argument {place} holds a secret, and every user of this machine can read the arguments of a program: "
                f"pass it in {way_out}",
            )


def result_of(ended: EndedProgram, context: ToolContext, word: str) -> ToolResult:
    """The result. Raises ToolError `shell.exit` for an exit code other than 0 and `spec.ok_exit_codes`."""
    code, mask = ended.exit_code, context.mask
    if code != 0 and code not in _ok_exit_codes(context.spec.get("ok_exit_codes")):
        raise ToolError(
            "shell.exit",
            f"the {'command' if word == 'shell' else 'script'} {_ending(code)}{_last_line(mask(ended.stderr))}",
            exit_code=code,
            stdout=mask(ended.stdout)[-MAX_ERROR_OUTPUT:],
            stderr=mask(ended.stderr)[-MAX_ERROR_OUTPUT:],
        )
    result: dict[str, Any] = {"exit_code": code, "stdout": ended.stdout, "stderr": ended.stderr}
    if ended.truncated:
        result["truncated"] = True
    return ToolResult(result=result, helpers={word: {"exit_code": code}})


def task_environment(context: ToolContext) -> dict[str, str]:
    """Variables that describe the task. The key is the same for every attempt (reliability.md §3.4)."""
    return {
        "NOETL_EXECUTION_ID": context.task_run.execution_id,
        "NOETL_STEP": context.task_run.step,
        "NOETL_TASK": context.task_run.task,
        "NOETL_ATTEMPT": str(context.task_run.attempt),
        "NOETL_IDEMPOTENCY_KEY": context.task_run.idempotency_key,
    }


def environment_of(env: Any, *, kind: str = INPUT) -> dict[str, str]:
    """The environment variables of a program. Raises ToolError of `kind` for an invalid name or value."""
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise ToolError(kind, f"env must be a mapping of names to values, not {type(env).__name__}")
    for name in env:
        if not _NAME.match(str(name)):
            raise ToolError(kind, f'"{name}" is not a name of an environment variable')
    return {str(name): text_of(value, kind=kind) for name, value in env.items() if value is not None}


def arguments_of(args: Any, *, kind: str = INPUT) -> list[str]:
    """A list is the arguments in order; a mapping is `--name=value` for each, `--name` for true."""
    if args is None:
        return []
    if isinstance(args, list):
        return [text_of(item, kind=kind) for item in args]
    if not isinstance(args, Mapping):
        raise ToolError(kind, f"args must be a list or a mapping, not {type(args).__name__}")
    options = {name: value for name, value in args.items() if value is not None and value is not False}
    return [
        f"--{name}" if value is True else f"--{name}={text_of(value, kind=kind)}" for name, value in options.items()
    ]


def text_of(value: Any, *, kind: str = INPUT) -> str:
    """A value as text for a program: text as it is, everything else as JSON."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if "\0" in text:
        raise ToolError(kind, "a value for a program cannot hold the character U+0000")
    return text


def _standard_input(stdin: Any) -> bytes | None:
    if stdin is None:
        return None
    return stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else msgspec.json.encode(stdin)


def _folder(cwd: Any) -> str | None:
    if cwd is None:
        return None
    if not Path(str(cwd)).is_dir():
        raise ToolError("shell.input", f'cwd "{cwd}" is not a folder here')
    return str(cwd)


def limits_from(context: ToolContext, *, kind: str = INPUT) -> dict[str, Any]:
    """The limits in `spec.resources`. Raises ToolError of `kind` for invalid ones."""
    try:
        return limits_of(context.spec)
    except (ToolError, ValueError) as problem:
        raise ToolError(kind, str(problem)) from None


def _ok_exit_codes(codes: Any) -> list[Any]:
    if codes is None or isinstance(codes, list):
        return codes or []
    raise ToolError("shell.input", "spec.ok_exit_codes must be a list of exit codes")


def _ending(code: int) -> str:
    if code > 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _last_line(stderr: str) -> str:
    lines = stderr.strip().splitlines()
    return f": {lines[-1][:400]}" if lines else ""
