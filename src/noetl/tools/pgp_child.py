"""The child process of the `pgp` tool: encrypts or decrypts one file for each call. Keys come with the call."""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import Any

import msgspec
import pysequoia

from noetl.base.errors import ToolError
from noetl.tools.child_pipes import error_answer, serve_calls
from noetl.tools.files import flushed_checksum

DENIED, DATA, INPUT, LIMIT = "pgp.denied", "pgp.data", "pgp.input", "pgp.limit"


class PgpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. `name` is the name of the source in messages; keys are armored texts."""

    op: str
    source: str
    target: str
    name: str
    recipients: list[str] = []
    signers: list[str] = []
    private_key: str | None = None
    passphrase: str | None = None
    password: str | None = None
    armor: bool = False
    max_bytes: int


def serve() -> None:
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    request = msgspec.convert(call, PgpRequest)
    # The expanded size of a message is known only when it is written: the kernel stops it there.
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (request.max_bytes, most))
    try:
        if request.op == "check":
            return msgspec.json.encode({"result": {"keys": _opened_key(request)}})
        result = _encrypt(request) if request.op == "encrypt" else _decrypt(request)
        size, checksum = flushed_checksum(Path(request.target))
    except ToolError as problem:
        return error_answer(problem)
    except Exception as problem:
        return error_answer(_failure(problem, request))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    return msgspec.json.encode({"result": {**result, "size": size, "checksum": checksum}})


def _encrypt(request: PgpRequest) -> dict[str, Any]:
    signer = None
    if request.private_key is not None:
        signer = _private(request, lambda key: key.signer(request.passphrase))
    pysequoia.encrypt_file(
        request.source,
        request.target,
        recipients=[key for text in request.recipients for key in _public(text, "recipients")],
        signer=signer,
        passwords=[request.password] if request.password is not None else [],
        armor=request.armor,
    )
    return {"signed": signer is not None}


def _decrypt(request: PgpRequest) -> dict[str, Any]:
    signers = [key for text in request.signers for key in _public(text, "signers")]
    more: dict[str, Any] = {"store": lambda _: signers} if signers else {}
    if request.private_key is not None:
        more["decryptor"] = _private(request, lambda key: key.decryptor(request.passphrase))
    if request.password is not None:
        more["passwords"] = [request.password]
    done = pysequoia.decrypt_file(request.source, request.target, **more)
    by = [str(one.certificate) for one in done.valid_sigs]
    # The library reports no error for a message without a signature: it only lists the signatures that it found.
    if signers and not by:
        raise ToolError(DENIED, f"{request.name} has no valid signature of the keys in signers")
    return {"signed_by": by}


def _opened_key(request: PgpRequest) -> str:
    """The fingerprint of the private key, if the passphrase opens it."""
    _private(request, lambda key: key.decryptor(request.passphrase))
    return str(_private(request, lambda key: key.extract_certificate().fingerprint))


def _public(text: str, name: str) -> list[pysequoia.Cert]:
    try:
        # A text may hold several keys, one after another.
        found = pysequoia.Cert.split_bytes(text.encode())
    except Exception:  # any message may contain the key
        found = []
    if not found:
        raise ToolError(INPUT, f"{name} holds no public key: write it as text, -----BEGIN PGP PUBLIC KEY BLOCK----- …")
    return found


def _private(request: PgpRequest, use: Any) -> Any:
    try:
        return use(pysequoia.Tsk.from_bytes((request.private_key or "").encode()))
    except Exception:  # any message may contain the private key as well
        raise ToolError(
            DENIED,
            "the private key of auth cannot be used: its text is cut, it is for another purpose, or its "
            "passphrase is missing or wrong",
        ) from None


def _failure(problem: Exception, request: PgpRequest) -> ToolError:
    # The library adds a backtrace of its native code to every message.
    message = str(problem).partition("Stack backtrace")[0].partition("\n")[0]
    if getattr(problem, "errno", None) == errno.EFBIG or "File too large" in str(problem):
        return ToolError(
            LIMIT, f"{request.name} gives more than {request.max_bytes} bytes: raise spec.max_bytes if it may"
        )
    if "Signature verification failed" in message:
        return ToolError(DENIED, f"{request.name} has no valid signature of the keys in signers")
    if "No key to decrypt" in message:
        return ToolError(DENIED, f"{request.name} is not encrypted for the key or the password of auth")
    plain = message.replace(request.source, request.name).replace(request.target, "the target")
    if request.op == "encrypt":
        return ToolError("pgp.error", f"{request.name} cannot be encrypted: {plain}")
    return ToolError(DATA, f"{request.name} is no whole OpenPGP message, or was changed: {plain}")
