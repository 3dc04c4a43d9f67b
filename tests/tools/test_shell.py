"""`shell`: what a command sees, what it gives back, and that nothing of it is left (design.md §7, §8)."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import noetl
from noetl.base.errors import RefusedError
from noetl.events.outcomes import Outcome, Status
from noetl.tools import sandbox_limits
from noetl.tools.kinds import KINDS
from noetl.tools.registry import OFF_BY_DEFAULT, Permissions, Registry
from noetl.tools.shell import programs
from noetl.tools.shell.programs import MAX_OUTPUT_BYTES
from noetl.tools.shell.tool import ShellTool
from tests.cli.running import call
from tests.process_liveness import gone, is_alive
from tests.stalled_timeouts import no_time_passes_until
from tests.tools.sql_tasks import outcome_of


async def ran(cmds: Any, spec: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
    return await outcome_of(ShellTool(), {"cmds": cmds, **inputs}, spec)


async def test_text_runs_under_sh_and_returns_its_output() -> None:
    outcome = await ran("echo out; echo err >&2; exit 0")

    assert outcome.status is Status.SUCCESS
    assert outcome.result == {"exit_code": 0, "stdout": "out\n", "stderr": "err\n"}
    assert outcome.helpers == {"shell": {"exit_code": 0}}


async def test_a_list_runs_without_a_shell() -> None:
    outcome = await ran(["printf", "<%s>", "$HOME; ls", "*"])

    assert outcome.result["stdout"] == "<$HOME; ls><*>"


async def test_a_failing_exit_code_is_an_error_with_the_end_of_the_output() -> None:
    outcome = await ran("echo so far; echo first >&2; echo no such order >&2; exit 3")

    assert outcome.error is not None
    assert outcome.error.kind == "shell.exit"
    assert outcome.error.message == "the command ended with code 3: no such order"
    assert outcome.error.details == {"exit_code": 3, "stderr": "first\nno such order\n"}
    assert outcome.helpers == {"shell": {"exit_code": 3}}
    assert outcome.meta.stdout == "so far\n"


async def test_further_exit_codes_can_count_as_success() -> None:
    """grep says 1 when it finds nothing, which is no failure."""
    outcome = await ran(["grep", "nothing", "/dev/null"], {"ok_exit_codes": [1]})

    assert outcome.result["exit_code"] == 1


async def test_standard_input_environment_and_folder_come_from_the_task(tmp_path: Path) -> None:
    inputs: dict[str, Any] = {
        "stdin": {"a": 1},
        "env": {"NAME": "it's", "LIST": [1, 2], "GONE": None},
        "cwd": str(tmp_path),
    }

    outcome = await ran('cat; echo; echo "$NAME $LIST ${GONE-unset}"; pwd', **inputs)

    assert outcome.result["stdout"] == f'{{"a":1}}\nit\'s [1,2] unset\n{tmp_path}\n'


async def test_nothing_of_our_environment_reaches_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_MASTER_KEY", "canary-1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-2")

    outcome = await ran("env")

    assert "canary" not in outcome.result["stdout"]
    assert "NOETL_IDEMPOTENCY_KEY=exec/run/task/0" in outcome.result["stdout"], "the same for every attempt"
    assert "NOETL_TASK=task" in outcome.result["stdout"]


async def test_the_temporary_folder_of_a_command_is_deleted() -> None:
    outcome = await ran('echo secret > "$TMPDIR/left"; echo "$TMPDIR"')

    assert not Path(outcome.result["stdout"].strip()).exists()


async def test_a_command_inherits_only_its_own_streams() -> None:
    outcome = await ran(["ls", "/proc/self/fd"])

    assert outcome.result["stdout"].split() == ["0", "1", "2", "3"], "3 is the folder that ls reads"


async def test_output_over_the_limit_is_dropped_and_the_command_continues() -> None:
    outcome = await ran(f"head -c {3 * MAX_OUTPUT_BYTES} /dev/zero | tr '\\0' x; echo done >&2")

    assert len(outcome.result["stdout"]) == MAX_OUTPUT_BYTES
    assert outcome.result["truncated"] is True
    assert outcome.result["stderr"] == "done\n"


async def test_a_timeout_ends_a_command_with_all_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_time_passes_until((tmp_path / "pid").exists, monkeypatch)
    outcome = await ran(f"cd {tmp_path}; sleep 600 & echo $! > part; mv part pid; sleep 600", {"timeout": 0.3})

    assert outcome.error is not None
    assert outcome.error.kind == "timeout"
    assert await gone(int((tmp_path / "pid").read_text()))


TOLD = "cd $TMPDIR; until [ -s pid ]; do sleep 0.01; done; cat pid"  # what somebody else writes there


async def test_a_background_process_ends_with_its_command() -> None:
    outcome = await ran("sleep 600 & echo $!")

    assert await gone(int(outcome.result["stdout"]))


@pytest.mark.parametrize(
    "flight",
    [
        "setsid sleep 600 & echo $!",
        "cd $TMPDIR; (setsid sh -c 'sleep 600 & echo $! > pid; exec sleep 600' &) ; " + TOLD,
        "setsid nohup sleep 600 </dev/null >/dev/null 2>&1 & echo $!",
    ],
)
async def test_a_daemon_in_its_own_session_ends_with_its_command(flight: str) -> None:
    outcome = await ran(flight)

    assert await gone(int(outcome.result["stdout"]))


async def test_a_process_in_the_middle_of_exec_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """For that moment it shows no environment; here for the first three times that somebody looks."""
    looks: Counter[int] = Counter()

    def unfinished(pid: int, what: str) -> bytes:
        seen = read(pid, what)
        if what != "environ" or f"{programs.MARK}=".encode() not in seen:
            return seen
        looks[pid] += 1
        return seen if looks[pid] > 3 else b""

    read = sandbox_limits.read_proc
    monkeypatch.setattr(programs, "read_proc", unfinished)
    outcome = await ran("cd $TMPDIR; setsid sh -c 'echo $$ > part; mv part pid; exec sleep 600' & " + TOLD)

    daemon = int(outcome.result["stdout"])
    assert await gone(daemon)
    assert looks[daemon] > 3


async def test_a_daemon_without_our_environment_ends_at_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_time_passes_until((tmp_path / "pid").exists, monkeypatch)
    flight = f"cd {tmp_path}; env -i setsid sleep 600 & echo $! > part; mv part pid; sleep 600"
    outcome = await ran(flight, {"timeout": 0.3})

    assert outcome.error is not None
    assert await gone(int((tmp_path / "pid").read_text()))


async def test_an_untraceable_daemon_is_not_waited_for() -> None:
    outcome = await ran("cd $TMPDIR; env -i setsid sh -c 'echo $$ > pid; exec sleep 600' & " + TOLD)

    pid = int(outcome.result["stdout"])
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)


async def test_processes_of_other_runs_are_not_ended(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    other = asyncio.ensure_future(ran(f"touch {gate}.begun; until [ -e {gate} ]; do sleep 0.01; done; echo whole"))
    while not gate.with_suffix(".begun").exists():
        await asyncio.sleep(0.01)
    await ran("setsid sleep 600 & true")
    gate.touch()

    assert (await other).result["stdout"] == "whole\n"


async def test_a_command_ends_when_its_worker_is_killed(tmp_path: Path) -> None:
    """Another worker takes the task up: two of them must not run beside each other."""
    worker = textwrap.dedent(
        f"""
        import asyncio
        from tests.tools.sql_tasks import outcome_of
        from noetl.tools.shell.tool import ShellTool
        cmds = "cd {tmp_path}; setsid sleep 60 & echo $$ $! $TMPDIR > part; mv part pid; sleep 60"
        asyncio.run(outcome_of(ShellTool(), {{"cmds": cmds}}))
        """
    )
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", worker], cwd=root)
    while not (tmp_path / "pid").exists():
        assert process.poll() is None
        await asyncio.sleep(0.01)
    pid, daemon, folder = (tmp_path / "pid").read_text().split()

    assert is_alive(int(pid))
    assert is_alive(int(daemon))
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert await gone(int(pid))
    assert await gone(int(daemon)), "in whatever session it is"
    assert not Path(folder).exists()


async def test_memory_and_cpu_time_are_limited() -> None:
    code = "import sys; x = bytearray(1 << 30)"
    memory = await ran([sys.executable, "-c", code], {"resources": {"memory": "256Mi"}})
    cpu = await ran("while :; do :; done", {"resources": {"cpu_time": 1}, "timeout": 90})

    assert memory.error is not None
    assert "MemoryError" in memory.error.message
    assert cpu.error is not None
    assert cpu.error.message == "the command was killed by SIGXCPU"


async def test_open_files_and_file_sizes_are_limited() -> None:
    outcome = await ran("ulimit -n; head -c 100000 /dev/zero > $TMPDIR/f; wc -c < $TMPDIR/f", {"resources": LIMITS})

    assert outcome.result["stdout"].split() == ["64", "51200"]


LIMITS = {"open_files": 64, "file_size": "50Ki"}


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"cmds": ""}, "cmds must be"),
        ({"cmds": {}}, "cmds must be"),
        ({"cmds": ["no-such-program", "x"]}, 'there is no program "no-such-program" here'),
        ({"cmds": "true", "cwd": "/no/such/folder"}, 'cwd "/no/such/folder" is not a folder'),
        ({"cmds": "true", "env": {"A=B": 1}}, '"A=B" is not a name of an environment variable'),
        ({"cmds": "true", "env": [1]}, "env must be a mapping"),
        ({"cmds": "true", "env": {"A": "a\0b"}}, r"U\+0000"),
        ({"cmds": "echo " + "x" * 200_000}, "cannot be started"),
    ],
)
async def test_inputs_without_a_command_are_reported(inputs: dict[str, Any], words: str) -> None:
    outcome = await outcome_of(ShellTool(), inputs)

    assert outcome.error is not None
    assert outcome.error.kind == "shell.input"

    assert re.search(words, outcome.error.message)


PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: say, path: tests/say}
workload: {who: "you; echo PWNED"}
workflow:
  - step: start
    tool:
      - name: greet
        kind: shell
        cmds: echo "hello {{ workload.who }}"
      - name: count
        kind: shell
        cmds: [printf, "%s", "{{ greet.stdout | length }}"]
"""


def test_a_playbook_with_shell_is_refused_before_it_starts_unless_allowed() -> None:
    """The refusal names the flag."""
    with pytest.raises(RefusedError, match=r'tool kind "shell" runs programs of this machine .* --allow shell'):
        noetl.run(PLAYBOOK, db=":memory:")


def test_template_values_reach_a_command_as_arguments() -> None:
    result = noetl.run(PLAYBOOK, db=":memory:", allow=["shell"])

    assert result.ok
    assert result.result["stdout"] == str(len("hello you; echo PWNED\n"))


def test_a_worker_that_does_not_allow_shell_fails_the_task() -> None:
    registry = Registry()

    assert registry.runs("shell")
    assert registry.helpers("shell") == {}
    assert Registry(permissions=Permissions(kinds=frozenset({"shell"}))).helpers("shell") == {
        "shell": {"exit_code": None}
    }


def test_the_disabled_kinds_are_those_that_run_programs() -> None:
    assert set(KINDS) >= OFF_BY_DEFAULT == {"shell", "script", "container"}


def test_a_command_line_option_enables_shell_for_one_run(tmp_path: Path) -> None:
    (tmp_path / "say.yaml").write_text(PLAYBOOK)

    refused = call("run", str(tmp_path / "say.yaml"), "--memory")
    allowed = call("run", str(tmp_path / "say.yaml"), "--memory", "--allow", "shell")

    assert refused[0] == 4
    assert "--allow shell" in refused[2]
    assert allowed[0] == 0, allowed[2]


async def test_output_of_a_command_is_streamed_live_by_stream(tmp_path: Path) -> None:
    """It ends only if it is: it waits for what whoever hears it makes."""
    gate, heard = tmp_path / "gate", list[tuple[bytes, str]]()

    def printed(data: bytes, stream: str = "stdout") -> None:
        heard.append((data, stream))
        if {stream for _, stream in heard} == {"stdout", "stderr"}:
            gate.touch()

    context = {"write_output": printed}
    command = f"echo out; echo err >&2; while [ ! -e {gate} ]; do sleep 0.02; done; echo end"
    outcome = await outcome_of(ShellTool(), {"cmds": command}, None, **context)

    assert outcome.result["stdout"] == "out\nend\n"
    assert b"".join(data for data, stream in heard if stream == "stdout") == b"out\nend\n"
    assert b"".join(data for data, stream in heard if stream == "stderr") == b"err\n"


async def test_the_number_of_processes_can_be_limited() -> None:
    outcome = await ran("grep processes /proc/self/limits", {"resources": {"processes": 40}})
    (soft, hard) = re.findall(r"\d+", outcome.result["stdout"])

    # The system counts all that the user has, so those that run already are added.
    assert soft == hard
    assert 40 < int(soft) < 40 + 20_000
