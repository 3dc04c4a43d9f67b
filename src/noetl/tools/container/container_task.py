"""What a task of kind `container` asks for, checked: the same for every service that may run it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext
from noetl.tools.files import allowed_path
from noetl.tools.shell.inputs import arguments_of, environment_of, limits_from, task_environment, text_of

INPUT = "container.input"
PULL_POLICIES = ("missing", "always", "never")
MAX_OUTPUT = 1 << 20  # of each stream
_RUNTIME = ("image", "pull", "user", "network", "cwd")
# No leading dash and no blank: the text becomes a part of an address.
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,499}\Z")
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
_USER = re.compile(r"[A-Za-z0-9_.-]{1,64}(:[A-Za-z0-9_.-]{1,64})?\Z")


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of this machine (`source`), or a volume claim of a cluster (`claim`), and where it is seen."""

    target: str
    source: str = ""
    claim: str = ""
    read_only: bool = True


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder that is copied out when the container has ended well: from `path` to `file` of a data folder."""

    path: str
    file: str


class ContainerTask(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # of the container or Job: the same for every attempt, so that a later one finds it
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    user: str | None = None
    network: str | None = None
    pull: str = "missing"
    mounts: tuple[Mount, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    memory_bytes: int | None = None
    cpus: float | None = None
    processes: int | None = None
    timeout_s: float | None = None
    max_bytes: int = MAX_OUTPUT
    labels: Mapping[str, str] = {}


def container_name(context: ToolContext) -> str:
    """Of one visit of a task, in the letters that Docker and Kubernetes both take."""
    return f"noetl-{hashlib.sha256(context.idempotency_key.encode()).hexdigest()[:32]}"


def container_task(inputs: Mapping[str, Any], context: ToolContext) -> ContainerTask:
    """What to run. ToolError `container.input` says what is wrong with the inputs."""
    inputs = _with_runtime(inputs)
    command, args = _command(inputs.get("command")), tuple(arguments_of(inputs.get("args"), kind=INPUT))
    _check_arguments((*command, *args), context)
    resources = context.spec.get("resources") or {}
    limits = limits_from(context, kind=INPUT)
    return ContainerTask(
        name=container_name(context),
        image=_matching(inputs, "image", _IMAGE, "name of an image, such as python:3.13") or "",
        command=command,
        args=args,
        env={**task_environment(context), **environment_of(inputs.get("env"), kind=INPUT)},
        cwd=_inside(inputs.get("cwd"), "cwd"),
        user=_matching(inputs, "user", _USER, "user, such as 1000 or 1000:1000"),
        network=_network(inputs, context),
        pull=_one_of(inputs.get("pull"), PULL_POLICIES, "pull"),
        mounts=_mounts(inputs.get("volumes"), context),
        artifacts=_artifacts(inputs.get("artifacts"), context),
        memory_bytes=limits.get("memory_bytes"),
        cpus=_cpus(resources.get("cpus")),
        processes=limits.get("processes"),
        timeout_s=_timeout_s(context.spec.get("timeout")),
        max_bytes=_max_bytes(context.spec.get("max_bytes")),
        labels={"noetl.io/execution": context.execution_id, "noetl.io/step": context.step},
    )


def _with_runtime(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Playbooks of other systems put the image and how it runs under one key."""
    runtime = inputs.get("runtime") or {}
    unknown = [str(name) for name in runtime if name not in _RUNTIME] if isinstance(runtime, Mapping) else ["its shape"]
    if unknown:
        raise ToolError(INPUT, f"runtime takes {', '.join(_RUNTIME)}, and not {', '.join(unknown)}")
    together: Mapping[str, Any] = {**runtime, **inputs}
    if not together.get("image"):
        raise ToolError(INPUT, '"image" is missing')
    return together


def _command(written: Any) -> tuple[str, ...]:
    if written is None:
        return ()
    if isinstance(written, str) and written.strip():
        return ("/bin/sh", "-c", text_of(written, kind=INPUT))
    if isinstance(written, list) and written:
        return tuple(text_of(item, kind=INPUT) for item in written)
    raise ToolError(INPUT, "command must be the text of a command, or a list of arguments")


def _check_arguments(argv: tuple[str, ...], context: ToolContext) -> None:
    """Arguments are shown by the service to whoever may list its containers, and by /proc to the machine."""
    for place, word in enumerate(argv):
        if context.masked(word) != word:
            raise ToolError(INPUT, f"argument {place} holds a secret, which others can read there: give it in env")


def _matching(inputs: Mapping[str, Any], name: str, pattern: re.Pattern[str], what: str) -> str | None:
    written = inputs.get(name)
    if written is None and name != "image":
        return None
    if isinstance(written, bool) or not isinstance(written, str | int) or not pattern.match(str(written)):
        raise ToolError(INPUT, f'{name} "{str(written or "")[:100]}" is no {what}')
    return str(written)


def _network(inputs: Mapping[str, Any], context: ToolContext) -> str | None:
    written = _matching(inputs, "network", _NETWORK, "network: write none, bridge, host or the name of one")
    if not context.sandbox:
        return written
    if written not in (None, "none"):
        raise ToolError(INPUT, f'network "{written}" is not allowed: the operator of this worker allows none (sandbox)')
    return "none"


def _one_of(written: Any, words: tuple[str, ...], name: str) -> str:
    if written is None:
        return words[0]
    if written not in words:
        raise ToolError(INPUT, f'{name} "{str(written)[:100]}" is not one of {", ".join(words)}')
    return str(written)


def _inside(written: Any, name: str) -> str | None:
    """A path inside the container."""
    if written is None:
        return None
    if not isinstance(written, str) or not written.startswith("/") or "\0" in written or ".." in written.split("/"):
        raise ToolError(INPUT, f'{name} "{str(written)[:100]}" is no absolute path inside the container')
    return written


def _mounts(written: Any, context: ToolContext) -> tuple[Mount, ...]:
    return tuple(_mount(entry, context) for entry in _entries(written, "volumes", "{source, target}"))


def _mount(entry: Mapping[str, Any], context: ToolContext) -> Mount:
    target = _inside(entry.get("target") or "", "volumes: target")
    is_read_only = entry.get("read_only", True)
    if not isinstance(is_read_only, bool):
        raise ToolError(INPUT, "volumes: read_only is true or false")
    claim, source = entry.get("claim"), entry.get("source")
    if (claim is None) == (source is None):
        raise ToolError(INPUT, "volumes: each needs a source (a data folder), or a claim (of a Kubernetes cluster)")
    if claim is not None:
        return Mount(target=str(target), claim=str(claim), read_only=is_read_only)
    place = allowed_path(str(source), context.data_folders, kind=INPUT)
    return Mount(target=str(target), source=place, read_only=is_read_only)


def _artifacts(written: Any, context: ToolContext) -> tuple[Artifact, ...]:
    found = []
    for entry in _entries(written, "artifacts", "{path, file}"):
        path = _inside(entry.get("path") or "", "artifacts: path")
        file = allowed_path(str(entry.get("file") or ""), context.data_folders, kind=INPUT)
        found.append(Artifact(path=str(path), file=file))
    return tuple(found)


def _entries(written: Any, name: str, shape: str) -> list[Mapping[str, Any]]:
    if written is None:
        return []
    if not isinstance(written, list) or not all(isinstance(entry, Mapping) for entry in written):
        raise ToolError(INPUT, f"{name} is a list of {shape}")
    return written


def _cpus(written: Any) -> float | None:
    if written is None:
        return None
    try:
        cpus = float(written)
    except (TypeError, ValueError):
        cpus = 0.0
    if isinstance(written, bool) or not 0.001 <= cpus <= 10_000:
        raise ToolError(INPUT, f'spec.resources.cpus "{str(written)[:100]}" is no number of processors, such as 0.5')
    return cpus


def _timeout_s(written: Any) -> float | None:
    total = written.get("total") if isinstance(written, Mapping) else written
    try:
        return None if total is None else seconds(total)
    except (TypeError, ValueError):
        return None  # whoever runs tasks says what is wrong with it


def _max_bytes(written: Any) -> int:
    if written is None:
        return MAX_OUTPUT
    if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= 64 << 20:
        raise ToolError(INPUT, f'spec.max_bytes "{str(written)[:100]}" is not a number from 1 to {64 << 20}')
    return written
