"""Routes for people who write playbooks with forms: kinds of tools with their inputs, steps as forms, templates.

Texts go in and come out; nothing is stored or run here. The parts of the language are imported by the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import msgspec
from fastapi import Request, Response

from noetl.base.source import Source
from noetl.language.layout.model import NewStep, StepForm
from noetl.operations.example_files import example_files
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails
from noetl.server.routes.language import Formatted
from noetl.server.views.diagnostics import all_shown
from noetl.tools.kinds import load_kinds

router = GuardedRouter(tags=["language"])
T = TypeVar("T")


class InputView(msgspec.Struct, frozen=True, kw_only=True):
    """`control` is how a form asks for it: flag, number, choice, long, text, or data (YAML)."""

    name: str
    doc: str
    required: bool
    control: str
    options: list[str]


class KindView(msgspec.Struct, frozen=True, kw_only=True):
    """`one_of`: of each group one input at least."""

    name: str
    doc: str
    inputs: list[InputView]
    one_of: list[list[str]]


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


@router.get("/api/kinds", **shows(KindList, summary="Kinds of tools with their inputs"))
async def kinds() -> Response:
    return Json(_kinds())


@router.get("/api/templates", **shows(TemplateList, summary="Playbooks to begin with"))
async def templates() -> Response:
    """The examples that ship with NoETL."""
    return Json(await asyncio.to_thread(_templates))


@router.post("/api/steps/form", **shows(StepForm, reads=StepRequest, summary="A step as a form"))
async def form(request: Request) -> Response:
    from noetl.language.formatting.step_form import step_form

    asked = await read(request, StepRequest)
    return Json(await _edited(lambda: step_form(Source("playbook.yaml", asked.source), asked.step, asked.task)))


@router.post("/api/steps/change", **shows(Formatted, reads=StepChange, summary="Write a form into a text"))
async def change(request: Request) -> Response:
    """Inputs that differ are written, empty ones are taken out; every other character stays."""
    from noetl.language.formatting.step_form import with_inputs

    asked = await read(request, StepChange)
    text = await _edited(lambda: with_inputs(Source("playbook.yaml", asked.source), asked.form, load_kinds()))
    return Json(Formatted(source=text, changed=text != asked.source))


@router.post("/api/steps/insert", **shows(Formatted, reads=StepInsertion, summary="Insert a step into a text"))
async def insert(request: Request) -> Response:
    """Behind a step: into one of its arcs, or as its next step where it has none."""
    from noetl.language.formatting.step_form import with_step

    asked = await read(request, StepInsertion)
    text = await _edited(lambda: with_step(Source("playbook.yaml", asked.source), asked.step, load_kinds()))
    return Json(Formatted(source=text, changed=True))


async def _edited(edit: Callable[[], T]) -> T:
    """What an edit gives, made away from the event loop; 422 with the findings where a text is no YAML."""
    from noetl.language.formatting.formatter import FormatError

    try:
        return await asyncio.to_thread(edit)
    except FormatError as problem:
        shown = [msgspec.to_builtins(one) for one in all_shown(problem.findings)]
        raise ProblemDetails(422, str(problem), kind="format", diagnostics=shown) from None


@cache
def _kinds() -> KindList:
    from noetl.language.formatting.step_form import control_of, form_inputs

    return KindList(
        kinds=[
            KindView(
                name=kind.name,
                doc=kind.doc,
                inputs=[
                    InputView(
                        name=one.name,
                        doc=one.doc,
                        required=one.required,
                        control=control_of(one),
                        options=[str(word) for word in one.schema.get("enum", ())],
                    )
                    for one in form_inputs(kind)
                ],
                one_of=[list(group) for group in kind.one_of],
            )
            for kind in sorted(load_kinds().values(), key=lambda one: one.name)
        ]
    )


def _templates() -> TemplateList:
    return TemplateList(
        templates=[
            TemplateView(name=one.name, summary=one.summary, source=one.file.read_text("utf-8"))
            for one in example_files()
            if not one.needs  # a playbook that calls others does not run alone
        ]
    )
