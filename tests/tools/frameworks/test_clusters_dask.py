"""`dask` on a real scheduler with a real worker, in an environment of their own."""

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
from noetl.tools.frameworks.clusters import DaskTool
from noetl.tools.registry import Registry
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.data_frameworks import DaskCluster, dask_cluster, frameworks_python
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import error, outcome_of

pytestmark = [pytest.mark.timeout(900)]


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", f"dask={frameworks_python()}")


async def ran(code: str, /, **inputs: Any) -> Outcome:
    more = {"key": secrets.token_hex(8), **inputs.pop("more", {})}
    wanted = {"code": code, **inputs}
    if "auth" not in wanted:
        wanted["auth"] = dask_cluster().auth
    return await outcome_of(DaskTool(), wanted, **more)


@pytest.mark.usefixtures("real")
async def test_code_runs_on_the_cluster_and_its_result_is_returned_by_value() -> None:
    printed = bytearray()
    code = "def main(n):\n    print('counting to', n)\n    return {'sum': sum(range(n)), 'by': __name__}"

    done = await ran(
        code, args={"n": 10}, needs={"GPU": 1}, more={"write_output": lambda data, _: printed.extend(data)}
    )

    assert done.error is None, done.error
    assert done.result == {"sum": 45, "by": "noetl_task"}
    assert b"counting to 10" in printed


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_an_exception_in_the_code_is_the_error() -> None:
    raised = error(await ran("def main():\n    raise ValueError('not today')"))
    nameless = error(await ran("x = 1"))
    unplain = error(await ran("result = object()"))

    assert (raised.kind, raised.code, raised.message) == ("dask.failed", "ValueError", "ValueError: not today")
    assert "nor a value called result" in nameless.message
    assert unplain.code == "TypeError"


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_the_cluster_retries_by_itself(tmp_path: Path) -> None:
    code = (
        f"import os\ndef main():\n    try:\n        os.mkdir({str(tmp_path / 'tried')!r})\n"
        "    except FileExistsError:\n        return 'second'\n    raise OSError('first')"
    )

    done = await ran(code, retries=2)

    assert done.error is None, done.error
    assert done.result == "second"


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_an_unreachable_scheduler_is_retryable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.frameworks.clusters._CONNECT_S", 1)

    failed = error(await ran("result = 1", auth=f"tcp://127.0.0.1:{free_port()}"))

    assert (failed.kind, failed.code, failed.retryable) == ("dask.error", "connection", True)


async def test_an_address_blocked_by_the_policy_is_not_reached() -> None:
    closed = error(await ran("result = 1", auth="tcp://127.0.0.1:1", more={"addresses": AddressGuard(CLOSED)}))

    assert closed.kind == "tool.not_allowed"


@pytest.mark.usefixtures("real")
async def test_a_credential_is_tested_without_running_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.frameworks.clusters._CONNECT_S", 1)
    cluster = dask_cluster().auth

    reached = await try_credential("cluster", "dask", {"url": cluster}, {}, Registry())
    with pytest.raises(RefusedError, match=r"the scheduler was not reached.*\(connection\)"):
        await try_credential("cluster", "dask", {"url": f"tcp://127.0.0.1:{free_port()}"}, {}, Registry())

    assert reached == f"connected to the dask cluster at {cluster}, which has 1 workers"


@pytest.mark.usefixtures("real")
async def test_a_scheduler_with_tls_is_reached_with_its_own_certificates_only(tmp_path: Path) -> None:
    own, other = _certificates(tmp_path / "own"), _certificates(tmp_path / "other")
    cluster = DaskCluster(own)
    fields = {"url": cluster.auth, "ca": own.ca.read_text(), "cert": own.cert.read_text(), "key": own.key.read_text()}
    try:
        right = await ran("result = 6 * 7", auth=fields)
        pair = {"cert": other.cert.read_text(), "key": other.key.read_text()}
        strange = error(await ran("result = 1", auth={**fields, **pair}))
        impostor = error(await ran("result = 1", auth={**fields, "ca": other.ca.read_text()}))
        half = error(await ran("result = 1", auth={name: fields[name] for name in ("url", "ca", "cert")}))
    finally:
        cluster.stop()

    assert right.result == 42, right.error
    assert (strange.kind, strange.code, strange.retryable) == ("dask.denied", "certificate", False)
    assert (impostor.kind, impostor.code, impostor.retryable) == ("dask.denied", "certificate", False)
    assert (half.kind, 'no "key"' in half.message) == ("keychain.unresolved", True)
    assert "PRIVATE" not in str((right, strange, impostor, half))


def _certificates(folder: Path) -> Certificates:
    folder.mkdir()
    return make_certificates(folder)


@pytest.mark.deep
@pytest.mark.usefixtures("real")
async def test_a_connection_lost_in_the_middle_is_retryable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.frameworks.clusters._CONNECT_S", 2)
    begun, over = tmp_path / "begun", tmp_path / "over"
    code = (
        "import pathlib, time\ndef main(begun, over):\n    pathlib.Path(begun).touch()\n"
        "    while not pathlib.Path(over).exists():\n        time.sleep(0.05)"
    )
    with Proxy("127.0.0.1", dask_cluster().port) as line:
        args = {"begun": str(begun), "over": str(over)}
        task = asyncio.ensure_future(ran(code, args=args, auth=f"tcp://127.0.0.1:{line.port}"))
        while not begun.exists():
            assert not task.done(), task.result()
            await asyncio.sleep(0.05)
        with line.down():
            failed = error(await task)
    over.touch()

    assert (failed.kind, failed.code, failed.retryable) == ("dask.error", "lost", True)


@pytest.mark.parametrize(
    ("inputs", "kind", "said"),
    [
        ({"code": " "}, "dask.input", '"code" is missing'),
        ({"args": [1]}, "dask.input", "args is a mapping"),
        ({"needs": {"GPU": "one"}}, "dask.input", "needs is a mapping"),
        ({"retries": -1}, "dask.input", "is not a number from 0 to 100"),
        ({"auth": "http://127.0.0.1:1"}, "keychain.unresolved", "where the cluster is"),
    ],
)
async def test_invalid_inputs_are_reported(inputs: dict[str, Any], kind: str, said: str) -> None:
    wanted = {"auth": "tcp://127.0.0.1:1", **inputs}

    failed = error(await ran(wanted.pop("code", "result = 1"), **wanted))

    assert failed.kind == kind
    assert said in failed.message
