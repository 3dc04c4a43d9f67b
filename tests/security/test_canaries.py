"""Canaries: many random secrets through tools, errors, output and encodings, and not a byte of them left (KEY-06).

Everything a run leaves is searched: the store's file and its WAL, the results folder, and what was printed.
"""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path
from textwrap import indent

import pytest

from noetl.base.secret_forms import forms_of
from tests.cli.running import call
from tests.servers.http import HttpServer, Reply, Request, reply

COUNT = 50
_SPICES = ["", "/", "+=", "&?", '"', "\\", "'", "ü", "\t", " <>"]

_CODE = """
import base64, html, json, urllib.parse
def forms(s):
    b = s.encode()
    yield from (s, repr(s), json.dumps(s), json.dumps([s], ensure_ascii=False), html.escape(s))
    yield from (b.hex(), b.hex().upper())
    yield from (urllib.parse.quote(s), urllib.parse.quote(s, safe=''), urllib.parse.urlencode({'q': s}))
    for n in range(3):
        yield base64.b64encode(b'x' * n + b + b'yz').decode()
        yield base64.urlsafe_b64encode(b'x' * n + b).decode()
values = [value for entry in keychain.values() for value in entry.values()]
lines = [f'<{form}>' for value in values for form in forms(value)]
"""

_ENDS = {
    "returns": "result = {'lines': lines, 'keys': {line: 1 for line in lines}}",
    "returns_much": "result = lines * 40",
    "prints": "print('\\n'.join(lines))\nresult = len(lines)",
    "raises": "raise ValueError(' '.join(lines[:200]))",
    "exits": "import sys\nprint(*lines)\nsys.exit(lines[0])",
    "nested": "result = json.dumps({'a': json.dumps(lines[:300])})",
}


def playbook(url: str) -> str:
    names = [f"c{number}" for number in range(COUNT)]
    entries = [
        f"  - {{name: {name}, kind: env, var: CANARY_{number}}}\n"
        if number % 2
        else f"  - {{name: {name}, kind: credential}}\n"
        for number, name in enumerate(names)
    ]
    tasks = "".join(
        f"      - name: {name}\n        kind: python\n        code: |\n{indent(_CODE + end, ' ' * 10)}\n"
        "        spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {was: '{{ outcome }}'}}}}]}}\n"
        for name, end in _ENDS.items()
    )
    calls = "".join(
        f"      - name: http_{name}\n        kind: http\n        method: POST\n        url: '{url}/{status}'\n"
        f"        auth: {name}\n        headers: {{X-Key: '{{{{ keychain.{name}.value | urlencode }}}}'}}\n"
        f"        json: {{secret: '{{{{ keychain.{name}.value }}}}'}}\n"
        "        spec: {policy: {rules: [{else: {then: {do: continue}}}]}}\n"
        for name, status in (("c0", 200), ("c2", 500), ("c3", 200))
    )
    looked = "      - {name: looked, kind: secrets, secret: c4}\n"
    looked += "      - {name: hold, kind: noop, args: {v: '{{ looked }}'}}\n"
    return (
        "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: canaries, path: tests/canaries}\n"
        "keychain:\n" + "".join(entries) + "workflow:\n  - step: start\n    tool:\n" + tasks + calls + looked
    )


def echo(request: Request) -> Reply:
    status = int(request.path.rpartition("/")[2])
    return reply(status, json={"headers": request.headers, "body": request.body.decode()})


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize("output", ["text", "jsonl", "json"])
def test_no_byte_of_a_secret_remains_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    halves = [(secrets.token_urlsafe(9), secrets.token_urlsafe(6)) for _ in range(COUNT)]
    canaries = [first + _SPICES[n % len(_SPICES)] + second for n, (first, second) in enumerate(halves)]
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    db = tmp_path / "data" / "store.db"
    for number, canary in enumerate(canaries):
        monkeypatch.setenv(f"CANARY_{number}", canary)
        if number % 2 == 0:
            assert call("credential", "set", f"c{number}", "--db", str(db), stdin=canary)[0] == 0
    watching = sqlite3.connect(db)
    watching.execute("BEGIN")
    watching.execute("SELECT count(*) FROM event").fetchone()  # as long as somebody reads, the WAL stays
    with HttpServer({"*": echo}) as server:
        file = tmp_path / "canaries.yaml"
        file.write_text(playbook(server.url))

        code, out, err = call("run", str(file), "--db", str(db), "-o", output)

    assert code == 0, err
    assert [request.json["secret"] for request in server.requests] == [canaries[0], canaries[2], canaries[3]]
    left = {str(path): path.read_bytes() for path in db.parent.rglob("*") if path.is_file()}
    left |= {"standard output": out.encode(), "standard error": err.encode()}
    assert any(name.endswith("-wal") and body for name, body in left.items())
    assert any(".results" in name for name in left)
    assert b"***" in left[str(db) + "-wal"]
    watching.close()
    wanted = {half for pair in halves for half in pair} | {form for canary in canaries for form in forms_of(canary)}
    assert [(where, text) for where, body in left.items() for text in wanted if text.encode() in body] == []
