"""Every error is application/problem+json, says what is wrong, and reveals no internals."""

from __future__ import annotations

import logging
from typing import Any
from unittest import mock

import pytest

from noetl.base.errors import BackendError
from noetl.operations.administration_shapes import Role
from noetl.server.logs import JsonLines
from noetl.server.problem_details import MEDIA_TYPE
from tests.server.talking import PROTOCOL, talking

YAML = {"content-type": "text/yaml"}


@pytest.mark.parametrize(
    ("method", "url", "options", "status"),
    [
        ("GET", "/api/executions/none", {}, 404),
        ("GET", "/api/executions/..%2F..%2Fetc", {}, 404),
        ("GET", "/api/nothing", {}, 404),
        ("DELETE", "/api/executions", {}, 405),
        ("GET", "/api/results/abc", {}, 404),
        ("GET", "/api/results/" + "0" * 64, {}, 404),
        ("GET", "/api/catalog/none/versions", {}, 404),
        ("GET", "/api/catalog/none", {}, 404),
        ("DELETE", "/api/credentials/none", {}, 404),
        ("POST", "/api/executions", {"content": b"a: 1", "headers": {"content-type": "text/csv"}}, 415),
        ("POST", "/api/executions", {"content": b"{}"}, 415),
        ("POST", "/api/validate", {"content": b"x", "headers": {"content-type": "image/png"}}, 415),
        ("POST", "/api/executions", {"json": {"path": 1}}, 422),
        ("POST", "/api/executions", {"json": []}, 422),
        ("GET", "/api/executions?limit=many", {}, 422),
        ("POST", "/api/catalog", {"content": b"a: [", "headers": YAML}, 422),
        ("POST", "/api/catalog", {"content": b"\xff\xfe", "headers": YAML}, 400),
        ("POST", "/api/catalog", {"content": b"a" * (1 << 20) + b"a", "headers": YAML}, 413),
        ("POST", "/api/format", {"json": {"source": "a: ["}}, 422),
        ("POST", "/api/render", {"json": {"execution_id": "none", "template": "{{ 1 }}"}}, 404),
        ("PUT", "/api/pools/p", {"json": {"capacity": -1}}, 409),
    ],
)
async def test_every_error_has_the_same_shape(method: str, url: str, options: dict[str, Any], status: int) -> None:
    async with talking(workers=0) as talk:
        answer = await talk.client.request(method, url, **options)
        told = answer.json()

        assert answer.status_code == told["status"] == status, answer.text
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert {"type", "title", "detail", "instance"} <= told.keys()
        assert told["type"].startswith("urn:noetl:problem:")


@pytest.mark.parametrize(
    "body",
    [
        b'{"path": NaN}',
        b'{"path": "a", "path": "b"}',
        b'{"path": "\\ud800"}',
        b'{"path": 1e400}',
        b'{"path": "a", "payload": {"n": ' + b"9" * 5000 + b"}}",
        b'{"path": "a"',
        b'\xef\xbb\xbf{"path": "a"}',
        b'{"path": "\x01"}',
        b"[" * 5000 + b"]" * 5000,
        b'{"payload": ' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}",
        b"",
        b"\xff",
    ],
)
async def test_json_that_is_not_strict_is_refused(body: bytes) -> None:
    """reliability.md §2.7."""
    async with talking(workers=0) as talk:
        answer = await talk.client.post("/api/executions", content=body, headers={"content-type": "application/json"})

        assert answer.status_code == 400, answer.text
        assert answer.json()["type"] == "urn:noetl:problem:json"


async def test_a_body_without_a_length_is_limited_too() -> None:
    async def parts() -> Any:
        for _ in range(20):
            yield b"a" * 100_000

    async with talking(workers=0) as talk:
        answer = await talk.client.post("/api/catalog", content=parts(), headers=YAML)

        assert answer.status_code == 413


async def test_a_refusal_contains_the_diagnostics_of_the_playbook() -> None:
    async with talking(workers=0) as talk:
        text = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: a, path: a}\nworkflow:\n"
        text += "  - step: start\n    tool: {kind: noop}\n    next: {arcs: [{step: nowhere}]}\n"
        told = (await talk.client.post("/api/catalog", content=text, headers=YAML)).json()

        assert told["diagnostics"][0]["code"] == "E_NEXT_REF"
        assert told["diagnostics"][0]["line"] == 7
        assert (await talk.get("/api/catalog"))["playbooks"] == []


async def test_an_unexpected_error_is_answered_with_a_reference_only(caplog: pytest.LogCaptureFixture) -> None:
    async with talking(workers=0) as talk:
        with (
            mock.patch.object(
                type(talk.services.store.catalog), "paths", side_effect=ZeroDivisionError("inner secret")
            ),
            caplog.at_level(logging.ERROR, "noetl.server"),
        ):
            answer = await talk.client.get("/api/catalog")

        assert answer.status_code == 500
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert "inner secret" not in answer.text
        assert "ZeroDivision" not in answer.text
        assert answer.json()["reference"] in "".join(JsonLines().format(one) for one in caplog.records)


async def test_a_failing_store_is_answered_with_503_without_details() -> None:
    async with talking(workers=0) as talk:
        problem = BackendError("disk /var/lib is full")
        with mock.patch.object(type(talk.services.store.catalog), "paths", side_effect=problem):
            answer = await talk.client.get("/api/catalog")

        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        assert "/var/lib" not in answer.text


@pytest.mark.parametrize("headers", [{}, {"noetl-protocol": "2"}, {"noetl-protocol": ""}])
async def test_a_worker_with_another_protocol_version_is_refused(headers: dict[str, str]) -> None:
    async with talking(workers=0) as talk:
        worker = await talk.as_role(Role.WORKER)
        for name in PROTOCOL:
            worker.headers.pop(name)
        answer = await worker.post("/api/orders/turn", json={"worker_id": "w"}, headers=headers)

        assert answer.status_code == 426
        assert "install the same version" in answer.json()["detail"]


async def test_a_number_that_cannot_be_stored_is_refused() -> None:
    async with talking(workers=0) as talk:
        worker = await talk.as_worker()
        problem = OverflowError("Python int too large to convert to SQLite INTEGER")
        with mock.patch.object(talk.services.control.for_workers, "renew", side_effect=problem):
            answer = await worker.post(
                "/api/orders/heartbeat", json={"worker_id": worker.worker_id, "leases": {"o": 2**70}}
            )

        assert answer.status_code == 422
        assert "SQLite" not in answer.text


async def test_data_can_contain_numbers_of_any_size() -> None:
    async with talking() as talk:
        execution_id = await talk.ran(payload={"who": 10**30})

        assert (await talk.get(f"/api/executions/{execution_id}/ctx"))["greeted"] == 10**30
