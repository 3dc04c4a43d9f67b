"""The one door by which routes enter the app, so that each of them is guarded (reliability.md §2.3).

It also writes the part of a route that OpenAPI shows: bodies and answers are Structs, and their schemas are made from
them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.routing import iter_route_contexts

from noetl.operations.administration_shapes import Caller
from noetl.server.access.gate import PASSED, Passed
from noetl.server.problem_details import MEDIA_TYPE as PROBLEM
from noetl.server.problem_details import ProblemDetails, ProblemShape

_REF = "#/components/schemas/{name}"
_shown: dict[str, Any] = {}  # schemas of the Structs that routes name


async def guarded(request: Request) -> None:
    """Nobody gets past this without an identity that may; who it is stays with the request."""
    request.state.identity = await guard(request)


class GuardedRouter(APIRouter):
    """The routes of one module, each behind the guard from where it is declared."""

    def __init__(self, **more: Any) -> None:
        super().__init__(dependencies=[Depends(guarded)], **more)


def include(app: FastAPI, router: APIRouter) -> None:
    """Add the routes of a module. There is no other way in.

    The routes themselves are added: `include_router` would make each of them once more for every application, with its
    parameters and their models, which took four fifths of a server's first request.
    """
    if not isinstance(router, GuardedRouter):  # its routes would be open to everybody
        paths = [route.path for route in iter_route_contexts(router.routes)]
        raise TypeError(f"the router of {paths} is not a GuardedRouter")
    app.router.routes.extend(router.routes)


class Json(Response):
    """A Struct, or plain data, as JSON."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(content, status_code, headers)

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def shows(
    gives: Any = None, *, reads: Any = None, status: int = 200, media: str | tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """Keyword arguments for a route's decorator: what it reads and gives, as OpenAPI shows it. `media` are the types
    of what is given where it is no Struct."""
    answer: dict[str, Any] = {"description": "Done."}
    if gives is not None:
        answer["content"] = {"application/json": {"schema": _schema(gives)}}
    elif media:
        kinds = (media,) if isinstance(media, str) else media
        answer["content"] = {kind: {"schema": {} if kind.endswith("/json") else {"type": "string"}} for kind in kinds}
    shown: dict[str, Any] = {
        "status_code": status,
        "response_model": None,
        "response_class": Response,
        "responses": {status: answer, "default": _problem()},
        **more,
    }
    if reads is not None:
        body = {"required": True, "content": {"application/json": {"schema": _schema(reads)}}}
        shown["openapi_extra"] = {"requestBody": body}
    return shown


def _problem() -> dict[str, Any]:
    return {"description": "Anything that went wrong.", "content": {PROBLEM: {"schema": _schema(ProblemShape)}}}


def _schema(kind: Any) -> dict[str, Any]:
    """A reference where `kind` is a Struct, else its schema; Structs inside it are remembered too."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_REF)
    for one in components.values():
        # Python 3.13 takes the indentation out of docstrings, earlier versions keep it: the description is one for all.
        if "description" in one:
            one["description"] = inspect.cleandoc(one["description"])
    _shown.update(components)
    return schema


def components() -> dict[str, Any]:
    """The schemas of all Structs that routes have named."""
    return dict(_shown)


# The guard of a route: gives the identity the gate has found, and refuses if the gate was not passed for this route.
# It is a dependency of every route, so that a route the router chose is the one whose rule was read.
async def guard(request: Request) -> Caller:
    return passed(request).caller.identity


def passed(request: Request) -> Passed:
    """What the gate found. Problem 403 when it did not see this request, or meant another route."""
    found = request.scope.get(PASSED)
    if not isinstance(found, Passed) or found.door.endpoint is not request.scope.get("endpoint"):
        raise ProblemDetails(403, "no role may send this request")
    return found
