"""Canaries on the ways through the language: children, loops, rules, sinks, retries, templates that fail (KEY-06)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import call
from tests.security.canary_yard import GOES_ON, Yard, playbook, secret
from tests.servers.http import HttpServer, Request, reply

SOME = [*range(0, 15, 2), 9]
CODE = "values = [value for entry in keychain.values() for value in entry.values()]\n"


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def child(body: dict[str, Any]) -> dict[str, Any]:
    head = {"apiVersion": "noetl.io/v10", "kind": "Playbook", "metadata": {"name": "child", "path": "tests/child"}}
    return {**head, "workload": {"given": ""}, **body}


@pytest.mark.req("KEY-06", "TOOL-11")
def test_a_secret_is_never_the_payload_of_a_child(yard: Yard) -> None:
    """What a child is started with is recorded, so it is refused rather than handed on as `***`."""
    yard.file("child.yaml", child({"workflow": [{"step": "start", "tool": {"name": "t", "kind": "noop"}}]}))
    fine = {"name": "fine", "kind": "playbook", "path": "tests/child", "args": {"given": "plain"}}
    refused = [
        {"kind": "playbook", "path": "tests/child", "args": {"given": {"deep": [secret(number)]}}} for number in SOME
    ]
    path = {"name": "path", "kind": "playbook", "path": "tests/" + secret(0)}
    events = yard.run(playbook([*refused, path, fine]))

    outcomes = yard.outcomes(events)
    assert [outcomes.pop("fine"), outcomes.pop("t")] == [None, None]
    assert {error["kind"] for error in outcomes.values()} == {"playbook.failed"}
    assert {"args hold a secret" in error["message"] for error in outcomes.values()} == {True}
    assert yard.left() == []


@pytest.mark.req("KEY-06", "TOOL-11")
def test_a_secret_read_by_a_child_is_masked_in_its_parent_too(yard: Yard) -> None:
    reading = {"name": "t", "kind": "python", "code": CODE + "result = {'all': values, 'one': values[0]}"}
    entries = playbook([])["keychain"]
    yard.file("child.yaml", child({"keychain": entries, "workflow": [{"step": "start", "tool": reading}]}))
    failing = {"name": "t", "kind": "python", "code": CODE + "raise ValueError(values)"}
    bad = child({"keychain": entries, "workflow": [{"step": "start", "tool": failing}]})
    yard.file("bad.yaml", {**bad, "metadata": {"name": "bad", "path": "tests/bad"}})
    events = yard.run(
        playbook([{"kind": "playbook", "path": "tests/child"}, {"kind": "playbook", "path": "tests/bad"}])
    )

    outcomes = yard.outcomes(events)
    assert outcomes["t0"] is None
    assert "ValueError" in outcomes["t1"]["message"]
    assert yard.left() == []


def broken_templates() -> Iterator[dict[str, Any]]:
    for number in SOME:
        name = f"keychain.c{number}.value"
        for template in (
            f"{{{{ {name} + 1 }}}}",
            f"{{{{ {name}.nope.deeper }}}}",
            f"{{{{ {name} | int('x') + {name} }}}}",
            f"{{{{ keychain[{name}].value }}}}",
            f"{{{{ workload[{name}].x.y }}}}",
            f"{{{{ ({name} * 3).nope() }}}}",
            f"{{{{ 1 / {name} }}}}",
            f"{{{{ '%d' % {name} }}}}",
            f"{{{{ {name} > 1 }}}}",
        ):
            yield {"kind": "noop", "args": {"x": template}}
        yield {"kind": "python", "code": "result = 1", "spec": {"timeout": secret(number), **GOES_ON}}
        yield {"kind": "python", "code": "result = 1", "spec": {"retry": secret(number), **GOES_ON}}
    rules = [{"when": "{{ keychain.c9.value > 1 }}", "then": {"do": "continue"}}]
    yield {"kind": "noop", "args": {"x": secret(9)}, "spec": {"policy": {"rules": rules}}}


@pytest.mark.req("KEY-06", "TPL-09")
def test_templates_that_fail_on_a_secret_leak_nothing(yard: Yard) -> None:
    outcomes = yard.outcomes(yard.run(playbook(broken_templates()), code=1))

    assert {error["kind"] for error in outcomes.values() if error} >= {"template.error"}
    assert yard.left() == []


@pytest.mark.req("KEY-06")
def test_policies_loops_and_large_results_leak_nothing(yard: Yard) -> None:
    keeps = {"seen": "{{ outcome }}", "one": "{{ outcome.result.all[0] }}"}
    rules = [{"else": {"then": {"do": "continue", "set_iter": keeps, "set_ctx": {"kept_{{ x }}": "{{ outcome }}"}}}}]
    ends = [
        "result = {'all': values, 'much': values * 60}",
        "print(*values)\nresult = {'all': values}",
        "import base64\nresult = {'all': [base64.encodebytes(value.encode()).decode() for value in values]}",
        "raise RuntimeError(values)",
        "raise RuntimeError('x' * 3980 + values[9])",
        "print('x' * 30000 + values[9] * 3)\nresult = {'all': values}",
        "import sys, os\nprint(*values, file=sys.stderr)\nos.write(2, str(values).encode())\nresult = {'all': []}",
        "import logging, warnings\nwarnings.warn(values[0])\nlogging.error(values)\nresult = {'all': values}",
        "import sys\nsys.exit(values[0])",
        "class Odd(Exception): pass\nOdd.__name__ = values[0]\nraise Odd('x')",
    ]
    tasks = [
        {"name": f"t{at}", "kind": "python", "code": CODE + end, "spec": {"policy": {"rules": rules}}}
        for at, end in enumerate(ends)
    ]
    document = playbook(tasks)
    loop = {"in": [1, 2], "iterator": "x", "spec": {"mode": "parallel", "ctx_writes": "last"}}
    document["workflow"][0] |= {"loop": loop}
    failing = {"name": "f", "kind": "python", "code": CODE + "raise ValueError(values)"}
    document["workflow"][0]["next"] = {"arcs": [{"step": "more", "args": {"all": "{{ event }}", "ctx": "{{ ctx }}"}}]}
    document["workflow"].append({"step": "more", "tool": failing})
    events = yard.run(document, output="jsonl", code=1)

    assert sum(event["event_type"] == "task.processed" for event in events) == 2 * len(ends) + 1
    assert yard.left() == []


@pytest.mark.req("KEY-06", "KEY-04")
@pytest.mark.parametrize("answer", ["token", "refusal"])
def test_oauth2_leaks_neither_client_secret_nor_token(yard: Yard, answer: str) -> None:
    client, token = secrets.token_urlsafe(30) + "/+", secrets.token_urlsafe(40)
    yard.also(client, token)
    yard.environment["CLIENT"] = client

    def endpoint(request: Request) -> Any:
        if answer == "refusal":
            return reply(400, json={"error": client, "error_description": request.headers.get("authorization")})
        return reply(json={"access_token": token, "expires_in": 3600})

    def echo(request: Request) -> Any:
        return reply(500, json={"headers": request.headers})

    with HttpServer({"/token": endpoint, "*": echo}) as server:
        kind = {
            "kind": "oauth2",
            "token_url": f"{server.url}/token",
            "client_id": "me",
            "client_secret": {"env": "CLIENT"},
        }
        tasks = [{"kind": "http", "url": f"{server.url}/echo", "auth": "granted"}]
        yard.run(playbook(tasks, more=[{"name": "granted", **kind}]), code=0 if answer == "token" else 1)

    assert (f"Bearer {token}" in [one.headers.get("authorization") for one in server.requests]) == (answer == "token")
    assert yard.left() == []


V2_CASE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: cases, path: tests/cases}
workflow:
  - step: start
    tool: {kind: secrets, secret: stored}
    vars: {got: "{{ result.value }}", all: "{{ result }}"}
    sink: {tool: {kind: python, code: "print(v)\\nresult = v"}, args: {v: "{{ result.value }}"}}
    spec: {case_mode: inclusive}
    case:
      - when: "{{ event.name == 'call.done' }}"
        then: {set: {kept: "{{ result.value }}", deep: {a: ["{{ result }}"]}}}
      - when: "{{ event.name == 'call.done' }}"
        then:
          - a: {tool: {kind: python, args: {v: "{{ result.value }}"}, code: "print(v)\\nresult = {'v': v}"}}
          - next: {next: [{step: pages, args: {v: "{{ result.value }}"}}]}
  - step: pages
    tool:
      kind: http
      method: POST
      url: "URL/page"
      auth: stored
      json: {n: 1}
    retry:
      - when: "{{ error }}"
        then: {max_attempts: 2}
      - when: "{{ response.data.more }}"
        then:
          max_attempts: 3
          next_call: {json: {n: 2, token: "{{ response.data.token }}"}, headers: {X-Key: "{{ response.data.token }}"}}
          collect: {path: data.token, into: tokens}
          sink: {tool: {kind: python, code: "result = v"}, args: {v: "{{ page }}"}}
    case:
      - when: "{{ event.name == 'call.done' }}"
        then: {next: [{step: looped, args: {v: "{{ tokens }}"}}]}
  - step: looped
    loop: {in: [1, 2], iterator: x, mode: sequential}
    tool: {kind: secrets, secret: stored}
    case:
      - when: "{{ event.name == 'call.done' }}"
        then:
          - b: {tool: {kind: python, args: {v: "{{ result.value }}"}, code: "raise ValueError(v)"}}
"""


@pytest.mark.req("KEY-06", "V2C-10", "V2C-17")
@pytest.mark.parametrize(("canary_at", "output"), [(5, "text"), (12, "json")])
def test_case_rules_sinks_retries_and_vars_leak_nothing(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, canary_at: int, output: str
) -> None:
    canary = yard.canaries[canary_at]
    monkeypatch.setenv("NOETL_HOME", yard.environment["NOETL_HOME"])
    assert call("credential", "set", "stored", "--db", str(yard.db), stdin=canary)[0] == 0

    def page(request: Request) -> Any:
        return reply(json={"token": canary, "more": request.json["n"] == 1, "echo": request.headers})

    with HttpServer({"*": page}) as server:
        file = yard.db.parent.parent / "cases.yaml"
        file.write_text(V2_CASE.replace("URL", server.url))
        yard.noetl("run", str(file), "-o", output)

    assert any(request.json.get("token") == canary for request in server.requests)
    events = yard.asked()
    assert {"sink.processed", "retry.processed", "ctx.patched", "loop.iteration.failed"} <= {
        event["event_type"] for event in events
    }
    assert yard.left() == []
