"""The pytest plug-in, used as authors of playbook tests use it (design.md §6, TMR-07)."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ORDERS = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: orders, path: tests/orders}
workload: {n: 2}
workflow:
  - step: start
    tool:
      name: fetch
      kind: http
      url: "https://api.example.org/orders?n={{ workload.n }}"
      spec:
        policy:
          rules:
            - when: "{{ outcome.status == 'error' }}"
              then: {do: retry, attempts: 3, delay: 3600}
    next: {arcs: [{step: count}]}
  - step: count
    tool: {kind: python, args: {rows: "{{ start.rows }}"}, code: "result = len(rows)"}
"""
WAITING = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: waiting, path: tests/waiting}
workflow:
  - step: start
    message: {name: paid, correlation: {order: 7}}
    next: {arcs: [{step: approve}]}
  - step: approve
    human_task:
      title: Pay?
      assignee: {role: boss}
      form: [{field: decision, type: enum, options: [pay, wait], required: true}]
"""


OPTIONS = ("-p", "no:cacheprovider", "-p", "noetl.testing.plugin")


def passed(pytester: pytest.Pytester, code: str, **files: str) -> None:
    for name, text in files.items():
        (pytester.path / f"{name}.yaml").write_text(text)
    pytester.makepyfile(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # to import those of our own tests takes four times as long
        pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=1)


def test_pytest_loads_the_plugin_only_on_request(pytester: pytest.Pytester) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    pytester.makepyfile("def test_it(run_playbook): pass")
    unasked = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    assert "pytest11" not in project.get("entry-points", {})
    unasked.assert_outcomes(errors=1)
    unasked.stdout.fnmatch_lines(["*fixture 'run_playbook' not found*"])


def test_a_playbook_runs_with_fakes_on_a_virtual_clock(pytester: pytest.Pytester) -> None:
    passed(
        pytester,
        """
        from noetl.base.errors import ToolError

        def test_orders(run_playbook):
            ran = run_playbook(
                "orders.yaml",
                {"n": 3},
                tools={"http": [ToolError("http.status", "503"), ConnectionError("gone"), {"rows": [1, 2, 3]}]},
            )
            assert (ran.ok, ran.status, ran.result, ran.error) == (True, "completed", 3, None)
            assert [call.inputs["url"] for call in ran.calls] == ["https://api.example.org/orders?n=3"] * 3
            assert ran.took_s >= 7200
            assert ran.types()[0] == "playbook.execution_requested"
            assert len(ran.of("task.processed")) == 4
            assert "step.done start" in ran.snapshot()
            assert [event.seq for event in ran.events] == list(range(1, len(ran.events) + 1))
        """,
        orders=ORDERS,
    )


def test_a_fake_function_receives_the_inputs_and_can_wait(pytester: pytest.Pytester) -> None:
    passed(
        pytester,
        """
        import asyncio

        async def answer(inputs):
            await asyncio.sleep(20)
            return {"rows": [inputs["url"]]}

        def test_orders(run_playbook):
            ran = run_playbook("orders.yaml", tools={"http": answer, "python": lambda inputs: inputs["args"]["rows"]})
            assert ran.result == ["https://api.example.org/orders?n=2"]
            assert ran.took_s == 20
        """,
        orders=ORDERS,
    )


def test_a_faked_http_status_is_handled_like_a_real_one(pytester: pytest.Pytester) -> None:
    """The rule of the documentation, `outcome.http.status in […]`, never fired on the error it writes in a test."""
    rule = "{{ outcome.http.status in [502, 503] and outcome.error.retryable }}"
    passed(
        pytester,
        """
        from noetl.base.errors import ToolError

        def test_orders(run_playbook):
            answers = [ToolError("http.status", "503"), ToolError("http.status", "bad gateway", status=502)]
            ran = run_playbook("orders.yaml", tools={"http": [*answers, {"rows": [1]}], "python": 1})
            assert (ran.ok, len(ran.calls)) == (True, 4), ran.error

            ran = run_playbook("orders.yaml", tools={"http": ToolError("http.status", "answered 404")})
            assert (ran.ok, len(ran.calls)) == (False, 1)
        """,
        orders=ORDERS.replace("{{ outcome.status == 'error' }}", rule),
    )


KEYCHAIN = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: weather, path: tests/weather}
keychain:
  - {name: weather_api, kind: credential}
  - {name: mapped, kind: credential, credential: stored_elsewhere, map: {key: token}}
  - {name: cloud, kind: oauth2, token_url: "https://login.example.org/token"}
workflow:
  - step: start
    tool:
      kind: http
      url: https://api.example.org/
      auth: undeclared
      headers:
        x-key: "{{ keychain.weather_api }}"
        x-token: "{{ keychain.mapped.key }}"
        x-cloud: "{{ keychain.cloud }}"
"""


def test_credentials_are_given_by_name_and_masked(pytester: pytest.Pytester) -> None:
    passed(
        pytester,
        """
        def test_weather(run_playbook):
            credentials = {
                "weather_api": "sunny-secret",
                "stored_elsewhere": {"type": "bearer", "token": "token-secret"},
                "cloud": "cloud-secret",
                "undeclared": {"type": "basic", "username": "me", "password": "basic-secret"},
            }
            ran = run_playbook(
                "weather.yaml", tools={"http": lambda inputs: inputs["headers"]["x-key"]}, credentials=credentials
            )
            assert ran.ok, ran.error
            assert ran.calls[0].inputs["headers"] == {
                "x-key": "sunny-secret", "x-token": "token-secret", "x-cloud": "cloud-secret"
            }
            assert ran.result == "***"

            ran = run_playbook("weather.yaml", tools={"http": {}}, credentials={"weather_api": "sunny-secret"})
            assert (ran.ok, ran.error["kind"]) == (False, "keychain.unresolved")
        """,
        weather=KEYCHAIN,
    )


def test_messages_and_human_decisions_are_simulated(pytester: pytest.Pytester) -> None:
    passed(
        pytester,
        """
        def test_waiting(run_playbook):
            ran = run_playbook(
                "waiting.yaml", messages=[("paid", {"order": 7}, {"sum": 3})], people={"approve": {"decision": "pay"}}
            )
            assert ran.ok, ran.error
            assert ran.result == {"decision": "pay"}
        """,
        waiting=WAITING,
    )


def test_a_wait_that_never_ends_fails_the_test_with_an_explanation(pytester: pytest.Pytester) -> None:
    passed(
        pytester,
        """
        import pytest
        from noetl.testing.playbook_runs import Stuck

        def test_waiting(run_playbook):
            with pytest.raises(Stuck, match="has not ended after . hours.*message.awaited start"):
                run_playbook("waiting.yaml")
        """,
        waiting=WAITING,
    )


def test_a_playbook_with_errors_is_refused_before_it_runs(pytester: pytest.Pytester) -> None:
    passed(
        pytester,
        """
        import pytest
        from noetl.base.errors import PlaybookError

        def test_broken(run_playbook):
            with pytest.raises(PlaybookError, match="nowhere"):
                run_playbook("broken.yaml")
        """,
        broken=ORDERS.replace("step: count}", "step: nowhere}"),
    )


def test_loading_the_plugin_does_not_import_the_engine(pytester: pytest.Pytester) -> None:
    """It is loaded in every run of pytest, also in those that have nothing to do with playbooks."""
    passed(
        pytester,
        """
        import sys

        def test_light():
            heavy = ("noetl.engine", "noetl.operations.embedded", "jinja2")
            assert not [name for name in sys.modules if name.startswith(heavy)]
        """,
    )
