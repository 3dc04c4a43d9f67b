"""The one way to add routes to the app, so that each of them is guarded (reliability.md §2.3).

It also generates the OpenAPI part of a route: bodies and answers are Structs, and their schemas follow from them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.routing import iter_route_contexts

from noetl.operations.administration_shapes import Caller
from noetl.server.access.gate import PASSED, GateResult
from noetl.server.problem_details import MEDIA_TYPE as PROBLEM
from noetl.server.problem_details import ProblemDetails, ProblemShape

_REF = "#/components/schemas/{name}"
_shown: dict[str, Any] = {}  # schemas of the Structs that routes name


async def set_identity(request: Request) -> None:
    """The dependency of every route: refuses a request that did not pass the gate, and sets its identity."""
    request.state.identity = await guard(request)


class GuardedRouter(APIRouter):
    """The routes of one module, each behind the guard."""

    def __init__(self, **more: Any) -> None:
        super().__init__(dependencies=[Depends(set_identity)], **more)


def include(app: FastAPI, router: APIRouter) -> None:
    """Add the routes of a module to the app.

    The routes are added directly: `include_router` would build each of them again for every application, with its
    parameters and their models, which took four fifths of a server's first request.
    """
    # Routes of another router would not have the guard.
    if not isinstance(router, GuardedRouter):
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


def openapi_docs(
    gives: Any = None, *, reads: Any = None, status: int = 200, media: str | tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """Keyword arguments for a route's decorator: its request body `reads` and its answer `gives` in OpenAPI. `media`
    are the content types of an answer that is not a Struct."""
    answer: dict[str, Any] = {"description": "Done."}
    if gives is not None:
        answer["content"] = {"application/json": {"schema": _schema(gives)}}
    elif media:
        kinds = (media,) if isinstance(media, str) else media
        answer["content"] = {kind: {"schema": {} if kind.endswith("/json") else {"type": "string"}} for kind in kinds}
    arguments: dict[str, Any] = {
        "status_code": status,
        # Without a model the framework does not validate and copy answers; Structs are valid already.
        "response_model": None,
        "response_class": Response,
        "responses": {status: answer, "default": _problem()},
        **more,
    }
    if reads is not None:
        body = {"required": True, "content": {"application/json": {"schema": _schema(reads)}}}
        arguments["openapi_extra"] = {"requestBody": body}
    return arguments


def _problem() -> dict[str, Any]:
    return {"description": "Anything that went wrong.", "content": {PROBLEM: {"schema": _schema(ProblemShape)}}}


# Every route names the shape of problems, and many answer with the same one: one schema of each took a quarter of the
# processor time in which a server builds its routes.
@cache
def _schema(kind: Any) -> dict[str, Any]:
    """The schema of `kind`, a reference if it is a Struct. The schemas of all Structs inside it are collected."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_REF)
    for component in components.values():
        # Python 3.13 removes the indentation of docstrings, earlier versions keep it; make both equal.
        if "description" in component:
            component["description"] = inspect.cleandoc(component["description"])
    _shown.update(components)
    return schema


def components() -> dict[str, Any]:
    """The schemas of all Structs that routes have named."""
    return dict(_shown)


# The guard of a route: returns the identity that the gate has found, and refuses a request that did not pass the gate
# for this route. It is a dependency of every route, so that the rule that was checked is that of the called route.
async def guard(request: Request) -> Caller:
    return gate_result(request).caller.identity


def gate_result(request: Request) -> GateResult:
    """The result of the gate; 403 if the request did not pass the gate, or passed it for another route."""
    result = request.scope.get(PASSED)
    # Gate and framework each look up the route. If they differ, the checked rule is not that of the called route.
    if not isinstance(result, GateResult) or result.route.endpoint is not request.scope.get("endpoint"):
        raise ProblemDetails(403, "no role may send this request")
    return result
