"""`artifact`: values by reference, whole or in part, and no way to anything else of the machine (RES-02, RES-05)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import noetl
from noetl.events.outcomes import Outcome
from noetl.store.contract import Results
from noetl.store.results.files import FileResults, MemoryResults
from noetl.tools.internal import ArtifactTool
from tests.tools.sql_tasks import outcome_of


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Results:
    return FileResults(tmp_path / "results") if request.param == "files" else MemoryResults()


async def ran(store: Results, **inputs: Any) -> Outcome:
    return await outcome_of(ArtifactTool(), inputs, keep=store.put, load=store.load)


@pytest.mark.req("RES-02", "RES-05")
@pytest.mark.parametrize("value", ["a,b\n1,2\n", {"a": [1, None]}, [1.5, "ü"], 7, None, True])
async def test_a_stored_artifact_is_read_back_by_its_reference(store: Results, value: Any) -> None:
    put = await ran(store, op="put", data=value)
    got = await ran(store, op="get", ref=put.result)

    assert {"store", "key", "checksum", "size", "schema_hint"} <= set(put.result)
    assert got.result == value


async def test_the_reference_contains_the_media_type(store: Results) -> None:
    csv = await ran(store, data="a,b\n", media_type="text/csv", key="orders of may")
    text = await ran(store, data="a")
    rows = await ran(store, data=[{"a": 1}])

    assert csv.result["media_type"] == "text/csv"
    assert csv.result["label"] == "orders of may"
    assert text.result["media_type"] == "text/plain"
    assert (rows.result["media_type"], rows.result["schema_hint"]) == ("application/json", "array")


@pytest.mark.parametrize(
    ("wanted", "rows", "text"),
    [
        ("2-4", [2, 3, 4], "cde"),
        ("7-", [7, 8, 9], "hij"),
        ({"offset": 8, "limit": 5}, [8, 9], "ij"),
        ({"limit": 2}, [0, 1], "ab"),
        ("20-30", [], ""),
    ],
)
async def test_a_part_of_a_list_or_a_text_can_be_read(store: Results, wanted: Any, rows: Any, text: str) -> None:
    numbers, letters = await ran(store, data=list(range(10))), await ran(store, data="abcdefghij")

    assert (await ran(store, ref=numbers.result, range=wanted)).result == rows
    assert (await ran(store, ref=letters.result, range=wanted)).result == text


async def test_a_reference_with_a_range_reads_that_part(store: Results) -> None:
    put = await ran(store, data=list(range(10)))

    assert (await ran(store, ref={**put.result, "range": "3-4"})).result == [3, 4]


async def test_the_key_alone_is_sufficient(store: Results) -> None:
    put = await ran(store, data="it")

    assert (await ran(store, ref=put.result["key"])).result == "it"
    assert (await ran(store, ref=f"noetl://{put.result['store']}/{put.result['key']}")).result == "it"


async def test_a_changed_artifact_is_detected(tmp_path: Path) -> None:
    store = FileResults(tmp_path)
    put = await ran(store, data="it")
    (tmp_path / put.result["key"]).write_text('"is"')

    outcome = await ran(store, ref=put.result)

    assert outcome.error is not None
    assert outcome.error.kind == "result.corrupt"


async def test_an_unknown_artifact_is_missing(store: Results) -> None:
    outcome = await ran(store, ref="0" * 64)

    assert outcome.error is not None
    assert outcome.error.kind == "result.missing"


@pytest.mark.parametrize(
    "reference",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "noetl://files/../secrets.json",
        {"store": "files", "key": "../x", "checksum": "0" * 64, "size": 1},
        {"store": "postgres.table", "key": "orders", "size": 3},
        {"store": "files"},
        "ab/" + "0" * 63 + "/",
        5,
        [],
    ],
)
async def test_only_content_addressed_files_are_opened(tmp_path: Path, reference: Any) -> None:
    (tmp_path / "secrets.json").write_text('"PWNED"')
    store = FileResults(tmp_path / "results")

    outcome = await ran(store, op="get", ref=reference)

    assert outcome.error is not None
    assert outcome.error.kind == "artifact.input"


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"op": "put"}, 'op put needs "data"'),
        ({"op": "get"}, 'op get needs "ref"'),
        ({"op": "steal"}, "write get or put"),
        ({"ref": "0" * 64, "range": "x"}, "is not a range"),
        ({"ref": "0" * 64, "range": {"offset": -1}}, "is not a range"),
    ],
)
async def test_insufficient_inputs_are_reported(inputs: dict[str, Any], words: str) -> None:
    outcome = await outcome_of(ArtifactTool(), inputs, keep=MemoryResults().put, load=lambda reference: [])

    assert outcome.error is not None
    assert outcome.error.kind == "artifact.input"
    assert words in outcome.error.message


@pytest.mark.req("RES-05", "RES-06")
def test_a_playbook_passes_a_reference_on_and_reads_a_part_of_it() -> None:
    result = noetl.run(
        """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: keep, path: tests/keep}
workflow:
  - step: start
    tool:
      - {name: keep, kind: artifact, op: put, data: [1, 2, 3, 4], media_type: application/json}
    next: {arcs: [{step: read, args: {where: "{{ start.data }}"}}]}
  - step: read
    tool:
      - {name: part, kind: artifact, ref: "{{ args.where }}", range: "1-2"}
""",
        db=":memory:",
    )

    assert result.result == [2, 3]
