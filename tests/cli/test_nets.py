"""`noetl compile`, `graph` and `schema`: what is shown of a playbook and of the language."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import jsonschema
import pytest

from noetl.language.grammar.root import playbook_schema
from noetl.net.net import content_hash, from_json
from noetl.tools.kinds import KINDS
from tests import quick_yaml
from tests.cli.running import FIXTURES, call
from tests.cli.stored import ORDERS, stored
from tests.engine_script import playbook

BROKEN = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: n, path: p}\nworkflow: [{step: a}]\n"


def fixture(name: str) -> str:
    return str(FIXTURES / f"{name}.yaml")


@pytest.mark.req("CLI-04", "DIA-07")
def test_compile_prints_the_net_as_readable_json() -> None:
    code, shown, _ = call("compile", "-o", "json", fixture("F-001-E"))
    compiled = json.loads(shown)
    net = from_json(json.dumps(compiled["net"]))

    assert code == 0
    assert compiled["dialect"] == "v2-case"
    assert compiled["hash"] == content_hash(net)
    assert net.path == "fixtures/qpu"


@pytest.mark.req("CLI-04", "SUGAR-06")
def test_the_debug_map_links_generated_labels_to_the_source_lines() -> None:
    lines = Path(fixture("F-R-SUGAR")).read_text().splitlines()
    line_of_while = next(number for number, line in enumerate(lines, 1) if "while:" in line)

    _, shown, _ = call("compile", "-o", "json", "--debug-map", fixture("F-R-SUGAR"))
    origin = json.loads(shown)["debug_map"]["steps/start/tasks/paginate__check"]

    assert (origin["line"], origin["construct"]) == (line_of_while, "while")
    assert "debug_map" not in json.loads(call("compile", "-o", "json", fixture("F-R-SUGAR"))[1])


@pytest.mark.req("CLI-04", "DIA-07")
def test_compile_prints_readable_text() -> None:
    code, shown, _ = call("compile", "--debug-map", fixture("F-R-SUGAR"))

    assert code == 0
    assert "dialect: v10" in shown
    assert "paginate__check" in shown
    assert "\ndebug map:\n  steps/start " in shown


@pytest.mark.req("VAL-19")
@pytest.mark.parametrize("command", [("compile",), ("graph",), ("graph", "-o", "svg")])
def test_a_playbook_with_errors_is_reported_and_ends_with_3(command: tuple[str, ...]) -> None:
    code, shown, error = call(*command, "-", stdin=BROKEN)

    assert code == 3
    assert shown == ""
    assert "error[E_NO_START]" in error


@pytest.mark.parametrize("name", ["F-004-H", "F-R-JOIN", "F-R-GATEWAY", "F-002-B", "F-R-SUGAR", "F-002-M", "F-R-LOOP"])
def test_graph_draws_every_construct_in_every_form(name: str) -> None:
    shown = {}
    for output in ("text", "mermaid", "dot", "svg"):
        code, shown[output], _ = call("graph", "-o", output, fixture(name))
        assert code == 0

    steps = [step["step"] for step in quick_yaml.loaded(Path(fixture(name)).read_text())["workflow"]]
    assert all(step in text for text in shown.values() for step in steps)
    assert shown["mermaid"].split("---")[2].lstrip().startswith("flowchart TD")
    assert shown["dot"].startswith("digraph ")
    ElementTree.fromstring(shown["svg"])


def test_graph_prints_text_by_default() -> None:
    _, shown, _ = call("graph", fixture("F-R-GATEWAY"))

    assert shown == (
        "v10_gateway\n"
        "fixtures/v10_gateway · v10\n"
        "\n"
        "start\n"
        "↓\n"
        "wait_for_response\n"
        "│  ◷ timer: 1h\n"
        "│  ✉ message: response\n"
        "│  ⚑ signal: cancelled\n"
        "├─ message.received → handle_response\n"
        "├─ timer.fired → send_reminder\n"
        "└─ signal.received and event.data.name == 'can… → abort\n"
    )


@pytest.mark.req("CLI-04", "ADV-06")
def test_analyze_prints_text_json_and_dot() -> None:
    text, as_json, as_dot = (call("analyze", "-o", output, fixture("F-004-H")) for output in ("text", "json", "dot"))

    assert [code for code, _, _ in (text, as_json, as_dot)] == [0, 0, 0]
    assert "sound" in text[1]
    assert json.loads(as_json[1])["verdict"] == "sound"
    assert json.loads(as_json[1])["findings"] == []
    assert as_dot[1].startswith("digraph ")


@pytest.mark.req("CLI-04", "DOC-13")
def test_schema_prints_a_schema_that_accepts_the_example_of_the_specification() -> None:
    code, shown, _ = call("schema")
    schema = json.loads(shown)

    assert code == 0
    assert schema == playbook_schema(KINDS)  # of which tests/language/grammar shows that it is a schema
    jsonschema.Draft202012Validator(schema).validate(quick_yaml.loaded(Path(fixture("F-004-H")).read_text()))


def test_graph_with_cost_shows_step_durations_and_the_critical_path(tmp_path: Path) -> None:
    db = str(tmp_path / "store.db")
    file = tmp_path / "orders.yaml"
    file.write_text(playbook(ORDERS))
    unknown = call("graph", str(file), "--cost", "--db", stored(tmp_path)[0])
    file.write_text(playbook(ORDERS.replace("step: finish", "step: done").replace("{step: finish}", "{step: done}")))

    code, shown, _ = call("graph", str(file), "--cost", "--db", db)

    assert (code, unknown[0]) == (0, 0)
    head, columns, *rows = shown.partition("critical path ")[2].splitlines()
    assert head.endswith("medians of 2 executions")
    assert columns.split() == ["STEP", "MEDIAN", "P95", "RUNS", "SHARE"]
    assert [row.split()[0] for row in rows] == ["start", "each", "done"]
    assert "no history" in rows[-1]
    assert call("graph", str(file), "--cost", "-o", "svg", "--db", db)[0] == 2
