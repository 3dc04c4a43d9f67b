"""Which texts of a material are secret, and records masked whole: content in any shape, names in none (KEY-06)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.base.redaction import MASK, Redactor
from noetl.events.outcomes import Error, Meta, Outcome, Status, TaskResult
from noetl.events.secret_materials import Material, masked, secrets_in
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import Decided, JobPlaced, TaskProcessed

SECRET = "hunter22"
REDACTOR = Redactor([SECRET])
META = Meta(attempt=1, started_at=0.0, finished_at=1.0, trace_id="t", task_run_id="r")


def processed(**outcome: Any) -> TaskProcessed:
    whole = Outcome(**{"status": Status.SUCCESS, "meta": META, **outcome})
    decision = Decided(rule=0, do="continue", next=SECRET)
    return TaskProcessed(task=SECRET, visit=1, attempt=1, task_run_id=SECRET, outcome=whole, decision=decision)


class Item(msgspec.Struct, frozen=True):
    anything: Any
    name: str = SECRET


class Shapes(msgspec.Struct, frozen=True):
    """Shapes that events of tomorrow may have."""

    many: tuple[Item, ...] = ()
    named: dict[str, Item] = {}
    numbers: tuple[int, ...] = (1, 2)
    unset: Any = msgspec.UNSET


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize(
    "record",
    [
        processed(result=f"it is {SECRET}"),
        processed(result={SECRET: [SECRET]}),
        processed(helpers={"http": {"headers": {"x": SECRET}}}),
        processed(meta=msgspec.structs.replace(META, stdout=f"> {SECRET}\n")),
        processed(error=Error(kind="k", message=SECRET, details={"a": SECRET}, cause=Error(kind="k", message=SECRET))),
        StepDone(result=TaskResult(result=[SECRET])),
        StepFailed(error=Error(kind="k", message="m", code=SECRET)),
        Shapes(many=(Item(1), Item(SECRET)), named={"a": Item({"b": SECRET})}),
    ],
    ids=lambda record: type(record).__name__,
)
def test_secret_content_is_masked_everywhere(record: msgspec.Struct) -> None:
    before = msgspec.json.encode(record)

    clean = masked(record, REDACTOR)

    assert MASK.encode() in msgspec.json.encode(clean)
    assert msgspec.json.encode(record) == before, "it works on copies"
    names = msgspec.json.encode(masked(record, Redactor([]))).count(SECRET.encode())
    assert msgspec.json.encode(clean).count(SECRET.encode()) < names


def test_data_in_a_tuple_of_a_record_is_masked() -> None:
    refused = ({"name": "backend", "refused": f"the provider said: {SECRET}"}, {"name": "other"})
    placed = JobPlaced(
        backend="other", provider="p", prefer="cost", considered=refused, task="t", visit=1, attempt=1, task_run_id="r"
    )

    assert masked(placed, REDACTOR).considered[0]["refused"] == f"the provider said: {MASK}"
    assert masked(placed, Redactor(["another secret"])) is placed


def test_names_and_ids_are_not_masked() -> None:
    clean = masked(processed(result=SECRET), REDACTOR)

    assert (clean.task, clean.task_run_id, clean.decision.next, clean.outcome.result) == (SECRET, SECRET, SECRET, MASK)


def test_a_record_without_secrets_is_returned_unchanged() -> None:
    record = processed(result={"rows": [1, 2]}, helpers={"py": {"exception": None}})

    assert masked(record, REDACTOR) is record
    assert masked(Shapes(), REDACTOR) == Shapes()


def test_a_secret_number_is_masked_in_results_and_not_in_counts() -> None:
    redactor = Redactor(["123456"])

    clean = masked(processed(result=123456, meta=msgspec.structs.replace(META, internal_attempts=123456)), redactor)

    assert (clean.outcome.result, clean.outcome.meta.internal_attempts) == (MASK, 123456)


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize(
    ("fields", "secret"),
    [
        ({"value": "one text"}, {"one text"}),
        (
            {"type": "postgres", "host": "localhost", "database": "postgres", "user": "app", "password": "hunter22"},
            {"hunter22", "app:hunter22"},
        ),
        (
            {"dsn": "postgresql://app:p%40ss-word@db:5432/x"},
            {"postgresql://app:p%40ss-word@db:5432/x", "p%40ss-word", "p@ss-word"},
        ),
        (
            {"deep": {"keys": ["first-key", {"second": "second-key"}]}, "n": 1234567},
            {"first-key", "second-key", "1234567"},
        ),
        ({"flag": True, "none": None, "port": 5432}, set()),
    ],
)
def test_the_secret_texts_of_a_material(fields: dict[str, Any], secret: set[str]) -> None:
    assert set(secrets_in(Material(fields=fields))) == secret


@pytest.mark.req("KEY-06")
def test_each_line_of_a_multi_line_key_is_secret() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n-----END PRIVATE KEY-----\n"

    found = set(secrets_in(Material(fields={"private_key": key})))

    assert "MIIEvQIBADANBgkqhkiG9w0" in found
    assert key in found
    assert "short" not in found
