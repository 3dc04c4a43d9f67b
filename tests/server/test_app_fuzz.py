"""The API against what its own description allows and does not: no server error, nothing undocumented (F11).

A real server runs in a thread of its own; requests are made from the description. `make test-deep` sends many more.
Each test takes a part of the operations, so that none comes near the time limit of a test on a busy machine.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Err
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.server.configuration import ServerSettings
from noetl.server.server_process import serving
from tests.engine_script import playbook
from tests.server.talking import HELLO
from tests.volume import one_in

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
ENDLESS = ("/api/stream", "/api/executions/{execution_id}/stream")
OF_WORKERS = ("/api/orders/", "/api/nets/", "/api/workers")
ROLES = (Role.NOBODY, Role.VIEWER, Role.OPERATOR, Role.AUTHOR, Role.WORKER)
PARTS = range(4)


class Target(threading.Thread):
    """A server, with a token of an admin and one of a worker, and the id of one execution."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder, self._is_up = folder, threading.Event()
        self.url, self.admin, self.worker, self.execution_id = "", "", "", ""
        self.tokens: dict[Role, str] = {}
        self.api: dict[str, Any] = {}

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        chosen = ServerSettings(db=str(self._folder / "store.db"), port=0, workers=2, local=True, long_poll_s=0.2)
        async with serving(chosen) as served:
            services = served.services
            wanted = TokenRequest(subject="w", role=Role.WORKER, pools=("default",))
            self.worker, _ = await services.access.tokens.create(wanted)
            for role in (Role.VIEWER, Role.OPERATOR, Role.AUTHOR):
                self.tokens[role], _ = await services.access.tokens.create(TokenRequest(subject="p", role=role))
            self.url, self.admin = served.url, served.first_token or ""
            self._is_up.set()
            await self._over.wait()

    def __enter__(self) -> Target:
        import httpx2

        self.start()
        assert self._is_up.wait(60)
        headers = self.headers("/api/catalog")
        with httpx2.Client(base_url=self.url, headers=headers, timeout=90, trust_env=False) as client:
            client.post("/api/catalog", json={"source": playbook(HELLO)}).raise_for_status()
            started = client.post("/api/executions", json={"path": "tests/test", "wait": 60})
            self.execution_id = started.json()["execution_id"]
            self.api = client.get("/openapi.json").json()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self.join(20)

    @cached_property
    def operations(self) -> list[Any]:
        results = list(schemathesis.openapi.from_dict(self.api).get_all_operations())
        assert [result for result in results if isinstance(result, Err)] == []
        found = [result.ok() for result in results if not isinstance(result, Err)]
        return [operation for operation in found if operation.path not in ENDLESS]

    def headers(self, path: str, role: Role | None = None) -> dict[str, str]:
        """Without a role, those of whoever may ask this."""
        if role is Role.NOBODY:
            return {}
        token = self.worker if path.startswith(OF_WORKERS) or role is Role.WORKER else self.admin
        return {"authorization": f"Bearer {self.tokens.get(role, token) if role else token}", "noetl-protocol": "1"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("fuzz")
        patched.setenv("NOETL_HOME", str(folder))
        with Target(folder) as made:
            yield made


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.filterwarnings("ignore")
def test_random_requests_never_break_the_server_or_its_description(target: Target, part: int) -> None:
    assert fuzz(target, part_of(target.operations, part), 2)[200] > 4


@pytest.mark.req("SRV-02")
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.filterwarnings("ignore")
def test_random_requests_of_any_role_never_break_the_server(target: Target, role: Role, half: int) -> None:
    # Every other operation for each role, others for the next role.
    operations = one_in(2, target.operations[half::2], first=ROLES.index(role))
    seen = fuzz(target, operations, 1, role)
    # Strangers are also slowed down: of many refused requests of one address most get a 429.
    refused = seen[401] + seen[429] if role is Role.NOBODY else seen[403]
    assert refused > 3, seen


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.filterwarnings("ignore")
def test_many_random_requests_never_break_the_server_or_its_description(target: Target, part: int) -> None:
    assert fuzz(target, part_of(target.operations, part), 200)[200] > 250


def test_the_parts_together_are_all_operations(target: Target) -> None:
    parts = [operation.label for part in PARTS for operation in part_of(target.operations, part)]

    assert sorted(parts) == sorted(operation.label for operation in target.operations)


def part_of(operations: Sequence[Any], part: int) -> Sequence[Any]:
    return operations[part :: len(PARTS)]


def fuzz(target: Target, operations: Sequence[Any], examples: int, role: Role | None = None) -> Counter[int]:
    """Send that many requests to each operation; how often each status came."""
    seen: Counter[int] = Counter()
    for operation in operations:
        _ask(target, operation, examples, seen, role)
    return seen


def _ask(target: Target, operation: Any, examples: int, seen: Counter[int], role: Role | None) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def asked(case: Any) -> None:
        if case.path_parameters and "execution_id" in case.path_parameters and sum(seen.values()) % 2:
            case.path_parameters["execution_id"] = target.execution_id
        answer = case.call(base_url=target.url, headers=target.headers(operation.path, role), timeout=90)
        seen[answer.status_code] += 1
        if answer.status_code != 429:
            case.validate_response(answer, checks=CHECKS)

    asked()
