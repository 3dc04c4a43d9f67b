"""The forms that programs give a secret: encoded for URLs, JSON, HTML, SQL, shells, headers, mail and dumps. Other
transformations (reversing, hashing, truncating) are not recognised.
"""

from __future__ import annotations

import json
import re
from base64 import b32encode, b64encode, b85encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from string import punctuation
from urllib.parse import quote, quote_plus

import msgspec

SHORTEST = 6  # characters; a shorter value would mask innocent text everywhere, so it is warned about instead

SHORTEST_LINE = 12  # characters of a line that is masked by itself
_WIDTHS = (64, 76)  # of base64 in lines: PEM, and MIME, which is what PostgreSQL's encode() gives

_LONGEST_DUMPED = 4_096  # characters of a secret; the parts of a longer one are secrets themselves
_NESTED = 3  # JSON text inside JSON text, so deep; a secret without quotes and backslashes stays the same in it

# characters that URL parsers leave unchanged: in a component (ECMAScript), in a path and in a query (WHATWG, httpx)
_COMPONENT = "!'()*"
_PATH = "".join(sign for sign in punctuation if sign not in '"#<>?`{}')
_QUERY = "".join(sign for sign in punctuation if sign not in '"#<>')

_ESCAPES = msgspec.json.Encoder()
_TO_URL_ALPHABET = bytes.maketrans(b"+/", b"-_")


def _html_escaped(text: str, *, quote: bool) -> str:
    from html import escape  # with a table of all entities, which runs without secrets never need

    return escape(text, quote=quote)


def forms_of(secret: str) -> set[str]:
    """Every form of `secret` that is masked, itself included; none is shorter than SHORTEST."""
    body = secret.encode("utf-8", "surrogatepass")
    # Masking compares values, so every form of the value has to be known beforehand.
    forms = {secret, body.hex(), body.hex().upper(), *_base64_forms(body)}
    forms |= {form(secret) for form in _TEXT_FORMS} | {repr(body)[2:-1], secret.upper(), secret.lower()}
    forms |= set(_encoded_twice(secret, body))
    if not secret.isascii():
        forms |= set(_foreign_forms(secret, body))
    forms |= {form for encoded in _ascii_escapes(secret) for form in (encoded, encoded.replace("/", "\\/"))}
    return _nested(forms)


def dumped_forms(secret: str) -> set[str]:
    """The forms of programs that write every byte or character of `secret` in a way of their own, as dumps do. They are
    apart from `forms_of`, since they are many and rare."""
    if len(secret) > _LONGEST_DUMPED:
        return set()
    body = secret.encode("utf-8", "surrogatepass")
    forms = {*_hexadecimal_forms(body), *_decimal_forms(body), *_base32_forms(body), *_base85_forms(body)}
    units = memoryview(secret.encode("utf-16-le", "surrogatepass")).cast("H")  # of JavaScript and Java
    forms |= {"".join(form % unit for unit in units) for form in ("\\u%04x", "\\u%04X")}
    for form in ("&#%d;", "&#x%x;", "&#x%X;", "&#%03d;"):
        forms.add("".join(form % ord(sign) for sign in secret))
        forms.add("".join(sign if sign.isalnum() else form % ord(sign) for sign in secret))
    forms.add("\0".join(secret))  # UTF-16 that was read as another encoding
    return _nested(forms)


def _nested(forms: Iterable[str]) -> set[str]:
    """The forms, also within JSON text; without those that are too short."""
    found = set(forms)
    for _ in range(_NESTED):
        found |= {escaped(form) for form in found for escaped in (json_escaped, _ascii_json)}
    return {form for form in found if len(form) >= SHORTEST}


def _encoded_twice(text: str, body: bytes) -> Iterator[str]:
    """The forms that two programs give it, one after the other: an address in an address (and once more, as redirects
    of a sign-in do), text of a page in a page, a secret of Kubernetes that was encoded before, base64 in an address,
    and the commands of PowerShell."""
    for once in (quote(text, safe=""), quote_plus(text), quote(text)):
        twice = quote(once, safe="")
        yield from (twice, quote(twice, safe=""))
    yield _html_escaped(_html_escaped(text, quote=True), quote=True)
    code = b64encode(body).decode()
    yield from (quote(code, safe=""), _lower_percents(code))
    for encoded_body in (code.encode(), text.encode("utf-16-le", "surrogatepass")):
        yield from _base64_forms(encoded_body)


def _foreign_forms(text: str, body: bytes) -> Iterator[str]:
    """Forms that differ only where a text has letters beyond ASCII."""
    from unicodedata import normalize  # few secrets need it

    yield body.decode("latin-1")  # as headers of HTTP are read
    yield from (normalize("NFC", text), normalize("NFD", text))
    for written in (text, _html_escaped(text, quote=True), _html_escaped(text, quote=False)):
        yield written.encode("ascii", "xmlcharrefreplace").decode()
    with suppress(UnicodeEncodeError):
        yield quote(text, safe="", encoding="latin-1", errors="strict")


def json_escaped(text: str) -> str:
    """The text as it is written inside a JSON string. It is made character by character, so the escaped form of a
    part is a part of the escaped form."""
    return _ESCAPES.encode(text)[1:-1].decode()


def _ascii_json(text: str) -> str:
    """The same with \\uXXXX, as many libraries write it."""
    return json.dumps(text)[1:-1]


def _lower_percents(text: str) -> str:
    pieces = quote(text, safe="").split("%")
    return pieces[0] + "".join("%" + piece[:2].lower() + piece[2:] for piece in pieces[1:])


# further characters that JSON encoders write as \\uXXXX besides: Go, Jinja2 and Django, Gson
_ESCAPED_BESIDES = ("&<>", "&<>'", "&<>'=")


def _ascii_escapes(text: str) -> Iterator[str]:
    """The text in a JSON string that is embedded in HTML, with the hexadecimal digits in either case."""
    for besides in _ESCAPED_BESIDES:
        for form in ("\\u%04x", "\\u%04X"):
            yield "".join(form % ord(sign) if sign in besides else _ascii_json(sign) for sign in text)
            yield "".join(form % ord(sign) if sign in besides else json_escaped(sign) for sign in text)


_UNSAFE = re.compile(r"[^\w@%+=:,./-]", re.ASCII)


def _html(text: str, apostrophe: str, quote: str) -> str:
    return _html_escaped(text, quote=False).replace("'", apostrophe).replace('"', quote)


_TEXT_FORMS: tuple[Callable[[str], str], ...] = (
    lambda text: quote(text, safe=""),
    lambda text: quote(text),
    lambda text: quote(text, safe=_COMPONENT),
    lambda text: quote(text, safe=_PATH),
    lambda text: quote(text, safe=_QUERY),
    quote_plus,
    _lower_percents,
    lambda text: _ascii_json(text).replace("/", "\\/"),
    lambda text: repr(text)[1:-1],
    lambda text: _html_escaped(text, quote=True),
    lambda text: _html_escaped(text, quote=False),
    lambda text: _html(text, "&#39;", "&#34;"),
    lambda text: _html(text, "&#39;", "&quot;"),
    lambda text: _html(text, "&apos;", "&quot;"),
    lambda text: _html(text, "&#039;", "&quot;"),  # PHP
    lambda text: text.replace("'", "''"),  # a text in SQL, and a scalar of YAML
    lambda text: text.replace('"', '""'),  # a name in SQL, and a field of CSV
    lambda text: text.replace("'", "''").replace("\\", "\\\\"),
    lambda text: text.replace("'", "'\"'\"'"),  # shlex.quote
    lambda text: text.replace("'", "'\\''"),
    lambda text: re.sub(r'(["$`\\])', r"\\\1", text),  # between double quotes of a shell
    lambda text: _UNSAFE.sub(r"\\\g<0>", text),  # printf %q
    lambda text: re.sub(r"""(["'\\])""", r"\\\1", text),  # MySQL
    lambda text: re.sub(r"(['\\])", r"\\\1", text),  # PHP, $'…' of a shell
    lambda text: re.sub(r"([:=#!\\])", r"\\\1", text),  # properties of Java
    re.escape,
    lambda text: _escaped_bytes(text, '"\\', "\\x%02X"),  # the log of nginx
    lambda text: _escaped_bytes(text, "", "\\%03o"),  # PostgreSQL, git, ls
    lambda text: _escaped_bytes(text, "=", "=%02X"),  # mail: quoted-printable
    lambda text: _escaped_bytes(text, "=_?", "=%02X").replace(" ", "_"),  # a header of mail
)


def _escaped_bytes(text: str, besides: str, form: str) -> str:
    """The text with the bytes written anew that are not printable ASCII, or one of `besides`."""
    signs = [form % byte if not 32 <= byte < 127 or chr(byte) in besides else chr(byte) for byte in _bytes_of(text)]
    if form.startswith("\\") and not besides:
        signs = ["\\\\" if sign == "\\" else sign for sign in signs]
    return "".join(signs)


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _base64_forms(body: bytes) -> Iterator[str]:
    """The characters of base64 that depend on nothing but `body`, wherever it begins within a group of three."""
    # Base64 writes three bytes as four characters: a secret inside a longer text looks different by where it begins.
    for before in range(3):
        code = b64encode(b"\0" * before + body)
        first = -(-8 * before // 6)
        last = 8 * (before + len(body)) // 6
        sure = code[first:last]
        yield sure.decode()
        yield sure.translate(_TO_URL_ALPHABET).decode()
    code = b64encode(body).rstrip(b"=")
    for width in _WIDTHS:
        lines = (code[at : at + width] for at in range(0, len(code) if len(code) > width else 0, width))
        yield from (line.decode() for line in lines if len(line) >= SHORTEST_LINE)


def _hexadecimal_forms(body: bytes) -> Iterator[str]:
    """Bytes with something between them: fingerprints, buffers of Node, arrays of C, strings of C, one line of xxd."""
    for digits in ("%02x", "%02X"):
        pairs = [digits % byte for byte in body]
        for between in (" ", ":", "-", ", "):
            yield between.join(pairs)
        # With what stands in front of the first byte: rarer than a digit, so fewer places of a text are looked at.
        for between, mark in (("", "\\x"), ("", "%"), (", ", "0x"), (",", "0x"), (" ", "0x")):
            yield between.join(mark + pair for pair in pairs)
        words = ["".join(pairs[at : at + 2]) for at in range(0, len(pairs), 2)]
        yield " ".join(words)
        yield " ".join((pairs[0], *("".join(pairs[at : at + 2]) for at in range(1, len(pairs), 2))))
    text = body.decode("utf-8", "surrogatepass")
    yield from (text.encode(wide, "surrogatepass").hex() for wide in ("utf-16-le", "utf-16-be"))


def _decimal_forms(body: bytes) -> Iterator[str]:
    """Bytes as numbers, as Python, JSON and Go write a list of them; and in octal, as C does."""
    for between in (", ", ",", " "):
        yield between.join(map(str, body))
    yield "".join(f"\\{byte:03o}" for byte in body)


def _base32_forms(body: bytes) -> Iterator[str]:
    """As `_base64_forms`: five bytes are eight characters."""
    for before in range(5):
        code = b32encode(b"\0" * before + body)
        yield code[-(-8 * before // 5) : 8 * (before + len(body)) // 5].decode()


def _base85_forms(body: bytes) -> Iterator[str]:
    """The groups that hold nothing but `body`: each character depends on all four bytes of its group."""
    for before in range(4):
        padded = b"\0" * before + body
        yield b85encode(padded[-(-before // 4) * 4 : len(padded) // 4 * 4]).decode()
