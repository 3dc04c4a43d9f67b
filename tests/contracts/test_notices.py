"""Notices, the same in every backend: written with their event, claimed by one at a time, folded, counted."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.control.notifications.rules import NotificationRules
from noetl.operations import notifications
from noetl.store.contract import ConflictError, Store
from noetl.store.notices import NoticeRow, NoticeState, Settlement
from tests.contracts.commits import commit, event


def notice(notice_id: str, *, at: float = 1.0, **about: Any) -> NoticeRow:
    values: dict[str, Any] = {
        "execution_id": "x1",
        "path": "billing/nightly",
        "event": "failed",
        "rule": "ops",
        "created_at": at,
        "due_at": at,
        "body": b'{"\xc3\xa9":1}',
    }
    return NoticeRow(notice_id=notice_id, **{**values, **about})


async def write(store: Store, *notices: NoticeRow, seq: int = 1) -> None:
    await store.commit([msgspec.structs.replace(commit(event(seq), after=seq - 1), notices=notices)])


async def claimed(store: Store, *, now: float, until: float = 1e9, limit: int = 10) -> list[str]:
    return [one.notice_id for one in await store.notices.claim(now=now, until=until, limit=limit)]


def settlement(state: NoticeState, *, at: float = 5.0, due_at: float = 5.0, error: str | None = None) -> Settlement:
    return Settlement(state=state, at=at, due_at=due_at, error=error)


@pytest.mark.req("NTF-02")
async def test_a_notice_is_stored_with_its_commit_or_not_at_all(store: Store) -> None:
    whole = notice("n1", fold_key="k", throttle_s=60.0, error="é")
    await write(store, whole)

    with pytest.raises(ConflictError):
        await write(store, notice("n2"))  # the position is taken

    assert await store.notices.get("n1") == whole
    assert await store.notices.get("n2") is None
    assert [one.notice_id for one in await store.notices.list()] == ["n1"]


@pytest.mark.req("NTF-02")
async def test_an_existing_notice_is_left_unchanged(store: Store) -> None:
    await write(store, notice("n1"))
    assert await claimed(store, now=2.0) == ["n1"]

    await write(store, notice("n1"), notice("n2"), seq=2)

    assert (await store.notices.tally()) == {"sending": 1, "pending": 1}


@pytest.mark.req("NTF-03")
async def test_all_dead_letters_are_sent_again_over_many_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "_LONGEST_PAGE", 2)
    await write(store, *(notice(f"n{at}", state=NoticeState.DEAD) for at in range(5)))
    clock = ManualClock()
    asked = notifications.Notifications(store.notices, NotificationRules(store.key_values, clock), None, clock)

    assert await asked.retry_all() == 5

    assert await store.notices.tally() == {"pending": 5}


@pytest.mark.req("NTF-03")
async def test_a_claimed_notice_is_not_claimable_until_its_claim_expires(store: Store) -> None:
    await write(store, notice("n1"), notice("n2", due_at=50.0))

    assert await claimed(store, now=2.0, until=30.0) == ["n1"]
    assert await claimed(store, now=2.0) == []
    assert await claimed(store, now=29.0) == []

    [again] = await store.notices.claim(now=30.0, until=60.0, limit=10)
    assert (again.notice_id, again.attempts, again.state) == ("n1", 2, NoticeState.SENDING)


@pytest.mark.req("NTF-03")
async def test_concurrent_claims_share_no_notice(store: Store) -> None:
    await write(store, *(notice(f"n{number:02}") for number in range(40)))

    rounds = await asyncio.gather(*(claimed(store, now=2.0, limit=7) for _ in range(8)))

    taken = [one for each in rounds for one in each]
    assert sorted(taken) == [f"n{number:02}" for number in range(40)]


@pytest.mark.req("NTF-03")
async def test_only_the_last_claimant_may_settle(store: Store) -> None:
    await write(store, notice("n1"))
    await claimed(store, now=2.0, until=3.0)
    await claimed(store, now=4.0)

    assert not await store.notices.settle("n1", attempts=1, settlement=settlement(NoticeState.DEAD))
    assert await store.notices.settle("n1", attempts=2, settlement=settlement(NoticeState.SENT))
    assert not await store.notices.settle("n1", attempts=2, settlement=settlement(NoticeState.DEAD))

    sent = await store.notices.get("n1")
    assert sent is not None
    assert (sent.state, sent.ended_at) == (NoticeState.SENT, 5.0)


@pytest.mark.req("NTF-04")
async def test_repeated_notices_are_folded_into_the_next_one_after_the_throttle(store: Store) -> None:
    def repeat(number: int, at: float) -> NoticeRow:
        return notice(f"n{number}", at=at, fold_key="k", throttle_s=60.0)

    await write(store, repeat(1, 1.0), notice("other", at=1.0, fold_key="j", throttle_s=60.0), notice("free", at=1.0))
    assert sorted(await claimed(store, now=1.0)) == ["free", "n1", "other"]
    await write(store, repeat(2, 2.0), repeat(3, 3.0), repeat(4, 4.0), seq=2)
    assert await claimed(store, now=5.0) == []  # one is being sent
    await store.notices.settle("n1", attempts=1, settlement=settlement(NoticeState.SENT, at=6.0))
    assert await claimed(store, now=65.9) == []

    [next_one] = await store.notices.claim(now=66.1, until=99.0, limit=10)

    assert (next_one.notice_id, next_one.folded) == ("n2", 2)
    assert [one.notice_id for one in await store.notices.list(states=[NoticeState.FOLDED])] == ["n4", "n3"]


@pytest.mark.req("NTF-04")
async def test_notices_between_two_attempts_are_folded_too(store: Store) -> None:
    await write(store, notice("n1", fold_key="k", throttle_s=60.0))
    await claimed(store, now=1.0)
    await store.notices.settle("n1", attempts=1, settlement=settlement(NoticeState.PENDING, due_at=10.0, error="no"))
    await write(store, notice("n2", at=3.0, fold_key="k", throttle_s=60.0), seq=2)

    assert await claimed(store, now=4.0) == []
    [again] = await store.notices.claim(now=10.0, until=99.0, limit=10)

    assert (again.notice_id, again.attempts, again.folded, again.error) == ("n1", 2, 1, "no")


@pytest.mark.req("NTF-05")
async def test_a_dead_letter_is_listed_and_can_be_sent_again(store: Store) -> None:
    await write(store, notice("n1"), notice("n2", at=2.0))
    await claimed(store, now=1.0)
    await store.notices.settle("n1", attempts=1, settlement=settlement(NoticeState.DEAD, error="refused"))

    [dead] = await store.notices.list(states=[NoticeState.DEAD])
    assert (dead.notice_id, dead.error, await store.notices.tally()) == ("n1", "refused", {"dead": 1, "pending": 1})
    assert not await store.notices.send_again("n2", now=7.0)
    assert await store.notices.send_again("n1", now=7.0)

    assert "n1" in await claimed(store, now=7.0)
    again = await store.notices.get("n1")
    assert again is not None
    assert (again.attempts, again.ended_at) == (1, None)


async def test_notices_are_paged_from_the_newest(store: Store) -> None:
    await write(store, *(notice(f"n{number}", at=float(number)) for number in range(5)))

    first = await store.notices.list(limit=2)
    second = await store.notices.list(limit=2, beyond=first[-1].notice_id)

    assert [one.notice_id for one in first + second] == ["n4", "n3", "n2", "n1"]
    assert await store.notices.list(execution_id="x2") == []


async def test_old_notices_are_swept_and_open_ones_never(store: Store) -> None:
    await write(store, notice("n1"), notice("n2"), notice("n3"))
    await claimed(store, now=1.0, limit=2)
    for notice_id, state in (("n1", NoticeState.SENT), ("n2", NoticeState.DEAD)):
        await store.notices.settle(notice_id, attempts=1, settlement=settlement(state))

    assert await store.notices.sweep(before=5.0, states=[NoticeState.SENT]) == 0
    assert await store.notices.sweep(before=6.0, states=[NoticeState.SENT, NoticeState.PENDING]) == 1

    assert await store.notices.tally() == {"dead": 1, "pending": 1}


async def test_deleting_an_execution_deletes_its_notices(store: Store) -> None:
    ended = commit(event(1), status="failed")
    row = msgspec.structs.replace(ended.execution, finished_at=2.0)
    await store.commit([msgspec.structs.replace(ended, execution=row, notices=(notice("n1"),))])

    assert await store.retire(["x1"]) == 1

    assert await store.notices.list() == []
