"""`container` on Kubernetes, against a STAND-IN of its Job API: no cluster can run here.

The stand-in checks every manifest against Kubernetes' own schemas; it does not prove that a cluster behaves as it does.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.base.errors import RefusedError
from noetl.events.outcomes import Outcome
from noetl.operations.credentials import try_credential
from noetl.tools.container.container_task import container_name
from noetl.tools.container.tool import ContainerTool
from noetl.tools.registry import Permissions, Registry
from tests.servers.kubernetes import KubernetesStandIn
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, error, outcome_of, result

pytestmark = [pytest.mark.timeout(300)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KubernetesStandIn]:
    # Asked for here: the stand-in answers in a thread of its own, where a skip would be an error.
    pytest.importorskip("kubernetes_validate", reason="NOT TESTED: make test installs requirements-deploy.lock")
    with KubernetesStandIn(tmp_path) as running:
        yield running


async def ran(cluster: KubernetesStandIn, command: Any, /, **inputs: Any) -> Outcome:
    spec, more = inputs.pop("spec", None), inputs.pop("more", {})
    return await outcome_of(
        ContainerTool(), {"image": "busy:1", "auth": cluster.auth, "command": command, **inputs}, spec, **more
    )


async def test_a_job_returns_its_output_and_is_deleted(cluster: KubernetesStandIn) -> None:
    spec = {"timeout": 60, "resources": {"memory": "64Mi", "cpus": 0.5}}
    volumes = [{"claim": "reports", "target": "/reports", "read_only": False}]

    done = result(
        await ran(
            cluster,
            'echo "$A"; echo problem >&2',
            env={"A": "$(HOME) b"},
            user="1000:1000",
            cwd="/work",
            volumes=volumes,
            spec=spec,
        )
    )
    manifest = json.loads(next(body for method, _, body in cluster.requests if method == "POST"))
    pod = manifest["spec"]["template"]["spec"]

    assert done["stdout"] == "$(HOME) b\nproblem\n", "Kubernetes does not keep the streams apart"
    assert pod["containers"][0]["resources"]["limits"] == {"memory": str(64 << 20), "cpu": "500m"}
    assert pod["containers"][0]["securityContext"]["runAsUser"] == 1000
    assert pod["volumes"] == [{"name": "volume-0", "persistentVolumeClaim": {"claimName": "reports"}}]
    assert manifest["spec"]["activeDeadlineSeconds"] == 360
    assert cluster.jobs == {}


async def test_a_nonzero_exit_code_is_an_error(cluster: KubernetesStandIn) -> None:
    failed = error(await ran(cluster, "exit 7"))

    assert (failed.kind, failed.details["exit_code"]) == ("container.exit", 7)
    assert cluster.jobs == {}


async def test_secrets_are_stored_in_a_secret_that_is_deleted_with_the_job(cluster: KubernetesStandIn) -> None:
    word = secrets.token_urlsafe(12)
    more = {"mask": lambda text: text.replace(word, "***")}

    done = result(await ran(cluster, 'test "$WORD" = "$OTHER"', env={"WORD": word, "OTHER": word}, more=more))
    jobs = b"".join(body for method, path, body in cluster.requests if path.endswith("jobs"))

    assert done["exit_code"] == 0
    assert word.encode() not in jobs
    assert cluster.secrets == {}


async def test_a_later_attempt_finds_the_job_of_a_lost_one(cluster: KubernetesStandIn, tmp_path: Path) -> None:
    first = asyncio.ensure_future(ran(cluster, f"echo x >> {tmp_path}/runs; sleep 1; echo done", more={"key": "k"}))
    while container_name(context(key="k")) not in cluster.jobs:
        await asyncio.sleep(0.05)

    second = await ran(cluster, "echo other", more={"key": "k"})
    await asyncio.gather(first, return_exceptions=True)

    assert result(second)["stdout"] == "done\n"
    assert (tmp_path / "runs").read_text() == "x\n"


async def test_a_lost_connection_is_retryable_and_the_retry_finds_the_job(cluster: KubernetesStandIn) -> None:
    begun = asyncio.Event()
    with Proxy("127.0.0.1", cluster.port) as line:
        auth = {**cluster.auth, "server": f"https://localhost:{line.port}"}
        more = {"key": "k", "write_output": lambda data, stream: begun.set()}
        task = asyncio.ensure_future(ran(cluster, "echo once; sleep 2", auth=auth, more=more))
        await begun.wait()
        with line.down():
            lost = error(await task)

    again = result(await ran(cluster, "echo twice", more={"key": "k"}))

    assert (lost.kind, lost.retryable) == ("container.error", True)
    assert again["stdout"] == "once\n"


async def test_a_private_address_is_reached_only_if_the_policy_allows(cluster: KubernetesStandIn) -> None:
    refused = error(await ran(cluster, "true", more={"addresses": AddressGuard(CLOSED)}))

    assert refused.kind == "tool.not_allowed"
    assert cluster.requests == []


async def test_a_cancelled_task_deletes_its_job(cluster: KubernetesStandIn) -> None:
    begun = asyncio.Event()
    task = asyncio.ensure_future(
        ran(cluster, "echo begun; sleep 1000", more={"write_output": lambda data, stream: begun.set()})
    )
    await begun.wait()

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert cluster.jobs == {}


WAITING = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
KILLED = {
    "phase": "Failed",
    "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}],
}


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (WAITING, "container.image", "ImagePullBackOff"),
        ({"phase": "Failed", "reason": "Evicted"}, "container.error", "Evicted"),
        (KILLED, "container.oom", "more memory than its limit of 1 MiB"),
        ({"phase": "Running", "containerStatuses": [{"state": {"terminated": {}}}]}, "container.error", "how"),
    ],
)
async def test_a_failing_pod_is_reported_with_its_reason(
    cluster: KubernetesStandIn, status: dict[str, Any], kind: str, said: str
) -> None:
    cluster.pod_status = status

    failed = error(await ran(cluster, "exit 0", spec={"resources": {"memory": "1Mi"}}))

    assert failed.kind == kind
    assert said in failed.message
    assert cluster.jobs == {}


@pytest.mark.parametrize(
    "answer", [b"no json", b"[]", b'{"items": 3}', b'{"items": [7]}', b'{"items":[{"metadata":1}]}']
)
async def test_a_nonsensical_api_server_response_is_an_error(cluster: KubernetesStandIn, answer: bytes) -> None:
    cluster.answers["/pods"] = answer

    failed = error(await ran(cluster, "exit 0"))

    assert failed.kind == "container.error"
    assert cluster.jobs == {}


@pytest.mark.parametrize(
    "inputs",
    [
        {"artifacts": [{"path": "/x", "file": "y"}]},
        {"volumes": [{"source": ".", "target": "/x"}]},
        {"network": "none"},
        {"user": "ada"},
    ],
)
async def test_an_unsupported_request_to_the_cluster_is_refused(
    cluster: KubernetesStandIn, inputs: dict[str, Any], tmp_path: Path
) -> None:
    failed = error(await ran(cluster, "exit 0", **inputs, more={"data_folders": (str(tmp_path),)}))

    assert failed.kind == "container.input"
    assert cluster.requests == []


async def test_a_wrong_token_is_denied_and_never_shown(cluster: KubernetesStandIn) -> None:
    registry = Registry(permissions=Permissions(kinds=frozenset({"container"})))
    for _ in range(50):
        word = secrets.token_urlsafe(12)
        outcome = await outcome_of(
            ContainerTool(), {"image": "busy:1", "auth": {**cluster.auth, "token": word}}, {}, key=word
        )
        assert error(outcome).kind == "container.denied"
        assert word.encode() not in msgspec.json.encode(outcome)

    assert await try_credential("c", "container", cluster.auth, {}, registry) == (
        f"listed Jobs of namespace jobs at https://localhost:{cluster.port}"
    )
    with pytest.raises(RefusedError, match="answered 401"):
        await try_credential("c", "container", {**cluster.auth, "token": "another"}, {}, registry)
