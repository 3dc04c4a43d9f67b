"""The root `on`: events and destinations that exist, and what is said of those that do not (NTF-01)."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.checking import check
from noetl.language.reading.playbook import Dialect, NotificationSyntax
from noetl.language.reading.shared_checks import ReadContext
from noetl.language.reading.trigger import read_notifications
from noetl.net.net import from_json, to_json
from noetl.tools.kinds import load_kinds
from tests.engine_script import net_of, playbook
from tests.language.v2_case.case_text import root_of


def read(text: str) -> tuple[tuple[NotificationSyntax, ...], list[Diagnostic]]:
    reading = ReadContext(Dialect.V10, Findings())
    return read_notifications(reading, root_of(text).get("on")), list(reading.findings)


@pytest.mark.req("NTF-01")
def test_a_net_contains_the_notification_rules_of_the_playbook() -> None:
    net = net_of(
        """
        on:
          failed:
            notify:
              - email: {to: [ops@example.org], auth: mail}
              - webhook: {url: "https://example.org/hook"}
            throttle: 10m
            subject: "{{ execution.path }} failed in {{ error.step }}"
          late: {after: 2h, notify: {slack: {auth: chat}}}
        workflow: [{step: start, tool: {kind: noop}}]
        """
    )
    failed, late = net.notifications

    assert [one.kind for one in failed.notify] == ["email", "webhook"]
    assert failed.notify[0].options == {"to": ["ops@example.org"], "auth": "mail"}
    assert (failed.throttle_s, late.after_s, late.notify[0].kind) == (600.0, 7200.0, "slack")
    assert from_json(to_json(net)) == net


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("on: [failed]", "on must be a mapping"),
        ("on: {failed: {}}", "sends nothing"),
        ("on: {failed: {notify: []}}", "sends nothing"),
        ("on: {failed: {notify: [mail]}}", "a destination must be a mapping"),
        ("on: {faild: {notify: [{slack: {auth: x}}]}}", "faild"),
        ("on: {failed: {after: 2h, notify: [{slack: {auth: x}}]}}", "after"),
        ("on: {late: {notify: [{slack: {auth: x}}]}}", "does not say when"),
        ("on: {late: {after: soon, notify: [{slack: {auth: x}}]}}", "after must be a duration"),
        ("on: {late: {after: '{{ x }}', notify: [{slack: {auth: x}}]}}", "this is a template"),
        ("on: {failed: {notify: [{pager: {}}]}}", 'no destination "pager"'),
        ("on: {failed: {notify: [{email: {to: a@b.c}}]}}", '"auth" of the destination "email"'),
        ("on: {failed: {notify: [{webhook: {}}]}}", '"url" of the destination "webhook"'),
        ("on: {failed: {notify: [{slack: {auth: x, channel: y}}]}}", "channel"),
    ],
)
def test_an_invalid_notification_is_an_error(text: str, said: str) -> None:
    _, found = read(text)

    assert [one.code for one in found] == ["E_NOTIFY"]
    assert said in found[0].message


def test_a_notification_template_can_read_its_own_names_only() -> None:
    text = playbook(
        """
        on: {failed: {notify: [{slack: {auth: x}}], text: "{{ workload.a }} {{ error.kind }} {{ notice.folded }}"}}
        workload: {a: 1}
        workflow: [{step: start, tool: {kind: noop}}]
        """
    )
    found = check(Source("test.yaml", text), kinds=load_kinds()).diagnostics

    assert [(one.code, '"workload"' in one.message) for one in found] == [("W_FOREIGN_NAME", True)]
