"""Steps that become a pipeline that jumps do what their rules did, whatever the tools answer (MIG-03, O-29)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.base.diagnostics import Source
from noetl.language.conversion import Conversion, ConversionOutcome, convert
from noetl.tools.kinds import load_kinds
from tests import quick_yaml
from tests.language.migrating.random_playbooks import text_of
from tests.language.migrating.side_by_side import did, differences, is_parallel

KINDS = load_kinds()
CASES: dict[str, Any] = quick_yaml.loaded((Path(__file__).parent / "case_pipelines.yaml").read_text())
REST = CASES.pop("rest")
SEEDS = range(12)


def playbook(steps: list[dict[str, Any]]) -> str:
    metadata = {"name": "t", "path": "tests/t", "dialect": "v2-case"}
    return text_of({"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": metadata, "workflow": [*steps, *REST]})


def migrated(text: str) -> Conversion:
    done = convert(Source("test.yaml", text), kinds=KINDS)
    assert done.before.ok, [one.message for one in done.before.refusals]
    assert done.outcome is ConversionOutcome.MIGRATED, done.blocked
    return done


@pytest.mark.req("MIG-03", "V2C-06", "V2C-07", "V2C-08", "V2C-11", "V2C-12", "V2C-15", "V2C-23")
@pytest.mark.parametrize("name", CASES)
def test_a_pipeline_with_jumps_behaves_like_the_rules(name: str) -> None:
    text = playbook(CASES[name])
    done = migrated(text)
    assert any("one pipeline that jumps" in note.message for note in done.notes)

    ran = []
    for seed in SEEDS:
        old, new = did(text, seed), did(str(done.text), seed)
        kept = {key: value for key, value in new.ctx.items() if "_leads_" not in key}
        assert differences(old, msgspec.structs.replace(new, ctx=kept), in_order=not is_parallel(text)) == []
        ran.append((old.status, len(old.calls)))
    assert len(set(ran)) > 1 or name == "iterations of nothing", "every run was the same"


@pytest.mark.req("MIG-03", "V2C-23")
def test_an_arc_of_a_loop_without_items_is_not_taken() -> None:
    """No call was done, so that a rule on call.done led nowhere."""
    (step,) = CASES["iterations of nothing"]
    rule = {**step["case"][0], "when": "{{ event.name == 'call.done' }}"}
    text = playbook([{**step, "case": [rule]}])

    done = migrated(text)

    assert differences(did(text, 1), did(str(done.text), 1), in_order=True) == []
