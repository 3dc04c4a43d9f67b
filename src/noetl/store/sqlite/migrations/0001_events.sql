-- The event log is the truth; it is only ever appended to (EVT-01). Everything else can be told from it.
CREATE TABLE net (
    net_hash TEXT PRIMARY KEY,
    body     BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE execution (
    execution_id TEXT PRIMARY KEY,
    trace_id     TEXT NOT NULL,
    path         TEXT NOT NULL,
    name         TEXT NOT NULL,
    net_hash     TEXT NOT NULL REFERENCES net (net_hash),
    status       TEXT NOT NULL,
    last_seq     INTEGER NOT NULL,
    created_at   REAL NOT NULL,
    finished_at  REAL
) STRICT, WITHOUT ROWID;

CREATE INDEX execution_by_age ON execution (created_at DESC);

CREATE TABLE event (
    execution_id TEXT NOT NULL,
    seq          INTEGER NOT NULL,
    event_id     TEXT NOT NULL,
    event_type   TEXT NOT NULL,
    ts           REAL NOT NULL,
    source       TEXT NOT NULL,
    parent_id    TEXT,
    step         TEXT,
    step_run_id  TEXT,
    task_run_id  TEXT,
    on_behalf    INTEGER NOT NULL,
    schema       INTEGER NOT NULL,
    payload      TEXT NOT NULL,
    PRIMARY KEY (execution_id, seq),
    UNIQUE (execution_id, event_id)
) STRICT, WITHOUT ROWID;

-- One end per execution and per step run, whatever the programs above believe (RELIABILITY, decision 4).
CREATE UNIQUE INDEX one_end_per_execution ON event (execution_id) WHERE event_type = 'playbook.processed';
CREATE UNIQUE INDEX one_end_per_step_run ON event (execution_id, step_run_id)
    WHERE event_type IN ('step.done', 'step.failed');

CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;

-- Retention removes whole finished executions: their row goes first, then their events (EVT-01).
CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event
WHEN EXISTS (SELECT 1 FROM execution WHERE execution_id = OLD.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted while their execution stands');
END;

CREATE TABLE orders (
    order_id     TEXT PRIMARY KEY,
    execution_id TEXT NOT NULL,
    step_run_id  TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('ready', 'leased', 'closed')),
    lease_owner  TEXT,
    lease_epoch  INTEGER NOT NULL,
    lease_until  REAL
) STRICT;

CREATE INDEX open_orders ON orders (execution_id) WHERE state <> 'closed';
CREATE INDEX claimable_orders ON orders (state, lease_until) WHERE state <> 'closed';
