"""A templated name of a secret is what the order's recorded scope gives, not what its worker says (reliability.md
§2.2)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from noetl.control.assembly import assemble
from noetl.control.secrets.release import SecretRefusedError, SecretRelease
from noetl.engine.pipeline.progress import task_run_id
from noetl.events.orders import Order
from noetl.events.outcomes import Meta, Outcome, Status, TaskResult
from noetl.events.secret_materials import Ask
from noetl.events.steps import StepDone
from noetl.events.tasks import Decided, TaskProcessed
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from tests.control.control_plane import ControlPlane
from tests.engine_script import net_of
from tests.secrets.vaults import new_keychain, new_vault

NAMES = ("a", "b", "root", "eu_db", "us_db", "inner")
HTTP = 'kind: http, url: "http://h/"'


class Desk(ControlPlane):
    """An office whose vault has a credential for every name."""

    def __init__(self) -> None:
        super().__init__()
        self.vault = new_vault()
        desk = SecretRelease(lambda: new_keychain(vault=self.vault))
        self.assembly = assemble(self.store, MemoryResults(), MemoryWakeups(), self.clock, secret_release=desk)
        self.executions, self.for_workers = self.assembly.executions, self.assembly.for_workers

    async def begin(self, text: str, payload: dict[str, Any] | None = None) -> None:
        for name in NAMES:
            await self.vault.set(name, f"the secret {name}", kind="text")
        await self.executions.start(net_of(text), execution_id="x1", trace_id="t1", payload=payload or {})

    async def given(self, order: Order) -> set[str]:
        """The credentials that the holder of this order can get."""
        found = set()
        for name in NAMES:
            ask = Ask(
                execution_id="x1", order_id=order.order_id, lease_epoch=order.lease_epoch, worker_id="w1", name=name
            )
            with suppress(SecretRefusedError):
                await self.for_workers.secret(ask)
                found.add(name)
        return found

    async def process(self, order: Order, task: str, result: Any, **writes: Any) -> None:
        """Report that a task has ended."""
        run_id = task_run_id(order.step_run_id, order.position)
        meta = Meta(attempt=1, started_at=1.0, finished_at=2.0, trace_id="t1", task_run_id=run_id)
        processed = TaskProcessed(
            task=task,
            visit=1,
            attempt=1,
            task_run_id=run_id,
            outcome=Outcome(status=Status.SUCCESS, meta=meta, result=result),
            decision=Decided(rule=0, do="continue", next="second", **writes),
        )
        await self.turn(self.report(order, processed), capacity=0)

    async def end(self, order: Order, result: Any) -> None:
        await self.turn(self.report(order, StepDone(result=TaskResult(result=result))), capacity=0)


async def given(text: str, payload: dict[str, Any] | None = None) -> set[str]:
    desk = Desk()
    await desk.begin(text, payload)
    return await desk.given(await desk.claim())


@pytest.mark.req("KEY-05", "KEY-07")
@pytest.mark.parametrize(
    ("auth", "granted"),
    [
        ("{{ workload.name }}", {"a"}),
        ("{{ name }}", {"a"}),
        ("{{ workload.region }}_db", {"eu_db"}),
        ("{% if workload.region == 'eu' %}eu_db{% else %}us_db{% endif %}", {"eu_db"}),
        ("{{ workload.whole }}", {"inner"}),  # a mapping with a credential inside
        ("{{ workload.missing | default('b') }}", {"b"}),
        ("{{ workload.missing }}", set()),
        ("{{ iter.index }}", set()),
        ("{{ _prev.name }}", set()),
        ("{{ _prev.region }}_db", {"eu_db", "us_db"}),  # the fixed part is the author's
        ("{{ first.name }}", set()),  # a task of the same pipeline
        ("{{ keychain.x.value }}", set()),
    ],
)
async def test_a_credential_template_is_evaluated_in_the_recorded_scope(auth: str, granted: set[str]) -> None:
    text = f"""
workload: {{name: a, region: eu, whole: {{credential: inner}}}}
workflow:
  - step: start
    tool:
      - {{name: first, {HTTP}}}
      - {{name: second, {HTTP}, auth: "{auth}"}}
"""
    assert await given(text) == granted


async def test_a_payload_can_choose_among_all_credentials_and_only_the_chosen_one_is_released() -> None:
    text = f"workload: {{name: a}}\nworkflow: [{{step: start, tool: {{{HTTP}, auth: '{{{{ workload.name }}}}'}}}}]"

    assert await given(text) == {"a"}
    assert await given(text, {"name": "root"}) == {"root"}


async def test_results_of_earlier_steps_are_part_of_the_recorded_scope() -> None:
    desk = Desk()
    await desk.begin(f"""
workflow:
  - step: start
    tool: {{kind: python, code: x}}
    next: {{arcs: [{{step: use, args: {{given: "{{{{ start.other }}}}"}}}}]}}
  - step: use
    tool:
      - {{name: first, {HTTP}, auth: "{{{{ start.name }}}}"}}
      - {{name: second, {HTTP}, auth: "{{{{ args.given }}}}"}}
""")
    await desk.end(await desk.claim(), {"name": "a", "other": "b"})

    assert await desk.given(await desk.claim()) == {"a", "b"}


WRITING = f"""
workload: {{name: a}}
workflow:
  - step: start
    tool: {{kind: noop}}
    set_ctx: {{login: "{{{{ workload.name }}}}", other: b}}
    next: {{arcs: [{{step: use}}]}}
  - step: use
    tool:
      - {{name: first, kind: python, code: x, POLICY}}
      - {{name: second, {HTTP}, auth: "{{{{ ctx.login }}}}"}}
"""
WRITES_OTHER = 'spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {page: "{{ outcome.result }}"}}}}]}}'
WRITES_LOGIN = 'spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {login: "{{ outcome.result }}"}}}}]}}'


@pytest.mark.parametrize("policy", ["args: {}", WRITES_OTHER, WRITES_LOGIN])
async def test_ctx_written_by_a_worker_releases_no_secret(policy: str) -> None:
    """A worker that lies may report any write, whatever the playbook says; it holds what `ctx` said at the claim."""
    desk = Desk()
    await desk.begin(WRITING.replace("POLICY", policy))
    order = await desk.claim()
    before = await desk.given(order)
    await desk.process(order, "first", "root", set_ctx={"login": "root"})

    assert before == {"a"}
    assert await desk.given(order) == {"a"}


async def test_ctx_can_name_a_credential_that_the_keychain_declares() -> None:
    text = WRITING.replace("POLICY", WRITES_LOGIN).replace("workload: {name: a}", "")
    text = f"keychain: [{{name: b, kind: credential, key: b}}]\nworkload: {{name: a}}\n{text}"
    desk = Desk()
    await desk.begin(text)

    assert await desk.given(await desk.claim()) == {"a", "b"}


async def test_concurrent_writes_of_another_branch_change_nothing() -> None:
    """The worker has `ctx` as it was when it took the order, and so has the desk."""
    desk = Desk()
    await desk.begin(f"""
workflow:
  - step: start
    tool: {{kind: noop}}
    set_ctx: {{login: a}}
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: use}}, {{step: change}}]}}
  - {{step: use, tool: {{{HTTP}, auth: "{{{{ ctx.login }}}}"}}}}
  - {{step: change, tool: {{kind: python, code: x}}, set_ctx: {{login: b}}}}
""")
    orders = {order.step: order for order in (await desk.turn(capacity=2)).orders}
    await desk.end(orders["change"], 1)

    assert (await desk.executions.execution("x1")).execution.variables.ctx["login"] == "b"
    assert await desk.given(orders["use"]) == {"a"}


@pytest.mark.req("LOOP-03")
@pytest.mark.parametrize("auth", ["{{ iter.item.login }}", "{{ item.login }}"])
async def test_every_iteration_of_an_order_names_its_own_credential(auth: str) -> None:
    text = f"""
workload: {{all: [{{login: a}}, {{login: b}}]}}
workflow:
  - step: start
    loop: {{in: "{{{{ workload.all }}}}", iterator: item, spec: {{mode: sequential}}}}
    tool: {{{HTTP}, auth: "{auth}"}}
"""
    assert await given(text) == {"a", "b"}


async def test_an_iteration_variable_is_taken_from_the_worker() -> None:
    text = f"""
workflow:
  - step: start
    loop: {{in: [1, 2], iterator: item}}
    tool:
      - name: first
        kind: python
        code: x
        spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_iter: {{login: "{{{{ _task }}}}"}}}}}}}}]}}}}
      - {{name: second, {HTTP}, auth: "{{{{ iter.login }}}}"}}
"""
    assert await given(text) == set()


async def test_a_workbook_task_is_resolved_with_the_arguments_of_its_call() -> None:
    text = f"""
workload: {{name: a}}
workbook:
  - {{name: fetch, tool: {{{HTTP}, auth: "{{{{ args.login }}}}"}}}}
workflow:
  - step: start
    tool: {{kind: workbook, task: fetch, args: {{login: "{{{{ workload.name }}}}"}}}}
"""
    assert await given(text) == {"a"}
