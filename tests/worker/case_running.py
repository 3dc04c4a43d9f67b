"""Running v2-case playbooks in a test: every tool answers by a script, and the credential of the fixtures is there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import dedent
from typing import Any

from noetl.base.clock import ManualClock
from noetl.base.errors import ToolError
from noetl.events.envelope import Event
from noetl.operations.embedded import run_net
from noetl.secrets.keychain import Keychain
from noetl.tools.contract import ToolResult
from noetl.tools.registry import Registry
from tests.engine_script import net_of
from tests.playbook_runs import Ran, Scripted
from tests.secrets.vaults import new_keychain, new_vault

FIXTURES = Path(__file__).parents[1] / "fixtures"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nname: case\npath: tests/case\nmetadata: {dialect: v2-case}\n"
KINDS = ("http", "postgres", "python", "quantum")


def fixture(name: str) -> str:
    return (FIXTURES / f"{name}.yaml").read_text()


def case_text(steps: str) -> str:
    """A whole document from its steps."""
    return HEAD + "workflow:\n" + dedent(steps)


def run_case(text: str, payload: dict[str, Any] | None = None, *, tool: Scripted | None = None, **answers: Any) -> Ran:
    """Run a v2-case document, whole or its steps alone, to its end."""
    text = text if "apiVersion" in text else case_text(text)
    tool, clock, events, slept = tool or Scripted(**answers), ManualClock(), list[Event](), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))
        clock.advance(seconds)
        await asyncio.sleep(0)

    async def running() -> Any:
        return await run_net(
            net_of(text),
            payload=payload or {},
            db=":memory:",
            watch=events.extend,
            tools=Registry(dict.fromkeys(KINDS, tool)),
            clock=clock,
            sleep=sleep,
            keychain=await _keychain(clock),
        )

    return Ran(asyncio.run(running()), events, tool, slept)


async def _keychain(clock: ManualClock) -> Keychain:
    vault = new_vault(clock)
    await vault.set("pg_creds", {"host": "h", "user": "u", "password": "a-long-password"}, kind="postgres")
    return new_keychain(vault=vault, clock=clock)


def answer(body: Any, status: int = 200) -> ToolResult:
    return ToolResult(result={"status": status, "status_code": status, "headers": {}, "data": body}, wrapped=True)


def refused(status: int) -> ToolError:
    return ToolError("http.status", f"status {status}", status=status)


def called(ran: Ran) -> list[str]:
    """The tasks that ran, in order."""
    return [name for name, _ in ran.tool.calls]


def visited(ran: Ran) -> list[str]:
    """The steps that ran, in the order they were scheduled."""
    return [event.step or "" for event in ran.events if event.event_type == "step.scheduled"]
