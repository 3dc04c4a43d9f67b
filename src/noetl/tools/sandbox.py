"""Resources of playbook code on this machine: limits of its process, from `spec.resources` (TOOL-07), and a sandbox, in
which bubblewrap runs the process of one task in its own namespaces (reliability.md §2.2).

In a sandbox the process has no network, sees only its own processes, runs as another user, and finds read-only system
files and an empty temporary folder that is deleted with it. A task that asks for a sandbox fails with the reason where
none can be made; it never runs without one.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]i?)?b?\Z", re.IGNORECASE)

DEFAULT_MEMORY_BYTES = 4 << 30  # address space, which numeric libraries reserve generously
# Defaults against accidents, not against attacks: a loop that writes, forks or computes without end.
DEFAULT_FILE_BYTES = 1 << 30
DEFAULT_PROCESSES = 256
DEFAULT_CPU_S = 3_600.0


def default_limits(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The limits of a python task without `spec.resources`. CPU time counts all threads, so a task with a long timeout
    may use what all processors provide in that time."""
    try:
        timeout_s = seconds(spec["timeout"])
    except (KeyError, TypeError, ValueError):
        timeout_s = 0.0
    return {
        "memory_bytes": DEFAULT_MEMORY_BYTES,
        "file_bytes": DEFAULT_FILE_BYTES,
        "processes": DEFAULT_PROCESSES,
        "cpu_s": max(DEFAULT_CPU_S, timeout_s * (os.cpu_count() or 1)),
    }


def limits_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The limits in `spec.resources`: `memory` and `file_size` as bytes or text (512Mi, 1GB), `cpu_time` as seconds or
    a duration, `open_files`, `processes`."""
    resources = spec.get("resources") or {}
    if not isinstance(resources, dict):
        raise ToolError("py.exception", "spec.resources must be a mapping such as {memory: 512Mi, cpu_time: 30}")
    limits: dict[str, Any] = {}
    if (memory := resources.get("memory")) is not None:
        limits["memory_bytes"] = size_bytes(memory)
    if (cpu := resources.get("cpu_time")) is not None:
        limits["cpu_s"] = seconds(cpu)
    if (size := resources.get("file_size")) is not None:
        limits["file_bytes"] = size_bytes(size)
    if (files := resources.get("open_files")) is not None:
        limits["open_files"] = _count("open_files", files)
    if (processes := resources.get("processes")) is not None:
        limits["processes"] = _count("processes", processes)
    return limits


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ToolError("py.exception", f'spec.resources.{name} must be a whole number of 1 or more; found "{value}"')
    return value


def size_bytes(value: Any) -> int:
    """A size such as 512Mi in bytes. Raises ToolError for anything else."""
    match = _SIZE.match(str(value).strip())
    if match is None or isinstance(value, bool):
        raise ToolError("py.exception", f'"{value}" is not a size: write bytes, or 512Mi, 1GB')
    return int(float(match[1]) * _UNITS[(match[2] or "").lower()])


PROGRAM = "bwrap"
UNAVAILABLE, INPUT = "sandbox.unavailable", "sandbox.input"
# The user and group that own no files, on every Linux.
NOBODY = "65534"
TMP = "/tmp"  # noqa: S108  it is the sandbox's own
TMP_BYTES = 256 << 20  # size of /tmp and of /dev/shm, which are in memory; nothing else can be written
# Code that makes user namespaces of its own reaches parts of the kernel that it does not need, and has file systems in
# memory without a limit. Only bubblewrap 0.8 and newer can forbid it.
_NO_NAMESPACES = ("--unshare-user", "--disable-userns")
# Files that a program needs to start: libraries and the loader. Of /etc only the files below; nothing of /home, /root
# or /var, where credentials and data are.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates")
_TRIAL_TIMEOUT_S = 30.0


class _Trial(msgspec.Struct, frozen=True):
    """The result of trying bubblewrap on this machine: the additional options that it supports, or the reason why it
    fails."""

    options: tuple[str, ...] = ()
    problem: str | None = None


_trials: dict[str, _Trial] = {}  # by the path of bubblewrap


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """The folders and network of a task besides its own folder. `network`: the network of the machine."""

    network: bool = False


def sandbox_of(spec: Mapping[str, Any], *, is_required: bool = False) -> Sandbox | None:
    """The sandbox that `spec.sandbox` asks for: strict, off, or {network: true}. Raises ToolError `sandbox.input` for
    another value, and for {network: true} if the operator requires a sandbox."""
    value = spec.get("sandbox")
    match value:
        case None | False | "off":
            sandbox = None
        case True | "strict":
            sandbox = Sandbox()
        case {"network": bool() as network} if len(value) == 1:
            sandbox = Sandbox(network=network)
        case {}:
            sandbox = Sandbox()
        case _:
            raise ToolError(INPUT, f"spec.sandbox is strict, off, or {{network: true}}; found {str(value)[:100]}")
    if not is_required:
        return sandbox
    # "off" becomes a strict sandbox without an error: it is also what most playbooks say by leaving the key out.
    if sandbox is not None and sandbox.network:
        raise ToolError(INPUT, "spec.sandbox asks for the network, and the operator of this worker allows none")
    return Sandbox()


async def sandbox_command(
    sandbox: Sandbox,
    program: Sequence[str],
    *,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    variables_fd: int | None = None,
) -> list[str]:
    """The command that runs `program` in the sandbox. It can read the folders `reads` and write the existing files
    `writes`, at the same paths as outside. `variables_fd` is a file of `variables_file`. Raises ToolError
    `sandbox.unavailable` with the reason if this machine has no sandbox."""
    if (why := await unavailable()) is not None:
        raise ToolError(UNAVAILABLE, f"this task asks for a sandbox, and there is none here: {why}")
    place = _program_place() or PROGRAM
    command = _command(place, _trials[place].options, sandbox, reads, writes)
    variables = ["--args", str(variables_fd)] if variables_fd is not None else []
    return [*command, "--setenv", "HOME", TMP, *variables, "--chdir", TMP, "--", *program]


@contextmanager
def variables_file(variables: Mapping[str, str]) -> Iterator[int]:
    """A file in memory that sets these environment variables in a sandbox, for `pass_fds` of its process.

    An author's variables must not be in the environment of bubblewrap itself, which runs outside of the sandbox: those
    of the loader (LD_PRELOAD, LD_DEBUG_OUTPUT) would run code and write files there. On its command line every user of
    the machine could read their values."""
    words = (word for name, value in variables.items() for word in ("--setenv", name, value))
    descriptor = os.memfd_create("variables")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(b"".join(os.fsencode(word) + b"\0" for word in words))
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _command(
    place: str, options: Sequence[str], sandbox: Sandbox, reads: Sequence[str] = (), writes: Sequence[str] = ()
) -> list[str]:
    command = [place, "--unshare-all", *options, "--die-with-parent", "--new-session"]
    command += ["--cap-drop", "ALL", "--uid", NOBODY, "--gid", NOBODY, "--hostname", "sandbox"]
    if sandbox.network:
        command.append("--share-net")
    for system in _SYSTEM:
        command += _system_folder(system)
    for file in (*_FILES, *(_NETWORK_FILES if sandbox.network else ())):
        command += ["--ro-bind-try", file, file]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for own in ("/dev/shm", TMP):  # noqa: S108
        command += ["--size", str(TMP_BYTES), "--tmpfs", own]
    # Python itself, if it is not in a system folder: the virtual environment, and the installation it was made from.
    for read in dict.fromkeys((sys.base_prefix, sys.prefix, *reads)):
        command += ["--ro-bind", read, read]
    # Files and never folders: in a folder of the disk, code could make files without number, or replace one that the
    # worker opens next by a link. A file that is mounted can be neither removed nor replaced.
    for write in writes:
        command += ["--bind", write, write]
    # Last, since all that was mounted before needed places there. Both are file systems in memory without a limit.
    return [*command, "--remount-ro", "/dev", "--remount-ro", "/"]


def _program_place() -> str | None:
    from shutil import which  # few tasks ask for a sandbox, and every run would load it

    return which(PROGRAM)


def _system_folder(place: str) -> list[str]:
    """The arguments that mount a system folder. On most systems /bin and similar folders are links into /usr."""
    path = Path(place)
    if path.is_symlink():
        return ["--symlink", os.readlink(place), place]
    return ["--ro-bind", place, place] if path.is_dir() else []


async def unavailable() -> str | None:
    """Why there can be no sandbox here; None if there can. Each path of bubblewrap is tried once."""
    place = _program_place()
    if place is None:
        return "bubblewrap (bwrap) is not installed; install it with the system's package manager"
    if place not in _trials:
        _trials[place] = await _trial(place)
    return _trials[place].problem


async def _trial(place: str) -> _Trial:
    if await _trial_problem(place, _NO_NAMESPACES) is None:
        return _Trial(_NO_NAMESPACES)
    return _Trial(problem=await _trial_problem(place, ()))


async def _trial_problem(place: str, options: Sequence[str]) -> str | None:
    # Bubblewrap may be installed and yet fail: containers and some distributions turn user namespaces off.
    process = await asyncio.create_subprocess_exec(
        *(*_command(place, options, Sandbox()), "--", "true"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_TRIAL_TIMEOUT_S):
            _, stderr = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return f"bubblewrap did not begin within {_TRIAL_TIMEOUT_S:g} s"
    if process.returncode == 0:
        return None
    lines = stderr.decode("utf-8", "replace").strip().splitlines() or [f"it ended with code {process.returncode}"]
    return f"bubblewrap does not work here ({lines[-1][:200]}); user namespaces may be turned off"
