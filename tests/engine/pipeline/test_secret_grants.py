"""A step's orders get the secrets that its tasks name, and no others (reliability.md §2.2, 2.6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.engine.pipeline.secret_grants import NOTHING_KNOWN, Grants, Known, naming_of
from noetl.net.task import Task
from noetl.templates.values import Authored
from tests.engine_script import Conversation

TEXT = """
keychain:
  - {name: api, kind: env}
  - {name: other, kind: env}
  - {name: late, kind: env}
workflow:
  - step: start
    tool:
      - {name: call, kind: http, url: "http://h/{{ keychain.api.value }}", auth: crm, headers: {X-Team: sales}}
      - {name: move, kind: transfer, source: {kind: postgres, query: q, auth: "{{ workload.env }}_db"},
         target: {kind: postgres, table: t, auth: {credential: warehouse}}}
      - {name: find, kind: secrets, secret: "team/{{ workload.name }}", provider: file}
    next: {arcs: [{step: code}]}
  - step: code
    tool: {kind: python, code: "result = keychain"}
    next: {arcs: [{step: silent}]}
  - step: silent
    tool: {kind: python, code: "result = 1", args: {auth: crm}}
    next: {arcs: [{step: free}]}
  - step: free
    tool:
      - {name: call, kind: http, url: "http://h/", auth: "{{ _prev.name }}"}
      - {name: find, kind: secrets, secret: "{{ _prev.name }}", provider: "{{ _prev.kind }}", auth: "{{ _prev.auth }}"}
      - {name: pick, kind: postgres, query: q, auth: "{% if _prev.eu %}eu{% else %}us{% endif %}_db"}
      - {name: again, kind: secrets, op: refresh, secret: late}
"""


def nothing(_: Task, __: str) -> Known:
    """Every template is one that only the worker can render."""
    return NOTHING_KNOWN


def grants(step: str, read: Any = nothing, text: str = TEXT) -> Grants:
    net = Conversation(text).plan.net
    [found] = [one for one in net.transitions if one.name == step]
    naming = naming_of(found, net, lambda _: None)
    return Grants(naming, {entry.name for entry in net.keychain}, read)


@pytest.mark.req("KEY-07")
@pytest.mark.parametrize(
    ("step", "asked", "is_allowed"),
    [
        ("start", ("api",), True),
        ("start", ("other",), False),  # declared, and read by nobody of this step
        ("start", ("crm",), True),
        ("start", ("sales",), False),  # it stands in a task, and names nothing
        ("start", ("http://h/",), False),
        ("start", ("prod_db",), True),
        ("start", ("prod_dbx",), False),
        ("start", ("warehouse",), True),
        ("start", ("undeclared",), False),
        ("start", ("team/a", "file", {"path": "team/a"}), True),
        ("start", ("team/a", "file", {"path": "team/b"}), False),  # a file is looked up by its own name
        ("start", ("team/a", "env", {}), False),  # by another resolver than the author's
        ("start", ("team/a", "file", {"path": "/etc/shadow"}), False),
        ("start", ("team/a", "file", {"path": "team/a", "auth": "root"}), False),
        ("start", ("api", "file", {}), False),
        ("code", ("api",), True),  # code may read any entry that is declared
        ("code", ("late",), True),
        ("code", ("crm",), False),
        ("silent", ("api",), False),
        ("silent", ("crm",), False),  # code has no place that names a credential
        ("free", ("root",), False),  # a name that is wholly the worker's to say
        ("free", ("other",), True),  # unless the playbook declares it
        ("free", ("root", "env", {}), False),
        ("free", ("other", "env", {}), True),
        ("free", ("other", "env", {"auth": "root"}), False),
        ("free", ("other", "env", {"auth": "api"}), True),
        ("free", ("eu_db",), False),  # which of its texts stand there, only the worker knows
        ("free", ("late",), True),
    ],
)
def test_credentials_named_by_a_step_are_granted(step: str, asked: tuple[Any, ...], is_allowed: bool) -> None:
    name, kind, lookup = (*asked, "", {})[:3] if len(asked) < 3 else asked

    assert grants(step).allow(name, kind, lookup) is is_allowed


@pytest.mark.parametrize(
    ("known", "name", "is_allowed"),
    [
        (Known(("prod_db",), is_all=True), "prod_db", True),
        (Known(("prod_db",), is_all=True), "test_db", False),  # it would fit, and is not what the template gives
        (Known(("prod_db",), is_all=False), "test_db", True),
        (Known(({"credential": "inner"},), is_all=True), "inner", True),
        (Known((), is_all=True), "prod_db", False),
    ],
)
def test_a_step_is_granted_only_what_its_templates_can_return(known: Known, name: str, is_allowed: bool) -> None:
    assert grants("start", lambda *_: known).allow(name) is is_allowed


PLUGGED = """
workflow:
  - step: start
    tool:
      kind: noop
"""


@pytest.mark.parametrize(
    ("declared", "inputs", "granted"),
    [
        ((), {"auth": "a", "message": "b", "deep": [{"credential": "c"}]}, {"a", "c"}),
        ((), {"credentials": {"from": "a", "to": ["b"]}, "auth": {"user": "x", "credential": "c"}}, {"a", "b", "c"}),
        (("login",), {"login": "a", "auth": "b"}, {"a"}),
        (("login",), {"login": {"x": "a", "y": ["b"]}, "message": "c"}, {"a", "b"}),
    ],
)
def test_a_plug_in_declares_which_inputs_name_credentials(
    declared: tuple[str, ...], inputs: dict[str, Any], granted: set[str]
) -> None:
    net = Conversation(PLUGGED).plan.net
    step = net.transitions[0]
    task = msgspec.structs.replace(step.tasks[0], kind="courier", inputs=Authored(inputs))
    naming = naming_of(msgspec.structs.replace(step, tasks=(task,)), net, lambda _: declared)

    asked = {name for name in ("a", "b", "c", "x", "user") if Grants(naming, (), nothing).allow(name)}

    assert asked == granted
