"""The conformance suite: what a worker expects of every tool, as tests that a plug-in's author inherits.

    class TestAuditLogger(ToolConformance):
        tool = AuditLogger

        def working(self, folder): return {"message": "it began"}
        def wrong(self): return [{"message": "x", "level": "loud"}]

A test whose inputs a subclass does not give is not collected. docs/write-a-tool.md lists them.

`outcome_of` calls one tool as a worker does, without a playbook, a worker or a store. For tools that connect,
`listening` is a server that speaks no protocol: it says nothing, or one fixed answer.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.base.clock import SystemClock
from noetl.events.outcomes import Outcome
from noetl.net.kinds import COMMON_ERRORS, COMMON_SPEC, ToolKind
from noetl.tools.contract import (
    UNKNOWN,
    LiveReports,
    ResultsAccess,
    TaskRunIdentity,
    Tool,
    ToolContext,
    ToolPermissions,
)
from noetl.worker.attempt import attempt

_PARTS: dict[str, type[msgspec.Struct]] = {
    "task_run": TaskRunIdentity,
    "permissions": ToolPermissions,
    "results": ResultsAccess,
    "live": LiveReports,
}


def tool_context(
    spec: Mapping[str, Any] | None = None, *, key: str = "exec/run/task/0", execution_id: str = "exec", **more: Any
) -> ToolContext:
    """A context with made-up names. `key` is the idempotency key; `more` are further fields of ToolContext and of its
    parts, such as `data_folders`."""
    names = {"step": "step", "task": "task", "attempt": 1, "task_run_id": "run", "name": lambda name: UNKNOWN}
    fields = {"execution_id": execution_id, "idempotency_key": key, **names, **more}
    parts: dict[str, Any] = {
        name: part(**{field: fields.pop(field) for field in part.__struct_fields__ if field in fields})
        for name, part in _PARTS.items()
        if name not in fields
    }
    return ToolContext(spec=spec or {}, **parts, **fields)


async def outcome_of(
    tool: Tool, /, inputs: Mapping[str, Any], spec: Mapping[str, Any] | None = None, **more: Any
) -> Outcome:
    """The outcome that a worker would record of one attempt."""
    context = tool_context(spec, **more)
    return await attempt(tool, dict(inputs), context, clock=SystemClock(), sleep=asyncio.sleep, trace_id="trace")


# The loop closes sockets one turn after the request to do so.
_CLOSING_S = 0.01


class Listener:
    """A server on a free port of loopback. It sends `answer` to each client and closes the connection. Without
    `answer` it sends nothing and waits for the client to close."""

    def __init__(self, answer: bytes | None = None) -> None:
        self.answer = answer
        self.port = self.connections = 0
        self.accepted, self.left = asyncio.Event(), asyncio.Event()
        self.open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        self.accepted.set()
        with suppress(OSError):
            if self.answer is None:
                while await reader.read(1 << 16):
                    pass
            else:
                writer.write(self.answer)
                await writer.drain()
        self.left.set()
        self.open.discard(writer)
        writer.close()


@asynccontextmanager
async def listening(answer: bytes | None = None) -> AsyncIterator[Listener]:
    listener = Listener(answer)
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        for writer in listener.open:
            # Abort the connections that are still open.
            writer.transport.abort()
        await asyncio.sleep(_CLOSING_S)


SECRETS = 50
# The time limit for what must happen, on a machine that is busy with other things too.
_PATIENCE_S = 300
_ENDING_S = 10
# The time until a task waits for an answer. Before Python 3.12 asyncio.wait_for, which many libraries connect with,
# loses a cancellation that arrives at the moment of the connection.
_UNDER_WAY_S = 0.2
_SPEC = {"timeout": _PATIENCE_S}
NONSENSE = (
    b"",
    b"\x00" * 64,
    b"\xff" * 4096,
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\nx",
    b"-ERR \x1b[31m\r\n{]",
)


class ToolConformance:
    """Subclasses name the tool and the inputs for each test. `drivers` are modules that importing the tool's module
    must not import: the checker imports it in every command that meets an unknown kind."""

    tool: ClassVar[Callable[[], Tool]]  # the class of the tool
    # Taken from the tool if left out.
    kind: ClassVar[ToolKind]
    drivers: ClassVar[tuple[str, ...]] = ()

    def working(self, folder: Path) -> dict[str, Any] | None:
        """Inputs of a task that succeeds; `folder` is empty, and an open data folder."""

    def wrong(self) -> list[dict[str, Any]] | None:
        """Inputs that are each refused before anything happens."""

    def connecting(self, port: int) -> dict[str, Any] | None:
        """Inputs that make the tool connect to `localhost` at this port, where the server does not speak its
        protocol."""

    def with_secret(self, secret: str, port: int) -> dict[str, Any] | None:
        """Inputs as from `connecting`, with the secret in every place where the tool takes one."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if not hasattr(cls, "kind"):
            cls.kind = cast(Any, cls.tool).kind
        for hook, tests in _TESTS_OF.items():
            if getattr(cls, hook) is getattr(ToolConformance, hook):
                for test in tests:
                    # Pytest collects only what can be called.
                    setattr(cls, test, None)

    def test_its_declaration_is_whole(self) -> None:
        kind = self.kind
        spellings = [spelling for one in kind.inputs for spelling in (one.name, *one.aliases)]

        assert kind.doc, f"{kind.name} has no doc: a sentence that says what it does"
        assert kind.error_kinds, f"{kind.name} declares no error_kinds: policies cannot be checked against them"
        assert not [one.name for one in (*kind.inputs, *kind.spec) if not one.doc], "every input needs a doc"
        assert len(set(spellings)) == len(spellings), "one spelling names two inputs"
        assert not {one.name for one in kind.spec} & {one.name for one in COMMON_SPEC}, "a knob that every kind has"
        json.dumps([one.schema for one in (*kind.inputs, *kind.spec)])
        json.dumps(kind.defaults)

    def test_importing_it_imports_no_driver(self) -> None:
        module = cast(Any, type(self).tool).__module__
        program = f"import sys, {module}; print(*(name for name in {self.drivers!r} if name in sys.modules))"

        # In a process of its own: another test may have imported the driver into this one.
        done = subprocess.run(  # noqa: S603  a program of ours
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )

        assert done.returncode == 0, done.stderr
        assert not done.stdout.split(), f"import them in run: {done.stdout.strip()}"

    def test_it_closes_before_it_was_used(self) -> None:
        async def closed(tool: Tool) -> None:
            await tool.close()

        self._with_tool(closed)

    def test_a_task_that_can_be_done_gives_plain_data(self, tmp_path: Path) -> None:
        async def works(tool: Tool) -> None:
            outcome = await outcome_of(tool, self.working(tmp_path) or {}, _SPEC, data_folders=(str(tmp_path),))

            assert outcome.error is None, f"{outcome.error.kind}: {outcome.error.message}"
            msgspec.json.encode(outcome.result)
            assert set(outcome.helpers) <= set(tool.helpers()), "helpers() names every helper, with null values"

        self._with_tool(works)

    def test_wrong_inputs_are_errors_of_its_own(self) -> None:
        async def refuses(tool: Tool) -> None:
            for inputs in self.wrong() or ():
                outcome = await outcome_of(tool, inputs, _SPEC)
                assert outcome.error is not None, f"it took {inputs}"
                self._check_error(outcome)

        self._with_tool(refuses)

    def test_nonsense_from_the_other_side_is_an_error_of_its_own(self) -> None:
        async def survives(tool: Tool) -> None:
            for answer in NONSENSE:
                async with listening(answer) as listener:
                    self._check_error(await outcome_of(tool, self.connecting(listener.port) or {}, _SPEC))

        self._with_tool(survives)

    def test_what_the_address_policy_refuses_is_not_reached(self) -> None:
        async def obeys(tool: Tool) -> None:
            async with listening(b"") as listener:
                inputs = self.connecting(listener.port) or {}
                outcome = await outcome_of(tool, inputs, _SPEC, addresses=AddressGuard(CLOSED))

                assert outcome.error is not None
                assert outcome.error.kind == "tool.not_allowed", f"{outcome.error.kind}: {outcome.error.message}"
                assert listener.connections == 0, "it connected all the same"

        self._with_tool(obeys)

    def test_a_cancelled_task_leaves_nothing_running(self) -> None:
        async def stops(tool: Tool) -> None:
            async with listening() as listener, asyncio.timeout(_PATIENCE_S):
                task = asyncio.ensure_future(outcome_of(tool, self.connecting(listener.port) or {}, _SPEC))
                await listener.accepted.wait()
                # `accepted` is set by the connection, not by the request: the tool gets a moment to send it.
                await asyncio.sleep(_UNDER_WAY_S)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await tool.close()
                await listener.left.wait()  # its connection is closed

        self._with_tool(stops)

    def test_no_secret_is_told(self) -> None:
        async def keeps_quiet(tool: Tool) -> None:
            async with listening(NONSENSE[1]) as listener:
                for _ in range(SECRETS):
                    secret = secrets.token_urlsafe(12)
                    outcome = await outcome_of(tool, self.with_secret(secret, listener.port) or {}, _SPEC)
                    assert secret.encode() not in msgspec.json.encode(outcome), "the outcome contains a secret"

        self._with_tool(keeps_quiet)

    def _check_error(self, outcome: Outcome) -> None:
        error = outcome.error
        if error is None:
            return
        assert error.kind != "tool.exception", f"an exception escaped: {error.message}"
        known = {*self.kind.error_kinds, *COMMON_ERRORS}
        assert error.kind in known, f'"{error.kind}" is not among the error_kinds it declares'
        assert error.message, f"{error.kind} says nothing"
        assert error.message.isprintable(), "what the other side sent is shown as it came"

    def _with_tool(self, act: Callable[[Tool], Awaitable[None]]) -> None:
        """Run `act` with a new tool, and check that it leaves no task and no process behind."""

        async def begun() -> None:
            before = asyncio.all_tasks()
            tool = type(self).tool()
            try:
                await act(tool)
            finally:
                await tool.close()
            # The listener serves in tasks of this loop as well; they do not belong to the tool.
            left = {task for task in asyncio.all_tasks() - before if not _is_listener(task)}
            if left:
                _, left = await asyncio.wait(left, timeout=_ENDING_S)  # some are about to end
            assert not left, f"it left tasks behind: {left}"

        running = _children()
        asyncio.run(begun())
        assert not _children() - running, "it left processes behind"


def _is_listener(task: asyncio.Task[Any]) -> bool:
    return "Listener.serve" in repr(task.get_coro())


def _children() -> set[str]:
    """The running child processes of this one; empty on systems without /proc."""
    found: set[str] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        # A thread may end while its file is read.
        with suppress(OSError):
            found.update(file.read_text().split())
    return {pid for pid in found if _program(pid)}


def _program(pid: str) -> str:
    """The command line of a process; empty once it has ended."""
    try:
        return (Path("/proc") / pid / "cmdline").read_text()
    except OSError:
        return ""


_TESTS_OF = {
    "working": ("test_a_task_that_can_be_done_gives_plain_data",),
    "wrong": ("test_wrong_inputs_are_errors_of_its_own",),
    "connecting": (
        "test_nonsense_from_the_other_side_is_an_error_of_its_own",
        "test_what_the_address_policy_refuses_is_not_reached",
        "test_a_cancelled_task_leaves_nothing_running",
    ),
    "with_secret": ("test_no_secret_is_told",),
}
