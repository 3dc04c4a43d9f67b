"""The provider `ibm`: what it asks of its process, whatever is installed; with the extra, IBM's own local mode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

import msgspec
import pytest

from noetl.base.errors import ToolError
from noetl.events.envelope import Event
from noetl.operations.embedded import driving
from noetl.tools import child_process
from noetl.tools.quantum import providers as ibm
from noetl.tools.quantum.circuits import circuit_of
from noetl.tools.quantum.providers import account_of
from tests.secrets.vaults import new_keychain, new_vault
from tests.tools.quantum_tasks import BELL, World, refused

TOKEN = "ibm-token-0123456789abcdef"
needs_ibm = pytest.mark.skipif(
    find_spec("qiskit_ibm_runtime") is None,
    reason='qiskit-ibm-runtime is not installed: pip install "noetl-engine[quantum-ibm]"',
)
# Stands for the process of IBM's package: it tells what it was asked, and whether it sees the token where others could.
ECHOES = """
import json, os, sys
while header := sys.stdin.buffer.read(8):
    call = json.loads(sys.stdin.buffer.read(int(header, 16)))
    state = {"submit": "QUEUED", "status": "RUNNING", "results": "DONE", "cancel": "CANCELLED"}[call["op"]]
    seen = call["account"]["token"] in repr((sys.argv, dict(os.environ)))
    told = {"job_id": call.get("job_id", "j1"), "state": state, "backend": "ibm_here", "versions": {"seen": seen}}
    if call["op"] == "results":
        told["counts"] = {"00": 3, "11": 5}
    answer = {"answer": told}
    if call.get("backend") == "gone":
        account = call["account"]["token"]
        answer = {"kind": "quantum.provider_unavailable", "message": "refused " + account, "retryable": False}
    body = json.dumps(answer).encode()
    sys.stdout.buffer.write(b"%08x" % len(body) + body)
    sys.stdout.buffer.flush()
"""


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World(credentials={"ibm_account": {"token": TOKEN, "instance": "crn:v1:here"}})
    yield made
    await made.tool.close()


@pytest.fixture
def echoing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_PROGRAM", ECHOES)
    monkeypatch.setattr(ibm, "find_spec", lambda name: True)


@pytest.mark.req("QNT-03")
async def test_without_its_package_ibm_names_what_to_install(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ibm, "find_spec", lambda name: None)

    error = await refused(world(provider="ibm", circuit=BELL, auth="ibm_account"))

    assert error.kind == "quantum.provider_unavailable"
    assert error.message == (
        'the quantum provider "ibm" needs the package qiskit-ibm-runtime: pip install "noetl-engine[quantum-ibm]", '
        "or let the simulator stand in for it with provider_stand_ins = ibm=simulator"
    )


@pytest.mark.req("QNT-03", "KEY-06")
@pytest.mark.parametrize("op", ["submit", "status", "results", "cancel", "run"])
@pytest.mark.usefixtures("echoing")
async def test_without_a_credential_nothing_is_submitted(world: World, op: str) -> None:
    error = await refused(world(op=op, provider="ibm", circuit=BELL, job_id="ibm:j1"))

    assert error.kind == "quantum.provider_unavailable"
    assert "needs a credential with a token" in error.message


@pytest.mark.parametrize(
    ("credential", "account"),
    [
        ({"token": "t"}, {"token": "t"}),
        ({"api_key": "t", "type": "bearer"}, {"token": "t"}),
        ({"token": "t", "instance": "crn", "region": "eu-de", "note": "x"}, None),
        ({"channel": "local"}, {"channel": "local"}),
    ],
)
def test_an_account_uses_the_fields_that_the_package_accepts(credential: dict[str, str], account: Any) -> None:
    assert account_of(credential) == (account or {"token": "t", "instance": "crn", "region": "eu-de"})


@pytest.mark.req("QNT-01", "QNT-02", "QNT-03", "KEY-07")
@pytest.mark.usefixtures("echoing")
async def test_a_job_is_submitted_tracked_and_cancelled_by_its_id(world: World) -> None:
    submitted = await world(provider="ibm", circuit=BELL, auth="ibm_account")
    job = {"job_id": submitted["job_id"], "auth": "ibm_account"}

    assert (submitted["job_id"], submitted["state"], submitted["backend"]) == ("ibm:j1", "QUEUED", "ibm_here")
    assert (await world(op="status", **job))["state"] == "RUNNING"
    assert list(world.cleanups) == ["ibm:j1"], "a job that is not over is cancelled with its execution"
    results = await world(op="results", **job)
    assert (results["counts"], results["shots"]) == ({"00": 3, "11": 5}, 8)
    assert (await world(op="cancel", **job))["state"] == "CANCELLED"
    assert world.cleanups == {}
    assert submitted["versions"] == {"seen": False}, "neither the arguments nor the environment have the token"


REFUSED = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: q, path: tests/q }
workflow:
  - step: start
    tool:
      - { name: fine, kind: quantum, provider: ibm, circuit: [{ gate: h, target: 0 }], auth: acct }
      - { name: gone, kind: quantum, provider: ibm, backend: gone, circuit: [{ gate: h, target: 0 }], auth: acct }
"""


@pytest.mark.req("KEY-06", "KEY-07")
@pytest.mark.usefixtures("echoing")
async def test_no_event_contains_the_token(caplog: pytest.LogCaptureFixture) -> None:
    vault, events = new_vault(), list[Event]()
    await vault.set("acct", {"token": TOKEN}, kind="generic")
    async with driving(":memory:", watch=events.extend, keychain=new_keychain(vault=vault)) as driver:
        result = await driver.run(REFUSED)

    assert result.error is not None
    assert result.error.kind == "quantum.provider_unavailable"
    assert result.error.message.startswith("refused ")
    assert not any(TOKEN in msgspec.json.encode(event).decode() for event in events)
    assert TOKEN not in caplog.text


@pytest.fixture
async def local() -> AsyncIterator[World]:
    made = World(credentials={"here": {"channel": "local"}})
    yield made
    await made.tool.close()


@needs_ibm
@pytest.mark.req("QNT-01", "QNT-02", "QNT-03", "QNT-05")
async def test_the_local_mode_of_ibm_runs_a_job_on_a_fake_backend(local: World) -> None:
    run: dict[str, Any] = {"provider": "ibm", "backend": "fake_manila", "circuit": BELL, "auth": "here"}
    result = await local(op="run", shots=400, **run)
    unknown = await refused(local(**{**run, "backend": "fake_nowhere"}))
    other = await refused(local(op="status", job_id="ibm:none", auth="here"))
    cancelled = await local(op="cancel", job_id=result["job_id"], auth="here")

    assert (result["state"], result["backend"]) == ("DONE", "fake_manila")
    assert sum(result["counts"].values()) == 400
    assert result["counts"]["00"] + result["counts"]["11"] > 300, "with the noise of the machine that it imitates"
    assert result["versions"].keys() == {"qiskit", "qiskit-ibm-runtime"}
    assert unknown.kind == "quantum.provider_unavailable"
    assert other.kind == "quantum.job"
    assert cancelled["state"] == "DONE", "it was over"


class Service:
    """IBM's service as the package shows it, with its local mode where the network would be."""

    is_local = False

    def __init__(self, backends: Any, by_tag: dict[str, Any]) -> None:
        self._backends, self._by_tag = backends, by_tag

    def backend(self, name: str) -> Any:
        return self._backends.backend(name)

    def jobs(self, *, job_tags: list[str], limit: int) -> list[Any]:
        return [self._by_tag[tag] for tag in job_tags if tag in self._by_tag][:limit]

    def job(self, job_id: str) -> Any:
        return next(job for job in self._by_tag.values() if job.job_id() == job_id)


@needs_ibm
@pytest.mark.req("QNT-01", "QNT-02")
@pytest.mark.filterwarnings("ignore")
def test_a_repeated_task_finds_its_job_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from qiskit_ibm_runtime import QiskitRuntimeService  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from qiskit_ibm_runtime.executor_sampler import Sampler as RuntimeSampler  # type: ignore[import-not-found,import-untyped,unused-ignore]

    from noetl.tools.quantum import ibm_runtime

    by_tag: dict[str, Any] = {}
    accounts: list[Any] = []

    class Sampler(RuntimeSampler):  # type: ignore[misc,unused-ignore]
        def run(self, *pubs: Any, **more: Any) -> Any:
            [tag] = self.options.environment.job_tags
            by_tag[tag] = super().run(*pubs, **more)
            return by_tag[tag]

    def opened(**account: Any) -> Service:
        accounts.append(account)
        return Service(QiskitRuntimeService(channel="local"), by_tag)

    monkeypatch.setattr(ibm_runtime, "Sampler", Sampler)
    runtime = ibm_runtime.Runtime(opened)
    call = {
        "op": "submit",
        "account": {"token": TOKEN},
        "shots": 50,
        "seed": 1,
        "backend": "fake_manila",
        "circuit": msgspec.to_builtins(circuit_of(BELL, {})),
        "hints": {"optimization_level": 0},
    }
    first, again, other = [runtime.answer({**call, "key": key}) for key in ("a", "a", "b")]
    for job in by_tag.values():
        job.result()
    results = runtime.answer({"op": "results", "account": {"token": TOKEN}, "job_id": other["job_id"]})

    assert first["job_id"] == again["job_id"] != other["job_id"]
    assert accounts == [{"token": TOKEN}]
    assert (results["state"], sum(results["counts"].values())) == ("DONE", 50)


@needs_ibm
@pytest.mark.req("QNT-02", "QNT-03")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("raised", "kind", "retryable"),
    [
        ("RuntimeJobNotFound", "quantum.job", False),
        ("IBMNotAuthorizedError", "quantum.provider_unavailable", False),
        ("IBMInputValueError", "quantum.provider_unavailable", False),
        ("IBMRuntimeError", "quantum.provider_unavailable", True),
    ],
)
def test_an_exception_of_the_package_is_an_error_of_the_task(raised: str, kind: str, retryable: bool) -> None:
    from qiskit_ibm_runtime import exceptions

    from noetl.tools.quantum.ibm_runtime import Runtime

    def refuses(**account: Any) -> Any:
        raise getattr(exceptions, raised)("no")

    with pytest.raises(ToolError) as caught:
        Runtime(refuses).answer({"op": "status", "account": {}, "job_id": "j"})
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)


@needs_ibm
@pytest.mark.req("QNT-03", "KEY-06")
async def test_an_unreachable_service_is_retryable(world: World) -> None:
    """The package itself says that the account is invalid."""
    nowhere = {"token": TOKEN, "url": "https://nowhere.invalid"}

    error = await refused(world(op="status", job_id="ibm:j1", auth=nowhere))

    assert (error.kind, error.retryable) == ("quantum.provider_unavailable", True)
    assert "ConnectionError" in error.message
    assert TOKEN not in error.message
