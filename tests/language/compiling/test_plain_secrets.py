"""W_SECRET: a secret in the text of a playbook is reported without its value; texts that only look like one are not.

The secrets are put together here, so that nothing that searches this repository for secrets finds any."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Diagnostic, Source
from noetl.cli.report import text_report
from noetl.language.checking import Checked, check
from noetl.tools.kinds import KINDS

PLAYBOOK = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {{ name: orders, path: examples/orders }}
{root}
workflow:
  - step: start
    tool:
      kind: python
      args:
        {args}
      code: |
        a = 1
        {code}
"""
FORMS = {
    "a Slack webhook": "https://hooks." + "slack.com/services/T0001/B0002/" + "abcDEF",
    "a Teams webhook": "https://shop.webhook." + "office.com/webhookb2/1a2b@3c4d/IncomingWebhook/5e",
    "a Discord webhook": "https://discord.com/api/" + "webhooks/123/a-b_c",
    "a GitHub token": "ghp_" + "a1B2" * 9,
    "a GitLab token": "glpat-" + "a1B2" * 5,
    "a Slack token": "xoxb-" + "123456789012-abcdef",
    "a Stripe key": "sk_live_" + "a1B2" * 5,
    "the key of a model provider": "sk-proj-" + "a1B2" * 6,
    "a Google API key": "AIza" + "a1B2c" * 7,
    "a signed token": "eyJ" + "hbGciOiJI" + "UzI1.eyJ" + "zdWIiOiIxM" + "jM0.abcdefghijkl",
    "a private key": "-----BEGIN " + "RSA PRIVATE KEY-----",
    "an address with a password": "postgresql://app:" + "hunter2@db.example.org/orders",
}


def checked(root: str = "", args: str = "n: 1", code: str = "b = 2") -> Checked:
    return check(Source("orders.yaml", PLAYBOOK.format(root=root, args=args, code=code)), kinds=KINDS)


def found(root: str = "", args: str = "n: 1", code: str = "b = 2") -> list[Diagnostic]:
    return [one for one in checked(root, args, code).diagnostics if one.code == "W_SECRET"]


@pytest.mark.parametrize(("what", "secret"), FORMS.items(), ids=list(FORMS))
def test_a_secret_of_a_known_form_is_reported_anywhere(what: str, secret: str) -> None:
    for written in (
        found(args=f"n: '{secret}'"),
        found(code=f"url = '{secret}'"),
        found(root=f"workload: {{ a: '{secret}' }}"),
    ):
        (one,) = written
        assert what in one.message
        assert one.span.end - one.span.start == len(secret.removesuffix("db.example.org/orders"))


@pytest.mark.parametrize(
    "args",
    ["password: hunter2", "Authorization: Bearer 0123", "X-Api-Key: abc", "nested: { client_secret: abc }"],
)
def test_a_text_under_a_secret_name_is_reported(args: str) -> None:
    assert len(found(args=args)) == 1


@pytest.mark.parametrize(
    "args",
    [
        "password: ''",
        "password: '{{ keychain.pg.password }}'",
        "Authorization: 'Bearer {{ keychain.pg.token }}'",
        "Authorization: 'Bearer '",
        "token: abc",
        "page_token: abc",
        "url: https://example.org/a:b@c",
        "url: 'postgresql://app:{{ keychain.pg.password }}@db/orders'",
        "url: https://hooks.slack.com/docs",
        "library: sk-learn-pipelines-of-the-shop",
        "task: ask-the-boss-and-wait-for-two-days",
    ],
)
def test_text_that_only_resembles_a_secret_is_not_reported(args: str) -> None:
    assert found(args=args) == []


def test_the_keychain_can_name_the_field_of_a_secret() -> None:
    entry = "keychain: [{ name: pg, kind: secret_manager, map: { password: shop/pg/password, api_key: shop/pg/key } }]"
    assert found(root=entry) == []


def test_no_report_repeats_the_secret() -> None:
    result = checked(args="Authorization: Bearer hunter2-hunter2", code=f"url = '{FORMS['a Slack token']}'")
    report = "\n".join(text_report([result]))
    assert report.count("W_SECRET") == 2
    assert "****" in report
    for secret in ("hunter2", FORMS["a Slack token"]):
        assert secret not in report
        assert all(secret not in one.message + one.hint for one in result.diagnostics)


def test_each_secret_in_a_text_is_reported() -> None:
    both = FORMS["a GitHub token"], FORMS["a Stripe key"]
    result = checked(code=f"keys = {both}")
    assert [one.line for one in result.diagnostics if one.code == "W_SECRET"] == [13, 13]
    report = "\n".join(text_report([result]))
    assert not any(secret in report for secret in both)


@pytest.mark.parametrize(
    "piece", ["a.", "a-", "eyJaaaaaaaaaa-", "https://", "x://a:", "-----BEGIN A ", "https://a.", "sk-"]
)
def test_long_texts_that_resemble_secrets_are_scanned_in_bounded_work(piece: str) -> None:
    """A form that is searched for anew at each place of such a text would take hours, and the test be stopped."""
    assert found(args=f"n: '{piece * (900_000 // len(piece))}'") == []
