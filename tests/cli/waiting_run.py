"""Executions that wait for input from outside: in a process of their own, or left behind by an interrupted one."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from noetl.control.background.presence import KIND
from noetl.operations.embedded import driving
from noetl.store.sqlite.store import SqliteStore
from tests import forked
from tests.cli.running import call
from tests.process_output import last_words


class WaitingRun:
    """`noetl run FILE` in another process, once it waits."""

    def __init__(self, file: Path, folder: Path, *words: str) -> None:
        self.db = str(folder / "s.db")
        self.process = forked.Popen(
            [*forked.NOETL, "run", str(file), "--db", self.db],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.said = ""
        for line in self.process.stderr:
            self.said += line
            if all(word in line for word in words):
                until_present(self.db)
                return
        raise AssertionError(f"it ended before it waited: {self.said}")

    def interrupt(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> tuple[int, str]:
        _, stderr = last_words(self.process)
        return self.process.returncode, stderr

    def __enter__(self) -> WaitingRun:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate(timeout=500)


def until_present(db: str) -> None:
    """Until others know that there is somebody to be asked."""

    async def present() -> None:
        store = SqliteStore.open(Path(db))
        while not await store.key_values.list(KIND):
            await asyncio.sleep(0.01)
        await store.close()

    asyncio.run(present())


def left_waiting(db: str, playbook: str | Path, payload: dict[str, Any] | None = None) -> str:
    """An execution that waits, and that nobody runs."""

    async def begun() -> str:
        async with driving(db) as driver:
            execution_id = await driver.start(playbook, payload)
            while not driver._executions.may_be_moved_by_others:
                await asyncio.sleep(0.01)
            return execution_id

    return asyncio.run(begun())


def json_output(db: str, *arguments: str) -> Any:
    """What a command says in JSON."""
    code, stdout, stderr = call(*arguments, "-o", "json", "--db", db)
    assert code == 0, stderr
    return json.loads(stdout)


def done(db: str, *arguments: str) -> str:
    """What a command says that must succeed."""
    code, stdout, stderr = call(*arguments, "--db", db)
    assert code == 0, stderr
    return stdout + stderr


def refused(db: str, *arguments: str) -> str:
    code, stdout, stderr = call(*arguments, "--db", db)
    assert (code, stdout) == (4, ""), stdout + stderr
    return stderr
