"""W_SECRET: secrets in the text of a playbook, where all its readers can see them.

A value counts as a secret if it has the form of a known kind of secret (the prefix of an access token, the address of a
webhook, a key file, an address with a password), or if its key is a name that only secrets have. A name such as `token`
or `key` is not enough: pages and queues have tokens, too.
"""

from __future__ import annotations

import re
from functools import cache

from noetl.base.diagnostics import DiagnosticPosition, PositionedDiagnostic, Source, Span, is_template
from noetl.language.compiling.passes import Compilation
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Playbook

# Each search takes linear time for any text: repetitions have a limit, or start in one place.
_FORMS = {
    "slack_hook": (
        "the address of a Slack webhook",
        r"https://hooks\.slack(?:-gov)?\.com/(?:services|workflows)/[\w/]+",
    ),
    "teams_hook": ("the address of a Teams webhook", r"https://[\w.-]+\.webhook\.office\.com/webhookb2/[\w@/-]+"),
    "discord_hook": ("the address of a Discord webhook", r"https://discord(?:app)?\.com/api/webhooks/\d+/[\w-]+"),
    "github": ("a GitHub token", r"\b(?:gh[opsur]_\w{36,}|github_pat_\w{22,})"),
    "gitlab": ("a GitLab token", r"\bglpat-[\w-]{20,}"),
    "slack": ("a Slack token", r"\bxox[abeoprs]-[\w-]{10,}"),
    "stripe": ("a Stripe key", r"\b[rs]k_live_\w{16,}"),
    "model": ("the key of a model provider", r"(?<![\w-])sk-(?=[\w-]*\d)[\w-]{20,}"),
    "google": ("a Google API key", r"\bAIza[\w-]{35}"),
    "jwt": ("a signed token", r"(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    "key_file": ("a private key", r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "address": ("an address with a password", r"\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@{}'\"]{0,200}:[^\s/@{}'\"]{1,200}@"),
}
# Most playbooks have none of these, and need no walk through all their texts.
_SIGNS = (
    "hooks.slack", "webhook.office", "api/webhooks/", "github_pat_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "glpat-",
    "xox", "k_live_", "sk-", "AIza", ".eyJ", "PRIVATE KEY", "@",
)  # fmt: skip
_NAMES = frozenset({
    "password", "passwd", "client_secret", "api_key", "apikey", "access_token", "auth_token", "bearer_token",
    "secret_access_key", "private_key", "authorization", "x-api-key",
})  # fmt: skip
_SCHEMES = re.compile(r"(?:basic|bearer|token)\s+", re.IGNORECASE)
_HINT = "keep it in a credential (noetl credential set NAME), and name that under auth or in the keychain"


def check_plain_secrets(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_SECRET; the finding never repeats the secret."""
    if playbook.source is not None and not _may_hold_secrets(playbook.source.text):
        return playbook
    for scalar, name in _texts(playbook.node):
        text = str(scalar.value)
        known = {found[0]: str(found.lastgroup) for found in _any_form().finditer(text)}
        for secret, form in known.items():
            message = f"{_FORMS[form][0]} stands in the text of the playbook"
            compilation.note("W_SECRET", _place_of_secret(scalar, secret, playbook.source), message, _HINT)
        if not known and name is not None and not is_template(text) and _SCHEMES.sub("", text).strip():
            message = f"the value of {name} stands in the text of the playbook, where every reader of it sees it"
            compilation.note("W_SECRET", _place_of_secret(scalar, text, playbook.source), message, _HINT)
    return playbook


@cache
def _any_form() -> re.Pattern[str]:
    # Compiled on first use: that takes as long as reading a playbook of fifty steps.
    return re.compile("|".join(f"(?P<{name}>{form})" for name, (_, form) in _FORMS.items()))


def _may_hold_secrets(text: str) -> bool:
    lower = text.lower()
    return any(sign in text for sign in _SIGNS) or any(name in lower for name in _NAMES)


def _texts(node: Node, name: str | None = None, *, is_named: bool = False) -> list[tuple[Scalar, str | None]]:
    """Every text, with its key if that is a name that only secrets have. In the keychain such a key may map a field to
    the place where it is found, so only `client_secret` counts there."""
    match node:
        case Scalar():
            return [(node, name)] if isinstance(node.value, str) else []
        case Sequence():
            return [text for item in node.items for text in _texts(item, is_named=is_named)]
        case Mapping():
            found: list[tuple[Scalar, str | None]] = []
            for key, value in node.values.items():
                below = is_named or key == "keychain"
                is_secret = key.lower() in _NAMES and (not below or key == "client_secret")
                found += _texts(value, key if is_secret else None, is_named=below)
            return found


def _place_of_secret(scalar: Scalar, secret: str, source: Source | None) -> PositionedDiagnostic:
    """Where the secret is written; where its text begins if it cannot be found there, as with escapes."""
    span = scalar.span
    raw = source.cut(span) if source is not None else ""
    at = raw.find(secret)
    if at < 0:
        return scalar
    first, newline = secret.split("\n", 1)[0], raw.rfind("\n", 0, at)
    line, column = span.line + raw.count("\n", 0, at), at - newline if newline >= 0 else span.column + at
    start = span.start + at
    return DiagnosticPosition(scalar.path, Span(line, column, line, column + len(first), start, start + len(first)))
