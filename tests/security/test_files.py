"""Who can read what NoETL writes on a disk: nobody but its user, whatever the umask of the process was."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.base.private_files import make_file, make_folder, others_may_read
from noetl.store.results.files import FileResults
from noetl.store.sqlite.store import SqliteStore
from tests.faults.processes import noetl

LARGE = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: large, path: tests/large}
workflow: [{step: start, tool: {kind: python, code: "result = ['x' * 1000] * 3000"}}]
"""


@pytest.fixture(params=[0o000, 0o022, 0o277], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield int(request.param)
    os.umask(before)


def modes_in(folder: Path) -> dict[str, str]:
    found = [folder, *folder.rglob("*")]
    return {str(one.relative_to(folder)): oct(stat.S_IMODE(one.stat().st_mode)) for one in found}


@pytest.mark.usefixtures("umask")
async def test_store_log_folder_and_results_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "deep"
    store = SqliteStore.open(folder / "s.db")
    await store.key_values.put("a", "b", b"{}", over=0, at=0.0)
    FileResults(folder / "s.db.results").put({"rows": [1, 2, 3]})
    modes = modes_in(tmp_path / "data")
    files = {name for name in modes if (tmp_path / "data" / name).is_file()}
    await store.close()

    assert {"deep/s.db", "deep/s.db-wal", "deep/s.db-shm"} <= files
    assert any(name.startswith("deep/s.db.results/") for name in files)
    assert {modes[name] for name in files} == {"0o600"}
    assert {mode for name, mode in modes.items() if name not in files} == {"0o700"}


def test_a_whole_run_leaves_nothing_that_others_can_read(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_text(LARGE)
    home = tmp_path / "home"
    before = os.umask(0)
    try:
        ran = noetl("run", "large.yaml", "-q", cwd=tmp_path, environment={"NOETL_HOME": str(home)})
    finally:
        os.umask(before)

    assert ran.code == 0, ran.stderr
    assert {mode for mode in modes_in(home).values() if not mode.endswith("00")} == set()


def test_existing_files_keep_their_permissions(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o750)
    (shared / "s.db").touch(mode=0o640)
    make_folder(shared)
    make_file(shared / "s.db")

    assert modes_in(shared) == {".": "0o750", "s.db": "0o640"}
    assert others_may_read(shared / "s.db") == 0o640


def test_a_token_can_be_written_to_a_file_instead_of_the_terminal(tmp_path: Path) -> None:
    made = noetl("token", "create", "ann", "--role", "viewer", "--out", "sub/ann", "--db", "s.db", cwd=tmp_path)
    again = noetl("token", "create", "ann", "--role", "viewer", "--out", "sub/ann", "--db", "s.db", cwd=tmp_path)
    listed = noetl("token", "list", "--db", "s.db", "-o", "id", cwd=tmp_path)
    token = (tmp_path / "sub" / "ann").read_text()

    assert made.code == 0, made.stderr
    assert token.startswith("noetl_")
    assert token.strip() not in made.stdout + made.stderr
    assert modes_in(tmp_path / "sub") == {".": "0o700", "ann": "0o600"}
    assert again.code == 4
    assert "sub/ann exists already" in again.stderr
    assert len(listed.stdout.split()) == 1, "no token was made that nobody has"


def test_a_token_file_that_others_can_read_gets_a_warning(tmp_path: Path) -> None:
    noetl("token", "create", "w", "--role", "worker", "--pool", "p", "--out", "t", "--db", "s.db", cwd=tmp_path)
    added = noetl("context", "add", "here", "http://127.0.0.1:9", "--token-file", "t", cwd=tmp_path)
    (tmp_path / "t").chmod(0o644)
    warned = noetl("context", "add", "there", "http://127.0.0.1:9", "--token-file", "t", cwd=tmp_path)

    assert "warning" not in added.stderr
    assert "warning: others can read the token file t (mode 644): chmod 600 t" in warned.stderr
