"""What the screens of the web UI ask for beyond the plain reading of records: times with waits, own tasks, fixes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.operations.administration_shapes import Role
from noetl.server import static_files as page
from tests.engine_script import playbook
from tests.server.talking import Talk, talking

WAITS = """
workflow:
  - step: start
    tool: [{name: work, kind: python, code: "result = 1"}]
    next: {arcs: [{step: ask}]}
  - step: ask
    tool: [{name: ready, kind: noop}]
    message: {name: go, correlation: {n: 1}}
    next: {arcs: [{step: end}]}
  - step: end
"""
TASK = """
workflow:
  - step: start
    human_task: {title: T, assignee: {role: boss}, form: [{field: n, type: integer, required: true}]}
"""


async def _steps(talk: Talk, execution_id: str, until: str) -> list[dict[str, Any]]:
    while True:
        steps: list[dict[str, Any]] = (await talk.get(f"/api/executions/{execution_id}/steps"))["steps"]
        if steps and steps[-1]["status"] == until:
            return steps
        await asyncio.sleep(0.01)


@pytest.mark.req("EVT-07")
async def test_a_step_that_waits_has_not_ended_with_its_pipeline() -> None:
    async with talking() as talk:
        await talk.register(WAITS)
        execution_id = (await talk.start())["execution_id"]
        waiting = (await _steps(talk, execution_id, "waiting"))[-1]

        assert (waiting["finished_at"], waiting["waits_for"]) == (None, ["message go"])
        assert waiting["started_at"] <= waiting["waiting_at"]

        await talk.post("/api/messages", {"name": "go", "correlation": {"n": 1}}, 202)
        ended = (await _steps(talk, execution_id, "done"))[1]
        assert ended["status"] == "done"
        assert ended["finished_at"] >= ended["waiting_at"]


@pytest.mark.req("HUM-02", "HUM-03")
async def test_own_tasks_are_those_of_my_roles_and_those_i_have_claimed() -> None:
    async with talking() as talk:
        await talk.register(TASK)
        for _ in range(3):
            await talk.start()
        boss = await talk.as_role(Role.OPERATOR, human_roles=("boss",))
        clerk = await talk.as_role(Role.VIEWER, human_roles=("clerk",))

        tasks = (await boss.get("/api/tasks?mine=true")).json()["tasks"]
        assert len(tasks) == 3
        assert (await clerk.get("/api/tasks?mine=true")).json()["tasks"] == []
        other = await talk.as_role(Role.ADMIN, human_roles=("boss",))
        await other.post(f"/api/tasks/{tasks[0]['task_id']}/claim")
        assert len((await boss.get("/api/tasks?mine=true")).json()["tasks"]) == 2
        page = (await other.get("/api/tasks?mine=true&limit=2")).json()
        rest = (await other.get(f"/api/tasks?mine=true&limit=2&cursor={page['next']}")).json()
        assert len(page["tasks"]) + len(rest["tasks"]) == 3
        assert rest["next"] is None
        assert (await other.get("/api/tasks?mine=true&role=boss")).status_code == 422


@pytest.mark.req("HUM-01", "HUM-02")
async def test_a_task_for_nobody_in_particular_is_among_everybodys_own_until_one_has_claimed_it() -> None:
    async with talking() as talk:
        await talk.register(TASK.replace("assignee: {role: boss}, ", ""))
        await talk.start()
        ann = await talk.as_role(Role.OPERATOR)
        bob = await talk.as_role(Role.ADMIN, human_roles=("boss",))
        [task] = (await ann.get("/api/tasks?mine=true")).json()["tasks"]
        assert (await bob.get("/api/tasks?mine=true")).json()["tasks"] == [task]

        await bob.post(f"/api/tasks/{task['task_id']}/claim")
        assert (await ann.get("/api/tasks?mine=true")).json()["tasks"] == []
        assert len((await bob.get("/api/tasks?mine=true")).json()["tasks"]) == 1


@pytest.mark.req("HUM-03")
async def test_a_form_that_does_not_fit_is_refused_field_by_field() -> None:
    async with talking() as talk:
        await talk.register(TASK)
        await talk.start()
        boss = await talk.as_role(Role.OPERATOR, human_roles=("boss",))
        [task] = (await boss.get("/api/tasks?mine=true")).json()["tasks"]
        told = await boss.post(f"/api/tasks/{task['task_id']}/complete", json={"values": {"n": "many"}})

        assert told.status_code == 422
        [error] = told.json()["errors"]
        assert error["field"] == "n"
        assert "many" in error["found"]


@pytest.mark.req("VAL-19")
async def test_a_hint_that_names_one_replacement_is_a_fix_an_editor_can_make() -> None:
    text = WAITS.replace("kind: python", "kind: pyton").replace("{step: ask}", "{step: aks}")
    async with talking() as talk:
        found = (await talk.post("/api/validate", {"source": playbook(text)}))["diagnostics"]
        lines = playbook(text).split("\n")
        for one in found:
            if (fix := one["fix"]) is not None:
                line = lines[fix["line"] - 1]
                lines[fix["line"] - 1] = line[: fix["column"] - 1] + fix["replacement"] + line[fix["end_column"] - 1 :]
        assert "\n".join(lines) == playbook(WAITS)


BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture
def ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a UI of its own, where nothing is built yet."""
    monkeypatch.setattr(page, "folder", lambda: tmp_path)
    page._built.cache_clear()
    yield tmp_path
    page._built.cache_clear()


@pytest.fixture
def built(ui: Path) -> None:
    (ui / "index.html").write_text('<base href="/" /><title>NoETL</title>')


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("path", ["/nonsense", "/non/sense?q=1", "/apis", "/openapi/nonsense"])
async def test_a_browser_that_asks_for_no_address_of_ours_is_given_the_page_that_says_so(path: str) -> None:
    async with talking() as talk:
        viewer = await talk.as_role(Role.VIEWER)
        answer = await viewer.get(path, headers=BROWSER)
        stranger = await viewer.get(path, headers={**BROWSER, "authorization": ""})

    for one, status in ((answer, 404), (stranger, 401)):
        assert one.status_code == status, "whoever is not known does not learn what there is"
        assert one.headers["content-type"] == "text/html; charset=utf-8"
        assert one.headers["cache-control"] == "no-store"
        assert "base-uri 'self'" in one.headers["content-security-policy"]
        assert "<title>NoETL</title>" in one.text
    assert stranger.headers["www-authenticate"] == "Bearer"


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/api", BROWSER),
        ("GET", "/api/nonsense", BROWSER),
        ("GET", "/api/executions/none", BROWSER),
        ("GET", "/assets/none.js", BROWSER),
        ("GET", "/nonsense", {"accept": "*/*"}),
        ("GET", "/nonsense", {"accept": "application/json"}),
        ("POST", "/nonsense", BROWSER),
        ("POST", "/catalog", BROWSER),
    ],
)
async def test_programs_are_told_in_their_own_words_that_nothing_is_there(
    method: str, path: str, headers: dict[str, str]
) -> None:
    async with talking() as talk:
        viewer = await talk.as_role(Role.VIEWER)
        answer = await viewer.request(method, path, headers=headers)

    assert answer.status_code in (404, 405)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.usefixtures("ui")
async def test_without_a_ui_nobody_is_given_its_page() -> None:
    async with talking() as talk:
        viewer = await talk.as_role(Role.VIEWER)
        answer, home = await viewer.get("/nonsense", headers=BROWSER), await viewer.get("/", headers=BROWSER)

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "make ui" in home.text
