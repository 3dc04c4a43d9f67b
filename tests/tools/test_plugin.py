"""Plug-ins: the example package, found as an installed one is, checked and run like a built-in kind (TOOL-01)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import noetl
from noetl.base.diagnostics import Source
from noetl.base.errors import RefusedError, ToolError
from noetl.language.checking import check
from noetl.net.kinds import Input, ToolKind
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.kinds import GROUP, KINDS, load_kinds
from noetl.tools.registry import BUILT_IN, Permissions, Registry

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
NOETL = Path(noetl.__file__).parents[1]


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment where the example is installed: its code on the path, its entry points in its metadata."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    site = tmp_path / "site"
    metadata = site / "noetl_audit_logger-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (metadata / "entry_points.txt").write_text(points)
    paths = os.pathsep.join([str(site), str(EXAMPLE / "src"), str(NOETL)])
    return {**os.environ, "PYTHONPATH": paths, "NOETL_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}


def noetl_cli(*arguments: str, env: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from noetl.cli.main import main; main()", *arguments]
    return subprocess.run(command, env=dict(env), cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.req("TOOL-01", "VAL-04")
def test_the_example_plug_in_is_checked_and_run_when_installed(installed: dict[str, str], tmp_path: Path) -> None:
    playbook = str(EXAMPLE / "playbook.yaml")

    unknown = noetl_cli("check", playbook, env={**os.environ, "NO_COLOR": "1"}, cwd=tmp_path)
    checked = noetl_cli("check", playbook, env=installed, cwd=tmp_path)
    ran = noetl_cli("run", playbook, "--memory", "-o", "json", env=installed, cwd=tmp_path)

    assert "E_TOOL_KIND" in unknown.stdout + unknown.stderr
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["result"] == {"line": 1}
    record = json.loads((tmp_path / "audit.jsonl").read_text())
    assert (record["level"], record["message"], record["data"]) == (
        "warning",
        "ada asked for the report",
        {"attempt": 1},
    )


def test_inputs_of_a_plug_in_are_checked_by_its_declaration(installed: dict[str, str], tmp_path: Path) -> None:
    text = (EXAMPLE / "playbook.yaml").read_text().replace("message:", "mesage:")
    (tmp_path / "wrong.yaml").write_text(text)

    checked = noetl_cli("check", "wrong.yaml", env=installed, cwd=tmp_path)

    assert checked.returncode == 1
    assert '"mesage" is not an input of kind audit_logger' in checked.stdout + checked.stderr
    assert 'did you mean "message"' in checked.stdout + checked.stderr


def test_the_tests_of_the_example_plug_in_pass(installed: dict[str, str], tmp_path: Path) -> None:
    own = ["-c", str(EXAMPLE / "pyproject.toml"), "-p", "no:cacheprovider", "-W", "error"]
    alone = {**installed, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # it needs none, and there are many here

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *own, "tests"],
        env=alone,
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


class Raising:
    """A plug-in that nobody tested."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        raise RuntimeError("boom")

    async def close(self) -> None: ...

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


class Sql(Raising):
    """A plug-in that declares its text as SQL, and another as a command."""

    kind = ToolKind(
        name="own_sql", inputs=(Input(name="query", sql=True), Input(name="line", quoted=True), Input(name="text"))
    )

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        (statement,) = inputs["query"].statements
        return ToolResult(result=[statement.text, list(statement.params), inputs["line"], inputs["text"]])


class Farm(Raising):
    """A plug-in whose tasks submit jobs, and that reads hints of the whole playbook."""

    kind = ToolKind(
        name="farm", inputs=(Input(name="op"),), policy_doc="Where jobs of the farm run.", job_ops=("", "submit")
    )

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(result={"job_id": "farm:1", "state": "RUNNING", "site": context.policy["site"]})


PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: bad, path: tests/bad}
workflow:
  - step: start
    tool:
      - name: bad
        kind: KIND
        WORD: x
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {why: "{{ outcome.error.kind }}"}}}}]}}
"""


@pytest.mark.req("OUT-05", "TOOL-01")
def test_a_plug_in_that_raises_gives_an_ordinary_error(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint("bad", f"{__name__}:Raising", GROUP)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)

    result = noetl.run(PLAYBOOK.replace("KIND", "bad"), db=":memory:")

    assert result.ctx == {"why": "tool.exception"}


FARM = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: farm, path: tests/farm}
executor: {spec: {policy: {farm: {site: north}}}}
workflow:
  - step: start
    tool: [{name: submit, kind: farm}, {name: ask, kind: farm, op: status}]
"""


@pytest.mark.req("VAL-12", "SRV-11")
def test_a_plug_in_can_have_a_policy_and_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint("farm", f"{__name__}:Farm", GROUP)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)

    net = check(Source("farm.yaml", FARM), kinds=load_kinds()).net
    result = noetl.run(FARM, db=":memory:")

    assert net is not None
    assert [task.submits_job for task in net.transitions[0].tasks] == [True, False]
    assert result.result == {"job_id": "farm:1", "state": "RUNNING", "site": "north"}


@pytest.mark.req("VAL-12")
def test_a_policy_of_an_unknown_kind_is_refused() -> None:
    checked = check(Source("farm.yaml", FARM.replace("kind: farm", "kind: noop")), kinds=load_kinds())

    assert ("E_POLICY_SCOPE", '"farm" is not a key of executor.spec.policy') in [
        (one.code, one.message) for one in checked.diagnostics
    ]


@pytest.mark.req("TOOL-01", "TOOL-09")
def test_the_sql_and_the_commands_of_a_plug_in_are_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pasted in as text, a value of a response would become SQL of the author's, as in no built-in kind."""
    entries = [EntryPoint("own_sql", f"{__name__}:Sql", GROUP)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    text = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: own, path: tests/own}
workload: {who: "x'; DROP TABLE t; --"}
workflow:
  - step: start
    tool:
      - name: ask
        kind: own_sql
        query: "SELECT * FROM t WHERE name = '{{ workload.who }}'"
        line: "grep {{ workload.who }} file"
        text: "{{ workload.who }}"
"""

    result = noetl.run(text, db=":memory:")

    assert result.result == [
        "SELECT * FROM t WHERE name = $1",
        ["x'; DROP TABLE t; --"],
        """_noetl_1='x'"'"'; DROP TABLE t; --'; grep "${_noetl_1}" file""",
        "x'; DROP TABLE t; --",
    ]


@pytest.mark.req("TOOL-01")
def test_the_registry_runs_every_built_in_kind() -> None:
    """`playbook` and `workbook` are no tools of a worker: the compiler and the server see to them."""
    built_in = {name for name, kind in KINDS.items() if kind.plugin is None}

    assert set(BUILT_IN) <= built_in
    assert built_in - set(BUILT_IN) <= {"playbook", "workbook", "secrets", "quantum"}


@pytest.mark.req("TOOL-01")
def test_a_playbook_with_a_missing_extra_is_refused_before_it_starts() -> None:
    text = PLAYBOOK.replace("KIND", "snowflake").replace("WORD", "command")

    with pytest.raises(RefusedError, match=r'pip install "noetl-engine\[snowflake\]"'):
        noetl.run(text, db=":memory:")


def test_a_plug_in_that_runs_programs_must_be_allowed_too() -> None:
    more = {"container": f"{__name__}:Raising"}

    with pytest.raises(ToolError, match="--allow container") as caught:
        Registry(more).tool("container")
    assert caught.value.kind == "tool.not_allowed"
    allowed = Registry(more, permissions=Permissions(kinds=frozenset({"container"})))
    assert allowed.tool("container").helpers() == {}
    asyncio.run(allowed.close())


def test_a_worker_that_cannot_run_a_kind_fails_the_task() -> None:
    """An extra that is missing, a kind that is off: an outcome like any other, and the worker goes on."""
    registry = Registry({"gone": "no_such_package:Tool"})

    assert registry.runs("gone")
    assert registry.helpers("gone") == {}
