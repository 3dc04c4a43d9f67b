"""`ssh` and `sftp` against an asyncssh server on loopback, with a real shell and a real folder behind it."""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import msgspec
import pytest
import pytest_asyncio

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.events.outcomes import Outcome
from noetl.tools.sftp import SftpTool
from noetl.tools.ssh import SshTool
from tests.servers.proxy import Proxy
from tests.servers.ssh import Machine, ssh_machine
from tests.tools.sql_tasks import context, error, outcome_of, result


@pytest_asyncio.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    folder = tmp_path / "far"
    folder.mkdir()
    async with ssh_machine(folder) as served:
        yield served


async def ssh(machine: Machine, command: str, /, **inputs: Any) -> Outcome:
    spec, more = inputs.pop("spec", None), inputs.pop("more", {})
    return await outcome_of(SshTool(), {"command": command, "auth": machine.auth, **inputs}, spec, **more)


async def sftp(machine: Machine, op: str, path: str, /, **inputs: Any) -> Outcome:
    spec, more = inputs.pop("spec", None), inputs.pop("more", {})
    return await outcome_of(SftpTool(), {"op": op, "path": path, "auth": machine.auth, **inputs}, spec, **more)


async def test_a_command_returns_its_output(machine: Machine) -> None:
    done = result(await ssh(machine, "cat; echo problem >&2", stdin={"a": 1}))

    assert done == {"exit_code": 0, "stdout": '{"a":1}', "stderr": "problem\n"}


async def test_a_failing_command_is_an_error_with_its_code_and_output(machine: Machine) -> None:
    outcome = await ssh(machine, "echo so far; echo 'no such thing' >&2; exit 3")

    failed = error(outcome)

    assert (failed.kind, failed.code) == ("ssh.exit", "3")
    assert "no such thing" in failed.message
    assert outcome.meta.stdout == "so far\n"


async def test_remote_output_over_the_limit_is_dropped_and_the_command_continues(machine: Machine) -> None:
    done = result(await ssh(machine, "head -c 3000000 /dev/zero; echo end >&2", spec={"max_bytes": 1000}))

    assert len(done["stdout"]) == 1000
    assert done["stderr"] == "end\n"


async def test_a_private_key_authenticates_too(machine: Machine) -> None:
    key = machine.client_key.export_private_key("pkcs8-pem", passphrase="a phrase").decode()
    auth = {**machine.auth, "password": "", "private_key": key, "passphrase": "a phrase"}

    assert result(await ssh(machine, "echo in", auth=auth))["stdout"] == "in\n"
    wrong = error(await ssh(machine, "echo in", auth={**auth, "passphrase": "another"}))
    assert wrong.kind == "keychain.unresolved"


async def test_a_wrong_password_is_denied(machine: Machine) -> None:
    denied = error(await ssh(machine, "echo in", auth={**machine.auth, "password": "a wrong one"}))

    assert denied.kind == "ssh.denied"
    assert not denied.retryable
    assert "a wrong one" not in denied.message


async def test_a_machine_with_another_host_key_receives_no_password(machine: Machine) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()

    refused = error(await ssh(machine, "echo in", auth={**machine.auth, "host_key": other}))

    assert refused.kind == "ssh.host_key"


async def test_a_host_key_can_be_given_as_a_fingerprint(machine: Machine) -> None:
    digest = base64.b64encode(hashlib.sha256(machine.host_key.public_data).digest()).decode().rstrip("=")
    auth = {**machine.auth, "host_key": "", "host_key_fingerprint": f"SHA256:{digest}"}

    known = await ssh(machine, "echo in", auth=auth)
    unknown = await ssh(machine, "echo in", auth={**auth, "host_key_fingerprint": "SHA256:" + "A" * 43})

    assert result(known)["stdout"] == "in\n"
    assert error(unknown).kind == "ssh.host_key"


async def test_a_credential_without_a_host_key_is_refused(machine: Machine) -> None:
    refused = error(await ssh(machine, "echo in", auth={**machine.auth, "host_key": ""}))

    assert refused.kind == "keychain.unresolved"
    assert "ssh-keyscan" in refused.message


async def test_a_cancelled_task_ends_its_remote_command(machine: Machine, tmp_path: Path) -> None:
    running = asyncio.create_task(ssh(machine, f"echo $$ > {tmp_path}/pid; exec sleep 600"))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        await asyncio.sleep(0.01)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    while Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists():
        await asyncio.sleep(0.01)


async def test_a_cancelled_login_leaves_no_connection() -> None:
    opened, closed = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.set()
        while await reader.read(4096):
            pass
        closed.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        auth = {"host": "127.0.0.1", "port": server.sockets[0].getsockname()[1], "user": "ada"}
        auth |= {"password": "of nobody", "host_key_fingerprint": "SHA256:nothing"}
        running = asyncio.create_task(outcome_of(SshTool(), {"command": "true", "auth": auth}))
        await opened.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await closed.wait()


async def test_a_download_creates_its_folder_and_a_local_disk_error_is_reported_as_such(
    machine: Machine, tmp_path: Path
) -> None:
    (machine.folder / "a").write_text("content")
    (tmp_path / "file").write_text("no folder")
    more = {"data_folders": (str(tmp_path),)}

    done = await sftp(machine, "download", "/a", file="new/folder/a", more=more)
    failed = error(await sftp(machine, "download", "/a", file="file/a", more=more))

    assert done.error is None, done.error
    assert (tmp_path / "new/folder/a").read_text() == "content"
    assert (failed.kind, failed.retryable) == ("sftp.error", False)


async def test_a_lost_connection_is_retryable(machine: Machine, tmp_path: Path) -> None:
    with Proxy("127.0.0.1", machine.port) as line:
        auth = {**machine.auth, "port": line.port}
        running = asyncio.create_task(ssh(machine, f"touch {tmp_path}/begun; sleep 600", auth=auth))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        line.cut()
        lost = error(await running)

    assert lost.kind == "ssh.error"
    assert lost.retryable


async def test_a_private_address_is_reached_only_if_the_policy_allows(machine: Machine) -> None:
    blocked = error(await ssh(machine, "echo in", more={"addresses": AddressGuard(CLOSED)}))

    assert blocked.kind == "tool.not_allowed"


async def test_files_keep_their_contents_and_are_listed_and_deleted(machine: Machine) -> None:
    put = result(await sftp(machine, "put", "/a.json", data={"a": 1}))
    got = result(await sftp(machine, "get", "/a.json"))
    listed = result(await sftp(machine, "list", "/"))
    deleted = [result(await sftp(machine, "delete", "/a.json"))["deleted"] for _ in range(2)]

    assert got["value"] == {"a": 1}
    assert got["size"] == put["size"] == 7
    assert [(one["name"], one["size"]) for one in listed["files"]] == [("a.json", 7)]
    assert deleted == [1, 0]
    assert list(machine.folder.iterdir()) == []


async def test_a_large_file_is_streamed_in_both_directions(machine: Machine, tmp_path: Path) -> None:
    content = hashlib.shake_256(b"a file").digest(9 << 20)
    (tmp_path / "near").mkdir()
    (tmp_path / "near/big.bin").write_bytes(content)
    more = {"more": {"data_folders": (str(tmp_path / "near"),)}}

    up = result(await sftp(machine, "upload", "/big.bin", file="big.bin", **more))
    down = result(await sftp(machine, "download", "/big.bin", file="back.bin", **more))

    assert up["checksum"] == down["checksum"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert (tmp_path / "near/back.bin").read_bytes() == content
    assert [path.name for path in machine.folder.iterdir()] == ["big.bin"]


async def test_a_download_over_the_limit_leaves_the_old_file_and_no_part(machine: Machine, tmp_path: Path) -> None:
    (machine.folder / "big.bin").write_bytes(b"n" * (3 << 20))
    (tmp_path / "near").mkdir()
    near = tmp_path / "near/big.bin"
    near.write_text("old")
    more = {"data_folders": (str(near.parent),)}

    refused = error(await sftp(machine, "download", "/big.bin", file="big.bin", more=more, spec={"max_bytes": 2 << 20}))
    old, names = near.read_text(), [one.name for one in near.parent.iterdir()]
    done = result(await sftp(machine, "download", "/big.bin", file="big.bin", more=more, spec={"max_bytes": 3 << 20}))

    assert refused.kind == "result.too_large"
    assert refused.message == "/big.bin has more than 2097152 bytes: raise spec.max_bytes if it may"
    assert (old, names) == ("old", ["big.bin"])
    assert done["size"] == 3 << 20


async def test_a_full_disk_is_no_lost_connection(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(_: Any, *arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (machine.folder / "a").write_text("here")
    monkeypatch.setattr("noetl.tools.sftp.asyncio.to_thread", full)
    failed = error(await sftp(machine, "download", "/a", file="a", more={"data_folders": (str(tmp_path / "near"),)}))

    assert (failed.kind, failed.retryable) == ("sftp.error", False)
    assert failed.message == '"a" cannot be written here: No space left on device'
    assert list((tmp_path / "near").iterdir()) == []


@pytest.mark.parametrize("op", ["upload", "download"])
async def test_a_cancelled_transfer_leaves_the_old_file_and_no_connection(
    machine: Machine, tmp_path: Path, op: str
) -> None:
    (tmp_path / "near").mkdir()
    near, far = tmp_path / "near/big.bin", machine.folder / "big.bin"
    source, target = (near, far) if op == "upload" else (far, near)
    source.write_bytes(b"n" * (8 << 20))
    target.write_text("old")
    with Proxy("127.0.0.1", machine.port) as line:
        line.rate = 8 << 20  # slow enough that it is under way when it is cancelled
        inputs = {"file": "big.bin", "auth": {**machine.auth, "port": line.port}}
        more = {"data_folders": (str(tmp_path / "near"),)}
        running = asyncio.create_task(sftp(machine, op, "/big.bin", more=more, **inputs))
        while line.carried < 2 << 20:
            assert not running.done(), running.result()
            await asyncio.sleep(0.001)
        running.cancel()
        left = await asyncio.gather(running, return_exceptions=True)

    assert isinstance(left[0], asyncio.CancelledError)
    assert target.read_text() == "old"
    assert [one.name for one in near.parent.iterdir()] == ["big.bin"], "nothing half-made is left here"


async def test_a_broken_upload_leaves_the_old_file(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "big.bin").write_bytes(b"n" * (30 << 20))
    (machine.folder / "big.bin").write_text("old")
    with Proxy("127.0.0.1", machine.port) as line:
        inputs = {"file": "big.bin", "auth": {**machine.auth, "port": line.port}}
        running = asyncio.create_task(
            sftp(machine, "upload", "/big.bin", more={"data_folders": (str(tmp_path),)}, **inputs)
        )
        while line.carried < 2 << 20:
            await asyncio.sleep(0.001)
        line.cut()
        lost = error(await running)

    assert lost.retryable
    assert (machine.folder / "big.bin").read_text() == "old"


@pytest.mark.parametrize(
    ("op", "path", "inputs", "kind"),
    [
        ("get", "/nowhere", {}, "sftp.missing"),
        ("put", "/nowhere/x", {"data": "x"}, "sftp.missing"),
        ("put", "/there", {"data": "x", "if_absent": True}, "sftp.conflict"),
        ("put", "/x", {}, "sftp.input"),
        ("upload", "/x", {"file": "../../etc/passwd"}, "sftp.input"),
        ("download", "/there", {"file": "/etc/x"}, "sftp.input"),
        ("get", "/there", {"spec": {"max_bytes": 2}}, "result.too_large"),
        ("download", "/there", {"file": "x", "spec": {"max_bytes": 0}}, "sftp.input"),
    ],
)
async def test_every_failure_has_an_error_kind(
    machine: Machine, tmp_path: Path, op: str, path: str, inputs: dict[str, Any], kind: str
) -> None:
    (machine.folder / "there").write_text("here")

    failed = error(await sftp(machine, op, path, **inputs, more={"data_folders": (str(tmp_path),)}))

    assert failed.kind == kind


async def test_no_secret_appears_in_an_error(machine: Machine) -> None:
    for secret in [secrets.token_urlsafe(12) for _ in range(50)]:
        failed = error(await ssh(machine, "echo in", auth={**machine.auth, "password": secret}))
        assert failed.kind == "ssh.denied"
        assert secret.encode() not in msgspec.json.encode(failed)


async def test_a_credential_check_names_what_it_reached(machine: Machine) -> None:
    said = await SshTool().check({"auth": machine.auth}, context())
    files = await SftpTool().check({"auth": machine.auth}, context())

    assert said == f"logged in to ada@127.0.0.1:{machine.port}"
    assert files == f"opened SFTP on ada@127.0.0.1:{machine.port}"
