"""Routes of the language: checking, formatting, migrating and drawing a text. None of them runs any of it.

Each part of the language is imported by the first request for it: a server that starts needs none.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec
from fastapi import Request, Response

from noetl.base.source import Source
from noetl.language.reading.playbook import Dialect
from noetl.net.net import Net
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.playbook_texts import Migrated, PlaybookText, checked, conversion_of, offered, refused, text_of
from noetl.server.playbook_texts import migrated as migrated_view
from noetl.server.problem_details import ProblemDetails
from noetl.server.views.diagnostics import Outline, all_shown, outlined
from noetl.tools.kinds import load_kinds

router = GuardedRouter(tags=["language"])

GraphFormat = Literal["svg", "json", "mermaid", "dot", "text"]
_MEDIA = {
    "svg": "image/svg+xml",
    "mermaid": "text/plain; charset=utf-8",
    "dot": "text/vnd.graphviz; charset=utf-8",
    "text": "text/plain; charset=utf-8",
}
GRAPH_MEDIA = (*(kind.partition(";")[0] for kind in _MEDIA.values()), "application/json")


class Formatted(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    changed: bool


class GraphRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    format: GraphFormat = "svg"
    dialect: Dialect | None = None


@router.post("/api/validate", **shows(Outline, reads=PlaybookText, summary="Check a playbook"))
async def validate(request: Request) -> Response:
    """Everything the checker has to say about a text; what it finds is no error of the request."""
    found = await checked(await text_of(request))
    migration = None if found.ok else await offered(found)
    return Json(await asyncio.to_thread(outlined, found, migration=migration))


@router.post("/api/format", **shows(Formatted, reads=PlaybookText, summary="Format a playbook"))
async def formatted(request: Request) -> Response:
    from noetl.language.formatting.formatter import FormatError, format_text

    text = await text_of(request)
    try:
        told = await asyncio.to_thread(format_text, Source(text.name, text.source))
    except FormatError as problem:
        shown = [msgspec.to_builtins(one) for one in all_shown(problem.findings)]
        raise ProblemDetails(422, str(problem), kind="format", diagnostics=shown) from None
    return Json(Formatted(source=told, changed=told != text.source))


@router.post("/api/migrate", **shows(Migrated, reads=PlaybookText, summary="Rewrite an older dialect as v10"))
async def migrated(request: Request) -> Response:
    """The v10 form of a text in an older dialect, in a mixture of dialects, or with older spellings. 422 with the
    reasons where there is none."""
    text = await text_of(request)
    return Json(migrated_view(await conversion_of(text.name, text.source, text.dialect)))


@router.post("/api/graph", **shows(media=GRAPH_MEDIA, reads=GraphRequest, summary="Draw a playbook"))
async def graph(request: Request) -> Response:
    """As SVG, as boxes and ways with their places (json), as Mermaid, DOT, or text."""
    asked = await read(request, GraphRequest)
    found = await checked(PlaybookText(source=asked.source, dialect=asked.dialect), proofs=False)
    if found.net is None:
        raise refused(found)
    return await drawing_response(found.net, asked.format)


@router.get("/api/schema", **shows(dict[str, Any], summary="The JSON Schema of playbooks"))
async def schema() -> Response:
    from noetl.language.grammar.root import playbook_schema

    return Json(playbook_schema(load_kinds()))


async def drawing_response(net: Net, form: GraphFormat) -> Response:
    """The picture of a net."""
    return await asyncio.to_thread(_drawing_response, net, form)


def _drawing_response(net: Net, form: GraphFormat) -> Response:
    from noetl.language.drawing import drawing, layout, svg, text_forms

    found = drawing.draw(net)
    match form:
        case "json":
            return Json({"drawing": found, "layout": layout.lay_out(found)})
        case "svg":
            text = svg.svg(found)
        case "mermaid":
            text = text_forms.mermaid(found)
        case "dot":
            text = text_forms.dot(found)
        case _:
            text = text_forms.ladder(found)
    return Response(text, media_type=_MEDIA[form])
