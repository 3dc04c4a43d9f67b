"""`gcs`: what it asks of `storage`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.tools.storage.tool import GcsTool, storage_inputs
from tests.servers.object_stores import google_bucket
from tests.tools.sql_tasks import outcome_of


async def test_an_object_is_uploaded_and_downloaded(tmp_path: Path) -> None:
    bucket, tool = google_bucket(), GcsTool()
    (tmp_path / "x.csv").write_text("a,b\n")
    name = bucket.url.removeprefix("gs://")
    calls: list[dict[str, Any]] = [
        {"op": "upload", "source": "x.csv", "destination": f"{bucket.url}/in/x.csv"},
        {"op": "put", "bucket": name, "object": "in/y.json", "data": {"a": 1}},
        {"op": "get", "bucket": name, "object": "in/y.json"},
        {"op": "list", "bucket": name, "object": "in"},
        {"op": "download", "bucket": name, "object": "in/x.csv", "destination": "back.csv"},
        {"op": "delete", "bucket": name, "object": "in/x.csv"},
    ]

    outcomes = [await outcome_of(tool, {**call, "auth": bucket.auth}, data_folders=(str(tmp_path),)) for call in calls]
    await tool.close()

    assert [outcome.error for outcome in outcomes] == [None] * 6
    assert outcomes[2].result["value"] == {"a": 1}
    assert [one["key"] for one in outcomes[3].result["objects"]] == ["in/x.csv", "in/y.json"]
    assert (tmp_path / "back.csv").read_text() == "a,b\n"


@pytest.mark.parametrize("inputs", [{"op": "get"}, {"op": "upload", "bucket": "b"}, {"op": "download", "bucket": "b"}])
def test_a_missing_input_is_reported(inputs: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"missing|needs"):
        storage_inputs(inputs)
