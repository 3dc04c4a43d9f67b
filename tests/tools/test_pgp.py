"""`pgp`: files for others and from others, wrong keys, changed messages; and nothing of a key anywhere."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pysequoia
import pytest
import pytest_asyncio

from noetl.base.errors import RefusedError
from noetl.events.outcomes import Outcome
from noetl.operations.credentials import try_credential
from noetl.tools.pgp import PgpTool
from noetl.tools.registry import Registry
from tests.tools.sql_tasks import outcome_of

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one child process for all of them
OURS, PARTNER, STRANGER = (pysequoia.Tsk.generate(f"{name} <{name}@example.org>") for name in ("us", "them", "nobody"))
CONTENT = os.urandom(300_000)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[PgpTool]:
    tool = PgpTool()
    yield tool
    await tool.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plain").write_bytes(CONTENT)
    return tmp_path


def public(key: pysequoia.Tsk) -> str:
    return str(key.extract_certificate())


async def ran(tool: PgpTool, folder: Path, op: str, /, spec: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
    ends = {"source": "plain", "target": "closed"} if op == "encrypt" else {"source": "closed", "target": "back"}
    return await outcome_of(tool, {"op": op, **ends, **inputs}, spec, data_folders=(str(folder),))


@pytest.mark.parametrize("armor", [True, False])
async def test_an_encrypted_file_is_decrypted_and_its_signature_verified(
    tool: PgpTool, folder: Path, armor: bool
) -> None:
    ours, theirs = {"private_key": str(OURS)}, {"private_key": str(PARTNER)}

    closed = await ran(tool, folder, "encrypt", recipients=[public(PARTNER)], auth=ours, armor=armor)
    opened = await ran(tool, folder, "decrypt", auth=theirs, signers=public(OURS))

    assert closed.error is None
    assert opened.error is None, opened.error
    assert (folder / "back").read_bytes() == CONTENT
    assert (folder / "closed").read_bytes().startswith(b"-----BEGIN PGP MESSAGE") is armor
    assert closed.result["signed"] is True
    assert opened.result["signed_by"] == [OURS.extract_certificate().fingerprint]
    assert opened.result["size"] == len(CONTENT)
    assert sorted(os.listdir(folder)) == ["back", "closed", "plain"]


async def test_a_shared_password_is_sufficient(tool: PgpTool, folder: Path) -> None:
    await ran(tool, folder, "encrypt", auth={"password": "right-one"})
    opened = await ran(tool, folder, "decrypt", auth={"password": "right-one"})
    wrong = await ran(tool, folder, "decrypt", auth={"password": "wrong-one"}, target="other")

    assert opened.error is None
    assert (folder / "back").read_bytes() == CONTENT
    assert wrong.error is not None
    assert wrong.error.kind == "pgp.denied"
    assert not (folder / "other").exists()


async def test_wrong_keys_and_missing_signatures_are_refused(tool: PgpTool, folder: Path) -> None:
    await ran(tool, folder, "encrypt", recipients=public(PARTNER), auth={"private_key": str(STRANGER)})
    cases: list[tuple[dict[str, Any], str]] = [
        ({"auth": {"private_key": str(STRANGER)}}, "pgp.denied"),
        ({"auth": {"private_key": str(PARTNER)[:300]}}, "pgp.denied"),
        ({"auth": {"private_key": str(PARTNER)}, "signers": [public(OURS)]}, "pgp.denied"),
        ({"auth": {"private_key": str(PARTNER)}, "signers": ["no key"]}, "pgp.input"),
        ({}, "pgp.input"),
    ]

    for inputs, kind in cases:
        outcome = await ran(tool, folder, "decrypt", **inputs)
        assert outcome.error is not None, inputs
        assert outcome.error.kind == kind, outcome.error
        assert not any(line in outcome.error.message for line in str(PARTNER).splitlines() if len(line) > 40)
        assert sorted(os.listdir(folder)) == ["closed", "plain"]


async def test_a_changed_or_truncated_message_leaves_no_file(tool: PgpTool, folder: Path) -> None:
    await ran(tool, folder, "encrypt", recipients=public(PARTNER))
    body = (folder / "closed").read_bytes()
    changed = bytearray(body)
    changed[len(body) // 2] ^= 1

    for wrong in (bytes(changed), body[: len(body) // 2], b"no message at all", b""):
        (folder / "closed").write_bytes(wrong)
        outcome = await ran(tool, folder, "decrypt", auth={"private_key": str(PARTNER)})
        assert outcome.error is not None
        assert outcome.error.kind in ("pgp.data", "pgp.denied"), outcome.error
        assert str(folder) not in outcome.error.message
        assert sorted(os.listdir(folder)) == ["closed", "plain"]


async def test_an_oversized_message_is_refused(tool: PgpTool, folder: Path) -> None:
    await ran(tool, folder, "encrypt", recipients=public(PARTNER))
    key = {"private_key": str(PARTNER)}

    stopped = await ran(tool, folder, "decrypt", {"max_bytes": 100_000}, auth=key)
    whole = await ran(tool, folder, "decrypt", auth=key)

    assert stopped.error is not None
    assert stopped.error.kind == "pgp.limit"
    assert "spec.max_bytes" in stopped.error.message
    assert whole.error is None


@pytest.mark.parametrize(
    ("op", "inputs", "kind"),
    [
        ("sign", {}, "pgp.input"),
        ("encrypt", {}, "pgp.input"),
        ("encrypt", {"recipients": "none"}, "pgp.input"),
        ("encrypt", {"recipients": public(PARTNER), "source": "../x"}, "pgp.input"),
        ("encrypt", {"recipients": public(PARTNER), "target": "/etc/x"}, "pgp.input"),
        ("encrypt", {"recipients": public(PARTNER), "source": "nowhere"}, "pgp.missing"),
        ("encrypt", {"recipients": public(PARTNER), "target": "plain", "if_absent": True}, "pgp.conflict"),
    ],
)
async def test_invalid_inputs_are_refused(
    tool: PgpTool, folder: Path, op: str, inputs: dict[str, Any], kind: str
) -> None:
    outcome = await ran(tool, folder, op, **inputs)

    assert outcome.error is not None
    assert outcome.error.kind == kind, outcome.error
    assert os.listdir(folder) == ["plain"]
    assert (folder / "plain").read_bytes() == CONTENT


async def test_a_protected_key_signs_and_decrypts_with_its_passphrase_only(tool: PgpTool, folder: Path) -> None:
    """Made by GnuPG, as most keys are; its passphrase is "correct horse"."""
    text = (Path(__file__).parent / "guarded_key.asc").read_text()
    guarded, key = {"private_key": text, "passphrase": "correct horse"}, pysequoia.Tsk.from_bytes(text.encode())

    closed = await ran(tool, folder, "encrypt", recipients=[public(key)], auth=guarded)
    opened = await ran(tool, folder, "decrypt", auth=guarded, signers=public(key))
    wrong = await ran(tool, folder, "decrypt", auth={**guarded, "passphrase": "wrong horse"}, target="other")
    without = await ran(tool, folder, "decrypt", auth={"private_key": text}, target="other")

    assert (closed.error, opened.error) == (None, None)
    assert (folder / "back").read_bytes() == CONTENT
    assert opened.result["signed_by"] == [key.extract_certificate().fingerprint]
    for refused in (wrong, without):
        assert refused.error is not None
        assert (refused.error.kind, "horse" in str(refused)) == ("pgp.denied", False)
    assert sorted(os.listdir(folder)) == ["back", "closed", "plain"]


@pytest.mark.req("KEY-06")
async def test_no_byte_of_a_secret_is_revealed(tool: PgpTool, folder: Path) -> None:
    text = (Path(__file__).parent / "guarded_key.asc").read_text()
    await ran(tool, folder, "encrypt", recipients=[public(PARTNER)])
    for number in range(50):
        secret = secrets.token_urlsafe(12)
        kinds = (
            {"private_key": text, "passphrase": secret},
            {"password": secret},
            {"private_key": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{secret}\n"},
        )
        outcome = await ran(tool, folder, "decrypt", auth=kinds[number % 3])
        assert outcome.error is not None
        assert secret.encode() not in msgspec.json.encode(outcome)


async def test_a_credential_is_tested_by_opening_its_key() -> None:
    text = (Path(__file__).parent / "guarded_key.asc").read_text()
    name = pysequoia.Tsk.from_bytes(text.encode()).extract_certificate().fingerprint

    told = await try_credential("key", "pgp", {"private_key": text, "passphrase": "correct horse"}, {}, Registry())
    for fields in ({"private_key": text, "passphrase": "wrong horse"}, {"private_key": text}, {"password": "a horse"}):
        with pytest.raises(RefusedError) as refused:
            await try_credential("key", "pgp", fields, {}, Registry())
        assert "horse" not in str(refused.value)

    assert told == f"the private key {name} can be used"


async def test_a_cancelled_task_leaves_no_partial_target(tool: PgpTool, folder: Path) -> None:
    with (folder / "plain").open("r+b") as file:
        file.truncate(1 << 30)
    running = asyncio.create_task(ran(tool, folder, "encrypt", recipients=[public(PARTNER)]))
    while not list(folder.glob(".closed.*.part")):
        assert not running.done(), running.result()
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert os.listdir(folder) == ["plain"]
