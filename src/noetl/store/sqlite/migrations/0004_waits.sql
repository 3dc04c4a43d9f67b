-- What time alone will move: the nearest moment of each execution (TMR-06). The rest is in its log.
ALTER TABLE execution ADD COLUMN wake_at REAL;
CREATE INDEX execution_by_alarm ON execution (wake_at) WHERE wake_at IS NOT NULL;

-- Which workers may take an order, and how urgent it is (SRV-08, ADV-03).
ALTER TABLE orders ADD COLUMN pool TEXT NOT NULL DEFAULT 'default';
ALTER TABLE orders ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

-- Who waits for which message or signal; told by the log (MSG-01, MSG-05).
CREATE TABLE wait (
    wait_id      TEXT PRIMARY KEY,
    execution_id TEXT NOT NULL,
    step_run_id  TEXT NOT NULL,
    kind         TEXT NOT NULL,
    name         TEXT NOT NULL,
    correlation  TEXT NOT NULL,
    opened_at    REAL NOT NULL
) STRICT;

CREATE INDEX wait_by_name ON wait (kind, name, correlation);
CREATE INDEX wait_by_execution ON wait (execution_id);

-- Messages from when they were accepted; the id of one that was taken is remembered until its time is over (MSG-02).
CREATE TABLE message (
    message_id  TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    correlation TEXT NOT NULL,
    payload     TEXT NOT NULL,
    sent_at     REAL NOT NULL,
    expires_at  REAL NOT NULL,
    taken_by    TEXT
) STRICT;

CREATE INDEX message_kept ON message (name, sent_at) WHERE taken_by IS NULL;
CREATE INDEX message_by_age ON message (expires_at);

-- The work list of people; told by the log (HUM-01).
CREATE TABLE task (
    task_id      TEXT PRIMARY KEY,
    execution_id TEXT NOT NULL,
    state        TEXT NOT NULL,
    role         TEXT,
    user         TEXT,
    claimed_by   TEXT,
    created_at   REAL NOT NULL,
    body         TEXT NOT NULL
) STRICT;

CREATE INDEX task_by_age ON task (created_at DESC);
CREATE INDEX task_by_execution ON task (execution_id);
CREATE INDEX task_open ON task (role, user) WHERE state IN ('open', 'claimed');

-- Small things that belong to the installation: tokens, pools, workers, schedules, webhooks.
CREATE TABLE shelf (
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    body       BLOB NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX shelf_by_age ON shelf (kind, updated_at);
