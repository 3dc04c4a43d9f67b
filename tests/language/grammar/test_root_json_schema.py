"""The published JSON Schema: accepts the canonical form, refuses what the checker refuses by shape (DOC-13)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from noetl.base.durations import seconds
from noetl.language.grammar.model import ref, templated
from noetl.language.grammar.root import playbook_schema
from noetl.net.kinds import COMMON_SPEC
from noetl.tools.kinds import KINDS
from tests import quick_yaml

FIXTURES = Path(__file__).parents[2] / "fixtures"
SCHEMA = playbook_schema(KINDS)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def fixture(name: str) -> Any:
    return quick_yaml.loaded((FIXTURES / f"{name}.yaml").read_text())


def v10_fixtures() -> list[str]:
    texts = {path.stem: path.read_text() for path in sorted(FIXTURES.glob("*.yaml"))}
    canonical = [name for name, text in texts.items() if "apiVersion: noetl.io/v10" in text]
    return [*canonical, "F-000-A"]  # written under noetl.io/v2, in the canonical shape


def accepts(document: Any) -> bool:
    return bool(VALIDATOR.is_valid(document))


@pytest.mark.req("DOC-13")
def test_the_schema_is_valid_draft_2020_12() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@pytest.mark.req("DOC-13")
@pytest.mark.parametrize("name", v10_fixtures())
def test_every_v10_fixture_is_accepted(name: str) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(fixture(name))] == []


@pytest.mark.req("DOC-13")
def test_every_v10_playbook_without_findings_is_accepted() -> None:
    for path in sorted((FIXTURES.parent / "golden" / "check" / "ok").glob("*.yaml")):
        text = path.read_text()
        if "apiVersion: noetl.io/v10" in text:
            assert [error.message for error in VALIDATOR.iter_errors(quick_yaml.loaded(text))] == [], path.name


@pytest.mark.parametrize("name", ["F-000-E", "F-001-C", "F-002-B", "F-003-A"])
def test_older_dialects_are_refused(name: str) -> None:
    assert not accepts(fixture(name))


def step(**keys: Any) -> dict[str, Any]:
    """A whole playbook around one step."""
    return {
        "apiVersion": "noetl.io/v10",
        "kind": "Playbook",
        "metadata": {"name": "n", "path": "p"},
        "workflow": [{"step": "start", **keys}],
    }


def task(**keys: Any) -> dict[str, Any]:
    return step(tool={"kind": "noop", **keys})


def rules(*listed: dict[str, Any]) -> dict[str, Any]:
    return task(spec={"policy": {"rules": list(listed)}})


def then(**keys: Any) -> dict[str, Any]:
    return rules({"else": {"then": keys}})


REFUSED = {
    "VAL-03 loop without iterator": step(loop={"in": [1]}),
    "VAL-04 unknown kind": step(tool={"kind": "audit_logger"}),
    "VAL-06 policy as a list": task(spec={"policy": [{"when": "{{ true }}"}]}),
    "VAL-06 policy without rules": task(spec={"policy": {"mode": "exclusive"}}),
    "VAL-07 two else": rules({"else": {"then": {}}}, {"else": {"then": {}}}),
    "VAL-07 when and else in one rule": rules({"when": "{{ true }}", "else": {"then": {}}}),
    "VAL-07 misspelt key": then(do="continue", set_itre={}),
    "VAL-08 unknown directive": then(do="goto"),
    "VAL-09 jump without to": then(do="jump"),
    "VAL-10 retry without attempts": then(do="retry"),
    "VAL-10 no attempts": then(do="retry", attempts=0),
    "VAL-10 fixed backoff": then(do="retry", attempts=2, backoff="fixed"),
    "VAL-11 rules on a step": step(spec={"policy": {"rules": []}}),
    "VAL-11 control in admission": step(
        spec={"policy": {"admit": {"rules": [{"when": True, "then": {"do": "fail"}}]}}}
    ),
    "VAL-12 admit on a loop": step(loop={"in": [], "iterator": "x", "spec": {"policy": {"admit": {}}}}),
    "VAL-12 exec on a step": step(spec={"policy": {"exec": "local"}}),
    "VAL-13 kind loop": step(tool={"kind": "loop"}),
    "VAL-14 step when": step(when="{{ true }}"),
    "VAL-14 task when": task(when="{{ true }}"),
    "VAL-14 expr": rules({"expr": "{{ true }}", "then": {}}),
    "VAL-16 plain text guard": rules({"when": "ctx.n > 1", "then": {}}),
    "TASK-04 labelled task": step(tool=[{"fetch": {"kind": "http"}}]),
    "TASK-06 pipe": step(pipe=[]),
    "TOOL-02 http without url": step(tool={"kind": "http"}),
    "TOOL-07 python without code": step(tool={"kind": "python"}),
    "TOOL-13 kind sink": step(tool={"kind": "sink"}),
    "SPEC-05 knob beside kind": step(tool={"kind": "http", "url": "u", "timeout": 5}),
    "POL-04 inclusive task policy": task(spec={"policy": {"mode": "inclusive", "rules": []}}),
    "POL-13 hook with a policy": task(
        spec={"policy": {"rules": [], "after": [{"kind": "noop", "spec": {"policy": {"rules": []}}}]}}
    ),
    "ADM-01 neither allows nor denies": step(spec={"policy": {"admit": {"rules": [{"when": True, "then": {}}]}}}),
    "ROUTE-01 next list": step(next=[{"step": "a"}]),
    "ROUTE-01 next name": step(next="a"),
    "ROUTE-01 no arcs": step(next={"spec": {}}),
    "ROUTE-13 templated target": step(next={"arcs": [{"step": "{{ x }}"}]}),
    "DOC-10 misspelt step key": step(tols={}),
    "DOC-10 unknown step key": step(owner="x"),
    "O-01 join without a number": step(spec={"join": {"rest": "block"}}),
    "TMR-02 a wait with a loop": step(loop={"in": [], "iterator": "x"}, timer={"duration": 5}),
    "TMR-05 alternative without a step": step(timeout={"duration": 5, "spec": {"on_timeout": "alternative"}}),
    "TMR-05 a step that no action takes": step(timeout={"duration": 5, "alternative_step": "late"}),
    "SUGAR-02 while without a condition": step(tool=[{"while": {"then": []}}]),
    "set_vars": then(set_vars={"a": 1}),
    "retry block": step(retry=[]),
    "tool as text": step(tool="http"),
}


@pytest.mark.req("DOC-13")
@pytest.mark.parametrize("document", REFUSED.values(), ids=list(REFUSED))
def test_structural_mistakes_are_refused(document: Any) -> None:
    assert not accepts(document)


ACCEPTED = {
    "a template for a number": then(
        do="retry", attempts="{{ ctx.n }}", delay="{{ outcome.http.headers['retry-after'] }}"
    ),
    "a template for a mapping": step(tool={"kind": "http", "url": "u", "headers": "{{ ctx.headers }}"}),
    "a template for a flag": task(spec={"async": "{{ ctx.later }}"}),
    "else without then": rules({"else": {"do": "break"}}),
    "a boolean guard": rules({"when": True, "then": {}}),
    "unknown knobs": task(spec={"of_a_plug_in": 1}),
    "another spelling": step(tool={"kind": "http", "endpoint": "u"}),
    "a workbook reference with further keys": step(tool={"kind": "workbook", "task": "t", "url": "u"}),
    "any join": step(spec={"join": {"count": 2, "rest": "cancel"}}),
    "sugar": step(tool=[{"choose": [{"when": "{{ ctx.a }}", "then": [{"kind": "noop"}]}, {"else": {"then": []}}]}]),
    "handlers as a list": step(on_event=[{"event": "x", "then": [{"kind": "noop"}]}]),
    "an alternative that another action leaves alone": step(
        timeout={"duration": 5, "spec": {"on_timeout": "ignore"}, "alternative_step": "late"}
    ),
    "timeouts in parts": step(tool={"kind": "http", "url": "u", "spec": {"timeout": {"connect": 5, "read": "15s"}}}),
}


@pytest.mark.req("DOC-13")
@pytest.mark.parametrize("document", ACCEPTED.values(), ids=list(ACCEPTED))
def test_templates_and_short_forms_are_accepted(document: Any) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


# What no schema of this kind can say: references, uniqueness, order, agreement of two keys, and what templates mean.
BEYOND = {
    *("E_ELSE_ORDER", "E_EXECUTOR", "E_JUMP_TARGET", "E_KEYCHAIN", "E_LOOP_MODE", "E_NEXT_REF", "E_NO_START"),
    *("E_STEP_DUP", "E_TASK_DUP", "E_TASK_KEY", "E_TEMPLATE", "E_UNDEFINED_NAME", "E_WORKBOOK_REF", "E_YAML"),
}


def golden(prefixes: tuple[str, ...]) -> list[Path]:
    """The v10 documents of the checker's golden files that are YAML at all. Not those that are checked with kinds of
    plug-ins allowed: the schema has the kinds of this installation only."""
    found = []
    for path in sorted((FIXTURES.parent / "golden" / "check" / "err").glob("*.yaml")):
        text = path.read_text()
        is_default = "--allow-extensions" not in text.partition("\n")[0]
        if path.stem.startswith(prefixes) and "apiVersion: noetl.io/v10" in text and is_default:
            try:
                quick_yaml.loaded(text)
            except yaml.YAMLError:
                continue
            found.append(path)
    return found


@pytest.mark.req("DOC-13")
@pytest.mark.parametrize("path", golden(("E_",)), ids=lambda path: path.stem)
def test_the_schema_refuses_structural_errors_that_the_checker_refuses(path: Path) -> None:
    assert not accepts(quick_yaml.loaded(path.read_text())) or path.stem.split("-")[0] in BEYOND


@pytest.mark.req("DOC-13")
@pytest.mark.parametrize("path", golden(("W_", "I_")), ids=lambda path: path.stem)
def test_playbooks_with_remarks_only_are_accepted(path: Path) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(quick_yaml.loaded(path.read_text()))] == []


@pytest.mark.parametrize("text", ["90", "1.5", "48h", "1h30m", "300ms", "PT2H30M", "P2D", "PT0,5S", "{{ ctx.d }}"])
def test_durations_are_accepted_in_common_notations(text: str) -> None:
    if "{{" not in text:
        seconds(text)

    assert accepts(step(timer={"duration": text}))


@pytest.mark.parametrize("text", ["soon", "", "P", "PT", "5 m", "P1Y", "1x"])
def test_other_texts_are_not_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|length"):
        seconds(text)

    assert not accepts(step(timer={"duration": text}))


@pytest.mark.req("DOC-13")
def test_the_example_of_the_specification_with_a_labelled_task_is_refused() -> None:
    document = fixture("F-004-H")
    document["workflow"][1]["tool"] = [{"fetch": {"kind": "http"}}]

    assert not accepts(document)


@pytest.mark.req("DOC-02", "DOC-03")
@pytest.mark.parametrize("key", ["vars", "steps", "spec", "name"])
def test_root_sections_accept_no_unknown_keys(key: str) -> None:
    document = step()
    document[key] = {}

    assert not accepts(document)


@pytest.mark.parametrize("key", ["apiVersion", "kind", "metadata", "workflow"])
def test_required_root_sections_are_required(key: str) -> None:
    document = step()
    del document[key]

    assert not accepts(document)


@pytest.mark.req("DOC-09")
def test_the_workbook_has_three_spellings() -> None:
    double = {"kind": "python", "code": "result = n"}
    for spelling in ({"tasks": {"double": double}}, {"double": double}, [{"name": "double", **double}]):
        assert accepts(step() | {"workbook": spelling})
        assert not accepts(step() | {"workbook": json.loads(json.dumps(spelling).replace("python", "pyton"))})


def test_every_key_of_a_step_and_every_input_has_a_description() -> None:
    """A completion without a word of explanation teaches nobody."""
    undocumented = [
        key
        for key, schema in SCHEMA["$defs"]["step"]["properties"].items()
        if "description" not in schema and "$ref" not in schema
    ]

    assert undocumented == []
    for name, kind in KINDS.items():
        shape = SCHEMA["$defs"][f"task_{name}"]["properties"]
        assert {one.name for one in kind.inputs} <= set(shape)
        assert all("description" in schema for key, schema in shape.items() if key != "kind")
    assert {knob.name for knob in COMMON_SPEC} == set(SCHEMA["$defs"]["knobs"]["properties"])


def test_a_template_is_offered_once_and_only_where_plain_text_is_not_accepted() -> None:
    number = {"type": "number"}
    original = copy.deepcopy(number)

    assert templated(number) == {"anyOf": [number, ref("template")]}
    assert templated({"type": "string"}) == {"type": "string"}
    assert templated({"anyOf": [number, {"type": "boolean"}]}) == {
        "anyOf": [number, {"type": "boolean"}, ref("template")]
    }
    assert templated({"anyOf": [number, {"type": "string"}]})["anyOf"][-1] == {"type": "string"}
    assert number == original
