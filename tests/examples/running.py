"""Running the files of examples/ in tests: real tools, a real store, the API of the demo; long waits are left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.clock import ManualClock
from noetl.events.envelope import Event
from noetl.operations.embedded import RunResult, compiled, run_net
from noetl.tools.registry import Permissions, Registry
from tools.demo_api import DemoApi

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT_S = 0.2  # waiting for a file's lock is real; waiting for an API that says when to come back is not


class Ran(msgspec.Struct):
    """A run and what it left: its events, and how long it asked to wait."""

    result: RunResult
    events: list[Event]
    slept: list[float]


@contextmanager
def api() -> Iterator[DemoApi]:
    with DemoApi() as served:
        yield served


def run_example(name: str, folder: Path, /, **payload: Any) -> Ran:
    """Run examples/NAME.yaml with its store and its files in `folder`."""
    return asyncio.run(example_run(name, folder, payload))


async def example_run(name: str, folder: Path, payload: dict[str, Any], allow: frozenset[str] = frozenset()) -> Ran:
    """The same, on a loop that serves its counterparts as well. `allow` names kinds that are off by default."""
    file = EXAMPLES / f"{name}.yaml"
    events: list[Event] = []
    slept: list[float] = []
    clock = ManualClock(time.time())  # moved by waiting alone: the rest of a delay is all of it on any machine

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        clock.advance(seconds)
        await asyncio.sleep(seconds if seconds < SHORT_S else 0)

    result = await run_net(
        compiled(file),
        payload=payload,
        db=folder / "noetl.db",
        watch=events.extend,
        tools=Registry(permissions=Permissions(data_folders=(str(folder),), kinds=allow)),
        clock=clock,
        sleep=sleep,
        origin=file,
    )
    return Ran(result, events, slept)


def result_of(name: str, folder: Path, /, **payload: Any) -> Any:
    """The result of an example that ends well."""
    ran = run_example(name, folder, **payload)
    assert ran.result.ok, ran.result.error
    return ran.result.result
