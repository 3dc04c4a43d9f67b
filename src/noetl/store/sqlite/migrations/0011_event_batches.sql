-- What a commit adds to the history of one execution is one row (docs/decisions/0016). Ids, types, envelopes and payloads
-- are JSON arrays in the order of `seq`. `checksum` is of all four; none: an earlier program wrote it to the view `event`.
ALTER TABLE event RENAME TO unpacked_event;

CREATE TABLE event_batch (
    execution_id TEXT NOT NULL,
    first_seq    INTEGER NOT NULL,
    last_seq     INTEGER NOT NULL,
    event_ids    TEXT NOT NULL,
    types        TEXT NOT NULL,
    envelopes    TEXT NOT NULL,
    payloads     TEXT NOT NULL,
    checksum     INTEGER,
    UNIQUE (execution_id, last_seq),
    CHECK (json_array_length(event_ids) = last_seq - first_seq + 1),
    CHECK (json_array_length(types) = last_seq - first_seq + 1)
) STRICT;

-- What an execution has once, whatever the programs above believe: each event id, its own end, and the ends of its step
-- runs, one by a worker, and one of a kind by the server (RELIABILITY, decision 4). An id holds no space.
CREATE TABLE event_key (
    execution_id TEXT NOT NULL,
    key          TEXT NOT NULL,
    PRIMARY KEY (execution_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE timer (
    wait_id      TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    PRIMARY KEY (wait_id, execution_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX timer_by_execution ON timer (execution_id);

-- The execution whose rows are being packed; empty outside of that transaction.
CREATE TABLE packing (execution_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- The history of an execution lies in rows or in batches, never in both: rows are packed all at once.
CREATE TRIGGER event_batch_follows_the_last BEFORE INSERT ON event_batch
WHEN NEW.first_seq <> 1 + coalesce((SELECT max(last_seq) FROM event_batch WHERE execution_id = NEW.execution_id), 0)
  OR EXISTS (SELECT 1 FROM unpacked_event WHERE execution_id = NEW.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'a batch of events follows the last event of its execution');
END;

CREATE TRIGGER event_batch_has_keys AFTER INSERT ON event_batch
BEGIN
    INSERT INTO event_key SELECT NEW.execution_id, value FROM json_each(NEW.event_ids);
END;

CREATE TRIGGER event_batch_has_ends AFTER INSERT ON event_batch
WHEN instr(NEW.types, '"step.done"') OR instr(NEW.types, '"step.failed"') OR instr(NEW.types, '"playbook.processed"')
BEGIN
    INSERT INTO event_key
    SELECT NEW.execution_id,
           CASE WHEN t.value = 'playbook.processed' THEN 'end of execution'
                WHEN json_extract(NEW.envelopes, '$[' || t.key || '][6]')
                THEN t.value || ' of ' || json_extract(NEW.envelopes, '$[' || t.key || '][4]')
                ELSE 'end of ' || json_extract(NEW.envelopes, '$[' || t.key || '][4]') END
    FROM json_each(NEW.types) AS t
    WHERE t.value = 'playbook.processed'
       OR (t.value IN ('step.done', 'step.failed')
           AND json_extract(NEW.envelopes, '$[' || t.key || '][4]') IS NOT NULL);
END;

CREATE TRIGGER event_batch_has_timers AFTER INSERT ON event_batch WHEN instr(NEW.types, '"timer.scheduled"')
BEGIN
    INSERT OR IGNORE INTO timer
    SELECT json_extract(NEW.payloads, '$[' || t.key || '].wait_id'), NEW.execution_id
    FROM json_each(NEW.types) AS t
    WHERE t.value = 'timer.scheduled' AND json_extract(NEW.payloads, '$[' || t.key || '].wait_id') IS NOT NULL;
END;

CREATE TRIGGER event_batch_is_never_changed BEFORE UPDATE ON event_batch
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;

CREATE TRIGGER event_batch_is_never_deleted BEFORE DELETE ON event_batch
WHEN EXISTS (SELECT 1 FROM execution WHERE execution_id = OLD.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted while their execution stands');
END;

CREATE TRIGGER event_key_is_never_changed BEFORE UPDATE ON event_key
BEGIN
    SELECT RAISE(ABORT, 'keys of events are never changed');
END;

CREATE TRIGGER event_key_is_never_deleted BEFORE DELETE ON event_key
WHEN EXISTS (SELECT 1 FROM execution WHERE execution_id = OLD.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'keys of events are never deleted while their execution stands');
END;

DROP TRIGGER event_is_never_deleted;
CREATE TRIGGER unpacked_event_is_never_deleted BEFORE DELETE ON unpacked_event
WHEN EXISTS (SELECT 1 FROM execution WHERE execution_id = OLD.execution_id)
 AND NOT EXISTS (SELECT 1 FROM packing WHERE execution_id = OLD.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted while their execution stands');
END;

-- The events one by one, for people and for programs of the version before: these go on reading and writing here while a
-- program of this version has the store too (RELIABILITY 3.8).
CREATE VIEW event (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id,
                   on_behalf, schema, payload, checksum) AS
SELECT b.execution_id, b.first_seq + i.key, i.value,
       json_extract(b.types, '$[' || i.key || ']'),
       json_extract(b.envelopes, '$[' || i.key || '][0]'), json_extract(b.envelopes, '$[' || i.key || '][1]'),
       json_extract(b.envelopes, '$[' || i.key || '][2]'), json_extract(b.envelopes, '$[' || i.key || '][3]'),
       json_extract(b.envelopes, '$[' || i.key || '][4]'), json_extract(b.envelopes, '$[' || i.key || '][5]'),
       json_extract(b.envelopes, '$[' || i.key || '][6]'), json_extract(b.envelopes, '$[' || i.key || '][7]'),
       json_extract(b.payloads, '$[' || i.key || ']'), NULL
FROM event_batch AS b, json_each(b.event_ids) AS i
UNION ALL
SELECT execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema,
       payload, checksum
FROM unpacked_event;

CREATE TRIGGER event_becomes_a_row INSTEAD OF INSERT ON event
WHEN EXISTS (SELECT 1 FROM unpacked_event WHERE execution_id = NEW.execution_id)
BEGIN
    INSERT INTO unpacked_event (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id,
                           on_behalf, schema, payload, checksum)
    VALUES (NEW.execution_id, NEW.seq, NEW.event_id, NEW.event_type, NEW.ts, NEW.source, NEW.parent_id, NEW.step,
            NEW.step_run_id, NEW.task_run_id, NEW.on_behalf, NEW.schema, NEW.payload, NEW.checksum);
END;

CREATE TRIGGER event_becomes_a_batch INSTEAD OF INSERT ON event
WHEN NOT EXISTS (SELECT 1 FROM unpacked_event WHERE execution_id = NEW.execution_id)
BEGIN
    INSERT INTO event_batch (execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum)
    VALUES (NEW.execution_id, NEW.seq, NEW.seq, json_array(NEW.event_id), json_array(NEW.event_type),
            json_array(json_array(json(printf('%!.17g', NEW.ts)), NEW.source, NEW.parent_id, NEW.step, NEW.step_run_id,
                                  NEW.task_run_id, json(CASE WHEN NEW.on_behalf THEN 'true' ELSE 'false' END),
                                  NEW.schema)),
            '[' || NEW.payload || ']', NULL);
END;

CREATE TRIGGER event_is_not_changed INSTEAD OF UPDATE ON event
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;

CREATE TRIGGER event_is_removed INSTEAD OF DELETE ON event
BEGIN
    DELETE FROM unpacked_event WHERE execution_id = OLD.execution_id;
    DELETE FROM event_batch WHERE execution_id = OLD.execution_id;
    DELETE FROM event_key WHERE execution_id = OLD.execution_id;
    DELETE FROM timer WHERE execution_id = OLD.execution_id;
END;
