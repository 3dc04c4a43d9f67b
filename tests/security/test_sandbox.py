"""Attack: code of a playbook that looks around: files, network, processes, users. In a sandbox it finds nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.language.checking import compiled
from noetl.operations.embedded import run_net, tools_here
from noetl.tools import sandbox
from tests.engine_script import playbook
from tests.security.sandboxed_tasks import python, ran


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """It is installed where that can be done; else these tests say loudly that they were not run."""
    if shutil.which(sandbox.PROGRAM) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "bubblewrap"], check=False, capture_output=True, timeout=300)
    if (why := asyncio.run(sandbox.unavailable())) is not None:
        pytest.skip(f"NO SANDBOX WAS TESTED HERE: {why}")


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "kept"
    file.write_text("kept by the operator")
    return file


CONNECTS = """
import socket
try:
    socket.create_connection(('127.0.0.1', PORT), timeout=5)
    result = 'reached'
except OSError as problem:
    result = type(problem).__name__
"""


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
def test_sandboxed_code_has_no_network(listener: int) -> None:
    code = CONNECTS.replace("PORT", str(listener))

    assert python(code, "{}").result == "reached"
    assert python(code).result == "ConnectionRefusedError"
    assert python(code, "{sandbox: {network: true}}").result == "reached"


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
def test_sandboxed_code_sees_no_files_of_the_machine(secret_file: Path) -> None:
    code = f"import os\nresult = [os.path.exists(p) for p in ('{secret_file}', '/etc/passwd', '/var')]"

    assert python(code, "{}").result[:2] == [True, True]
    assert python(code).result == [False] * 3


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
def test_sandboxed_code_is_an_isolated_user_and_cannot_write_to_the_system() -> None:
    code = """
import os
try:
    open('/usr/left', 'w')
    wrote = True
except OSError:
    wrote = False
open('/tmp/own', 'w').write('x')
others = [n for n in os.listdir('/proc') if n.isdigit() and int(n) > 10]
result = [os.getuid(), wrote, others]
"""
    assert python(code).result == [65534, False, []]
    assert not Path("/tmp/own").exists()


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("kind", ["{name: a, kind: shell, cmds: CODE,", "{name: a, kind: script, code: CODE,"])
def test_sandboxed_programs_see_no_files_either(kind: str, secret_file: Path) -> None:
    task = (
        kind.replace("CODE", f"'id -u; cat {secret_file} || echo none; cat'")
        + " stdin: given, spec: {sandbox: strict}}"
    )
    result = ran(task)

    assert result.ok, result.error
    assert result.result["stdout"] == "65534\nnone\ngiven"


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
def test_an_operator_can_require_a_sandbox_for_every_task(secret_file: Path) -> None:
    code = f"import os\nresult = os.path.exists('{secret_file}')"

    assert python(code, "{sandbox: off}", sandbox=True).result is False
    refused = python(code, "{sandbox: {network: true}}", sandbox=True)
    assert refused.error is not None
    assert refused.error.kind == "sandbox.input"


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
def test_limits_apply_in_a_sandbox() -> None:
    result = python("result = len(bytearray(1 << 30))", "{sandbox: strict, resources: {memory: 256Mi}}")

    assert result.error is not None
    assert "MemoryError" in result.error.message


RAISES = """
import resource
raised = []
for name in ('RLIMIT_AS', 'RLIMIT_FSIZE', 'RLIMIT_NPROC', 'RLIMIT_CPU'):
    which = getattr(resource, name)
    before = resource.getrlimit(which)
    try:
        resource.setrlimit(which, (resource.RLIM_INFINITY,) * 2)
    except (OSError, ValueError):
        pass
    raised += [name] if resource.getrlimit(which) != before else []
try:
    raised += [len(bytearray(5 << 30))]
except MemoryError:
    pass
result = raised
"""


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
def test_sandboxed_code_cannot_raise_its_limits() -> None:
    result = python(RAISES)

    assert result.ok, result.error
    assert result.result == []


WRITES = """
import os
written = {}
for place in ('/', '/dev', '/etc'):
    try:
        open(place + '/left', 'w')
        written[place] = True
    except OSError:
        written[place] = False
rooms = [os.statvfs(place) for place in ('/tmp', '/dev/shm')]
result = [written, [room.f_blocks * room.f_frsize for room in rooms]]
"""


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
def test_a_sandbox_has_two_bounded_writable_folders() -> None:
    result = python(WRITES)

    assert result.ok, result.error
    assert result.result == [{"/": False, "/dev": False, "/etc": False}, [sandbox.TMP_BYTES] * 2]


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
def test_sandboxed_programs_have_the_limits_and_folders_of_python() -> None:
    text = 'ulimit -H -v; ulimit -H -f; ulimit -H -t; echo "$TMPDIR $HOME $PWD"; touch /left /dev/left || cat'
    result = ran(f"{{name: a, kind: shell, stdin: read, cmds: '{text}', spec: {{sandbox: strict}}}}")

    assert result.ok, result.error
    limits = [sandbox.DEFAULT_MEMORY_BYTES >> 10, sandbox.DEFAULT_FILE_BYTES >> 9, int(sandbox.DEFAULT_CPU_S) + 1]
    assert result.result["stdout"] == "".join(f"{limit}\n" for limit in limits) + "/tmp /tmp /tmp\nread"


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
def test_sandboxed_code_cannot_create_namespaces() -> None:
    done = subprocess.run([sandbox.PROGRAM, "--help"], capture_output=True, text=True, check=False)
    if "--disable-userns" not in done.stdout + done.stderr:
        pytest.skip("NOT TESTED: this bubblewrap is older than 0.8 and cannot forbid namespaces")
    result = python("import subprocess\nresult = subprocess.run(['unshare', '--user', 'true']).returncode")

    assert result.ok, result.error
    assert result.result != 0


@pytest.mark.req("TOOL-15")
@pytest.mark.parametrize("kind", ["python, code: 'result = 1'", "shell, cmds: 'true'", "script, code: 'true'"])
def test_a_task_that_requires_a_sandbox_is_refused_without_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PROGRAM", "no-such-bwrap")
    result = ran(f"{{name: a, kind: {kind}, spec: {{sandbox: strict}}}}")

    assert result.error is not None
    assert result.error.kind == "sandbox.unavailable"
    assert "is not installed" in result.error.message


@pytest.mark.req("TOOL-15")
def test_a_failing_bubblewrap_is_reported_with_its_own_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken-bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sandbox, "PROGRAM", str(broken))
    result = python("result = 1")

    assert result.error is not None
    assert "No permissions to create new namespace" in result.error.message


@pytest.mark.req("TOOL-15")
@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("mcp", "command: [python3, -c, '1'], method: tools/list"),
        ("dask", "auth: {url: 'tcp://127.0.0.1:8786'}, code: 'result = 1'"),
        ("ray", "auth: {url: 'ray://127.0.0.1:10001'}, code: 'result = 1'"),
    ],
)
def test_kinds_that_run_unsandboxed_code_are_refused_if_a_sandbox_is_required(
    kind: str, inputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_INTERPRETERS", f"dask={sys.executable},ray={sys.executable}")
    net = compiled(playbook(f"workflow:\n  - step: start\n    tool: [{{name: a, kind: {kind}, {inputs}}}]"))
    result = asyncio.run(run_net(net, payload={}, db=":memory:", tools=tools_here(["mcp"], sandbox=True)))

    assert result.error is not None
    assert result.error.kind == "sandbox.unavailable"
    assert "sandboxes only" in result.error.message


PROGRAMS = ["{name: a, kind: shell, cmds: CODE,", "{name: a, kind: script, code: CODE,"]


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("kind", PROGRAMS)
def test_variables_of_the_loader_reach_nothing_outside_of_the_sandbox(kind: str, tmp_path: Path) -> None:
    """The program that makes the sandbox runs outside of it, and would write files or load code of the machine."""
    env = f"{{LD_DEBUG: libs, LD_DEBUG_OUTPUT: {tmp_path}/left}}"
    result = ran(f"{kind.replace('CODE', 'exit 0')} env: {env}, spec: {{sandbox: strict}}}}")

    assert result.ok, result.error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("TOOL-15")
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_in_a_sandbox_has_the_variables_of_its_task(kind: str) -> None:
    code = """'echo "$NAME $EMPTY. $HOME $TMPDIR $NOETL_TASK"; env | grep -c NOETL_RUN'"""
    env = "{NAME: \"a 'b\\\"c\\n\\u00e9\", EMPTY: '', HOME: /tmp/mine}"
    result = ran(f"{kind.replace('CODE', code)} env: {env}, spec: {{sandbox: strict}}}}")

    assert result.ok, result.error
    assert result.result["stdout"] == "a 'b\"c\né . /tmp/mine /tmp a\n1\n"
