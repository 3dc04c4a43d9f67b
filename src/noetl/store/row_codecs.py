"""Rows as the databases hold them, and the values they are made of. Columns are in the order of the fields; an event's
payload, a message's data and a whole human task are JSON text. Next to a payload is its checksum: a corrupted byte is
detected when it is read (reliability.md §4.2). Also the filters of executions for backends that have no SQL for them.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from noetl.base.errors import BackendError, UnreadableError
from noetl.events.envelope import Event, decode_payload, encode_payload
from noetl.events.payloads import EventSource
from noetl.store.contract import Commit, ExecutionRow, OrderRow, OrderState
from noetl.store.human_tasks import TaskRow
from noetl.store.notices import NoticeRow, NoticeState
from noetl.store.row_summary import stored_summary, summary_at
from noetl.store.waits import KeptRow, MessageRow, WaitRow

_Row = TypeVar("_Row", bound=msgspec.Struct)


def struct_of(kind: type[_Row], row: Sequence[Any]) -> _Row:
    """A row whose columns are in the order of the fields."""
    return kind(**dict(zip(kind.__struct_fields__, row, strict=True)))


def event_of(execution_id: str, row: Sequence[Any]) -> Event:
    """The event of a row. UnreadableError if it differs from what was written, or a newer program wrote it."""
    seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema, *content = row
    body, checksum, trace_id = content
    try:
        # A CRC instead of a hash: it protects against failing disks, not against people, and is computed for every
        # event.
        if checksum is not None and crc32(body.encode()) != checksum:  # none: written before there were checksums
            raise ValueError("it differs from what was written")
        return Event(
            execution_id=execution_id,
            seq=seq,
            event_id=event_id,
            ts=ts,
            source=EventSource(source),
            payload=decode_payload(event_type, body, schema),
            trace_id=trace_id,
            parent_id=parent_id,
            step=step,
            step_run_id=step_run_id,
            task_run_id=task_run_id,
            on_behalf=bool(on_behalf),
            schema=schema,
        )
    except (ValueError, msgspec.DecodeError) as problem:
        raise UnreadableError(f"event {seq} of execution {execution_id} is damaged: {problem}") from problem
    except BackendError as problem:
        raise UnreadableError(f"event {seq} of execution {execution_id} cannot be read: {problem}") from problem


def payload_bodies(commit: Commit) -> Iterable[bytes]:
    """The payloads of its events as JSON text."""
    # The batch has encoded them already, to know which are too large for an event.
    return commit.bodies or (encode_payload(event.payload) for event in commit.events)


def execution_of(row: Sequence[Any]) -> ExecutionRow:
    found = struct_of(ExecutionRow, (*row[:-1], None))
    stored = row[-1]  # most executions have no summary besides their state
    return found if stored is None else msgspec.structs.replace(found, summary=summary_at(stored, found.last_seq))


def execution_values(row: ExecutionRow) -> tuple[Any, ...]:
    return (*msgspec.structs.astuple(row)[:-1], stored_summary(row.summary))


def order_of(row: Sequence[Any]) -> OrderRow:
    order_id, execution_id, step_run_id, state, pool, priority, owner, epoch, until = row
    return OrderRow(
        order_id=order_id,
        execution_id=execution_id,
        step_run_id=step_run_id,
        state=OrderState(state),
        pool=pool,
        priority=priority,
        lease_owner=owner,
        lease_epoch=epoch,
        lease_until=until,
    )


def order_values(order: OrderRow) -> tuple[Any, ...]:
    lease = (order.lease_owner, order.lease_epoch, order.lease_until)
    about = (order.state._value_, order.pool, order.priority)
    return (order.order_id, order.execution_id, order.step_run_id, *about, *lease)


def wait_of(row: Sequence[Any]) -> WaitRow:
    return struct_of(WaitRow, row)


def wait_values(wait: WaitRow) -> tuple[Any, ...]:
    return msgspec.structs.astuple(wait)


def message_of(row: Sequence[Any]) -> MessageRow:
    message_id, name, correlation, payload, sent_at, expires_at, taken_by = row
    return MessageRow(
        message_id=message_id,
        name=name,
        correlation=msgspec.json.decode(correlation),
        payload=msgspec.json.decode(payload),
        sent_at=sent_at,
        expires_at=expires_at,
        taken_by=taken_by,
    )


def kept_of(row: Sequence[Any]) -> KeptRow:
    message_id, name, correlation, size_bytes, sent_at, expires_at = row
    return KeptRow(
        message_id=message_id,
        name=name,
        correlation=msgspec.json.decode(correlation),
        size_bytes=size_bytes,
        sent_at=sent_at,
        expires_at=expires_at,
    )


def message_values(message: MessageRow) -> tuple[Any, ...]:
    data = (msgspec.json.encode(message.correlation).decode(), msgspec.json.encode(message.payload).decode())
    return (message.message_id, message.name, *data, message.sent_at, message.expires_at, message.taken_by)


def task_of(body: str) -> TaskRow:
    return msgspec.json.decode(body, type=TaskRow)


def task_values(task: TaskRow) -> tuple[Any, ...]:
    about = (task.state.value, task.role, task.user, task.claimed_by, task.created_at)
    return (task.task_id, task.execution_id, *about, msgspec.json.encode(task).decode())


def notice_of(row: Sequence[Any]) -> NoticeRow:
    values = dict(zip(NoticeRow.__struct_fields__, row, strict=True))
    return NoticeRow(**{**values, "state": NoticeState(values["state"])})


def notice_values(notice: NoticeRow) -> tuple[Any, ...]:
    return tuple(getattr(notice, field) for field in NoticeRow.__struct_fields__)


_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_CHECKSUM = re.compile(rb'"checksum"\s*:\s*"([0-9a-f]{64})"')


def lowered(text: str) -> str:
    """ASCII letters in lower case, all others unchanged, as every database does it."""
    return text.translate(_LOWER)


def holds_text(row: ExecutionRow, text: str) -> bool:
    wanted = lowered(text)
    return any(wanted in lowered(one) for one in (row.execution_id, row.path, row.name))


def has_labels(net: bytes | None, labels: Mapping[str, str]) -> bool:
    """Whether the metadata of a net has all of these."""
    if net is None:
        return False
    written = msgspec.json.decode(net, type=_Net).metadata.get("labels")
    if not isinstance(written, dict):
        return False
    return all(key in written and _as_text(written[key]) == value for key, value in labels.items())


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class _Net(msgspec.Struct):
    metadata: dict[str, Any] = {}


def checksums_in(*texts: bytes) -> set[str]:
    """The checksums of the references that JSON texts hold, however deep."""
    return {found.decode() for text in texts for found in _CHECKSUM.findall(text)}
