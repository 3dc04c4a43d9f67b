"""Secrets in a run: read by tasks, named by `auth`, renewed, and masked in all that is recorded (KEY-02 to KEY-07)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import ToolError
from noetl.events.envelope import Event
from noetl.events.secret_materials import Material
from noetl.events.tasks import KeychainRefreshed
from noetl.net.net import KeychainEntry
from noetl.operations.embedded import RunResult, run_net
from noetl.secrets.contract import Sources
from noetl.secrets.keychain import Keychain
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.registry import Registry
from tests.engine_script import net_of
from tests.narrowing import payloads
from tests.playbook_runs import Scripted
from tests.secrets.vaults import new_keychain, new_vault

SECRET = 'hunter-22 "&/ü'


class Ran(msgspec.Struct):
    result: RunResult
    events: list[Event]
    tool: Scripted

    def types(self) -> list[str]:
        return [event.event_type for event in self.events]

    def recorded(self) -> str:
        return msgspec.json.encode([event.payload for event in self.events]).decode()


def ran(
    text: str,
    *,
    keychain: Keychain | None = None,
    db: Path | None = None,
    tool: Scripted | None = None,
    **answers: Any,
) -> Ran:
    tool, events = tool or Scripted(**answers), list[Event]()
    running = run_net(
        net_of(text),
        payload={},
        db=db or ":memory:",
        watch=events.extend,
        tools=Registry({"python": tool, "http": tool, "postgres": tool, "transfer": tool}),
        clock=ManualClock(),
        keychain=keychain or new_keychain(environment={"API_KEY": SECRET}),
    )
    return Ran(asyncio.run(running), events, tool)


ONE_TASK = """
keychain: [{name: api, kind: env, var: API_KEY}]
workflow:
  - step: start
    tool: {name: call, kind: http, url: "http://h/", headers: {Authorization: "Bearer {{ keychain.api.value }}"}}
"""


@pytest.mark.req("KEY-03", "KEY-07")
def test_a_task_reads_its_secret_and_the_log_contains_none() -> None:
    run = ran(ONE_TASK, call=lambda inputs, _: {"echo": inputs["headers"]})

    assert run.tool.inputs_of("call")[0]["headers"] == {"Authorization": f"Bearer {SECRET}"}
    assert run.result.result == {"echo": {"Authorization": "Bearer ***"}}
    assert "hunter" not in run.recorded()


@pytest.mark.req("KEY-03")
@pytest.mark.parametrize(
    ("template", "gives"),
    [
        ("{{ keychain.pg.password }}", "pa55word!"),
        ("{{ keychain.api }}", "t0ken-value"),
        ("{{ keychain['api'].value }}", "t0ken-value"),
        ("Bearer {{ keychain.api }}", "Bearer t0ken-value"),
        ("{{ keychain[workload.which].value }}", "t0ken-value"),
        ("{{ keychain.pg }}", {"user": "app", "password": "pa55word!"}),
        ("{{ keychain.api.value | length }}", 11),
        ("{{ keychain.nobody | default('none') }}", "none"),
    ],
)
def test_keychain_entries_can_be_read_in_several_notations(template: str, gives: Any) -> None:
    text = f"""
keychain:
  - {{name: api, kind: static, value: t0ken-value}}
  - {{name: pg, kind: static, value: {{user: app, password: pa55word!}}}}
workload: {{which: api}}
workflow:
  - step: start
    tool: {{name: t, kind: python, args: {{x: "{template}"}}, code: "result = 1"}}
"""
    assert ran(text).tool.inputs_of("t")[0]["args"]["x"] == gives


@pytest.mark.req("KEY-03")
def test_code_receives_a_copy_of_the_keychain() -> None:
    text = """
keychain: [{name: api, kind: static, value: t0ken-value}]
workflow:
  - step: start
    tool:
      - {name: first, kind: python, code: "keychain['api']['value'] = 'changed'; result = 1"}
      - {name: second, kind: python, code: "result = keychain['api']['value'] == 't0ken-' + 'value'"}
"""
    result = asyncio.run(run_net(net_of(text), payload={}, db=":memory:"))

    assert result.result is True


@pytest.mark.req("KEY-02")
def test_a_start_with_an_unresolvable_entry_ends_before_the_workflow_starts() -> None:
    run = ran(ONE_TASK, keychain=new_keychain())

    assert run.types() == ["playbook.execution_requested", "playbook.processed"]
    assert run.result.status == "failed"
    assert run.result.duration_s == 0.0
    assert run.result.error is not None
    assert (run.result.error.kind, run.result.error.code) == ("keychain.unresolved", "E_KEYCHAIN")
    assert '"api"' in run.result.error.message
    assert run.tool.calls == []


@pytest.mark.req("VAL-21")
def test_an_unknown_literal_auth_ends_the_start() -> None:
    text = """
workflow:
  - step: start
    tool: {name: t, kind: postgres, auth: pg_x, query: "select 1"}
"""
    run = ran(text)

    assert run.types() == ["playbook.execution_requested", "playbook.processed"]
    assert run.result.error is not None
    assert run.result.error.code == "E_KEYCHAIN"
    assert '"pg_x"' in run.result.error.message


def resolving(inputs: dict[str, Any], context: ToolContext) -> Any:
    """A tool that uses its credential, as http and postgres do."""
    assert context.resolve is not None
    return dict(context.resolve(inputs["auth"]))


AUTH = """
keychain: [{name: pg_k8s, kind: static, value: {host: db, password: "from the keychain"}}]
workload: {pg_auth: pg_prod}
workflow:
  - step: start
    tool:
      - {name: literal, kind: postgres, auth: pg_k8s, query: "select 1"}
      - {name: rendered, kind: postgres, auth: "{{ workload.pg_auth }}", query: "select 1"}
"""


@pytest.mark.req("KEY-05", "KEY-06")
def test_auth_means_the_keychain_entry_or_else_the_stored_credential() -> None:
    vault = new_vault()
    asyncio.run(vault.set("pg_prod", {"host": "prod", "password": "from the vault"}, kind="postgres"))
    seen: list[Any] = []

    def noting(inputs: dict[str, Any], context: ToolContext) -> Any:
        seen.append(resolving(inputs, context))
        return seen[-1]

    run = ran(AUTH, keychain=new_keychain(vault=vault), literal=noting, rendered=noting)

    assert [one["password"] for one in seen] == ["from the keychain", "from the vault"]
    assert "from the" not in run.recorded()
    assert "prod" in run.recorded(), "a host is no secret"


@pytest.mark.req("KEY-05")
def test_an_unknown_rendered_auth_is_an_error_of_its_task() -> None:
    run = ran(AUTH, literal=1, rendered=resolving)

    assert run.result.error is not None
    assert run.result.error.kind == "keychain.unresolved"
    assert '"pg_prod"' in run.result.error.message


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize(
    "auth", ['"postgresql://app:pa55word-1@db/x"', "{host: db, password: pa55word-1}"], ids=["address", "fields"]
)
def test_a_literal_auth_value_is_masked_too(auth: str) -> None:
    text = f"workflow: [{{step: start, tool: {{name: t, kind: postgres, auth: {auth}, query: select 1}}}}]"
    run = ran(text, t=ToolError("pg.error", "no connection for app with pa55word-1 to db"))

    assert run.result.error is not None
    assert run.result.error.message == "no connection for app with *** to db"


@pytest.mark.req("KEY-05")
def test_both_ends_of_a_transfer_name_their_credentials() -> None:
    text = """
keychain: [{name: a, kind: static, value: secret-of-a}, {name: b, kind: static, value: secret-of-b}]
workflow:
  - step: start
    tool:
      name: move
      kind: transfer
      source: {kind: postgres, auth: a, query: select 1}
      target: {kind: postgres, auth: {credential: b}, table: t}
"""

    def both(inputs: dict[str, Any], context: ToolContext) -> Any:
        assert context.resolve is not None
        return [context.resolve(name)["value"] == f"secret-of-{name}" for name in ("a", "b")]

    assert ran(text, move=both).result.result == [True, True]


def broken(inputs: dict[str, Any], context: ToolContext) -> Exception:
    return ToolError("http.status", f"refused {inputs['headers']}", status=401, body=dict(inputs["headers"]))


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize(
    "answer",
    [
        broken,
        lambda inputs, _: ValueError(f"what is {inputs['headers']}"),
        lambda inputs, _: ToolResult(result=1, stdout=f"debug: {inputs['headers']['Authorization']}\n"),
        lambda inputs, _: ToolResult(result=1, helpers={"http": {"headers": dict(inputs["headers"])}}),
        lambda inputs, _: {inputs["headers"]["Authorization"]: [inputs["headers"]["Authorization"] * 3]},
    ],
    ids=["tool error", "exception", "stdout", "helpers", "keys"],
)
def test_no_outcome_of_a_task_contains_its_secret(answer: Any) -> None:
    run = ran(ONE_TASK, call=answer)

    assert "***" in run.recorded()
    assert "hunter" not in run.recorded()


SECRETS_TASK = """
workflow:
  - step: start
    tool:
      - {name: lookup, kind: secrets, secret: API_KEY, provider: env}
      - {name: use, kind: python, args: {key: "{{ lookup.value }}", prev: "{{ _prev.value }}"}, code: "result = 1"}
      - {name: mine, kind: python, args: {key: "{{ lookup.value }}"}, code: "result = 1"}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {name: late, kind: python, args: {seen: "{{ start }}"}, code: "result = 1"}
"""


@pytest.mark.req("TOOL-09", "KEY-06")
def test_a_looked_up_secret_is_passed_to_the_next_task_and_masked_in_the_log() -> None:
    run = ran(SECRETS_TASK, use=lambda inputs, _: inputs["args"], mine=lambda inputs, _: inputs["args"], late=1)

    assert run.tool.inputs_of("use")[0]["args"] == {"key": SECRET, "prev": SECRET}
    assert run.tool.inputs_of("mine")[0]["args"] == {"key": SECRET}
    assert run.tool.inputs_of("late")[0]["args"] == {"seen": {"key": "***"}}, "past its own pipeline it is masked"
    assert "hunter" not in run.recorded()
    assert run.result.ok


@pytest.mark.req("TOOL-09")
@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("{kind: secrets, secret: NOWHERE, provider: env}", "no variable NOWHERE"),
        ("{kind: secrets, secret: nobody}", '"nobody" is neither in the keychain nor a stored credential'),
        ("{kind: secrets, secret: x, provider: gcp}", "there is no resolver for this kind"),
    ],
)
def test_a_missing_secret_is_an_error_of_its_task(task: str, says: str) -> None:
    run = ran(f"workflow: [{{step: start, tool: {task}}}]", keychain=new_keychain(vault=new_vault()))

    assert run.result.error is not None
    assert run.result.error.kind == "keychain.unresolved"
    assert says in run.result.error.message


class Counting:
    """`value-1`, then `value-2`: a new one each time it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        self.asked += 1
        return Material(fields={"value": f"value-{self.asked}"}, refresh_after=sources.clock.now() + 3600)


@pytest.mark.req("KEY-04")
def test_a_refreshed_entry_is_resolved_again_and_its_event_contains_no_value() -> None:
    text = """
keychain: [{name: api, kind: counting}]
workflow:
  - step: start
    tool:
      - {name: before, kind: python, args: {key: "{{ keychain.api.value }}"}, code: "result = 1"}
      - {name: renew, kind: secrets, op: refresh, secret: api}
      - {name: later, kind: python, args: {key: "{{ keychain.api.value }}"}, code: "result = 1"}
    next: {arcs: [{step: next}]}
  - step: next
    tool: {name: last, kind: python, args: {key: "{{ keychain.api.value }}"}, code: "result = 1"}
"""
    run = ran(text, keychain=new_keychain(resolvers={"counting": Counting()}))

    assert [inputs["args"]["key"] for _, inputs in run.tool.calls] == ["value-1", "value-2", "value-2"]
    assert [one.name for one in payloads(run.events, KeychainRefreshed)] == ["api"]
    assert "value-" not in run.recorded()


@pytest.mark.req("KEY-04")
@pytest.mark.parametrize("loop", ["", "loop: {in: [1, 2], iterator: n}"])
def test_one_task_can_refresh_several_entries(loop: str) -> None:
    class Renewing(Scripted):
        async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
            assert context.secrets is not None
            for name in ("a", "b", "a"):
                await context.secrets.renew(name)
            return ToolResult(result=1)

    text = f"""
keychain: [{{name: a, kind: counting}}, {{name: b, kind: counting}}]
workflow:
  - step: start
    {loop or "desc: once"}
    tool: {{name: t, kind: python, code: "result = keychain"}}
"""
    run = ran(text, tool=Renewing(), keychain=new_keychain(resolvers={"counting": Counting()}))

    assert run.result.ok
    names = [one.name for one in payloads(run.events, KeychainRefreshed)]
    assert names == ["a", "b"] * (2 if loop else 1)


@pytest.mark.req("KEY-06")
def test_a_secret_is_masked_for_the_rest_of_the_execution() -> None:
    """A later step that reads nothing of the keychain may get the secret back from outside."""
    text = ONE_TASK + (
        '    next: {arcs: [{step: audit}]}\n  - step: audit\n    tool: {name: log, kind: http, url: "http://h/audit"}\n'
    )
    run = ran(text, call=1, log={"lines": [f"somebody said {SECRET}"]})

    assert run.result.result == {"lines": ["somebody said ***"]}


@pytest.mark.req("KEY-06")
def test_a_large_result_with_a_secret_is_stored_masked(tmp_path: Path) -> None:
    rows = [f"row {n} {SECRET}" for n in range(5_000)]

    run = ran(ONE_TASK, db=tmp_path / "store.db", call=lambda *_: rows)

    assert run.result.result[4_999] == "row 4999 ***"
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"hunter" not in file.read_bytes()


@pytest.mark.req("KEY-06")
def test_policies_read_the_unmasked_outcome_and_write_masked_values() -> None:
    text = """
keychain: [{name: api, kind: env, var: API_KEY}]
workflow:
  - step: start
    tool:
      - name: call
        kind: python
        args: {key: "{{ keychain.api.value }}"}
        code: result = key
        spec:
          policy:
            rules:
              - when: "{{ outcome.result == keychain.api.value }}"
                then: {do: continue, set_iter: {seen: "{{ outcome.result }}"}, set_ctx: {kept: "{{ outcome.result }}"}}
              - else: {then: {do: fail}}
      - {name: use, kind: python, args: {seen: "{{ iter.seen }}"}, code: result = seen}
"""
    run = ran(text, call=SECRET, use=lambda inputs, _: inputs["args"])

    assert run.result.ok
    assert run.tool.inputs_of("use")[0]["args"] == {"seen": SECRET}
    assert run.result.ctx == {"kept": "***"}
    assert "hunter" not in run.recorded()


@pytest.mark.req("KEY-03", "KEY-06")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_every_iteration_of_a_loop_reads_the_secret_and_logs_none(mode: str) -> None:
    text = f"""
keychain: [{{name: api, kind: env, var: API_KEY}}]
workflow:
  - step: start
    loop: {{in: [1, 2, 3], iterator: n, spec: {{mode: {mode}}}}}
    tool: {{name: call, kind: python, args: {{k: "{{{{ keychain.api }}}}", n: "{{{{ iter.n }}}}"}}, code: "result = 1"}}
"""
    run = ran(text, call=lambda inputs, _: f"{inputs['args']['n']}: {inputs['args']['k']}")

    assert run.result.result == ["1: ***", "2: ***", "3: ***"]
    assert len([1 for _, inputs in run.tool.calls if inputs["args"]["k"] == SECRET]) == 3
    assert "hunter" not in run.recorded()


def test_a_noop_that_reads_the_keychain_runs_on_a_worker() -> None:
    """The server decides noops itself, and it holds no secrets."""
    text = """
keychain: [{name: api, kind: env, var: API_KEY}]
workflow:
  - step: start
    tool: {kind: noop, args: {key: "{{ keychain.api.value }}"}}
"""
    run = ran(text)

    assert run.result.result == {"key": "***"}
    assert not [event for event in run.events if event.on_behalf]


@pytest.mark.req("KEY-07")
def test_a_playbook_without_secrets_never_opens_the_keychain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.operations.embedded._own_keychain", lambda *_: pytest.fail("it was opened"))
    net = net_of("workflow: [{step: start, tool: {kind: python, code: result = 1}}]")

    result = asyncio.run(run_net(net, payload={}, db=":memory:", tools=Registry({"python": Scripted()})))

    assert result.ok


def test_a_task_name_equal_to_a_secret_still_works() -> None:
    """Names and ids are not content: masking them would break the run and tell nothing less."""
    text = ONE_TASK.replace("name: call", "name: password1").replace("API_KEY", "OTHER") + (
        "    next: {arcs: [{step: password1_step}]}\n  - step: password1_step\n"
    )
    run = ran(text, keychain=new_keychain(environment={"OTHER": "password1"}), password1="it is password1")

    assert run.result.ok
    assert "it is ***" in run.recorded()
