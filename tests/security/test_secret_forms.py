"""Attack: programs that give a secret back in another form than they were given it."""

from __future__ import annotations

import html
import json
import re
import shlex
import unicodedata
from base64 import b64encode, encodebytes
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from noetl.base.redaction import Redactor
from noetl.events.secret_materials import Material, secrets_in

SECRET = 'It\'s "Top" <Secret> & $100/day=\\é'

FORMS: dict[str, Callable[[str], str]] = {
    "sql": lambda text: text.replace("'", "''"),
    "sql name": lambda text: text.replace('"', '""'),
    "shlex": shlex.quote,
    "shell": lambda text: "'" + text.replace("'", "'\\''") + "'",
    "html decimal": lambda text: html.escape(text, quote=False).replace("'", "&#39;").replace('"', "&#34;"),
    "html": lambda text: html.escape(text).replace("&#x27;", "&#39;"),
    "xml": lambda text: html.escape(text, quote=False).replace("'", "&apos;").replace('"', "&quot;"),
    "go json": lambda text: _escaped(json.dumps(text, ensure_ascii=False), "&<>"),
    "jinja json": lambda text: _escaped(json.dumps(text), "&<>'"),
    "gson": lambda text: _escaped(json.dumps(text, ensure_ascii=False), "&<>'="),
    "django": lambda text: _escaped(json.dumps(text), "&<>", "\\u%04X"),
    "bytes": lambda text: repr(text.encode()),
    "upper": str.upper,
    "lower": str.lower,
    "header": lambda text: text.encode().decode("latin-1"),
    "latin-1 url": lambda text: quote(text, safe="", encoding="latin-1"),
    "references": lambda text: text.encode("ascii", "xmlcharrefreplace").decode(),
    "html references": lambda text: html.escape(text).encode("ascii", "xmlcharrefreplace").decode(),
    "address in an address": lambda text: quote(quote(text, safe=""), safe=""),
    "form in a form": lambda text: quote_plus(quote_plus(text)),
    "page in a page": lambda text: html.escape(html.escape(text)),
    "base64 in an address": lambda text: quote(b64encode(text.encode()).decode(), safe=""),
    "base64 of base64": lambda text: b64encode(b64encode(text.encode())).decode(),
    "PowerShell": lambda text: b64encode(text.encode("utf-16-le")).decode(),
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
}


def _escaped(text: str, signs: str, form: str = "\\u%04x") -> str:
    return "".join(form % ord(sign) if sign in signs else sign for sign in text)


def left(text: str) -> str:
    """What is left of the text once it is masked, without the marks of quoting around the mask."""
    return re.sub(r"""b?['"]*\*\*\*['"]*""", "***", Redactor([SECRET]).text(text))


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_masked(form: str) -> None:
    assert left(f"before {FORMS[form](SECRET)} after") == "before *** after"


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("before", range(0, 60, 7))
def test_a_secret_in_base64_on_two_lines_is_masked(before: int, line_end: str) -> None:
    code = encodebytes(b"x" * before + SECRET.encode() + b"y" * 60).decode().replace("\n", line_end)
    sure = b64encode(b"x" * (before + (-before % 3)) + SECRET.encode()).decode()[-4 * (len(SECRET) // 3) : -8]

    shown = Redactor([SECRET]).data({"stdout": f"file:\n{code}"})["stdout"]

    assert "***" in shown
    rest = "".join(shown.split())
    assert all(sure[at : at + 8] not in rest for at in range(0, len(sure) - 8, 8))
    assert Redactor([SECRET]).text(code).count("***") == 1


def masked(material: dict[str, object], text: str) -> str:
    return Redactor(secrets_in(Material(fields=material))).text(text)


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize(
    ("secret", "seen", "shown"),
    [
        (
            "https://hooks.example/services/T0000/B0000/XyZ123abcDEF",
            "POST /services/T0000/B0000/XyZ123abcDEF",
            "POST ***",
        ),
        ("https://hooks.example/services/T0000/B0000/XyZ123abcDEF", "key XyZ123abcDEF", "key ***"),
        ("https://api.example/v1?token=open-sesame&n=1", "token is open-sesame", "token is ***"),
        ("https://api.example/v1?token=open-sesame&n=1", "GET /v1?token=open-sesame&n=1", "GET ***"),
        ("https://api.example/v1?token=open%2Fsesame", "token is open/sesame", "token is ***"),
        ("postgresql://app:s3cret-word@db/warehouse?sslmode=require", "warehouse require", "warehouse require"),
        ("postgresql://db/warehouse?password=s3cret-word", "s3cret-word", "***"),
        ('{"type": "service", "private": {"key": "abcdef123"}}', "found abcdef123", "found ***"),
        ('{"host": "db.example", "n": [123456789]}', "db.example 123456789", "db.example ***"),
        (
            "# mine\nexport API_KEY='abc def ghi'\nDB_HOST=db.example\n",
            "abc def ghi at db.example",
            "*** at db.example",
        ),
        ("aws_secret_access_key = wJalrXUtnFEMI", "wJalrXUtnFEMI", "***"),
        ("URL=https://u:open-sesame@db.example/x", "open-sesame", "***"),
    ],
)
def test_a_secret_inside_a_secret_is_masked_separately(secret: str, seen: str, shown: str) -> None:
    assert masked({"value": secret}, seen) == shown


def test_words_of_a_plain_address_are_not_masked() -> None:
    assert masked({"url": "https://api.example/oauth2/token"}, "oauth2/token of api.example") == (
        "oauth2/token of api.example"
    )
