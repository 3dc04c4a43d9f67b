"""A step's orders get the secrets that its tasks name, and no others (RELIABILITY 2.6)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.pipeline.secret_grants import grants_of
from tests.conversing import Conversation

TEXT = """
keychain:
  - {name: api, kind: env}
  - {name: other, kind: env}
  - {name: late, kind: env}
workflow:
  - step: start
    tool:
      - {name: call, kind: http, url: "http://h/{{ keychain.api.value }}", auth: crm}
      - {name: move, kind: transfer, source: {kind: postgres, query: q, auth: "{{ workload.env }}_db"},
         target: {kind: postgres, table: t, auth: {credential: warehouse}}}
      - {name: find, kind: secrets, secret: "team/{{ workload.name }}", provider: file}
    next: {arcs: [{step: code}]}
  - step: code
    tool: {kind: python, code: "result = keychain"}
    next: {arcs: [{step: silent}]}
  - step: silent
    tool: {kind: python, code: "result = 1"}
"""


@pytest.mark.req("KEY-07")
@pytest.mark.parametrize(
    ("step", "asked", "is_allowed"),
    [
        ("start", ("api",), True),
        ("start", ("other",), False),  # declared, and read by nobody of this step
        ("start", ("crm",), True),
        ("start", ("prod_db",), True),
        ("start", ("prod_dbx",), False),
        ("start", ("warehouse",), True),
        ("start", ("undeclared",), False),
        ("start", ("team/a", "file", {"path": "team/a"}), True),
        ("start", ("team/a", "env", {}), False),  # by another resolver than the author's
        ("start", ("team/a", "file", {"path": "/etc/shadow"}), False),
        ("start", ("team/a", "file", {"path": "team/a", "auth": "root"}), False),
        ("start", ("api", "file", {}), False),
        ("code", ("api",), True),  # code may read any entry that is declared
        ("code", ("late",), True),
        ("code", ("crm",), False),
        ("silent", ("api",), False),
    ],
)
def test_what_is_named_is_granted(step: str, asked: tuple[Any, ...], is_allowed: bool) -> None:
    net = Conversation(TEXT).plan.net
    [found] = [one for one in net.transitions if one.name == step]
    name, kind, lookup = (*asked, "", {})[:3] if len(asked) < 3 else asked

    assert grants_of(found, net).allow(name, kind, lookup) is is_allowed
