"""Sandboxes: the process of one task in namespaces of its own, by bubblewrap (reliability.md §2.2).

It has no network, sees no process but its own, is another user, and finds system files, read-only, and an empty
temporary folder that goes with it. A task that asks for one is refused where there can be none, with the reason: it
never runs without.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError

PROGRAM = "bwrap"
UNAVAILABLE, INPUT = "sandbox.unavailable", "sandbox.input"
# The user and group that own nothing, on every Linux.
NOBODY = "65534"
TMP_BYTES = 256 << 20  # of the private temporary folder, which is memory
# What a program needs to start at all: libraries and the loader. Of /etc only the files below, nothing of /home, /root
# or /var.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates")
_TRY_S = 30.0

_found: dict[str, str | None] = {}  # by the program's place: why it does not work here, None where it does


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """What a task may reach beside its own folder. `network`: that of the machine."""

    network: bool = False


def sandbox_of(spec: Mapping[str, Any], *, is_required: bool = False) -> Sandbox | None:
    """What `spec.sandbox` asks for: strict, off, or {network: true}. ToolError `sandbox.input` for anything else, and
    for less than the operator requires."""
    asked = spec.get("sandbox")
    match asked:
        case None | False | "off":
            sandbox = None
        case True | "strict":
            sandbox = Sandbox()
        case {"network": bool() as network} if len(asked) == 1:
            sandbox = Sandbox(network=network)
        case {}:
            sandbox = Sandbox()
        case _:
            raise ToolError(INPUT, f"spec.sandbox is strict, off, or {{network: true}}; found {str(asked)[:100]}")
    if not is_required:
        return sandbox
    if sandbox is not None and sandbox.network:
        raise ToolError(INPUT, "spec.sandbox asks for the network, and the operator of this worker allows none")
    return Sandbox()


async def sandboxed(
    sandbox: Sandbox, program: Sequence[str], *, folder: Path | None = None, reads: Sequence[str] = ()
) -> list[str]:
    """The command that runs `program` in the sandbox. It can write to `folder` and read `reads`, at their own places.
    ToolError `sandbox.unavailable` says why this machine has none."""
    if (why := await unavailable()) is not None:
        raise ToolError(UNAVAILABLE, f"this task asks for a sandbox, and there is none here: {why}")
    work = str(folder) if folder is not None else "/tmp"  # noqa: S108  it is the sandbox's own
    return [*_command(sandbox, folder, reads), "--setenv", "HOME", work, "--chdir", work, "--", *program]


def _command(sandbox: Sandbox, folder: Path | None = None, reads: Sequence[str] = ()) -> list[str]:
    command = [_program_place() or PROGRAM, "--unshare-all", "--die-with-parent", "--new-session"]
    command += ["--cap-drop", "ALL", "--uid", NOBODY, "--gid", NOBODY, "--hostname", "sandbox"]
    if sandbox.network:
        command.append("--share-net")
    for place in _SYSTEM:
        command += _system_folder(place)
    for file in (*_FILES, *(_NETWORK_FILES if sandbox.network else ())):
        command += ["--ro-bind-try", file, file]
    command += ["--proc", "/proc", "--dev", "/dev", "--size", str(TMP_BYTES), "--tmpfs", "/tmp"]  # noqa: S108
    # Python itself, where it is not a part of the system: an environment of its own, and what that was made from.
    for place in dict.fromkeys((sys.base_prefix, sys.prefix, *reads)):
        command += ["--ro-bind", place, place]
    if folder is not None:
        command += ["--bind", str(folder), str(folder)]
    return command


def _program_place() -> str | None:
    from shutil import which  # few tasks ask for a sandbox, and every run would load it

    return which(PROGRAM)


def _system_folder(place: str) -> list[str]:
    """On most systems /bin and its like lead into /usr."""
    path = Path(place)
    if path.is_symlink():
        return ["--symlink", os.readlink(place), place]
    return ["--ro-bind", place, place] if path.is_dir() else []


async def unavailable() -> str | None:
    """Why there can be no sandbox here; None where there can. It is tried once for each place of the program."""
    place = _program_place()
    if place is None:
        return "bubblewrap (bwrap) is not installed; install it with the system's package manager"
    if place not in _found:
        _found[place] = await _tried()
    return _found[place]


async def _tried() -> str | None:
    process = await asyncio.create_subprocess_exec(
        *(*_command(Sandbox()), "--", "true"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_TRY_S):
            _, said = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return f"bubblewrap did not begin within {_TRY_S:g} s"
    if process.returncode == 0:
        return None
    lines = said.decode("utf-8", "replace").strip().splitlines() or [f"it ended with code {process.returncode}"]
    return f"bubblewrap does not work here ({lines[-1][:200]}); user namespaces may be turned off"
