-- Credentials, sealed. The master key is never in this file (RELIABILITY 2.6).
CREATE TABLE credential (
    name        TEXT PRIMARY KEY,
    type        TEXT NOT NULL,
    version     INTEGER NOT NULL,
    key_id      TEXT NOT NULL,
    wrapped_key BLOB NOT NULL,
    sealed      BLOB NOT NULL,
    fingerprint TEXT NOT NULL,
    created_at  REAL NOT NULL,
    updated_at  REAL NOT NULL
) STRICT, WITHOUT ROWID;
