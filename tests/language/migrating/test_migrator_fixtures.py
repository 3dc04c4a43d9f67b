"""Whole documents: every fixture of the older dialects, migrated."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from noetl.base.diagnostics import Source
from noetl.language.migrating.document_editor import SourceDocument
from noetl.language.reading.playbook import Dialect
from tests.language.migrating.migrated import FIXTURES, compiled, document, essence, fixture, migrated

OLDER = [path.stem for path in sorted(FIXTURES.glob("F-00[0-3]-*.yaml")) if path.stem != "F-000-A"]
LISTENING = {"F-002-A", "F-002-C", "F-002-G2", "F-002-P"}  # eval_mode: on_event
WHOLE = [name for name in OLDER if name not in LISTENING]
CANONICAL = [path.stem for path in sorted(FIXTURES.glob("F-*.yaml")) if path.stem not in OLDER]


@pytest.mark.req("MIG-01", "MIG-03", "CLI-03")
@pytest.mark.parametrize("name", WHOLE)
def test_a_fixture_migrates_completely_and_checks_as_v10(name: str) -> None:
    migration = migrated(fixture(name))

    playbook, net, found = compiled(migration.text)
    assert migration.blocked == ()
    assert playbook.api_version == "noetl.io/v10"
    assert [one for one in found if one.code != "W_TOOL_KIND"] == []
    assert net is not None


@pytest.mark.req("MIG-01")
@pytest.mark.parametrize("name", OLDER)
def test_migrating_again_changes_nothing(name: str) -> None:
    text = migrated(fixture(name)).text

    assert migrated(text).text == text


@pytest.mark.req("MIG-01")
@pytest.mark.parametrize("name", CANONICAL)
def test_a_v10_document_is_unchanged_byte_for_byte(name: str) -> None:
    text = fixture(name)
    if compiled(text)[0].dialect is not Dialect.V10:
        pytest.skip("of an older dialect")

    assert migrated(text).text == text


@pytest.mark.req("MIG-01")
@pytest.mark.parametrize("name", WHOLE)
def test_every_comment_is_preserved(name: str) -> None:
    text = fixture(name)
    migration = migrated(text)

    assert _comments(migration.text) == _comments(text)


@pytest.mark.req("MIG-01", "MIG-03")
@pytest.mark.parametrize("name", WHOLE)
def test_sections_without_routing_are_copied(name: str) -> None:
    old, new = document(fixture(name)), document(migrated(fixture(name)).text)

    for section in ("workload", "executor", "trigger", "kind"):
        assert new.get(section) == old.get(section)
    assert new["metadata"] == (old.get("metadata") or {"name": old["name"], "path": old["path"]})


@pytest.mark.req("MIG-02", "V2E-04")
@pytest.mark.parametrize("name", ["F-000-B", "F-000-D", "F-000-E", "F-003-A"])
def test_the_old_and_the_new_form_compile_to_the_same_net(name: str) -> None:
    """Same tasks, rules, order, loops and arcs: then the same events follow, whatever the endpoints answer."""
    text = fixture(name)

    assert essence(compiled(migrated(text).text)[1]) == essence(compiled(text)[1])


@pytest.mark.req("MIG-01")
def test_the_migrated_fetch_all_equals_the_canonical_example() -> None:
    new = _step(document(migrated(fixture("F-003-A")).text), "fetch_all_endpoints")
    canonical = _step(document(fixture("F-004-H")), "fetch_all_endpoints")

    assert new["spec"]["policy"]["admit"] == canonical["spec"]["policy"]["admit"]
    assert new["next"] == canonical["next"]
    assert _rules(new, "paginate") == _rules(canonical, "paginate")
    assert _rules(new, "init") == _rules(canonical, "init_iter")
    fetch, example = _task(new, "fetch_page"), _task(canonical, "fetch_page")
    for key in ("kind", "method", "url", "params"):
        assert fetch[key] == example[key]
    assert fetch["spec"]["timeout"] == example["spec"]["timeout"]
    assert [next(iter(rule)) for rule in _rules(new, "fetch_page")] == ["when", "when", "else"]


@pytest.mark.req("MIG-03")
@pytest.mark.parametrize("name", ["F-002-C", "F-002-P", "F-002-G2"])
def test_listening_to_every_event_is_reported_with_the_alternative(name: str) -> None:
    migration = migrated(fixture(name))

    (item,) = migration.blocked
    assert "eval_mode: on_event" in item.message
    assert "wait blocks" in item.way_out
    assert item.path.endswith("spec.eval_mode")


def _comments(text: str) -> Counter[str]:
    root = compiled(text)[0].node
    return Counter(comment.text for comment in SourceDocument(Source("test.yaml", text), root).comments)


def _step(whole: Any, name: str) -> Any:
    return next(step for step in whole["workflow"] if step["step"] == name)


def _task(step: Any, name: str) -> Any:
    return next(task for task in step["tool"] if task["name"] == name)


def _rules(step: Any, name: str) -> Any:
    return _task(step, name)["spec"]["policy"]["rules"]
