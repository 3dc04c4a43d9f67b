-- Who did what, and how it ended. Each row holds the hash of the one before it (RELIABILITY 3.9).
CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY,
    at        REAL NOT NULL,
    actor     TEXT NOT NULL,
    action    TEXT NOT NULL,
    object    TEXT NOT NULL,
    address   TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    prev_hash TEXT NOT NULL,
    hash      TEXT NOT NULL
) STRICT;

CREATE TRIGGER audit_is_a_chain BEFORE INSERT ON audit
WHEN NEW.seq IS NOT coalesce((SELECT max(seq) FROM audit), 0) + 1
  OR NEW.prev_hash IS NOT coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), printf('%064d', 0))
BEGIN SELECT RAISE(ABORT, 'an audit row follows the last one'); END;

CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is appended to and never changed'); END;

CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is appended to and never changed'); END;
