"""A disk that is full or read-only: one sentence, exit code 4, nothing recorded is lost, and the run can be resumed.

The full disk is a real one, a small file system in memory, where the system lets us have it; a limit on the size of
files stands for it everywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.killing import Log, log_of
from tests.faults.processes import noetl, powerless, written

WORK = """
workflow:
  - step: start
    tool:
      - {name: one, kind: python, code: "print('one', file=open('ledger', 'a')); result = 'a' * 30_000"}
      - {name: two, kind: python, code: "print('two', file=open('ledger', 'a')); result = 'b' * 30_000"}
      - {name: three, kind: python, code: "print('three', file=open('ledger', 'a')); result = 'c' * 30_000"}
    next: {arcs: [{step: large}]}
  - step: large
    tool: {kind: python, code: "result = {'size': 100_000, 'text': 'x' * 100_000}"}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, args: {size: "{{ large.data.size }}"}}
"""
KB = 1024


@pytest.fixture
def file(tmp_path: Path) -> str:
    return written(tmp_path, WORK)


def take_up(folder: Path, before: Log) -> None:
    """The run goes on where it stopped, and nothing that was recorded is done again or lost."""
    done = noetl("run", "--db", "s.db", "--resume", "last", "-q", cwd=folder)

    assert (done.code, done.stdout.split()) == (0, ["{", '"size":', "100000", "}"]), done.stderr
    after = log_of(folder)
    assert all(after[one][: len(events)] == events for one, events in before.items())
    processed = sum(e.event_type == "task.processed" for events in before.values() for e in events)
    done_twice = len((folder / "ledger").read_text().split()) - 3
    assert done_twice <= 1, f"{processed} tasks were recorded"


@pytest.mark.parametrize("size", [290 * KB, 330 * KB])
def test_a_run_on_a_full_disk_reports_it_and_can_be_resumed(tmp_path: Path, file: str, size: int) -> None:
    full = noetl("run", file, "--db", "s.db", cwd=tmp_path, file_bytes=size)

    assert full.code == 4
    assert full.problem.startswith("error: the store s.db cannot be written (")
    assert "Traceback" not in full.stderr
    assert full.sentence.startswith("resume it with: noetl run --db s.db --resume ")
    before = log_of(tmp_path)
    assert before
    take_up(tmp_path, before)


def test_a_store_that_cannot_be_created_is_reported_with_the_reason(tmp_path: Path, file: str) -> None:
    full = noetl("run", file, "--db", "s.db", cwd=tmp_path, file_bytes=10 * KB)

    assert full.code == 4
    assert full.stderr.startswith("error: the store s.db cannot be written (")
    assert noetl("run", file, "--db", "s.db", "-q", cwd=tmp_path).code == 0, "what is left does not stand in the way"


ON_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size=$1k tmpfs "$2"
cp "$2.yaml" "$2/play.yaml"
cd "$2"
shift 2
set +e
"$@" run play.yaml --db s.db 2>&1 >/dev/null | grep ^error:
"$@" events last --db s.db -o jsonl > before
mount -o remount,size=20m .
"$@" events last --db s.db -o jsonl > before
"$@" run --db s.db --resume last -q 2>&1 | tr -d ' \\n'; echo
"$@" events last --db s.db -o jsonl > after
head -c "$(stat -c %s before)" after | cmp before - && echo kept
ls s.db.results/*/*.part 2>/dev/null
exit 0
"""


@pytest.mark.parametrize("size_kb", [400, 460, 520, 580])
def test_a_full_disk_stops_the_run_and_free_space_lets_it_resume(tmp_path: Path, size_kb: int) -> None:
    if not _may_mount(tmp_path):
        pytest.skip("no small file system can be had here; the limit on files above stands for it")
    (tmp_path / "disk").mkdir()
    written(tmp_path, WORK, "disk.yaml")
    command = [str(size_kb), str(tmp_path / "disk"), sys.executable, "-m", "noetl.cli.main"]

    told = subprocess.run(
        [*_OWN_MOUNTS, "sh", "-c", ON_A_SMALL_DISK, "sh", *command],
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
        env={**os.environ, "NOETL_HOME": str(tmp_path)},
    ).stdout.splitlines()

    assert told[0].startswith("error: the ")
    assert "full" in told[0] or "No space left" in told[0]
    assert told[1:] == ['{"size":100000}', "kept"]


_OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount")


def _may_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = [*_OWN_MOUNTS, "mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(folder)]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def test_a_read_only_store_is_left_unchanged(tmp_path: Path, file: str) -> None:
    assert noetl("run", file, "--db", "s.db", "-q", cwd=tmp_path).code == 0
    (tmp_path / "s.db").chmod(0o444)

    refused = noetl("run", file, "--db", "s.db", cwd=tmp_path, prefix=powerless())

    assert refused.code == 4
    assert refused.stderr == "error: the store s.db is read-only: make it writable, or name another file with --db\n"
    (tmp_path / "s.db").chmod(0o644)
    assert noetl("run", file, "--db", "s.db", "-q", cwd=tmp_path, prefix=powerless()).code == 0
    assert len(log_of(tmp_path)) == 2


@pytest.mark.parametrize("name", ["s.db", "new.db"])
def test_a_read_only_folder_is_named(tmp_path: Path, file: str, name: str) -> None:
    closed = tmp_path / "closed"
    assert noetl("run", file, "--db", "closed/s.db", "-q", cwd=tmp_path).code == 0
    closed.chmod(0o555)

    refused = noetl("run", file, "--db", f"closed/{name}", cwd=tmp_path, prefix=powerless())

    closed.chmod(0o755)
    assert refused.code == 4
    assert refused.stderr == "error: the folder closed is read-only: make it writable, or name another file with --db\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("init", "closed/shop"), "closed/shop"),
        (
            ("token", "create", "ann", "--role", "viewer", "--out", "closed/ann.token", "--db", "s.db"),
            "closed/ann.token",
        ),
        (("db", "backup", "closed/monday.tar.gz", "--db", "s.db"), "closed/monday.tar.gz"),
    ],
)
def test_a_file_that_cannot_be_written_is_named_as_the_user_named_it(
    tmp_path: Path, file: str, arguments: tuple[str, ...], named: str
) -> None:
    assert noetl("run", file, "--db", "s.db", "-q", cwd=tmp_path).code == 0
    (tmp_path / "closed").mkdir(mode=0o555)

    refused = noetl(*arguments, cwd=tmp_path, prefix=powerless())

    assert refused.code == 4
    assert refused.stderr.endswith(f"{named}: Permission denied; change its permissions, or name another place\n")
    assert "Errno" not in refused.stderr


def test_an_unwritable_results_folder_stops_the_run_until_it_is_writable(tmp_path: Path, file: str) -> None:
    results = tmp_path / "s.db.results"
    results.mkdir(mode=0o555)

    stopped = noetl("run", file, "--db", "s.db", cwd=tmp_path, prefix=powerless())

    results.chmod(0o755)
    assert stopped.code == 4
    assert stopped.problem.startswith("error: the result store s.db.results failed: Permission denied")
    take_up(tmp_path, log_of(tmp_path))


@pytest.mark.req("RES-02", "RES-06")
@pytest.mark.parametrize(("body", "kind"), [(None, "result.missing"), (b'{"size": 1}', "result.corrupt")])
def test_a_missing_or_changed_result_fails_the_step_that_reads_it(
    tmp_path: Path, body: bytes | None, kind: str
) -> None:
    spoil = "p.unlink()" if body is None else f"p.write_bytes({body!r})"
    file = written(
        tmp_path,
        f"""
workflow:
  - step: start
    tool: {{kind: python, code: "result = {{'size': 1, 'text': 'x' * 100_000}}"}}
    next: {{arcs: [{{step: spoil}}]}}
  - step: spoil
    tool:
      kind: python
      code: |
        from pathlib import Path
        for p in Path('s.db.results').glob('*/*.json'):
            {spoil}
    next: {{arcs: [{{step: last}}]}}
  - step: last
    tool: {{kind: python, args: {{size: "{{{{ start.data.size }}}}"}}, code: "result = size"}}
""",
    )

    failed = noetl("run", file, "--db", "s.db", "-o", "json", cwd=tmp_path)

    assert failed.code == 1, failed.stderr
    assert failed.json()["error"]["kind"] == kind


@pytest.mark.parametrize("what", ["store", "folder"])
def test_a_read_only_store_can_be_read(tmp_path: Path, file: str, what: str) -> None:
    ran = noetl("run", file, "--db", "kept/s.db", "-o", "json", cwd=tmp_path)
    execution_id = json.loads(ran.stdout)["execution_id"]
    (tmp_path / "kept" / "s.db").chmod(0o444)
    (tmp_path / "kept").chmod(0o555 if what == "folder" else 0o755)

    def read(*command: str) -> int:
        return noetl(*command, "--db", "kept/s.db", cwd=tmp_path, prefix=powerless()).code

    looks = [("executions",), *((name, execution_id) for name in ("status", "events", "logs", "result", "ctx"))]
    lists = [(name, "list") for name in ("token", "audit", "catalog", "schedule", "task", "limit", "message", "timer")]
    codes = {command: read(*command) for command in [*looks, *lists]}
    refused = noetl("token", "create", "a", "--role", "admin", "--db", "kept/s.db", cwd=tmp_path, prefix=powerless())
    (tmp_path / "kept").chmod(0o755)

    assert set(codes.values()) == {0}, codes
    assert refused.code == 4
    assert "read-only" in refused.stderr
    assert sorted(one.name for one in (tmp_path / "kept").iterdir() if "results" not in one.name) == ["s.db"]
