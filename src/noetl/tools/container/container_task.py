"""The inputs of a task of kind `container`, checked: the same for every service that may run it. Also its output,
passed on as it arrives and kept up to a limit, and how it ended."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.events.orders import OutputStream
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.files import allowed_path
from noetl.tools.input_shapes import whole_number
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
    """A folder of this machine (`source`) or a volume claim of a cluster (`claim`), with its path in the container."""

    target: str
    source: str = ""
    claim: str = ""
    read_only: bool = True


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder that is copied out after the container has succeeded: from `path` to `file` of a data folder."""

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
    """The name of the container of one visit of a task, in characters that both Docker and Kubernetes accept."""
    return f"noetl-{hashlib.sha256(context.task_run.idempotency_key.encode()).hexdigest()[:32]}"


def container_task(inputs: Mapping[str, Any], context: ToolContext) -> ContainerTask:
    """The container to run. ToolError `container.input` names the mistake in the inputs."""
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
        cwd=_container_path(inputs.get("cwd"), "cwd"),
        user=_matching(inputs, "user", _USER, "user, such as 1000 or 1000:1000"),
        network=_network(inputs, context),
        pull=_one_of(inputs.get("pull"), PULL_POLICIES, "pull"),
        mounts=_mounts(inputs.get("volumes"), context),
        artifacts=_artifacts(inputs.get("artifacts"), context),
        memory_bytes=limits.get("memory_bytes"),
        cpus=_cpus(resources.get("cpus")),
        processes=limits.get("processes"),
        timeout_s=_timeout_s(context.spec.get("timeout")),
        max_bytes=whole_number(context.spec.get("max_bytes"), "spec.max_bytes", MAX_OUTPUT, error=INPUT, most=64 << 20),
        labels={"noetl.io/execution": context.task_run.execution_id, "noetl.io/step": context.task_run.step},
    )


def _with_runtime(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Playbooks of other systems have the image and its options under one key."""
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
    """Refuse secrets in arguments: the service shows them in its list of containers, and /proc to every user."""
    for place, word in enumerate(argv):
        if context.mask(word) != word:
            raise ToolError(INPUT, f"argument {place} holds a secret, which others can read there: give it in env")


def _matching(inputs: Mapping[str, Any], name: str, pattern: re.Pattern[str], what: str) -> str | None:
    written = inputs.get(name)
    if written is None and name != "image":
        return None
    if isinstance(written, bool) or not isinstance(written, str | int) or not pattern.match(str(written)):
        raise ToolError(INPUT, f'{name} "{str(written or "")[:100]}" is not a valid {what}')
    return str(written)


def _network(inputs: Mapping[str, Any], context: ToolContext) -> str | None:
    written = _matching(inputs, "network", _NETWORK, "network: write none, bridge, host or the name of one")
    if not context.permissions.sandbox:
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


def _container_path(written: Any, name: str) -> str | None:
    """A path inside the container."""
    if written is None:
        return None
    if not isinstance(written, str) or not written.startswith("/") or "\0" in written or ".." in written.split("/"):
        raise ToolError(INPUT, f'{name} "{str(written)[:100]}" is not an absolute path inside the container')
    return written


def _mounts(written: Any, context: ToolContext) -> tuple[Mount, ...]:
    return tuple(_mount(entry, context) for entry in _entries(written, "volumes", "{source, target}"))


def _mount(entry: Mapping[str, Any], context: ToolContext) -> Mount:
    target = _container_path(entry.get("target") or "", "volumes: target")
    is_read_only = entry.get("read_only", True)
    if not isinstance(is_read_only, bool):
        raise ToolError(INPUT, "volumes: read_only is true or false")
    claim, source = entry.get("claim"), entry.get("source")
    if (claim is None) == (source is None):
        raise ToolError(INPUT, "volumes: each needs a source (a data folder), or a claim (of a Kubernetes cluster)")
    if claim is not None:
        return Mount(target=str(target), claim=str(claim), read_only=is_read_only)
    place = allowed_path(str(source), context.permissions.data_folders, kind=INPUT)
    return Mount(target=str(target), source=place, read_only=is_read_only)


def _artifacts(written: Any, context: ToolContext) -> tuple[Artifact, ...]:
    found = []
    for entry in _entries(written, "artifacts", "{path, file}"):
        path = _container_path(entry.get("path") or "", "artifacts: path")
        file = allowed_path(str(entry.get("file") or ""), context.permissions.data_folders, kind=INPUT)
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
        raise ToolError(INPUT, f'spec.resources.cpus "{str(written)[:100]}" is not a number of processors, such as 0.5')
    return cpus


def _timeout_s(written: Any) -> float | None:
    total = written.get("total") if isinstance(written, Mapping) else written
    try:
        return None if total is None else seconds(total)
    except (TypeError, ValueError):
        return None  # the worker reports an invalid timeout itself


MAX_ERROR_OUTPUT = 4_000  # characters of each stream in an error
_HEADER = 8  # bytes: the stream, three zeros, the length
# Docker frames output by eight bytes: the stream, three zeros, and the length.
_STREAMS: dict[int, OutputStream] = {0: "stdout", 1: "stdout", 2: "stderr"}


class EndedContainer(msgspec.Struct, frozen=True, kw_only=True):
    exit_code: int
    is_out_of_memory: bool = False
    artifacts: tuple[dict[str, Any], ...] = ()


class ContainerOutput:
    """Both streams of one container. The beginning is kept; the rest is only passed on."""

    def __init__(self, limit: int, context: ToolContext) -> None:
        self._limit, self._printed = limit, context.live.write_output
        self._kept: dict[OutputStream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._taken: dict[OutputStream, int] = {"stdout": 0, "stderr": 0}
        self.is_truncated = False

    def take(self, data: bytes, stream: OutputStream = "stdout") -> None:
        self._taken[stream] += len(data)
        kept = self._kept[stream]
        room = self._limit - len(kept)
        kept += data[: max(room, 0)]
        self.is_truncated = self.is_truncated or len(data) > room
        if self._printed is not None:
            self._printed(data, stream)

    def text(self, stream: OutputStream) -> str:
        return self._kept[stream].decode("utf-8", "replace")

    async def take_frames(self, parts: AsyncIterator[bytes], *, from_beginning: bool = False) -> None:
        """Docker's log: each frame has a header with its stream. A frame is never held as a whole, for any length in
        its header. Output read before is skipped when the log is read again `from_beginning`. ValueError if it is
        not such a log."""
        header, left, stream = b"", 0, _STREAMS[1]
        known = dict(self._taken) if from_beginning else dict.fromkeys(self._taken, 0)
        async for part in parts:
            rest = memoryview(part)
            while rest:
                if left:
                    piece, rest = rest[:left], rest[left:]
                    left -= len(piece)
                    again = min(known[stream], len(piece))
                    known[stream] -= again
                    if len(piece) > again:
                        self.take(bytes(piece[again:]), stream)
                    continue
                # Chunks end anywhere, so a header may be split over two of them.
                wanted = _HEADER - len(header)
                header, rest = header + bytes(rest[:wanted]), rest[wanted:]
                if len(header) == _HEADER:
                    if header[0] not in _STREAMS or header[1:4] != b"\0\0\0":
                        raise ValueError("its log is not in frames")
                    stream, left, header = _STREAMS[header[0]], int.from_bytes(header[4:], "big"), b""


def result_of(ended: EndedContainer, output: ContainerOutput, task: ContainerTask, context: ToolContext) -> ToolResult:
    """The result, or ToolError `container.exit` or `container.oom` where the container says that it failed."""
    code, fine = ended.exit_code, context.spec.get("ok_exit_codes") or []
    stdout, stderr = output.text("stdout"), output.text("stderr")
    if ended.is_out_of_memory or (code != 0 and code not in (fine if isinstance(fine, list) else [])):
        masked_err = context.mask(stderr)
        raise ToolError(
            "container.oom" if ended.is_out_of_memory else "container.exit",
            f"the container {_how(ended, task)}{_last_line(masked_err)}",
            code=str(code),
            exit_code=code,
            stdout=context.mask(stdout)[-MAX_ERROR_OUTPUT:],
            stderr=masked_err[-MAX_ERROR_OUTPUT:],
        )
    result: dict[str, Any] = {"exit_code": code, "stdout": stdout, "stderr": stderr, "name": task.name}
    if output.is_truncated:
        result["truncated"] = True
    if task.artifacts:
        result["artifacts"] = list(ended.artifacts)
    return ToolResult(result=result, helpers={"container": {"exit_code": code}})


def _how(ended: EndedContainer, task: ContainerTask) -> str:
    limit = f" of {task.memory_bytes >> 20} MiB" if task.memory_bytes else ""
    if ended.is_out_of_memory:
        return f"was killed: it needed more memory than its limit{limit} (spec.resources.memory)"
    # Some engines do not report the cause of a kill; with a memory limit that is the likeliest one.
    hint = f", perhaps for more memory than its limit{limit}" if ended.exit_code == 137 and limit else ""
    return f"ended with code {ended.exit_code}{hint}"


def _last_line(stderr: str) -> str:
    lines = stderr.strip().splitlines()
    return f": {''.join(sign if sign.isprintable() else ' ' for sign in lines[-1])[:400]}" if lines else ""
