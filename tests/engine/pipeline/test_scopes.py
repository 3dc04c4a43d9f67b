"""`error.kind` in templates: the kind itself, and the words people use for it (OUT-02)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.errors import ToolError
from noetl.engine.pipeline.scopes import error_view
from noetl.events.outcomes import Error
from noetl.templates.expression import parse
from noetl.templates.scope import Scope
from tests.playbook_runs import run_here


def value(text: str, error: Error | None) -> Any:
    return parse(text).evaluate(Scope({"outcome": {"status": "error", "error": error_view(error)}}))


def http(status: int) -> Error:
    return Error(kind="http.status", message="answered", status=status)


@pytest.mark.req("OUT-02")
@pytest.mark.parametrize(
    ("error", "word"),
    [
        (http(429), "rate_limit"),
        (http(500), "server_error"),
        (http(503), "server_error"),
        (http(401), "auth"),
        (http(403), "auth"),
        (http(404), "not_found"),
        (http(418), "client_error"),
        (http(504), "timeout"),
        (Error(kind="timeout", message="late"), "timeout"),
        (Error(kind="http.transport", message="refused"), "connection"),
    ],
)
def test_an_http_error_has_a_common_name(error: Error, word: str) -> None:
    assert value(f"{{{{ outcome.error.kind == '{word}' }}}}", error) is True
    assert value(f"{{{{ outcome.error.kind in ['x', '{word}'] }}}}", error) is True
    assert value(f"{{{{ outcome.error.kind != '{word}' }}}}", error) is False
    assert value(f"{{{{ outcome.error.kind == '{error.kind}' }}}}", error) is True
    assert value("{{ outcome.error.kind in ['x', 'quota'] }}", error) is False


@pytest.mark.req("OUT-02")
def test_templates_return_the_error_kind_as_plain_text() -> None:
    plain = {"kind": "http.status", "message": "answered", "status": 429, "retryable": False}

    assert type(value("{{ outcome.error.kind }}", http(429))) is str
    assert value("{{ outcome.error.kind }}", http(429)) == "http.status"
    assert value("{{ outcome.error }}", http(429)) == plain
    assert value("{{ outcome }}", http(429)) == {"status": "error", "error": plain}
    assert value("{{ outcome.error is none }}", None) is True


@pytest.mark.req("OUT-02", "POL-05")
def test_a_policy_can_retry_by_the_common_name() -> None:
    text = """
    workflow:
      - step: start
        tool:
          name: one
          kind: python
          code: x
          spec:
            policy:
              rules:
                - {when: "{{ outcome.error.kind == 'rate_limit' }}", then: {do: retry, attempts: 3, delay: 1}}
    """
    limited = ToolError("http.status", "answered 429", status=429)

    ran = run_here(text, one=[limited, limited, "done"])

    assert ran.trace() == [("one", "retry"), ("one", "retry"), ("one", "continue")]
    assert ran.result.result == "done"
