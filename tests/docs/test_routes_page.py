"""The pages of routes and shapes: every route of a server with the role that its access rule names, and no shape that
is not there."""

from __future__ import annotations

import functools
import re

import pytest

from noetl.operations.administration_shapes import Role
from noetl.server.access.roles import RULES, rule_for
from tests.docs.pages import ROOT
from tools.routes_page import route_pages, shown_routes

API = ("/api/", "/hooks/", "/metrics")
ROUTES, SHAPES = "docs/routes.md", "docs/shapes.md"


@functools.cache
def pages() -> dict[str, str]:
    """Made when a test asks for them: it takes a second, and every process of the suite collects this module."""
    return dict(route_pages())


@pytest.mark.parametrize("page", [ROUTES, SHAPES])
def test_the_routes_page_is_current(page: str) -> None:
    assert (ROOT / page).read_text() == pages()[page], "run `make docs`"


def test_there_are_no_stray_route_pages() -> None:
    assert set(pages()) == {ROUTES, SHAPES}


def test_every_route_of_the_api_is_on_the_page() -> None:
    ruled = {(method, re.sub(r":\w+\}", "}", path)) for method, path in RULES if path.startswith(API)}

    assert ruled - set(shown_routes(pages()[ROUTES])) == set()


def test_a_route_names_the_least_role_that_can_call_it() -> None:
    roles = dict(re.findall(r"^### `([^`]+)`$.*?^Role: ([^.]+)\. Answers", pages()[ROUTES], re.M | re.S))

    assert roles["GET /api/executions"] == "`viewer`"
    assert roles["POST /api/executions"] == "`operator`"
    assert roles["PUT /api/credentials/{name}"] == "`admin`"
    assert roles["GET /api/results/{checksum}"] == "`viewer` or `worker`"
    assert roles["DELETE /api/workers/{worker_id}"] == "`admin` or `worker`"
    assert roles["POST /api/tasks/{task_id}/claim"] == "`operator`, or a role of human tasks"
    assert roles["GET /api/health/live"] == "none"
    for head, told in roles.items():
        method, path = head.split()
        if (rule := rule_for(method, path)) is not None and Role.ADMIN in rule.roles and Role.AUTHOR not in rule.roles:
            assert "`admin`" in told, head


def test_every_linked_shape_exists_and_every_shape_is_linked() -> None:
    linked = set(re.findall(r"\(shapes\.md#(\w+)\)", pages()[ROUTES] + pages()[SHAPES]))
    shown = {name.lower() for name in re.findall(r"^## (\w+)$", pages()[SHAPES], re.M)}

    assert linked - shown == set()
    assert shown - linked <= {"problemshape"}  # every route may answer with it


@pytest.mark.parametrize("page", [ROUTES, SHAPES])
def test_user_pages_contain_no_requirement_ids(page: str) -> None:
    assert re.findall(r"\b[A-Z]{2,5}-\d{2}\b|§", pages()[page]) == []
