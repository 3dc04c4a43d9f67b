"""Where a nested playbook is found: beside its caller, else in the catalogue (TOOL-11, O-17)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import RefusedError
from noetl.control.nested.calls import StoreLibrary, candidates
from noetl.net.net import Net, content_hash
from noetl.operations.embedded import compiled
from noetl.store.memory import MemoryStore


def written(file: Path, path: str, *, result: int = 1) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        "apiVersion: noetl.io/v10\nkind: Playbook\n"
        f"metadata: {{name: n, path: {path}}}\n"
        f"workflow: [{{step: start, tool: {{kind: noop, args: {{n: {result}}}}}}}]\n"
    )
    return file


class StoredNets:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.library = StoreLibrary(self.store, ManualClock(), compiled=compiled, runnable=lambda net: None)

    async def register(self, file: Path, *, known: bool = True) -> Net:
        net = compiled(file)
        await self.library.register(net, origin=file if known else None)
        return net

    async def find(self, path: str, caller: Net, version: str | None = None) -> int:
        net = await self.library.find(path, version, beside=content_hash(caller))
        assert net.transitions[0].tasks[0].inputs.data is not None
        number: int = net.transitions[0].tasks[0].inputs.data["args"]["n"]
        return number


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("jobs/child.yaml", "jobs/child"),
        ("jobs/child.yml", "jobs/child"),
        ("jobs/child.yaml", "child"),
        ("jobs/deeper/still/other_name.yaml", "jobs/child"),
        ("shared/child.yaml", "shared/child"),
    ],
)
async def test_a_file_next_to_the_caller_is_found_by_its_path(tmp_path: Path, file: str, path: str) -> None:
    key_values = StoredNets()
    caller = await key_values.register(written(tmp_path / "jobs" / "parent.yaml", "jobs/parent"))
    written(tmp_path / file, path, result=7)

    assert await key_values.find(path, caller) == 7
    row = await key_values.store.catalog.find(path)
    assert row is not None
    assert row.origin == str(tmp_path / file), "what was used is registered"


async def test_the_current_file_is_preferred_to_a_registered_version(tmp_path: Path) -> None:
    key_values = StoredNets()
    caller = await key_values.register(written(tmp_path / "parent.yaml", "jobs/parent"))
    await key_values.register(written(tmp_path / "child.yaml", "jobs/child", result=1))
    written(tmp_path / "child.yaml", "jobs/child", result=2)

    assert await key_values.find("jobs/child", caller) == 2
    assert await key_values.find("jobs/child", caller, version="1") == 1
    assert await key_values.find("jobs/child", caller, version="latest") == 2, "as if left out"


async def test_a_caller_that_was_not_loaded_from_a_file_uses_the_catalogue_only(tmp_path: Path) -> None:
    key_values = StoredNets()
    caller = await key_values.register(written(tmp_path / "parent.yaml", "jobs/parent"), known=False)
    child = written(tmp_path / "child.yaml", "jobs/child")

    with pytest.raises(RefusedError, match="nor registered here"):
        await key_values.find("jobs/child", caller)
    await key_values.register(child)
    assert await key_values.find("jobs/child", caller) == 1


async def test_a_file_with_errors_is_named_and_not_replaced_by_another(tmp_path: Path) -> None:
    key_values = StoredNets()
    caller = await key_values.register(written(tmp_path / "parent.yaml", "jobs/parent"))
    await key_values.register(written(tmp_path / "elsewhere" / "old.yaml", "jobs/child"), known=False)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "child.yaml").write_text("apiVersion: noetl.io/v10\nkind: Playbook\nworkflow: {}\n")

    with pytest.raises(RefusedError, match=r'(?s)"jobs/child" cannot be run: .*child\.yaml:3: E_WORKFLOW'):
        await key_values.find("jobs/child", caller)


async def test_a_playbook_that_calls_itself_is_found_in_the_catalogue(tmp_path: Path) -> None:
    key_values = StoredNets()
    caller = await key_values.register(written(tmp_path / "parent.yaml", "jobs/parent", result=5))

    assert await key_values.find("jobs/parent", caller) == 5


def test_a_path_cannot_leave_the_folder(tmp_path: Path) -> None:
    inside = written(tmp_path / "in" / "parent.yaml", "jobs/parent")
    written(tmp_path / "secret.yaml", "../secret")

    assert list(candidates(inside, "jobs/parent", "../secret")) == []
