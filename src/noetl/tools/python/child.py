"""The child process of the `python` tool: reads calls, runs the author's code, writes answers, as JSON over pipes.

It is run as a script by a clean interpreter (`-I`) and imports nothing of this package. Frames are a length in eight
hexadecimal digits and that many bytes of JSON. Every call gets fresh globals. This process is no boundary of the
language: what contains it is that it is a process of its own, with limits, killed as a group (RELIABILITY 2.2).
"""

from __future__ import annotations

import ast
import io
import json
import os
import resource
import select
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any

STDOUT_LIMIT = 64 * 1024  # characters of standard output that are kept


class Captured(io.TextIOBase):
    """Standard output as it will be reported: its beginning, and how much more there was."""

    def __init__(self) -> None:
        self._kept = io.StringIO()
        self._size = 0
        self._dropped = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        room = STDOUT_LIMIT - self._size
        self._kept.write(text[: max(room, 0)])
        self._size += min(len(text), max(room, 0))
        self._dropped += len(text) - min(len(text), max(room, 0))
        return len(text)

    def text(self) -> str:
        more = f"\n... {self._dropped} more characters" if self._dropped else ""
        return self._kept.getvalue() + more


def serve(calls: int, answers: int) -> None:
    """Answer calls until the parent closes the pipe. A process that the code forked never gets to answer."""
    me = os.getpid()
    with os.fdopen(calls, "rb") as source:
        while header := source.read(8):
            call = json.loads(source.read(int(header, 16)))
            answer = answer_to(call)
            if os.getpid() != me:
                os._exit(0)
            if HEIRS:
                end_descendants()
            send(answers, answer)


HEIRS: list[bool] = []  # not empty once the code may have started processes
STARTING = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"})


def watch_for_processes(event: str, _: tuple[Any, ...]) -> None:
    """Before the first process is started: whatever it leaves behind when it ends becomes a child of ours, not of the
    system's, so that it can be found (PR_SET_CHILD_SUBREAPER). Importing this costs, so it waits until it is needed."""
    if event in STARTING and not HEIRS:
        HEIRS.append(True)
        with suppress(Exception):
            import ctypes

            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def end_descendants() -> None:
    """End what the code started, in whatever session it is now: a task leaves no process behind."""
    for _ in range(100):  # who is killed may leave others behind
        found = descendants(os.getpid())
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            if not found:
                return


def descendants(pid: int) -> list[int]:
    """Every process below this one, where the system tells."""
    found: list[int] = []
    pending = [pid]
    while pending:
        tasks = f"/proc/{pending.pop()}/task"
        with suppress(OSError):
            for thread in os.listdir(tasks):
                with open(f"{tasks}/{thread}/children", encoding="ascii") as file:
                    children = [int(child) for child in file.read().split()]
                found += children
                pending += children
    return found


def send(answers: int, answer: bytes) -> None:
    frame = memoryview(b"%08x" % len(answer) + answer)
    while frame:
        frame = frame[os.write(answers, frame) :]


def answer_to(call: dict[str, Any]) -> bytes:
    """The answer to one call; whatever the code does, there is one."""
    captured = Captured()
    sys.stdout = sys.stderr = captured
    try:
        limit(call["limits"])
        outcome = {"ok": True, "result": run(call)}
    except BaseException as problem:  # the code may raise anything, SystemExit and KeyboardInterrupt included
        outcome = {"ok": False, **told(problem)}
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    return encoded(outcome, captured.text())


def encoded(outcome: dict[str, Any], stdout: str) -> bytes:
    """JSON proper: NaN, infinities, half characters and anything but plain data are refused (O-11)."""
    stdout = stdout.encode("utf-8", "replace").decode()
    try:
        return json.dumps({**outcome, "stdout": stdout}, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        kind = type(outcome.get("result")).__name__
        refused = {"ok": False, "kind": "py.result", "message": f"the result ({kind}) is not JSON: {problem}"}
        return json.dumps({**refused, "stdout": stdout}).encode()


def told(problem: BaseException) -> dict[str, Any]:
    """An exception as data: its type, its words, and the lines of the author's own code."""
    frames = traceback.extract_tb(problem.__traceback__)
    own = [f"line {frame.lineno}, in {frame.name}" for frame in frames if frame.filename == "<code>"]
    if isinstance(problem, SyntaxError):
        own.append(f"line {problem.lineno}")
    return {
        "kind": "py.exception",
        "exception": type(problem).__name__,
        "message": f"{type(problem).__name__}: {words_of(problem)}"[:4000],
        "trace": own[-20:],
    }


def words_of(problem: BaseException) -> str:
    """What an exception says of itself; its class is the author's, so even that may fail."""
    try:
        return str(problem)
    except BaseException:
        return "(it does not say)"


def limit(limits: dict[str, Any]) -> None:
    """Limits of this call, and of no later one. CPU time is counted from now, since the process outlives a call."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = limits.get("cpu_s")
    wanted = {
        resource.RLIMIT_AS: limits.get("memory_bytes"),
        resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime + cpu_s) + 1 if cpu_s else None,
    }
    for what, soft in wanted.items():
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (hard if soft is None else int(soft), hard))


def run(call: dict[str, Any]) -> Any:
    """`result`, or what `main` returns, or what the top level returns (TOOL-07, DESIGN §5)."""
    space: dict[str, Any] = {"__name__": "__noetl__", "__builtins__": __builtins__, **call["names"]}
    for name, module in (call.get("libs") or {}).items():
        space[name] = imported(module)
    tree = ast.parse(call["code"], "<code>")
    if returns_at_top(tree):
        return call_returning(tree, space)
    exec(compile(tree, "<code>", "exec"), space)  # noqa: S102  this is the purpose of the process
    main = space.get("main")
    if callable(main) and getattr(main, "__globals__", None) is space:
        return called(main, space)
    return space.get("result")


def imported(module: str) -> Any:
    import importlib

    return importlib.import_module(module)


def returns_at_top(tree: ast.Module) -> bool:
    """Whether the code returns outside any function."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))
    return False


def call_returning(tree: ast.Module, space: dict[str, Any]) -> Any:
    """Run the code as the body of a function, so that its top-level `return` means what it says. Names it assigns
    are looked up as globals, as they would be at the top level."""
    assigned = sorted(
        {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    )
    body: list[ast.stmt] = [ast.Global(assigned), *tree.body] if assigned else tree.body
    arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.FunctionDef("__top__", arguments, body, [], None)
    module = ast.fix_missing_locations(ast.Module([function], []))
    exec(compile(module, "<code>", "exec"), space)  # noqa: S102  this is the purpose of the process
    return space["__top__"]()


def called(main: Any, space: dict[str, Any]) -> Any:
    """`main` with the variables its parameters name."""
    import inspect

    given = {}
    for name, parameter in inspect.signature(main).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            given.update({key: value for key, value in space["args"].items() if key not in given})
        elif parameter.kind is not parameter.VAR_POSITIONAL and name in space:
            given[name] = space[name]
    result = main(**given)
    if inspect.iscoroutine(result):
        import asyncio

        return asyncio.run(result)
    return result


def end_with_parent(calls: int) -> None:
    """Wait until the other end of the pipe is gone, then end everything this process started, itself included: a
    task whose worker was killed must not go on beside the one that takes its place."""
    watched = select.poll()
    watched.register(calls, 0)
    while not any(event & select.POLLHUP for _, event in watched.poll()):
        pass
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)


def close_pipes(*pipes: int) -> None:
    """A forked process that held them open would keep our parent waiting for an answer after our own end."""
    for pipe in pipes:
        with suppress(OSError):
            os.close(pipe)


def begin() -> None:
    """Take the pipes away from the code: its standard streams lead nowhere but to what is captured."""
    calls, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the data of the playbook
    threading.Thread(target=end_with_parent, args=(calls,), daemon=True).start()
    os.register_at_fork(after_in_child=lambda: close_pipes(calls, answers))
    sys.addaudithook(watch_for_processes)
    sys.path.insert(0, os.getcwd())  # `-I` leaves it out; the author's own modules are beside the playbook
    serve(calls, answers)


if __name__ == "__main__":
    begin()
