"""Helpers of the migration tests: text in, migrated text and its data out, and the net that each compiles to."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.compiling.compiler import compile_playbook
from noetl.language.migrating.migrator import MigratedPlaybook, migrate
from noetl.language.reading.nodes import data
from noetl.language.reading.playbook import Playbook
from noetl.language.reading.reader import read_playbook
from noetl.net.net import Net, to_json
from noetl.tools.kinds import load_kinds

FIXTURES = Path(__file__).parents[2] / "fixtures"
KINDS = load_kinds()
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t, path: tests/t }\n"


def fixture(name: str) -> str:
    return (FIXTURES / f"{name}.yaml").read_text()


def compiled(text: str) -> tuple[Playbook, Net | None, list[Diagnostic]]:
    """The playbook, its net, and every error and warning but unknown credentials, which no test here has."""
    findings = Findings()
    playbook = read_playbook(Source("test.yaml", text), findings, kinds=KINDS)
    assert playbook is not None, list(findings)
    net = compile_playbook(playbook, KINDS, findings, extensions=True).net
    return playbook, net, [found for found in findings if found.code[0] != "I" and found.code != "W_KEYCHAIN"]


def migrated(text: str) -> MigratedPlaybook:
    playbook, _, found = compiled(text)
    assert not [one for one in found if one.code[0] == "E"], found
    return migrate(Source("test.yaml", text), playbook)


def document(text: str) -> Any:
    return data(compiled(text)[0].node)


def steps_of(body: str) -> dict[str, Any]:
    """The migrated steps by name, of a workflow that must migrate wholly and check as v10."""
    text = HEAD + "workflow:\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "  ") + "\n"
    migration = migrated(text)
    assert migration.blocked == ()
    playbook, _, found = compiled(migration.text)
    assert (playbook.dialect, [one for one in found if one.code[0] == "E"]) == ("v10", []), migration.text
    steps = {step["step"]: step for step in document(migration.text)["workflow"]}
    return {name: {key: value for key, value in step.items() if key != "step"} for name, step in steps.items()}


def essence(net: Net | None) -> Any:
    """A net without its dialect, and with two ways of saying the same thing made one."""
    assert net is not None
    plain = msgspec.json.decode(to_json(net))
    del plain["dialect"]
    plain["metadata"].pop("dialect", None)
    pair = [{"when": {"data": "{{ outcome.status == 'error' }}"}, "do": "fail"}, {}]
    for transition in plain["transitions"]:
        for task in transition.get("tasks", ()):
            rules = task.get("policy", {}).get("rules", [])
            guards = [rule.get("when") for rule in rules]
            rules[:] = [rule for n, rule in enumerate(rules) if rule.get("when") not in guards[:n]]  # never reached
            if task.get("policy") == {"rules": pair}:  # the meaning of a missing policy (POL-03)
                del task["policy"]
        if transition.get("admission") == {"rules": [{"when": {"data": "{{ true }}"}}, {"allow": False}]}:
            transition["admission"] = {"rules": [{}]}
    return plain
