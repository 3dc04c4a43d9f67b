"""`python -m bench.retention [MILLIONS]`: what it costs one PostgreSQL to remove executions row by row, and to drop the
tables of a week, for docs/decisions/0019.

Two weeks long ago get half of the events each: real batches of a chain's step, copied under new ids past all triggers.
Then the server's own retention removes one week as it would without partitions and the other as a whole.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.machines import Cluster, cluster  # noqa: E402
from bench.scaling import recorded  # noqa: E402
from noetl.base.clock import ManualClock  # noqa: E402
from noetl.control.background.retention import Retention  # noqa: E402
from noetl.store.event_batches import batch_values  # noqa: E402
from noetl.store.postgres.schema import SPAN_S, HistorySpan, span_at  # noqa: E402
from noetl.store.postgres.store import PostgresStore  # noqa: E402
from noetl.store.results.files import MemoryResults  # noqa: E402

DAY_S = 86_400.0
BEGIN = SPAN_S * (1_700_000_000.0 // SPAN_S)
_FILL = """
SET session_replication_role = replica;
INSERT INTO noetl.execution
SELECT n.id, 't', 'bench/chain', 'chain', x.net_hash, 'completed', x.last_seq, {began}, {began} + 1, NULL, NULL
FROM noetl.execution AS x,
     (SELECT '{low}-7' || right(md5(i::text), 3) || '-8' || left(md5(i::text), 3) || '-' || lpad(to_hex(i), 12, '0')
      FROM generate_series(1, {count}) AS i) AS n (id)
WHERE x.execution_id = '{model}';
INSERT INTO noetl.history
SELECT x.execution_id, h.first_seq, h.last_seq, h.event_ids, h.types, h.envelopes, h.payloads, h.checksum
FROM noetl.history AS h, noetl.execution AS x WHERE h.execution_id = '{model}' AND x.created_at = {began};
INSERT INTO noetl.event_key
SELECT x.execution_id, k.key FROM noetl.event_key AS k, noetl.execution AS x
WHERE k.execution_id = '{model}' AND x.created_at = {began};
"""


async def modelled(database: str) -> tuple[str, int]:
    """An execution to copy, and how many events it has."""
    store = await PostgresStore.open(database)
    try:
        commits = (await recorded(128))[0]
        for one in commits:
            await store.commit([one])
        assert batch_values(commits), "a chain has events"
        return commits[0].execution.execution_id, commits[-1].execution.last_seq
    finally:
        await store.close()


def fill(made: Cluster, span: HistorySpan, began: float, model: str, count: int) -> None:
    made.sql(f"SELECT noetl.add_span('{span.suffix}', '{span.low}', '{span.high}')")
    made.sql(_FILL.format(low=span.low, began=began, model=model, count=count))


async def removed(database: str, *, now: float, by_rows: bool) -> int:
    store = await PostgresStore.open(database)
    try:
        retention = Retention(store, MemoryResults(), ManualClock(now), default_s=90 * DAY_S)
        if by_rows:
            store.retire_spans = _none  # type: ignore[method-assign]  # as before there were spans
        return (await retention.run()).total
    finally:
        await store.close()


async def _none(before: object) -> dict[str, str]:
    return {}


def main() -> None:
    millions = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with cluster() as made:
        model, events = asyncio.run(modelled(made.database))
        count = int(millions * 1e6 / 2 / events)
        weeks = [BEGIN, BEGIN + SPAN_S]
        for began in weeks:
            fill(made, span_at(began), began, model, count)
        made.sql("ANALYZE")
        size = int(made.sql("SELECT pg_database_size(current_database())"))
        print(f"{2 * count * events / 1e6:.1f} million events of {2 * count} executions, {size / 1e9:.1f} GB")
        for began, by_rows in zip(weeks, (True, False), strict=True):
            wal = float(made.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))
            begun, busy = time.perf_counter(), time.process_time()
            gone = asyncio.run(removed(made.database, now=began + 91 * DAY_S + 1, by_rows=by_rows))
            seconds, client_s = time.perf_counter() - begun, time.process_time() - busy
            log = float(made.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")) - wal
            freed = size - (size := int(made.sql("SELECT pg_database_size(current_database())")))
            print(
                f"{'row by row' if by_rows else 'as a week'}: {gone} executions in {seconds:.1f} s ({client_s:.1f} s of"
                f" ours), {log / 1e6:.0f} MB of log, {freed / 1e6:.0f} MB given back"
            )


if __name__ == "__main__":
    main()
