"""The largest value passes, one byte more does not, and neither costs many times its size (reliability.md §3.6)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.engine.pipeline.payloads import MAX_RESULT_BYTES
from tests.results.stored_runs import run_stored

POLICY = "{rules: [{else: {then: {do: continue, set_ctx: {kind: \"{{ outcome.error.kind | default('none') }}\"}}}}]}"
CAPPED = f"""
workflow:
  - step: start
    tool: {{name: big, kind: python, code: x, spec: {{policy: {POLICY}}}}}
"""


@pytest.mark.req("RES-03")
@pytest.mark.parametrize(("more", "kind"), [(-2, "none"), (-1, "result.too_large")])
def test_a_result_at_the_cap_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, kind: str) -> None:
    """The cap is made small here: it counts bytes of JSON, two of them quotes."""
    monkeypatch.setattr("noetl.engine.pipeline.payloads.MAX_RESULT_BYTES", 200_000)

    ran = run_stored(tmp_path / "store.db", CAPPED, big="x" * (200_000 + more))

    assert ran.result.ctx == {"kind": kind}


LOOPED = """
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: LOOP_MODE, max_in_flight: 2}}
    tool: {name: big, kind: python, code: x}
    next: {arcs: [{step: b, when: "{{ event.name == 'step.failed' }}", args: {why: "{{ event.error.kind }}"}}]}
  - step: b
    tool: {kind: noop, args: {why: "{{ args.why }}"}}
"""


@pytest.mark.req("RES-03", "LOOP-13")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
@pytest.mark.parametrize("inline", ["x" * 60_000, "x" * 70_000], ids=["inline", "stored"])
def test_the_result_list_of_a_loop_is_capped_like_any_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, inline: str
) -> None:
    monkeypatch.setattr("noetl.engine.pipeline.payloads.MAX_RESULT_BYTES", 150_000)

    ran = run_stored(tmp_path / "store.db", LOOPED.replace("LOOP_MODE", mode), big=inline)

    assert ran.result.result == {"why": "result.too_large"}


def test_the_result_list_of_a_loop_can_be_as_large_as_any_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.engine.pipeline.payloads.MAX_RESULT_BYTES", 3 * 70_002 + 4)

    ran = run_stored(tmp_path / "store.db", LOOPED.replace("LOOP_MODE", "parallel"), big="x" * 70_000)

    assert ran.result.status == "completed"
    assert ran.result.result == ["x" * 70_000] * 3


ONE_RUN = """
import asyncio, resource, sys
from pathlib import Path
sys.path.insert(0, {root!r})
import jinja2
from tests.results.stored_runs import run_stored
TEXT = '''
workflow:
  - step: start
    tool: {{name: big, kind: python, code: x}}
    next: {{arcs: [{{step: b}}]}}
  - step: b
    tool: {{name: read, kind: python, code: x, args: {{n: "{{{{ start.data | length }}}}"}}}}
'''
size = {size}
run_stored(Path({folder!r}) / "warm.db", TEXT, big="w" * 100_000, read=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ran = run_stored(Path({folder!r}) / "store.db", TEXT, big=lambda inputs, context: "x" * size, read=1)
assert ran.result.status == "completed", ran.result.error
assert ran.tool.inputs_of("read")[0]["args"] == {{"n": size}}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / size)
"""


@pytest.mark.req("RES-01")
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux alone")
def test_a_64_mib_result_needs_at_most_four_copies(tmp_path: Path) -> None:
    """In a process of its own, so that nothing else is measured."""
    root = str(Path(__file__).parents[2])
    script = ONE_RUN.format(root=root, folder=str(tmp_path), size=MAX_RESULT_BYTES - 2)

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ, timeout=500)

    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 4.2
