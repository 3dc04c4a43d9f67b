"""Canaries through every tool kind: what each does with a secret when it works and when it fails (KEY-06)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.security.canary_yard import COUNT, GOES_ON, Yard, playbook, secret
from tests.servers import nats
from tests.servers.http import HttpServer, Request, reply
from tests.servers.postgres import pg_auth

__all__ = ["pg_auth"]

SOME = [*range(15), 19]  # one of every kind of text, long ones among them
ALL = " ".join(secret(number) for number in range(COUNT))


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def echo(request: Request) -> Any:
    """Everything that came, in several shapes; or what the path asks for."""
    told = {"headers": request.headers, "target": request.target, "body": request.body.decode("utf-8", "replace")}
    match request.path.split("/")[1]:
        case "moved":
            return reply(302, headers={"Location": "/echo?" + request.target.partition("?")[2]})
        case "lost":
            return reply(302, headers={"Location": "http://127.0.0.1:1/?" + request.target.partition("?")[2]})
        case "wrong":
            return reply(500, text=json.dumps(told))
        case "much":
            return reply(json=[told] * 100)
        case "broken":
            return reply(text="{" + request.body.decode(), headers={"Content-Type": "application/json"})
        case "rows":
            return reply(json=request.json["rows"])
        case _:
            return reply(
                json=told, headers={"X-Echo": request.headers.get("x-key", "").encode("ascii", "ignore").decode()}
            )


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer({"*": echo}) as server:
        yield server


def http_tasks(url: str) -> Iterator[dict[str, Any]]:
    host = url.partition("://")[2]
    for number in SOME:
        text, quoted = secret(number), f"{{{{ keychain.c{number}.value | urlencode }}}}"
        for address in (
            f"http://user:{quoted}@{host}/echo",
            f"http://user:{text}@{host}/echo",
            f"{url}/echo/{text}?q={text}",
            f"{url}/moved?q={quoted}",
            f"{url}/lost?q={quoted}",
            f"http://127.0.0.1:1/{text}",
            f"http://{text}/",
            f"{text}://127.0.0.1/",
        ):
            yield {"kind": "http", "url": address}
        basic = {"type": "basic", "username": "user", "password": text}
        yield {"kind": "http", "url": f"{url}/echo", "auth": basic}
        yield {"kind": "http", "url": f"{url}/wrong", "auth": {"type": "bearer", "token": text}}
        yield {"kind": "http", "url": f"{url}/much", "method": "POST", "body": text, "headers": {"X-Key": text}}
        yield {"kind": "http", "url": f"{url}/echo", "headers": {text: "x"}}
        yield {"kind": "http", "url": f"{url}/echo", "params": {"q": text, text: "x"}}
        yield {"kind": "http", "url": f"{url}/echo", "method": text}
    yield {"kind": "http", "url": f"{url}/broken", "method": "POST", "body": ALL}
    yield {"kind": "http", "url": f"{url}/wrong", "method": "POST", "json": {"all": ALL}}


@pytest.mark.req("KEY-06")
def test_http_leaks_nothing(yard: Yard, server: HttpServer) -> None:
    events = yard.run(playbook(http_tasks(server.url)))

    assert len(server.requests) > 5 * len(SOME)
    assert len({(error or {}).get("kind") for error in yard.outcomes(events).values()}) > 1
    assert yard.left() == []


def postgres_tasks() -> Iterator[dict[str, Any]]:
    def sql(command: str, **more: Any) -> dict[str, Any]:
        return {"kind": "postgres", "auth": "pg", "command": command, **more}

    yield sql("CREATE TABLE kept (id int PRIMARY KEY, a text UNIQUE, b int NOT NULL, c varchar(10))")
    for number in SOME:
        text = secret(number)
        shapes = f"'{text}' AS plain, encode('{text}'::bytea, 'hex') AS hex" if number == 0 else f"'{text}' AS plain"
        yield sql(f"SELECT {shapes}, to_json('{text}'::text)::text AS j")
        yield sql(f"SELECT '{text}'::text::int")
        yield sql(f"INSERT INTO kept VALUES ({number}, '{text}', 1)")
        yield sql(f"INSERT INTO kept VALUES ({number} + 100, '{text}', 1)")
        yield sql(f"INSERT INTO kept VALUES ({number} + 200, 'x' || '{text}', NULL)")
        yield sql(f"INSERT INTO kept VALUES ({number} + 300, 'y', 1, '{text}')")
        yield sql("INSERT INTO kept (id, a) VALUES ($1, $2)", params=[number + 400, text])
        yield {"kind": "postgres", "auth": "pg", "table": "kept", "args": {"id": text, "a": "z", "b": 1}}
        yield {"kind": "postgres", "auth": "pg", "table": "kept", "args": {text: 1}}
        yield sql(f"{{% set table = {text.strip('{} ')} %}}SELECT * FROM {{{{ table }}}}")  # past what the checker sees
        yield sql("SELECT 1", spec_isolation=text)
        for auth in (
            {"dsn": f"postgresql://user:{text}@127.0.0.1:1/db"},
            {"dsn": f"postgresql://user:{text}@[bad/db"},
            {"host": "127.0.0.1", "port": 1, "user": "u", "password": text, "database": "d"},
            {"host": "127.0.0.1", "port": text, "user": "u", "database": "d"},
            f"postgresql://user:{text}@127.0.0.1:1/db",
        ):
            yield {"kind": "postgres", "auth": auth, "command": "SELECT 1"}
    yield sql(f"SELECT encode('{secret(9)}'::bytea, 'base64') AS in_lines", name="in_lines")
    yield {"kind": "secrets", "name": "looked", "secret": "c3"}
    yield sql("SELECT * FROM {{ looked.value }}", name="as_name")
    yield sql("SELECT '{{ looked.value }}' AS bound", name="as_value")


@pytest.mark.req("KEY-06", "TOOL-09")
def test_postgres_leaks_nothing(yard: Yard, pg_auth: dict[str, Any]) -> None:
    yard.environment["PG"] = json.dumps(pg_auth)
    tasks = list(postgres_tasks())
    for task in tasks:
        if isolation := task.pop("spec_isolation", None):
            task["spec"] = {"isolation": isolation, "policy": {"rules": [{"else": {"then": {"do": "continue"}}}]}}
    events = yard.run(playbook(tasks, more=[{"name": "pg", "kind": "env", "var": "PG", "format": "json"}]))

    outcomes = yard.outcomes(events)
    assert "reads a secret" in outcomes["as_name"]["message"]
    assert [outcomes["as_value"], outcomes["in_lines"]] == [None, None]
    assert len({error.get("code") for error in outcomes.values() if error and error["kind"].startswith("pg")}) > 3
    assert yard.left() == []


def duckdb_tasks() -> Iterator[dict[str, Any]]:
    def sql(command: str, **more: Any) -> dict[str, Any]:
        return {"kind": "duckdb", "command": command, **more}

    for number in [*SOME[1:13:3], 19]:
        text = secret(number)
        yield sql(f"SELECT '{text}' AS plain, hex('{text}') AS hex, base64('{text}'::blob) AS code")
        yield sql(f"SELECT CAST('{text}' AS INTEGER)")
        yield sql(f"SELECT error('{text}')")
        yield sql(f"SELECT * FROM read_csv('{text}')")
        yield sql(f"CREATE TABLE t (a text, b int); INSERT INTO t VALUES ('{text}', '{text}')")
        yield sql("SELECT 1", database=text + "/none.duckdb")
        yield sql("SELECT $1::int", params=[text])
        yield sql("SELECT 1", auth={"dsn": f"postgresql://user:{text}@127.0.0.1:1/db"})
    yield {"kind": "secrets", "name": "looked", "secret": "c3"}
    yield sql("SELECT * FROM {{ _prev.value }}", name="as_previous")
    yield sql("SELECT * FROM {{ t }}", name="as_args", args={"t": "{{ looked.value }}"})
    yield sql("SELECT * FROM {{ looked.value }}", name="as_name")
    yield sql("SELECT '{{ looked.value }}' AS bound", name="as_value")


@pytest.mark.req("KEY-06", "TOOL-09")
def test_duckdb_leaks_nothing(yard: Yard) -> None:
    outcomes = yard.outcomes(yard.run(playbook(duckdb_tasks()), output="jsonl"))

    assert outcomes["t0"] is None
    assert outcomes["t1"] is not None
    for name in ("as_previous", "as_args", "as_name"):
        assert "reads a secret" in outcomes[name]["message"]
    assert outcomes["as_value"] is None
    assert yard.left() == []


def program_tasks() -> Iterator[dict[str, Any]]:
    prints = "import os, sys\nfor out in (sys.stdout, sys.stderr): print(os.environ['S'] * 1, file=out)\nsys.exit(3)\n"
    for number in SOME[::2]:
        text = secret(number)
        yield {"kind": "shell", "cmds": f"printf '%s\\n' {text}"}
        yield {"kind": "shell", "cmds": ["printf", "%s", text], "env": {"S": text}}
        yield {"kind": "shell", "cmds": "cat; cat >&2 <<< x; exit 4", "stdin": text}
        yield {"kind": "shell", "cmds": [text]}
        yield {"kind": "shell", "cmds": "true", "cwd": text}
        yield {"kind": "shell", "cmds": f"{text} x"}
        yield {"kind": "script", "language": "python", "code": prints, "env": {"S": text}}
        yield {"kind": "script", "script": text}
    yield {"kind": "shell", "cmds": 'printf "%s" "$S"; printf "%s" "$S" >&2; exit 1', "env": {"S": ALL}}
    for pad in range(3_900, 4_000, 20):  # an error tells the end of what was printed: cut anywhere in the secret
        code = f"import os, sys; sys.stderr.write(os.environ['S'] + 'x' * {pad}); sys.exit(1)"
        yield {"kind": "script", "language": "python", "code": code, "env": {"S": secret(9)}}
    much = "import os, sys; sys.stdout.write(('x' * (1048576 - 40)) + os.environ['S'])"
    yield {"kind": "script", "language": "python", "code": much, "env": {"S": secret(9)}}


def conversion_tasks() -> Iterator[dict[str, Any]]:
    """Secrets as values, as names of columns, files and types, and as logins; files are written where nobody looks."""
    login = {"endpoint": "http://127.0.0.1:1"}
    for number in SOME:
        text = secret(number)
        yield {"kind": "convert", "source": [{"a": text}]}
        yield {"kind": "convert", "source": [{"a": text}], "target": {"format": "xml"}}
        yield {"kind": "convert", "source": [{"a": text}], "columns": {"a": "BIGINT"}}
        yield {"kind": "convert", "source": [{"a": 1}], "columns": [text]}
        yield {"kind": "convert", "source": {"text": f"<r><a>{text}</b></r>", "format": "xml"}}
        yield {"kind": "convert", "source": {"text": f"a,b\n1,2,{text}\n", "format": "csv"}}
        yield {"kind": "convert", "source": f"{text}.csv"}
        yield {"kind": "archive", "op": "list", "source": f"{text}.zip"}
        key = {"private_key": text, "passphrase": text}
        yield {"kind": "pgp", "op": "decrypt", "source": "canaries.yaml", "target": "out", "auth": key}
        yield {"kind": "pgp", "op": "encrypt", "source": "canaries.yaml", "target": "out", "recipients": text}
        auth = {**login, "access_key_id": text, "secret_access_key": text}
        yield {"kind": "convert", "source": "s3://b/k.csv", "auth": auth, "spec": {**GOES_ON, "timeout": 20}}


@pytest.mark.req("KEY-06")
def test_conversions_and_archives_leak_nothing(yard: Yard) -> None:
    tasks = list(conversion_tasks())

    outcomes = yard.outcomes(yard.run(playbook([*tasks, {"kind": "convert", "source": [{"a": ALL}]}])))

    kinds = [error and error["kind"] for error in outcomes.values()]
    assert kinds.count(None) == 2 * len(SOME) + 1
    assert {"convert.data", "convert.input"} <= set(kinds)
    assert yard.left() == []


@pytest.mark.req("KEY-06")
def test_programs_leak_nothing(yard: Yard) -> None:
    outcomes = yard.outcomes(yard.run(playbook(program_tasks()), "--allow", "shell,script", output="json"))

    assert outcomes["t0"] is None
    assert outcomes["t2"] is not None
    assert yard.left() == []


def nats_tasks(url: str) -> Iterator[dict[str, Any]]:
    for number in [*SOME[1:13:3], 19]:
        text = secret(number)
        for op in (
            {"op": "publish", "subject": "canaries", "data": text, "headers": {"X-Key": "x"}},
            {"op": "publish", "subject": text, "data": text},
            {"op": "kv_put", "bucket": "canaries", "key": f"k{number}", "data": {"s": text}, "create": True},
            {"op": "kv_get", "bucket": "canaries", "key": f"k{number}", "format": "text"},
            {"op": "kv_get", "bucket": "canaries", "key": f"k{number}", "format": "base64"},
            {"op": "kv_get", "bucket": "canaries", "key": text},
            {"op": "kv_get", "bucket": text, "key": "x"},
            {"op": "object_put", "bucket": "things", "key": f"k{number}", "data": text, "create": True},
            {"op": "object_list", "bucket": "things"},
        ):
            yield {"kind": "nats", "auth": {"url": url}, **op}
        for auth in (
            {"url": f"nats://user:{text}@127.0.0.1:1"},
            {"url": "nats://127.0.0.1:1", "user": "u", "password": text},
            {"url": url, "nkey_seed": text},
            {"url": text},
        ):
            yield {"kind": "nats", "auth": auth, "op": "kv_keys", "bucket": "canaries"}


@pytest.mark.req("KEY-06")
def test_nats_leaks_nothing(yard: Yard) -> None:
    outcomes = yard.outcomes(yard.run(playbook(nats_tasks(nats.server().url))))

    assert [outcomes[name] for name in ("t0", "t2", "t3", "t4")] == [None] * 4
    assert outcomes["t9"] is not None
    assert yard.left() == []


def kept_tasks(url: str, pg: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for number in [0, *SOME[1:13:2], 19]:
        text = secret(number)
        yield {"kind": "artifact", "name": f"kept{number}", "data": {"s": [text] * 3, text: 1}}
        yield {"kind": "artifact", "ref": f"{{{{ kept{number} }}}}"}
        yield {"kind": "artifact", "data": "x", "key": text, "media_type": text}
        yield {"kind": "artifact", "ref": text}
        rows = {"kind": "http", "url": f"{url}/rows", "method": "POST", "json": {"rows": [{"id": 1, "a": text}]}}
        yield {"kind": "transfer", "source": {**rows, "headers": {"X": "1"}}, "target": {"kind": "artifact"}}
        yield {"kind": "transfer", "source": {**rows, "rows": text}, "target": {"kind": "artifact"}}
        yield {"kind": "transfer", "source": rows, "target": {"kind": "postgres", "auth": pg, "table": text}}
        broken = {"kind": "postgres", "auth": {"dsn": f"postgresql://u:{text}@127.0.0.1:1/d"}, "table": "t"}
        yield {"kind": "transfer", "source": rows, "target": broken}
        yield {
            "kind": "transfer",
            "source": {"kind": "duckdb", "query": f"SELECT '{text}'::int AS x"},
            "target": broken,
        }
        yield {
            "kind": "transfer",
            "source": {"kind": "duckdb", "query": f"SELECT '{text}' AS x"},
            "target": {"kind": "artifact"},
        }
        yield {"kind": "secrets", "secret": text}
        yield {"kind": "secrets", "secret": f"c{number}", "provider": text}
        yield {"kind": "secrets", "secret": text, "provider": "file"}
        yield {"kind": "secrets", "secret": text, "op": "refresh"}


@pytest.mark.req("KEY-06")
def test_artifacts_transfers_and_lookups_leak_nothing(yard: Yard, server: HttpServer, pg_auth: dict[str, Any]) -> None:
    outcomes = yard.outcomes(yard.run(playbook(kept_tasks(server.url, pg_auth)), output="jsonl"))

    assert outcomes["kept0"] is None
    assert outcomes["t1"] is None
    assert yard.left() == []
