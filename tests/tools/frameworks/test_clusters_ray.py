"""`ray` on a real cluster, in an environment of its own. What it shares with `dask` is tested there."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.base.errors import RefusedError
from noetl.events.outcomes import Outcome
from noetl.operations.credentials import try_credential
from noetl.tools.frameworks.clusters import RayTool
from noetl.tools.registry import Registry
from tests.servers.data_frameworks import ray_cluster, ray_python
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import error, outcome_of
from tests.waiting import until

pytestmark = [pytest.mark.timeout(900)]


async def ran(code: str, auth: str, /, **inputs: Any) -> Outcome:
    more = {"key": secrets.token_hex(8), **inputs.pop("more", {})}
    return await outcome_of(RayTool(), {"code": code, "auth": auth, **inputs}, **more)


async def ran_there(code: str, auth: str, /, **inputs: Any) -> Outcome:
    """On a cluster that is there. It starts a server for each client, and on a busy machine gives up waiting for it."""
    for _ in range(4):
        outcome = await ran(code, auth, **inputs)
        if outcome.error is None or outcome.error.code != "connection":
            return outcome
    return await ran(code, auth, **inputs)


@pytest.mark.deep
async def test_code_runs_on_the_cluster_and_returns_its_result_or_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", f"ray={ray_python()}")
    cluster, printed = ray_cluster().auth, bytearray()
    code = "def main(n):\n    print('counting to', n)\n    return {'sum': sum(range(n)), 'by': __name__}"
    more = {"write_output": lambda data, _: printed.extend(data)}

    reached = await try_credential("cluster", "ray", {"url": cluster}, {}, Registry())
    done = await ran_there(code, cluster, args={"n": 10}, needs={"CPU": 1}, more=more)
    raised = error(await ran_there("def main():\n    raise ValueError('not today')", cluster))

    assert reached == f"connected to the ray cluster at {cluster}, which has 1 workers"
    assert done.error is None, done.error
    assert done.result == {"sum": 45, "by": "noetl_task"}
    assert b"counting to 10" in printed
    assert (raised.kind, raised.code, raised.message) == ("ray.failed", "ValueError", "ValueError: not today")


async def test_an_unreachable_cluster_is_retryable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", f"ray={ray_python()}")
    nowhere = f"ray://127.0.0.1:{free_port()}"

    failed = error(await ran("result = 1", nowhere))
    with pytest.raises(RefusedError, match=r"the cluster was not reached.*\(connection\)"):
        await try_credential("cluster", "ray", {"url": nowhere}, {}, Registry())

    assert (failed.kind, failed.code, failed.retryable) == ("ray.error", "connection", True)


@pytest.mark.deep
async def test_a_connection_lost_in_the_middle_is_retryable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", f"ray={ray_python()}")
    begun, over = tmp_path / "begun", tmp_path / "over"
    code = (
        "import pathlib, time\ndef main(begun, over):\n    pathlib.Path(begun).touch()\n"
        "    while not pathlib.Path(over).exists():\n        time.sleep(0.05)"
    )
    with Proxy("127.0.0.1", ray_cluster().port) as line:
        args = {"begun": str(begun), "over": str(over)}
        task = asyncio.ensure_future(ran_there(code, f"ray://127.0.0.1:{line.port}", args=args))
        while not begun.exists():
            assert not task.done(), task.result()
            await asyncio.sleep(0.05)
        with line.down():
            failed = error(await task)
    over.touch()

    assert (failed.kind, failed.code, failed.retryable) == ("ray.error", "lost", True)


@pytest.mark.deep
async def test_a_cancelled_task_ends_on_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", f"ray={ray_python()}")
    begun = tmp_path / "begun"
    code = (
        "import os, pathlib, time\ndef main(begun):\n    pathlib.Path(begun + '.new').write_text(str(os.getpid()))\n"
        "    os.rename(begun + '.new', begun)\n    time.sleep(3600)"
    )
    task = asyncio.ensure_future(ran_there(code, ray_cluster().auth, args={"begun": str(begun)}))
    while not begun.exists():
        assert not task.done(), task.result()
        await asyncio.sleep(0.05)
    task.cancel()
    left = await asyncio.gather(task, return_exceptions=True)

    assert isinstance(left[0], asyncio.CancelledError)
    place = Path("/proc") / begun.read_text()  # Ray ends the process of a task that runs when its client is gone
    until(lambda: not place.exists())


async def test_an_address_blocked_by_the_policy_is_not_reached() -> None:
    closed = await ran("result = 1", "ray://127.0.0.1:1", more={"addresses": AddressGuard(CLOSED)})

    assert error(closed).kind == "tool.not_allowed"


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [({"args": [1]}, "ray.input"), ({"needs": {"GPU": True}}, "ray.input"), ({"retries": "x"}, "ray.input")],
)
async def test_invalid_inputs_are_reported(inputs: dict[str, Any], kind: str) -> None:
    assert error(await ran("result = 1", "ray://127.0.0.1:1", **inputs)).kind == kind
    assert error(await ran("result = 1", "tcp://127.0.0.1:1")).kind == "keychain.unresolved"
