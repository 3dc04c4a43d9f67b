"""`container` against a real Podman, on its Unix socket."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.base.addresses.policy import CLOSED, AddressGuard, AddressPolicy
from noetl.base.errors import RefusedError
from noetl.events.outcomes import Outcome
from noetl.operations.credentials import try_credential
from noetl.tools.container.container_task import container_name
from noetl.tools.container.tool import ContainerTool
from noetl.tools.registry import Permissions, Registry
from tests.servers.podman import IMAGE, Podman, podman
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, error, outcome_of, result

STOPPABLE = "trap 'exit 0' TERM"  # the first process of a container takes no signal that it does not ask for

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("podman")]


@pytest.fixture
def engine() -> Podman:
    return podman()


async def ran(engine: Podman, command: Any = None, /, **inputs: Any) -> Outcome:
    spec, more = inputs.pop("spec", None), inputs.pop("more", {})
    more.setdefault("key", secrets.token_hex(8))
    wanted = {"image": IMAGE, "auth": engine.auth, "pull": "never", "network": "none", **inputs}
    if command is not None:
        wanted["command"] = command
    return await outcome_of(ContainerTool(), wanted, spec, **more)


async def test_a_container_returns_its_output_and_is_removed(engine: Podman) -> None:
    printed: list[tuple[bytes, str]] = []
    text = 'echo "$GREETING from $(pwd) as $(id -u) $NOETL_STEP"; echo problem >&2'

    done = result(
        await ran(
            engine,
            text,
            env={"GREETING": "hello"},
            cwd="/tmp",
            user="1000",
            more={"write_output": lambda data, stream: printed.append((data, stream))},
        )
    )

    assert done["exit_code"] == 0
    assert done["stdout"] == "hello from /tmp as 1000 step\n"
    assert done["stderr"] == "problem\n"
    assert (b"problem\n", "stderr") in printed
    assert done["name"] not in engine.containers()


async def test_a_nonzero_exit_code_is_an_error(engine: Podman) -> None:
    failed = error(await ran(engine, ["/bin/sh", "-c"], args=["echo why >&2; exit 7"]))

    assert failed.kind == "container.exit"
    assert failed.details["exit_code"] == 7
    assert failed.message == "the container ended with code 7: why"
    assert result(await ran(engine, "exit 7", spec={"ok_exit_codes": [7]}))["exit_code"] == 7
    assert engine.containers() == []


async def test_files_are_copied_out_and_folders_mounted(engine: Podman, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/name").write_text("ada")
    text = "mkdir -p /out/below; cat /data/name > /out/a; echo 2 > /out/below/b; ! touch /data/new"
    more = {"data_folders": (str(tmp_path),)}

    done = result(
        await ran(
            engine,
            text,
            volumes=[{"source": "in", "target": "/data"}],
            artifacts=[{"path": "/out", "file": "copied"}, {"path": "/out/a", "file": "single"}],
            more=more,
        )
    )

    assert (tmp_path / "copied/a").read_text() == "ada"
    assert (tmp_path / "copied/below/b").read_text() == "2\n"
    assert (tmp_path / "single").read_text() == "ada"
    assert [(one["files"], one["bytes"]) for one in done["artifacts"]] == [(2, 5), (1, 3)]
    assert error(await ran(engine, "x", volumes=[{"source": "/etc", "target": "/e"}], more=more)).kind == (
        "container.input"
    )
    missing = error(await ran(engine, "exit 0", artifacts=[{"path": "/none", "file": "x"}], more=more))
    assert missing.kind == "container.error"


async def test_an_attempt_after_a_lost_one_finds_its_container(engine: Podman, tmp_path: Path) -> None:
    """The worker was killed: nothing was removed, and the container went on."""
    runs, more = tmp_path / "runs", {"data_folders": (str(tmp_path),), "key": "the visit"}
    runs.mkdir()
    volumes = [{"source": "runs", "target": "/runs", "read_only": False}]
    engine.tell(
        *("run", "--detach", "--name", container_name(context(key="the visit")), "--volume", f"{runs}:/runs", IMAGE),
        *("/bin/sh", "-c", "touch /runs/first; while [ ! -e /runs/go ]; do sleep 0.1; done; echo done; exit 0"),
    )

    attempt = asyncio.ensure_future(ran(engine, "touch /runs/second", volumes=volumes, more=more))
    await asyncio.sleep(0.5)
    (runs / "go").touch()

    assert result(await attempt)["stdout"] == "done\n"
    assert not (runs / "second").exists(), "it ran twice"
    assert engine.containers() == []


async def test_a_cancelled_task_ends_its_container(engine: Podman) -> None:
    begun = asyncio.Event()
    task = asyncio.ensure_future(
        ran(
            engine,
            f"{STOPPABLE}; echo begun; sleep 1000 & wait",
            more={"write_output": lambda data, stream: begun.set()},
        )
    )
    await begun.wait()
    assert len(engine.containers()) == 1

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert engine.containers() == []


async def test_a_timeout_ends_the_container(engine: Podman) -> None:
    failed = error(await ran(engine, f"{STOPPABLE}; sleep 1000 & wait", spec={"timeout": 3}))

    assert failed.kind == "timeout"
    assert engine.containers() == []


async def test_exceeding_the_memory_limit_kills_the_container(engine: Podman) -> None:
    failed = error(await ran(engine, ["/bin/tail", "/dev/zero"], spec={"resources": {"memory": "32Mi"}}))

    assert failed.kind in ("container.oom", "container.exit")  # this Podman does not always know who killed it
    assert failed.details["exit_code"] == 137
    assert "memory than its limit of 32 MiB" in failed.message


async def test_very_long_output_is_truncated(engine: Podman) -> None:
    done = result(await ran(engine, "yes | dd bs=1024 count=40 2>/dev/null", spec={"max_bytes": 10_000}))

    assert done["truncated"]
    assert len(done["stdout"]) == 10_000


async def test_an_unknown_image_has_its_own_error(engine: Podman) -> None:
    never = error(await ran(engine, image="localhost/nothing:1"))
    pulled = error(await ran(engine, image="localhost:1/nothing:1", pull="missing"))

    assert (never.kind, never.code) == ("container.image", "missing")
    assert (pulled.kind, pulled.code) == ("container.image", "pull")
    assert "localhost:1/nothing" in pulled.message


async def test_a_program_missing_from_the_image_is_an_error(engine: Podman) -> None:
    failed = error(await ran(engine, ["/bin/nothing"]))

    assert failed.kind in ("container.error", "container.exit")
    assert "nothing" in failed.message or failed.details["exit_code"] == 127
    assert engine.containers() == []


async def test_a_lost_connection_is_retryable_and_the_retry_finds_the_container(engine: Podman) -> None:
    begun, key = asyncio.Event(), secrets.token_hex(8)
    with Proxy(str(engine.socket)) as line:
        auth = f"tcp://127.0.0.1:{line.port}"
        more = {"key": key, "write_output": lambda data, stream: begun.set()}
        task = asyncio.ensure_future(ran(engine, "echo once; sleep 3; exit 0", auth=auth, more=more))
        await begun.wait()
        line.cut()
        lost = error(await task)

    again = result(await ran(engine, "echo twice", more={"key": key}))

    assert (lost.kind, lost.retryable) == ("container.error", True)
    assert again["stdout"] == "once\n"


@pytest.mark.req("KEY-06")
async def test_no_secret_appears_in_inputs_output_or_errors(engine: Podman) -> None:
    told = bytearray()
    secret = secrets.token_urlsafe(12)

    def masked(text: str) -> str:
        return text.replace(secret, "***")

    for number in range(50):
        secret = secrets.token_urlsafe(12)
        if number < 2:  # the others never reach the engine
            outcome = await ran(engine, 'echo "$WORD" >&2; exit 3', env={"WORD": secret}, more={"mask": masked})
            assert error(outcome).kind == "container.exit"
        else:
            outcome = await ran(engine, ["echo", secret], more={"mask": masked})
            assert error(outcome).kind == "container.input"
        told += msgspec.json.encode(outcome)
        assert secret.encode() not in told


async def test_a_socket_blocked_by_the_policy_is_not_reached(engine: Podman) -> None:
    closed = error(await ran(engine, "exit 0", more={"addresses": AddressGuard(CLOSED)}))
    opened = AddressGuard(AddressPolicy(allow=(f"unix:{engine.folder}",)))

    assert closed.kind == "tool.not_allowed"
    assert "--allow-address unix:" in closed.message
    assert result(await ran(engine, "exit 0", more={"addresses": opened}))["exit_code"] == 0


async def test_a_sandbox_only_worker_gives_a_container_no_network(engine: Podman) -> None:
    failed = error(await ran(engine, "exit 0", network="host", more={"sandbox": True}))
    alone = result(await ran(engine, "cat /proc/net/dev | wc -l", network=None, more={"sandbox": True}))

    assert failed.kind == "container.input"
    assert alone["stdout"].split() == ["3"], "two lines of heads, and loopback"


async def test_a_credential_is_tested_without_running_anything(engine: Podman) -> None:
    registry = Registry(permissions=Permissions(kinds=frozenset({"container"})))
    said = await try_credential("here", "container", {"url": engine.auth}, {}, registry)

    assert said == f"reached Podman Engine 4.3.1 at {engine.auth}"
    with pytest.raises(RefusedError, match="was lost"):
        await try_credential("here", "container", {"url": f"unix://{engine.folder}/none.sock"}, {}, registry)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"image": "no image!"}, "is not a valid name of an image"),
        ({"network": "a b"}, "is not a valid network"),
        ({"user": "a b"}, "is not a valid user"),
        ({"cwd": "here"}, "is not an absolute path"),
        ({"pull": "often"}, "is not one of missing, always, never"),
        ({"volumes": [{"target": "/x"}]}, "needs a source"),
        ({"volumes": ["x"]}, "volumes is a list of {source, target}"),
        ({"artifacts": [{"path": "../x", "file": "y"}]}, "is not an absolute path"),
        ({"env": {"A B": "x"}}, "is not a name of an environment variable"),
        ({"command": []}, "command must be"),
        ({"spec": {"resources": {"cpus": 0}}}, "is not a number of processors"),
        ({"spec": {"resources": {"memory": "much"}}}, "is not a size"),
        ({"spec": {"max_bytes": 0}}, "is not a number from 1"),
    ],
)
async def test_invalid_inputs_are_reported_before_anything_happens(inputs: dict[str, Any], said: str) -> None:
    spec = inputs.pop("spec", None)
    wanted = {"image": IMAGE, "auth": "unix:///nowhere.sock", **inputs}

    failed = error(await outcome_of(ContainerTool(), wanted, spec, data_folders=("/tmp",)))

    assert failed.kind == "container.input"
    assert said in failed.message


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot json!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + json.dumps({"State": 1}).encode() + b" ",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 22\r\n\r\n" + b'{"message":"\\u001b[31m"}'[:22],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n" + b"x" * (9 << 20),
    ],
)
async def test_a_nonsensical_engine_response_is_an_error(answer: bytes, tmp_path: Path) -> None:
    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_unix_server(answered, tmp_path / "s")

    failed = error(await outcome_of(ContainerTool(), {"image": IMAGE, "auth": f"unix://{tmp_path}/s"}))
    server.close()

    assert failed.kind == "container.error"
    assert failed.message.isprintable()


async def test_registry_credentials_are_sent_with_the_pull_only(tmp_path: Path) -> None:
    """An engine that has no image and refuses to pull one: what it was sent is what counts."""
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        status = "404 Not Found" if heads[-1].startswith("GET") else "500 Refused"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
        await writer.drain()
        writer.close()

    login = {"registry_user": "ada", "registry_password": "s3cret-word", "registry": "registry.example"}
    auth = {"url": f"unix://{tmp_path}/engine.sock", **login}
    async with await asyncio.start_unix_server(answer, tmp_path / "engine.sock"):
        failed = error(await outcome_of(ContainerTool(), {"image": "registry.example/app:1", "auth": auth}, None))

    assert failed.kind == "container.image"
    sent = {
        head.split()[1].partition("?")[0]: line.partition(": ")[2]
        for head in heads
        for line in head.splitlines()
        if line.lower().startswith("x-registry-auth")
    }
    assert list(sent) == ["/v1.41/images/create"]
    assert json.loads(base64.urlsafe_b64decode(sent["/v1.41/images/create"])) == {
        "username": "ada",
        "password": "s3cret-word",
        "serveraddress": "registry.example",
    }
