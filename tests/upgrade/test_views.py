"""A store of the version that kept a row for each event is migrated, and everything that is shown of it stays as it
was: what the server and the commands of that version showed is what those of today show (reliability.md §3.8).

`every_shape` wrote the store and the answers with the program of that day. With `NOETL_EARLIER=FOLDER`, a source tree
of that day (`git archive`), the program itself is asked about the very store, right before it is migrated.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from math import isclose
from operator import itemgetter
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from noetl.store.postgres.database import address_of
from tests import forked
from tests.contracts.stores import fresh_url
from tests.upgrade.every_shape import LISTS, RESULTS, Program, command_outputs, shown
from tests.upgrade.goldens import answers_of, hash_of, make_file, make_schema

NAMES = {"sqlite": "shapes_sqlite_0010", "postgres": "shapes_postgres_0009"}
FEW, MANY = 48, 100_000
EARLIER = os.environ.get("NOETL_EARLIER")
# Commands are processes, so one shape stands for all where little is to be spent.
COMMANDED = ("loop",)
NAMING = ("execution_id", "parent_execution_id")  # what of a row of the list names an execution
_NUMBERS = {
    "sqlite": "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i FROM n",
    "postgres": "SELECT generate_series(1, {}) AS i",
}
_MARK = {"sqlite": "printf('-%06d', c.i)", "postgres": "'-' || lpad(c.i::text, 6, '0')"}
_EVENT = (
    "seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema, payload,"
    " checksum"
)
# Of each table the columns that name an execution, or what must be there once, and the others.
_TABLES = {
    "event": (["execution_id"], _EVENT),
    "execution": (
        NAMING,
        "trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, wake_at",
    ),
    "wait": (["execution_id", "wait_id"], "step_run_id, kind, name, correlation, opened_at"),
    "task": (["execution_id", "task_id"], "state, role, claimed_by, created_at, body"),
}


def _copying(kind: str, number: int) -> list[str]:
    """Statements that copy every execution, as the program of that day would have written it."""
    made = []
    for table, (marked, others) in _TABLES.items():
        copied = ", ".join(f"t.{one} || {_MARK[kind]}" for one in marked)
        same = ", ".join(f"t.{one.strip()}" for one in others.split(","))
        rows = f"SELECT {copied}, {same} FROM {table} AS t CROSS JOIN ({_NUMBERS[kind].format(number)}) AS c"
        made.append(f"INSERT INTO {table} ({', '.join(marked)}, {others}) {rows}")
    return made


async def _fill_schema(url: str, number: int) -> None:
    await make_schema(NAMES["postgres"], url)
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    try:
        for statement in _copying("postgres", number):
            await connection.execute(statement)
        await connection.execute("ANALYZE")
    finally:
        await connection.close()


def _large(kind: str, folder: Path, number: int) -> str:
    """A store of that version in which each execution was copied so many times."""
    for name, text in answers_of(NAMES[kind])["results"].items():
        (file := folder / RESULTS / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    if kind == "postgres":
        asyncio.run(_fill_schema(url := fresh_url(), number))
        return url
    make_file(NAMES[kind], folder / "old.db")
    with closing(sqlite3.connect(folder / "old.db")) as file, file:
        for statement in _copying("sqlite", number):
            file.execute(statement)
    return str(folder / "old.db")


def _shorter(then: Any, now: Any) -> Any:
    """`now` without what was added since: keys of mappings that `then` does not have, the status of a step that was
    stopped with its execution, which had none, and that of a step whose runs no worker had taken yet, which were said
    to run. Sentences are the program's own: they name the place of the store, and
    are worded anew now and then."""
    if isinstance(then, dict) and isinstance(now, dict):
        if {"step", "tokens", "side_runs"} <= then.keys() and (then["status"], now["status"]) == (None, "cancelled"):
            now = {**now, "status": None}
        if (then.get("status"), now.get("status")) == ("running", "queued") and now.get("queued") == then.get(
            "running"
        ):
            now = {**now, "status": "running"}
        return {
            key: value if key == "sentences" else _shorter(value, now[key]) for key, value in then.items() if key in now
        }
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return [_shorter(*pair) for pair in zip(then, now, strict=True)]
    # Newer Pythons add up the places of a drawing with another last digit than the one that made the record.
    return then if isinstance(then, float) and isinstance(now, float) and isclose(then, now) else now


def _plain(answer: Any) -> Any:
    """What a command printed, parsed where it is JSON, so that what was added since can be left out."""
    if not isinstance(answer, list | tuple):
        return answer
    code, text = answer
    lines = text.splitlines()
    for candidate in ([text], lines):
        try:
            return [code, *(json.loads(one) for one in candidate)]
        except ValueError:
            continue
    return [code, *lines]


def _differences(then: dict[str, Any], now: dict[str, Any], where: str) -> list[str]:
    """Views that are not what they were, each with both."""
    found = []
    for name, answer in then.items():
        before, after = _plain(answer), _plain(now[name])
        if (after := _shorter(before, after)) != before:
            found.append(f"{where} {name}:\n  {json.dumps(before)}\n  {json.dumps(after)}")
    return found


class Views:
    """What one program shows of a store: views of the sample, whole lists, and what commands tell."""

    def __init__(
        self, program: Program, db: str, folder: Path, sample: dict[str, str], commanded: Iterable[str]
    ) -> None:
        serving = ("server", "start", "--port", "0", "--db", db, "--token-file", str(folder / "token"))
        with program.serving(*serving) as server:
            self.views = {name: shown(server, one) for name, one in sample.items()}
            self.lists = {wanted: server.listed(wanted) for wanted in LISTS}
        self.commands = {name: command_outputs(program, db, sample[name]) for name in commanded}


def _renamed(answer: Any, copy: str) -> Any:
    """An answer on a copy as one on the execution it was copied from."""
    return json.loads(json.dumps(answer).replace(f"-{copy.rpartition('-')[2]}", ""))


def _expected_lists(recorded: dict[str, Any], copies: int) -> dict[str, list[Any]]:
    """Each row of a list as often as it was copied, by id."""
    marks = ["", *(f"-{at:06d}" for at in range(1, copies + 1))]
    lists = {
        wanted: [{**row, **{key: row[key] + mark for key in NAMING if row.get(key)}} for row in rows for mark in marks]
        for wanted, rows in recorded["lists"].items()
    }
    return {wanted: sorted(rows, key=itemgetter("execution_id")) for wanted, rows in lists.items()}


def _program(folder: Path, **environment: str) -> Program:
    return Program(forked.NOETL, folder, processes=forked, **environment)


@pytest.mark.req("SRV-12", "EVT-07")
@pytest.mark.parametrize("number", [FEW, pytest.param(MANY, marks=[pytest.mark.deep, pytest.mark.timeout(7_200)])])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_view_of_a_migrated_store_is_unchanged(kind: str, number: int, tmp_path: Path) -> None:
    recorded = answers_of(NAMES[kind])
    copies = -(-number // len(recorded["lists"][""]))
    db = _large(kind, tmp_path, copies)
    ends = {f"{name} {at}": f"{one}-{at:06d}" for name, one in recorded["ids"].items() for at in (1, copies)}
    sample = {**recorded["ids"], **ends}
    commanded = [name for name in sample if number == MANY or name in COMMANDED]
    earlier = _program(tmp_path, PYTHONPATH=f"{EARLIER}/src") if EARLIER else None
    before = Views(earlier, db, tmp_path, sample, commanded) if earlier else None
    held = hash_of(db)

    code, said = _program(tmp_path).call("db", "migrate", "--db", db)

    assert code == 0, said
    assert hash_of(db) == held, "what SQL shows of all events and executions"
    now = Views(_program(tmp_path), db, tmp_path, sample, commanded)
    differences = []
    for name, one in sample.items():
        shape = name.split()[0]
        then, found = recorded["views"][shape], now.views[name]
        differences += _differences(then, found if name == shape else _renamed(found, one), name)
        if name in now.commands:
            then, found = recorded["commands"][shape], now.commands[name]
            differences += _differences(then, found if name == shape else _renamed(found, one), f"noetl, {name}:")
    assert not differences, "\n".join(differences)
    for wanted, rows in _expected_lists(recorded, copies).items():
        assert _shorter(rows, sorted(now.lists[wanted], key=itemgetter("execution_id"))) == rows, f"the list {wanted}"
    if before is not None:
        _compare(before, now)


def _compare(before: Views, now: Views) -> None:
    """The program of that day and that of today on one store: the order of lists, too."""
    for wanted, rows in before.lists.items():
        assert _shorter(rows, now.lists[wanted]) == rows, f"the list {wanted}"
    differences = [one for name in before.views for one in _differences(before.views[name], now.views[name], name)]
    differences += [
        one for name in before.commands for one in _differences(before.commands[name], now.commands[name], name)
    ]
    assert not differences, "\n".join(differences)
