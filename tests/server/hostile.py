"""Hostile input, made here: bodies that are not JSON as it should be, and texts that break naive programs."""
# ruff: noqa: E501, SIM905  rows of data

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product

# JSON that must be refused by every route.
_NUMBERS = (
    "01 -01 1. .5 -.5 +1 1e 1e+ 1E- 0x10 0b1 0o7 1_000 1,000 NaN -NaN Infinity -Infinity inf nan 1e400 -1e400 - -- "
    "1.2.3 1e1.5 0e 00 -0x1 ١٢ １ 1f 1L 2. 1e٣"
).split()
_WORDS = "True False None undefined nil TRUE nul tru fals nulll yes no on off null1 true1 'a' `a` a a.b $ @ # // /**/".split()
_TEXTS = (
    '"', '"a', 'a"', '"\\"', '"\\x41"', '"\\u12"', '"\\u12G4"', '"\\u"', '"\\U00000041"', '"\\ud800"', '"\\udfff"',
    '"\\ud800\\ud800"', '"\\ud800x"', '"\\udc00\\ud800"', '"\n"', '"\t"', '"\r"', '"\x00"', '"\x1f"', '"\\a"', '"\\\'"',
    "'a'", '"a""b"', '"\\0"', '"\\v"',
)  # fmt: skip
_SHAPES = (
    "[", "]", "{", "}", "[1", "[1,", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[1:2]", "{1:2}", '{"a"}', '{"a":}', '{"a":1,}',
    '{,"a":1}', '{"a" 1}', '{"a":1 "b":2}', '{"a"::1}', '{a:1}', "{'a':1}", '{"a":1}}', "[1]]", "[1}", '{"a":1]', "{}{}",
    "[][]", "{} {}", "{}x", "x{}", "{},", "{};", "[1];", '{"a":1}#c', '{/*c*/"a":1}', '{"a":1}//c', "<x/>", "a=1&b=2",
    "---\na: 1", '{"a":{"b":{"c":}}}', '[{"a":[}]', ":", ",", '"a":1', '{"a":1,"b"}', "{null:1}", "{true:1}", "{[]:1}",
)  # fmt: skip
_BYTES = (
    b"", b" ", b"\n", b"\x00", b"\xef\xbb\xbf", b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00", b"\xfe\xff\x00{\x00}",
    b"\x00\x00\x00{\x00\x00\x00}", b'"\xff"', b'"\xc3"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"',
    b'"\xe2\x82"', b'{"\xff":1}', b"{}\x00", b"\x00{}", b"{\x0c}", b"\xc2\xa0{}", b"{}\xe2\x80\xa8", b"\x0b{}",
    b'{"a":"\x80"}', b"\x1b[31m{}", b"{\xa0}", b"\x85{}", b"PK\x03\x04", b"\x1f\x8b\x08\x00", b"%PDF-1.4", b"\x80\x04N.",
)  # fmt: skip
_FIELDS = ("path", "name", "payload", "source", "reason", "execution_ids", "worker_id", "subject", "value", "cron")


def not_json() -> list[bytes]:
    """Bodies that no route may take for JSON: 400 everywhere that reads JSON."""
    plain = [*_NUMBERS, *_WORDS, *_TEXTS, *_SHAPES]
    found = [text.encode() for text in plain if text not in ("null", "true", "false")]
    found += [text.encode("utf-8", "surrogatepass") for text in (f'{{"path":{text}}}' for text in plain[:70])]
    found += [
        *_BYTES,
        *(f'{{"{field}":'.encode() for field in _FIELDS),
        *(f'{{"{field}":"'.encode() for field in _FIELDS),
    ]
    found += [b"[" * depth for depth in (100, 1_000, 100_000)]
    found += [b'{"a":' * depth for depth in (100, 1_000, 100_000)]
    return list(dict.fromkeys(found))


def odd_json() -> list[bytes]:
    """Bodies that are JSON, or nearly, and unexpected: never a server error."""
    values = [
        "null",
        "true",
        "0",
        "-0",
        "-1",
        "1e308",
        "1.5",
        "1" * 400,
        "-" + "9" * 40,
        '""',
        '"x"',
        "[]",
        "{}",
        "[[]]",
    ]
    values += ['"\\u0000"', '"\\ud83d\\ude00"', '"\\u202e"', json.dumps("x" * 100_000), "[" * 90 + "]" * 90]
    values += ["[" * 101 + "]" * 101, '{"a":' * 99 + "1" + "}" * 99, json.dumps({"k" * 50_000: 1}), '{"":""}']
    found = [value.encode() for value in values]
    found += [f'{{"{field}":{value}}}'.encode() for field, value in product(_FIELDS, values[:14])]
    found += [
        b'{"path":"a","path":"b"}',
        b'{"a":{"b":1,"b":2}}',
        b'{"__proto__":{"x":1}}',
        b'{"$ref":"#"}',
        b'{"":1,"":2}',
    ]
    found += [b" \t\r\n{} \t\r\n", json.dumps(dict.fromkeys(map(str, range(5_000)))).encode()]
    return list(dict.fromkeys(found))


_CONTROLS = [chr(code) for code in (*range(1, 32), *range(127, 160))]
_INVISIBLE = [
    chr(code) for code in (0xAD, 0x34F, 0x61C, 0x115F, 0x180E, *range(0x200B, 0x2010), *range(0x2028, 0x202F))
]
_INVISIBLE += [chr(code) for code in (*range(0x2060, 0x2070), 0x3164, 0xFEFF, 0xFFA0, *range(0xFFF9, 0xFFFE), 0xE0001)]
_SCRIPTS = (
    "ﷺ", "田中さん", "Ω≈ç√∫", "ÅÍÎÏ˝", "和製漢語", "사회과학원", "ﾟ･✿ヾ╲", "❤️ 💔", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇺🇸🇷🇸", "👩🏽", "１２３",
    "١٢٣", "ثم نفس سقطت", "בְּרֵאשִׁית", "הָיְתָה", "اختبار", "ᚻᛖ ᚳᚹᚫᚦ", "Ｔｈｅ", "𝐓𝐡𝐞", "ʇsǝʇ", "Z̮̞̠͙͔ͅḀ̗̞͈̻", "i̇̀", "ﬁ", "ß", "İ", "ı",
    "Ǆ", "\u0344", "é", "e\u0301", "\U0001f600", "\U0010ffff", "\ufffe", "\uffff", "\U0001fffe", "ẞ", "ſ", "K", "𐐷",
)  # fmt: skip
_CODE = (
    "{{ 7*7 }}", "{{ config }}", "{% for x in range(10**9) %}{% endfor %}", "${7*7}", "#{7*7}", "<%= 7*7 %>", "{{''.__class__}}",
    "{{ keychain.api }}", "{# c #}", "%s%s%n", "%x%p", "{0.__class__}", "$(id)", "`id`", "; ls", "| cat /etc/passwd", "&& id",
    "' OR 1=1 --", "'; DROP TABLE event; --", '" OR ""="', "1;SELECT pg_sleep(9)", "\\'; --", "$$ SELECT 1 $$", "%' --", "_%",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "\"><svg onload=1>", "'><b>", "&lt;b&gt;",
    "<!--", "]]>", "<![CDATA[x]]>", "<?xml version='1.0'?>", "<!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]>",
    "../../etc/passwd", "..\\..\\windows", "/etc/passwd%00.png", "file:///etc/passwd", "C:\\con\\con", "CON", "AUX", "NUL", "~root",
    "\r\nSet-Cookie: a=b", "%0d%0aX: y", "a\r\n\r\nb", "=1+1", "+1", "@SUM(1)", "-1+1|cmd", "(() => {})()", "() { :;}; echo x",
    "{\"$gt\": \"\"}", "[object Object]", "__proto__", "constructor", "toString", "hasOwnProperty", "prototype", "\\u0041",
    "\\x41", "\\", "\\\\", "/", "//", "\"", "'", "''", "\"\"", "`", "´", "&", "%", "%%", "%20", "+", "?", "#", "*", "**", "a*b",
)  # fmt: skip
_WORDS_TEXT = (
    "undefined null NULL None nil true false True FALSE NaN Infinity -Infinity 0 1 -1 0x0 1e1000 1E2 .5 0.0 1/0 INF -0 +0 00 1,000 "
    "0b1 0o7 123456789012345678901234567890 yes no on off y n ~ ! !! !!python/object - --- ... : , ; . _ | > & * ? [] {} () <> "
    "2026-02-30 24:00 0000-00-00 1970-01-01T00:00:00Z"
).split()


def strings() -> list[str]:
    """Texts that are stored and given back as they are, or refused."""
    found = [*_CONTROLS, *(f"a{one}b" for one in _CONTROLS), *_INVISIBLE, *(f"a{one}b" for one in _INVISIBLE[:20])]
    found += [
        *_SCRIPTS,
        *(f"a {one} b" for one in _SCRIPTS),
        *_CODE,
        *(f"x{one}" for one in _CODE),
        *_WORDS_TEXT,
        *_nested(),
    ]
    found += [
        "",
        " ",
        "  ",
        "\u00a0",
        "\u3000",
        " a",
        "a ",
        "\ta",
        "a\n",
        "\x00",
        "a\x00b",
        "x" * 10_000,
        "ü" * 5_000,
        "🎉" * 2_000,
    ]
    return list(dict.fromkeys(found))


def _nested() -> Iterator[str]:
    for opening, closing in (("(", ")"), ("[", "]"), ("{", "}"), ("{{", "}}"), ("<", ">")):
        yield from (opening * depth + closing * depth for depth in (2, 50, 500))
