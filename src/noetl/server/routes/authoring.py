"""Routes for people who write playbooks: checking, formatting, migrating and drawing a text; kinds of tools with their
inputs, steps as forms, templates.

Texts go in and come out; nothing is stored or run here. The parts of the language are imported by the first request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec
from fastapi import Request, Response

from noetl.base.diagnostics import Source
from noetl.language.formatting.layout import NewStep, StepForm
from noetl.language.reading.playbook import Dialect
from noetl.net.kinds import Input, ToolKind, TriggerKind
from noetl.net.net import Net
from noetl.operations.example_files import example_files
from noetl.server.bodies import read
from noetl.server.computations import computed
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.playbook_texts import (
    Migrated,
    Outline,
    PlaybookText,
    check_text,
    conversion_of,
    diagnostic_views,
    migration_outcome,
    migration_view,
    playbook_outline,
    playbook_problem,
    text_of,
)
from noetl.server.problem_details import ProblemDetails
from noetl.tools.kinds import KINDS, group_of, load_kinds

# Routes of the language: checking, formatting, migrating and drawing a text. None of them runs any of it.
#
# Each part of the language is imported by the first request for it: a server that starts needs none.

language_router = GuardedRouter(tags=["language"])

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


@language_router.post("/api/validate", **openapi_docs(Outline, reads=PlaybookText, summary="Check a playbook"))
async def validate(request: Request) -> Response:
    """Everything the checker has to say about a text; what it finds is no error of the request."""
    result = await check_text(await text_of(request))
    # Only for a text with errors: a migration is checked as a text of its own, which takes as long again.
    migration = None if result.ok else await migration_outcome(result)
    return Json(await computed(playbook_outline, result, migration=migration))


class NamesRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`offset` counts the characters (code points) before the place."""

    source: str
    offset: int


class ReadableNames(msgspec.Struct, frozen=True, kw_only=True):
    names: list[str]


@language_router.post(
    "/api/names", **openapi_docs(ReadableNames, reads=NamesRequest, summary="Names that a template can read")
)
async def readable_names(request: Request) -> Response:
    """The names that a template at one place of a text can read, with their known members (`workload.day`). The text
    may be unfinished there. None where no template can stand."""
    asked = await read(request, NamesRequest)
    return Json(ReadableNames(names=await computed(_readable_names, asked)))


def _readable_names(asked: NamesRequest) -> list[str]:
    from noetl.language.compiling.template_names import template_names

    return template_names(asked.source, min(max(asked.offset, 0), len(asked.source)), load_kinds())


@language_router.post("/api/format", **openapi_docs(Formatted, reads=PlaybookText, summary="Format a playbook"))
async def formatted(request: Request) -> Response:
    from noetl.language.formatting.formatter import format_text

    text = await text_of(request)
    source = await _edit_result(lambda: format_text(Source(text.name, text.source)))
    return Json(Formatted(source=source, changed=source != text.source))


@language_router.post(
    "/api/migrate", **openapi_docs(Migrated, reads=PlaybookText, summary="Rewrite an older dialect as v10")
)
async def migrated(request: Request) -> Response:
    """The v10 form of a text in an older dialect, in a mixture of dialects, or with older spellings. 422 with the
    reasons where there is none."""
    text = await text_of(request)
    return Json(migration_view(await conversion_of(text.name, text.source, text.dialect)))


@language_router.post("/api/graph", **openapi_docs(media=GRAPH_MEDIA, reads=GraphRequest, summary="Draw a playbook"))
async def graph(request: Request) -> Response:
    """As SVG, as boxes and ways with their places (json), as Mermaid, DOT, or text."""
    asked = await read(request, GraphRequest)
    found = await check_text(PlaybookText(source=asked.source, dialect=asked.dialect), proofs=False)
    if found.net is None:
        raise playbook_problem(found)
    return await drawing_response(found.net, asked.format)


@language_router.get("/api/schema", **openapi_docs(dict[str, Any], summary="The JSON Schema of playbooks"))
async def schema() -> Response:
    from noetl.language.grammar.root import playbook_schema

    return Json(playbook_schema(load_kinds()))


async def drawing_response(net: Net, form: GraphFormat) -> Response:
    """The picture of a net."""
    return await computed(_drawing_response, net, form)


def _drawing_response(net: Net, form: GraphFormat) -> Response:
    from noetl.language.drawing import drawing, layout, svg, text_forms

    picture = drawing.draw(net)
    match form:
        case "json":
            return Json({"drawing": picture, "layout": layout.lay_out(picture)})
        case "svg":
            text = svg.svg(picture)
        case "mermaid":
            text = text_forms.mermaid(picture)
        case "dot":
            text = text_forms.dot(picture)
        case _:
            text = text_forms.ladder(picture)
    return Response(text, media_type=_MEDIA[form])


router = GuardedRouter(tags=["language"])
T = TypeVar("T")


class InputView(msgspec.Struct, frozen=True, kw_only=True):
    """`control` is how a form asks for it: flag, number, choice, long, text, or data (YAML)."""

    name: str
    doc: str
    required: bool
    control: str
    options: list[str]


class TriggerForm(msgspec.Struct, frozen=True, kw_only=True):
    """What a trigger of a kind takes. `doc`: what starts a playbook; `item`: what its `workload.item` holds then."""

    doc: str
    item: str
    inputs: list[InputView]


class KindView(msgspec.Struct, frozen=True, kw_only=True):
    """`group`: what people do with it. `one_of`: of each set of inputs one at least. `trigger`: null where a trigger
    cannot poll the kind."""

    name: str
    group: str
    doc: str
    inputs: list[InputView]
    one_of: list[list[str]]
    trigger: TriggerForm | None


class KindList(msgspec.Struct, frozen=True, kw_only=True):
    kinds: list[KindView]


class TemplateView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    summary: str
    source: str


class TemplateList(msgspec.Struct, frozen=True, kw_only=True):
    templates: list[TemplateView]


class StepRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`task` counts the tasks of a step from zero."""

    source: str
    step: str
    task: int = 0


class StepChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    form: StepForm


class StepInsertion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    step: NewStep


@router.get("/api/kinds", **openapi_docs(KindList, summary="Kinds of tools with their inputs"))
async def kinds() -> Response:
    return Json(_kinds())


@router.get("/api/templates", **openapi_docs(TemplateList, summary="Playbooks to begin with"))
async def templates() -> Response:
    """The examples that ship with NoETL."""
    return Json(await computed(_templates))


@router.post("/api/steps/form", **openapi_docs(StepForm, reads=StepRequest, summary="A step as a form"))
async def form(request: Request) -> Response:
    from noetl.language.formatting.step_form import step_form

    asked = await read(request, StepRequest)
    return Json(await _edit_result(lambda: step_form(Source("playbook.yaml", asked.source), asked.step, asked.task)))


@router.post("/api/steps/change", **openapi_docs(Formatted, reads=StepChange, summary="Write a form into a text"))
async def change(request: Request) -> Response:
    """Inputs that differ are written, empty ones are taken out; every other character stays."""
    from noetl.language.formatting.step_form import with_inputs

    asked = await read(request, StepChange)
    text = await _edit_result(lambda: with_inputs(Source("playbook.yaml", asked.source), asked.form, load_kinds()))
    return Json(Formatted(source=text, changed=text != asked.source))


@router.post("/api/steps/insert", **openapi_docs(Formatted, reads=StepInsertion, summary="Insert a step into a text"))
async def insert(request: Request) -> Response:
    """Behind a step: into one of its arcs, or as its next step where it has none."""
    from noetl.language.formatting.step_form import with_step

    asked = await read(request, StepInsertion)
    text = await _edit_result(lambda: with_step(Source("playbook.yaml", asked.source), asked.step, load_kinds()))
    return Json(Formatted(source=text, changed=True))


async def _edit_result(edit: Callable[[], T]) -> T:
    """What an edit gives, made away from the event loop; 422 with the findings where a text is no YAML."""
    from noetl.language.formatting.formatter import FormatError

    try:
        return await computed(edit)
    except FormatError as problem:
        shown = [msgspec.to_builtins(one) for one in diagnostic_views(problem.findings)]
        raise ProblemDetails(422, str(problem), kind="format", diagnostics=shown) from None


# Kinds and plug-ins are known when the server starts, and do not change while it runs.
@cache
def _kinds() -> KindList:
    from noetl.language.formatting.step_form import form_inputs

    return KindList(
        kinds=[
            KindView(
                name=kind.name,
                group=group_of(kind.name),
                doc=kind.doc,
                inputs=[_input_view(field) for field in form_inputs(kind)],
                one_of=[list(group) for group in kind.one_of],
                trigger=_trigger_form(kind.trigger) if kind.trigger else None,
            )
            for kind in _in_order()
        ]
    )


def _in_order() -> list[ToolKind]:
    """Built-in kinds by group, then those of plug-ins by name."""
    known = load_kinds()
    return [*KINDS.values(), *(known[name] for name in sorted(set(known) - set(KINDS)))]


def _input_view(field: Input) -> InputView:
    from noetl.language.formatting.step_form import control_of

    return InputView(
        name=field.name,
        doc=field.doc,
        required=field.required,
        control=control_of(field),
        options=[str(word) for word in field.schema.get("enum", ())],
    )


def _trigger_form(kind: TriggerKind) -> TriggerForm:
    return TriggerForm(doc=kind.doc, item=kind.item, inputs=[_input_view(field) for field in kind.inputs])


def _templates() -> TemplateList:
    found = [
        TemplateView(name=example.name, summary=example.summary, source=example.file.read_text("utf-8"))
        for example in example_files()
        if not example.needs  # a playbook that calls others does not run alone
    ]
    # The simplest first: who begins with NoETL begins with them.
    return TemplateList(templates=sorted(found, key=lambda one: one.source.count("\n")))
