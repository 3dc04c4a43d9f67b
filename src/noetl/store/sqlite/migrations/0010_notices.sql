-- What servers have to tell people and other programs about executions. Written with the events it tells of.
CREATE TABLE notice (
    notice_id    TEXT PRIMARY KEY,
    execution_id TEXT NOT NULL,
    path         TEXT NOT NULL,
    event        TEXT NOT NULL,
    rule         TEXT NOT NULL,
    state        TEXT NOT NULL,
    created_at   REAL NOT NULL,
    due_at       REAL NOT NULL,
    attempts     INTEGER NOT NULL,
    fold_key     TEXT,
    throttle_s   REAL NOT NULL,
    folded       INTEGER NOT NULL,
    error        TEXT,
    ended_at     REAL,
    body         BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX notice_due ON notice (due_at) WHERE state IN ('pending', 'sending');
CREATE INDEX notice_fold ON notice (fold_key, state) WHERE fold_key IS NOT NULL;
CREATE INDEX notice_age ON notice (created_at);
CREATE INDEX notice_execution ON notice (execution_id);
