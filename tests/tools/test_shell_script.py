"""`script`: program texts from the playbook, from open folders and from the results store, and from nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.events.outcomes import Outcome
from noetl.store.results.files import MemoryResults
from noetl.tools.internal import reference_row
from noetl.tools.shell.tool import ScriptTool
from tests.tools.sql_tasks import outcome_of


async def ran(inputs: dict[str, Any], **more: Any) -> Outcome:
    return await outcome_of(ScriptTool(), inputs, **more)


@pytest.mark.parametrize(
    ("inputs", "printed"),
    [
        ({"code": 'echo "$1 $#"', "args": ["a b", 2]}, "a b 2\n"),
        ({"code": "import sys; print(sys.argv[1:])", "language": "python", "args": {"n": 1, "all": True, "no": False}},
         "['--n=1', '--all']\n"),
        ({"code": "read line; echo got $line", "stdin": "it"}, "got it\n"),
        ({"code": 'echo "$WHO"', "env": {"WHO": "me"}, "language": "bash"}, "me\n"),
    ],
)  # fmt: skip
async def test_code_runs_under_its_interpreter(inputs: dict[str, Any], printed: str) -> None:
    outcome = await ran(inputs)

    assert outcome.result == {"exit_code": 0, "stdout": printed, "stderr": ""}
    assert outcome.helpers == {"script": {"exit_code": 0}}


async def test_code_is_not_a_template() -> None:
    outcome = await ran({"code": "echo '{{ x }}'"})

    assert outcome.result["stdout"] == "{{ x }}\n"


async def test_a_failing_script_is_an_error() -> None:
    outcome = await ran({"code": "raise SystemExit('no luck')", "language": "python"})

    assert outcome.error is not None
    assert outcome.error.kind == "shell.exit"
    assert outcome.error.message == "the script ended with code 1: no luck"


async def test_a_file_in_a_data_folder_runs_in_the_language_of_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "hello.py").write_text("print('hello from python')")
    script = {"uri": "jobs/hello.py", "source": {"type": "file"}}

    by_source = await ran({"script": script}, data_folders=(str(tmp_path),))
    by_uri = await ran({"script": f"file://{tmp_path}/jobs/hello.py"}, data_folders=("/nowhere", str(tmp_path)))

    assert by_source.result["stdout"] == by_uri.result["stdout"] == "hello from python\n"


async def test_a_file_outside_the_data_folders_is_not_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside.sh"
    inside.mkdir()
    outside.write_text("echo PWNED")
    (inside / "link.sh").symlink_to(outside)

    for uri in ("../outside.sh", str(outside), "link.sh", "file:///etc/passwd", "a/../../outside.sh"):
        outcome = await ran({"script": uri}, data_folders=(str(inside),))
        assert outcome.error is not None
        assert "outside the folders that are open here" in outcome.error.message
    closed = await ran({"script": str(outside)})
    assert closed.error is not None
    assert "no data folder is open here" in closed.error.message


async def test_a_program_can_be_read_from_the_results_store() -> None:
    store = MemoryResults()
    reference = reference_row(store.put("echo kept"))

    outcome = await ran({"script": {"uri": reference, "source": {"type": "artifact"}}}, load=store.load)

    assert outcome.result["stdout"] == "kept\n"


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, 'needs "code" or "script"'),
        ({"code": "a", "script": "b"}, "not both"),
        ({"code": "a", "language": "cobol"}, 'language "cobol" is not known'),
        ({"code": "a", "args": 5}, "args must be a list or a mapping"),
        ({"script": {"uri": "x", "source": {"type": "http"}}}, "write file or artifact"),
        ({"script": "missing.sh"}, "cannot be read: No such file"),
    ],
)
async def test_inputs_without_a_script_are_reported(inputs: dict[str, Any], words: str, tmp_path: Path) -> None:
    outcome = await ran(inputs, data_folders=(str(tmp_path),))

    assert outcome.error is not None
    assert outcome.error.kind == "shell.input"
    assert words in outcome.error.message
