"""The child process of the `storage` tool: performs requests and answers them as JSON over pipes. Errors of object
stores become error outcomes here."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotModifiedError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from noetl.base.addresses.policy import AddressGuard
from noetl.base.errors import ToolError
from noetl.tools.child_pipes import error_answer, serve_calls
from noetl.tools.guarded_proxy import guarded_proxy
from noetl.tools.storage.operations import MAX_ANSWER_BYTES, perform
from noetl.tools.storage.request import StorageRequest

_MAX_LEVEL_BYTES = 256 << 20  # of one level of a bucket: half a million names
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>\s*([A-Za-z0-9_.-]{1,80})\s*</Code>|\"(?:reason|error)\":\s*\"([A-Za-z0-9_.-]{1,80})\"")
_MESSAGE = re.compile(r"<Message>\s*([^<]{1,300})|\"(?:message|error_description)\":\s*\"([^\"]{1,300})")
_CAUSE = re.compile(r"(?: - |: )(HTTP error: [^\n]{1,200}|[Cc]onnection[^\n]{1,200}|error sending request[^\n]{0,100})")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_WRONG_CREDENTIAL = re.compile(
    r"token request|decod\w+ key|InvalidKey|private key|decode service account|Invalid Access Key"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_RETRYABLE = frozenset({408, 429})


def serve() -> None:
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    try:
        result = asyncio.run(_perform_guarded(msgspec.convert(call, StorageRequest)))
    except ToolError as problem:
        return error_answer(problem)
    except Exception as problem:
        # Only the class: the driver's text may hold a signed URL.
        return error_answer(ToolError("storage.error", type(problem).__name__))
    return msgspec.json.encode({"result": result})


async def _perform_guarded(request: StorageRequest) -> dict[str, Any]:
    # The driver goes through all pages of one level by itself, however many a store makes of it.
    all_pages = _MAX_LEVEL_BYTES if request.op == "list" and request.listing.recursive is False else None
    async with guarded_proxy(
        AddressGuard(request.policy), max_answer_bytes=MAX_ANSWER_BYTES, max_bytes=all_pages
    ) as proxy:
        try:
            return await perform(request, proxy.url)
        except ToolError:
            raise
        except Exception as problem:
            if proxy.refusal is not None:  # the driver knows only that it got no connection
                raise proxy.refusal from problem
            raise failure(problem, f"{request.op} of {request.source.location}") from problem


# Errors of object stores, with the code and message of the service. The driver's text holds the whole URL of a request,
# which may include a signature or a token. So only the code and message of the service are taken from it.


def failure(problem: Exception, what: str) -> ToolError:
    """The error outcome of `what`."""
    text = str(problem).partition("Debug source:")[0]
    status = int(match[1]) if (match := _STATUS.search(text)) else None
    code = _group(_CODE.search(text)) or (str(status) if status else None)
    kind = _kind(problem, status, text)
    service_message = _message(kind, text, status)
    is_temporary = status is None or status >= 500 or status in _RETRYABLE
    retryable = kind == "storage.error" and is_temporary and isinstance(problem, BaseError | OSError)
    return ToolError(kind, f"{what}: {service_message}", retryable=retryable, code=code, status=status)


def _kind(problem: Exception, status: int | None, text: str) -> str:
    match problem:
        case FileNotFoundError():
            return "storage.missing"
        case AlreadyExistsError() | PreconditionError() | NotModifiedError():
            return "storage.conflict"
        case UnauthenticatedError() | PermissionDeniedError() | PermissionError():
            return "storage.denied"
        case NotSupportedError():
            return "storage.input"
    by_status = {401: "denied", 403: "denied", 404: "missing", 409: "conflict", 412: "conflict", 416: "input"}
    if status in by_status:
        return f"storage.{by_status[status]}"
    # A failed token request or an invalid key means a wrong credential, for any error name of the store.
    return "storage.denied" if _WRONG_CREDENTIAL.search(text) else "storage.error"


def _message(kind: str, text: str, status: int | None) -> str:
    if service_message := _group(_MESSAGE.search(text)):
        return _plain_text(service_message)
    if cause := _group(_CAUSE.search(text)):
        return _plain_text(cause)
    known = {
        "storage.missing": "it does not exist",
        "storage.conflict": "it exists already, or has changed since it was read",
        "storage.denied": "the credential does not allow it",
        "storage.input": "this store cannot do that",
    }
    return known.get(kind) or (f"the store answered {status}" if status else _plain_text(text.partition("\n")[0])[:200])


def _group(match: re.Match[str] | None) -> str | None:
    return next((group for group in match.groups() if group), None) if match else None


def _plain_text(text: str) -> str:
    return _CONTROL.sub(" ", _ADDRESS.sub("…", text)).strip()
