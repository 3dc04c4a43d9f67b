-- Nested playbooks know their parent, so that what happens to it can happen to them (O-02, O-16).
ALTER TABLE execution ADD COLUMN parent_execution_id TEXT;
CREATE INDEX execution_by_parent ON execution (parent_execution_id) WHERE parent_execution_id IS NOT NULL;

-- Playbooks by path, in versions; what is registered stays as it was (SRV-10).
CREATE TABLE catalog (
    path          TEXT NOT NULL,
    version       INTEGER NOT NULL,
    net_hash      TEXT NOT NULL REFERENCES net (net_hash),
    label         TEXT,
    source        TEXT,
    origin        TEXT,
    registered_at REAL NOT NULL,
    PRIMARY KEY (path, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX catalog_by_net ON catalog (net_hash);

-- What another process asks of the one that drives an execution (SRV-07, SRV-11).
CREATE TABLE request (
    request_id   INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    action       TEXT NOT NULL,
    reason       TEXT,
    requested_at REAL NOT NULL,
    answer       TEXT,
    answered_at  REAL
) STRICT;

CREATE INDEX pending_requests ON request (request_id) WHERE answer IS NULL;
