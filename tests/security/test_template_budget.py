"""Attacks by templates: short ones whose single operations are long, and ones that API callers send."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from typing import Any

import pytest

from noetl.base.diagnostics import Source
from noetl.base.errors import TemplateError
from noetl.engine.pipeline.secret_grants import fits
from noetl.language import checking
from noetl.operations.administration_shapes import Role
from noetl.server.routes import projection as render_route
from noetl.templates.budget import MAX_STEPS
from noetl.templates.render import render_within
from tests.server.talking import talking

STEPS = 3_000
LONG = "a" * 400_000
NEAR = "ab" + "a" * 200_000
SCOPE: dict[str, Any] = {
    "long": LONG,
    "near": NEAR,
    "beginnings": [NEAR] * 300,
    "others": [LONG[:-1] + sign for sign in "bcdefghijk"] * 30,
    "same": [LONG[:-1] + sign for sign in "bcdefghijk"] * 30,
}


@pytest.mark.req("TPL-11")
@pytest.mark.parametrize(
    "template",
    [
        *(f"{{{{ long.{name}(near) }}}}" for name in ("find", "index", "count", "split", "partition")),
        *(f"{{{{ long.{name}(near) }}}}" for name in ("rfind", "rindex", "rsplit", "rpartition")),
        "{{ long.replace(near, '') }}",
        "{{ near in long }}",
        "{{ long.startswith(beginnings) }}",
        "{{ long.endswith(beginnings) }}",
        "{{ long in others }}",
        "{{ others == same }}",
        "{{ others < same }}",
        "{{ others.count(long) }}",
        "{{ others.index(long) }}",
    ],
)
def test_the_cost_of_a_long_operation_is_charged_before_it_runs(template: str) -> None:
    with pytest.raises(TemplateError, match="steps"):
        render_within(STEPS, template, SCOPE)


@pytest.mark.req("TPL-11")
@pytest.mark.parametrize("template", ["{{ range(9000) | sum(number) }}", "{{ range(9000) | map(attribute=number) }}"])
def test_a_long_number_is_not_an_attribute(template: str) -> None:
    with pytest.raises(TemplateError, match="more than 64 bits"):
        render_within(MAX_STEPS, template, {"number": 10**1_200})


@pytest.mark.req("TPL-11")
@pytest.mark.parametrize("digits", ["0x" + "f" * 5_000, "0o" + "7" * 5_000, "0b" + "1" * 5_000])
def test_a_number_in_another_base_is_no_longer_than_one_in_base_ten(digits: str) -> None:
    # Such a number could not be stored: the conversion to base ten fails, and with it the commit of the execution.
    with pytest.raises(TemplateError, match="more than 4,096 bits"):
        render_within(MAX_STEPS, f"{{{{ {digits} }}}}", {})


@pytest.mark.parametrize("written", ["{{ a }}", "a{{ a }}", "{{ a }}b", "a{{ a }}{{ b }}b", "a{{ a }}b{{ b }}a", "ab"])
@pytest.mark.parametrize("found", ["", "a", "b", "ab", "ba", "aba", "abba", "a\nb", "abab", "bab"])
def test_the_fixed_parts_of_a_template_limit_what_it_can_return(written: str, found: str) -> None:
    pattern = ".*".join(re.escape(part) for part in re.split(r"\{\{.*?\}\}", written))

    assert fits(written, found) is (re.fullmatch(pattern, found, re.DOTALL) is not None)


def test_a_text_from_a_worker_is_compared_with_a_template_in_bounded_work() -> None:
    """In a process that the system ends: a regular expression tries every place of the text for every part."""
    asked = "fits('{{ a }}-' * 30 + '.json', '-' * 100_000)"
    program = f"""
import resource
from noetl.base.diagnostics import Source
from noetl.engine.pipeline.secret_grants import fits
from noetl.language import checking
from noetl.operations.administration_shapes import Role
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
print({asked})
"""

    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert child.stdout == "False\n", "the system has not ended it"


@pytest.mark.req("TPL-11", "SRV-12")
async def test_a_template_of_an_api_caller_does_not_delay_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, served = threading.Event(), threading.Event()

    def render(*_: Any, **__: Any) -> bool:
        begun.set()
        return served.wait(30)

    monkeypatch.setattr(render_route, "render_within", render)
    async with talking() as talk:
        execution_id = await talk.ran()
        asked = talk.client.post("/api/render", json={"execution_id": execution_id, "template": "{{ 1 }}"})

        async def others() -> int:
            while not begun.is_set():
                await asyncio.sleep(0.01)
            answer = await talk.client.get("/api/health/live")
            served.set()
            return answer.status_code

        answer, status = await asyncio.gather(asked, others())

    assert status == 200
    assert answer.json()["value"] is True, "the other request was answered while the template was rendered"


async def test_texts_checked_by_viewers_delay_no_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    held, check = threading.Event(), checking.check

    def slow(source: Source, **more: Any) -> checking.Checked:
        if "a large text" in source.text:
            held.wait(100)
        return check(source, **more)

    monkeypatch.setattr(checking, "check", slow)
    async with talking() as talk:
        viewer = await talk.as_role(Role.VIEWER)
        # More than there are threads, of one server and of anything else.
        asked = [viewer.post("/api/validate", json={"source": f"# a large text {one}"}) for one in range(50)]
        checks = [asyncio.ensure_future(one) for one in asked]
        await asyncio.sleep(0.1)
        try:
            async with asyncio.timeout(60):
                execution_id = await talk.ran()
                await asyncio.to_thread(int)  # what loads and stores the results of executions
            waiting = [one for one in checks if not one.done()]
        finally:
            held.set()
            answers = await asyncio.gather(*checks)

    assert execution_id
    assert len(waiting) == 50
    assert {answer.status_code for answer in answers} <= {200, 429}
